"""Pieces of shared memory, and who holds the arrays in them."""

from __future__ import annotations

import functools
import mmap
import os
import sys
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from multiprocessing import shared_memory

import numpy as np


def attach(name: str) -> mmap.mmap:
    """The memory of another process's segment."""
    # Processes of one family share what tracks segments: it knows a name that comes again.
    options = {"track": False} if sys.version_info >= (3, 13) else {}
    return _taken(shared_memory.SharedMemory(name, **options))


def _taken(shared: shared_memory.SharedMemory) -> mmap.mmap:
    """The mapping of a segment, which lives for as long as arrays lie in it.

    `SharedMemory` itself cannot be closed, nor go quietly, while there are any.
    """
    mapping, shared._mmap = shared._mmap, None
    shared.close()
    return mapping


class Slot:
    """A segment of shared memory that one batch at a time lies in.

    Parameters
    ----------
    size : int
        In bytes.

    Attributes
    ----------
    held : int
        How many of its arrays are with users.

    Raises
    ------
    OSError
        If there is no shared memory, or too little is left.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.held = 0
        self._watched: list[weakref.ref] = []
        self._shared = shared_memory.SharedMemory(create=True, size=size)
        try:
            if hasattr(os, "posix_fallocate"):
                # A page that the system finds no memory for would end the process that writes it.
                os.posix_fallocate(self._shared._fd, 0, size)
        except BaseException:
            self._shared.close()
            self._shared.unlink()
            raise
        self.name = self._shared.name
        self._memory = _taken(self._shared)

    def array_at(self, begin: int, dtype: np.dtype, size: int) -> np.ndarray:
        """An array that has to be gone before the slot is used again."""
        return np.frombuffer(self._memory, dtype, size, begin) if size else np.empty(0, dtype)

    def watch(self, array: np.ndarray, gone: Callable) -> None:
        """``gone`` is called when nobody holds an array of `array_at`, nor a view of it."""
        self.held += 1
        self._watched.append(weakref.ref(array, gone))

    def forget(self) -> None:
        """Nobody holds any of them."""
        self.held = 0
        self._watched.clear()

    def unlink(self) -> None:
        """Take the name away; the memory goes with the last of its arrays."""
        self._shared.unlink()


#: Free ones that are kept.
_SPARE = 4


class Slots:
    """The slots of an iterator, each used again when nobody holds what was in it.

    Parameters
    ----------
    most : int
        How many may be with users at a time.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._all: dict[str, Slot] = {}
        self._free: list[Slot] = []
        self._with_users = 0
        #: Names, once for each array that is gone: in any thread, at any time.
        self._gone: deque[str] = deque()

    def take(self, size: int) -> Slot:
        """A slot of at least `size` bytes for a new batch.

        Raises
        ------
        OSError
            As for `Slot`.
        """
        self._collect()
        while self._free:
            slot = self._free.pop()
            if slot.size >= size:
                return slot
            self._drop(slot)
        slot = Slot(size)
        self._all[slot.name] = slot
        return slot

    def is_full(self) -> bool:
        """Whether arrays of no more slots may be handed out."""
        self._collect()
        return self._with_users >= self._most

    def hand_out(self, slot: Slot, arrays: Iterable[np.ndarray]) -> None:
        """These arrays of it are the user's now; the slot comes back by itself."""
        for array in arrays:
            if array.size:
                slot.watch(array, functools.partial(_note, self._gone, slot.name))
        if slot.held:
            self._with_users += 1
        else:
            self.give_back(slot)

    def give_back(self, slot: Slot) -> None:
        """Nobody holds anything that is in it."""
        if len(self._free) < _SPARE:
            self._free.append(slot)
        else:
            self._drop(slot)

    def _drop(self, slot: Slot) -> None:
        del self._all[slot.name]
        slot.unlink()

    def _collect(self) -> None:
        while self._gone:
            slot = self._all.get(self._gone.popleft())
            if slot is None:
                continue
            slot.held -= 1
            if not slot.held:
                slot.forget()
                self._with_users -= 1
                self.give_back(slot)

    def unlink(self) -> None:
        """Take all names away."""
        while self._all:
            self._all.popitem()[1].unlink()
        self._free.clear()

    def __len__(self) -> int:
        return len(self._all)


def _note(gone: deque, name: str, _) -> None:
    gone.append(name)
