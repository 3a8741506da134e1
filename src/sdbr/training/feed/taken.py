"""What workers have written, as batches of users."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

from sdbr.training.feed.layout import Layout
from sdbr.training.feed.segments import Slot, Slots
from sdbr.training.feed.worker import Done

import numpy as np


class Taken:
    """A batch that has come.

    Parameters
    ----------
    layout : Layout or None
    arrays : list of ndarray
        The columns, where there is a layout.
    examples : list
        Otherwise.
    why : str or None
        Why it is not whole.
    """

    def __init__(
        self,
        layout: Layout | None = None,
        arrays: Sequence[np.ndarray] = (),
        examples: Sequence = (),
        why: str | None = None,
    ) -> None:
        self._layout = layout
        self._arrays = arrays
        self._examples = examples
        self.why = why

    @property
    def is_whole(self) -> bool:
        """Whether there are columns."""
        return self._layout is not None

    def whole(self) -> Any:
        """What ``concat_examples`` gives; only where it is whole."""
        return self._layout.whole(self._arrays)

    def examples(self) -> list:
        """The examples, as the dataset gave them."""
        if self._layout is None:
            return list(self._examples)
        return self._layout.examples(self._arrays)


def rows(slots: Slots, slot: Slot, layout: Layout, capacity: int, n: int) -> list[np.ndarray]:
    """The first `n` rows of the columns; as copies where users hold too many slots."""
    if slots.is_full():
        columns = [c[:n].copy() for c in layout.arrays(capacity, slot.array_at)]
        slots.give_back(slot)
        return columns
    owners = []

    def array_at(begin: int, dtype: np.dtype, size: int) -> np.ndarray:
        owners.append(slot.array_at(begin, dtype, size))
        return owners[-1]

    columns = [c[:n] for c in layout.arrays(capacity, array_at)]
    slots.hand_out(slot, owners)
    return columns


def written(slot: Slot, layout: Layout, capacity: int, examples: Sequence) -> None:
    """Put examples of this layout into a slot."""
    columns = layout.arrays(capacity, slot.array_at)
    for i, example in enumerate(examples):
        layout.write(columns, i, example)


def unpacked(slots: Slots, slot: Slot | None, parts: Sequence[Done]) -> list:
    """Examples that came one by one; their arrays lie in the slot, or are copies."""
    memory = owner = None
    if slot is not None:
        owner = slot.array_at(0, np.dtype(np.uint8), slot.size)
        memory = memoryview(owner)
    is_full = slots.is_full()
    examples: list = []
    for done in parts:
        places = [memory[begin:end] for begin, end in done.places]
        buffers = [bytearray(place) for place in places] if is_full else places
        examples += pickle.loads(done.examples, buffers=buffers)
    if slot is not None:
        if is_full or not any(done.places for done in parts):
            slots.give_back(slot)
        else:
            slots.hand_out(slot, [owner])
    return examples


def mixed(
    slots: Slots, slot: Slot, layout: Layout, capacity: int, parts: Sequence[tuple[Done, int]]
) -> list:
    """Examples of parts that are rows, and of others that came one by one."""
    columns = layout.arrays(capacity, slot.array_at)
    examples: list = []
    for done, n in parts:
        if done.examples is None:
            copies = [c[done.first : done.first + n].copy() for c in columns]
            examples += layout.examples(copies)
        else:
            examples += pickle.loads(done.examples)
    del columns
    slots.give_back(slot)
    return examples
