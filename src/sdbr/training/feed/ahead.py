"""Batches that are made ahead: asked for, awaited, and taken."""

from __future__ import annotations

import itertools
import pickle
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

from sdbr.training.feed import taken as taking
from sdbr.training.feed.layout import Layout, NotWhole, learn
from sdbr.training.feed.processes import Processes
from sdbr.training.feed.segments import Slot, Slots
from sdbr.training.feed.taken import Taken
from sdbr.training.feed.worker import Done, Seeds, Task

#: How many batches may lie in shared memory while users hold them; others are copied.
MOST_HELD = 8
#: After how many batches in a row of one layout batches are rows of it again.
AGREEING = 4
#: Seconds between two warnings, at least.
_SHORTEST = 0.1


class Batch:
    """One that is asked for, or stands for the end.

    Attributes
    ----------
    state : IteratorState
        Of the iterator when it has been taken.
    indices : ndarray of int or None
        None at the end.
    error : Exception or None
        What the user gets in its place.
    taken : Taken or None
    """

    def __init__(self, number: int, state: Any, indices: Any, error: Exception | None) -> None:
        self.number = number
        self.state = state
        self.indices = indices
        self.error = error
        self.taken: Taken | None = None
        self.forget()

    def forget(self) -> None:
        """Nothing of it has been asked for."""
        self.slot: Slot | None = None
        self.layout: Layout | None = None
        self.sizes: dict[int, int] = {}
        self.done: dict[int, Done] = {}

    @property
    def is_open(self) -> bool:
        """Whether it is still to be made."""
        return self.indices is not None and self.taken is None and self.error is None

    @property
    def is_complete(self) -> bool:
        """Whether all of it has come."""
        return len(self.done) == len(self.sizes)

    def parts(self) -> list[tuple[Done, int]]:
        """What came, in order, and of how many examples each is."""
        return [(self.done[first], n) for first, n in self.sizes.items()]


class Ahead:
    """What stands in the place of the communicator of Chainer's iterator.

    Parameters
    ----------
    dataset : object
    advance : callable
        ``state -> (state, indices)``.
    n_processes, n_prefetch, batch_size : int
    limit : int or None
        Bytes of shared memory for an example; None: as many as it takes.
    most_tasks : int or None
        Of a worker.

    Attributes
    ----------
    terminate : callable
        Ends the workers, and takes all names of shared memory away.
    """

    def __init__(
        self,
        dataset: Any,
        advance: Callable[[Any], tuple[Any, Any]],
        n_processes: int,
        n_prefetch: int,
        batch_size: int,
        limit: int | None,
        most_tasks: int | None,
    ) -> None:
        self._dataset = dataset
        self._advance = advance
        self._n_parts = n_processes
        self._wanted = n_prefetch + 2  # with the one that is taken
        self._capacity = batch_size
        self._limit = limit
        self._of_one = limit or 0
        self._most_tasks = most_tasks
        self.processes = Processes(n_processes)
        self.slots = Slots(MOST_HELD)
        self._seeds: Seeds | None = None
        self._ahead: deque[Batch] = deque()
        #: Not wanted any more, and still to come.
        self._left: dict[int, Batch] = {}
        self._number = 0
        self._state: Any = None
        self._has_begun = False
        self._layout: Layout | None = None
        self._agreed: tuple[Layout | None, int] = (None, 0)
        self._no_memory: str | None = None
        self.terminate = weakref.finalize(self, _end, self.processes, self.slots)

    def reset(self, state: Any) -> None:
        """Go on from another state."""
        self._state = state
        while self._ahead:
            batch = self._ahead.popleft()
            if batch.is_complete:
                self._release(batch)
            else:
                self._left[batch.number] = batch

    @property
    def place(self) -> tuple[Seeds, int] | None:
        """What random numbers of the next batch follow from; None before the first."""
        if self._seeds is None:
            return None
        return self._seeds, self._ahead[0].number if self._ahead else self._number + 1

    def go_on_from(self, seeds: Seeds, number: int) -> None:
        """The next batch has the random numbers of another iterator's; after `reset`."""
        self._give_up()  # workers have the seeds
        self._seeds, self._number = seeds, number - 1

    def get(self, timeout: float | None, warn: Callable[[], None]) -> Batch:
        """The next batch.

        Parameters
        ----------
        timeout : float or None
            Seconds after which ``warn()`` is called, and after so many again.
        """
        self._fill()
        batch = self._ahead[0]
        try:
            self._request()
            if batch.is_open:
                self._await(batch, timeout, warn)
                self._take(batch)
            if not self._has_begun and batch.taken is not None:
                self._has_begun = True
                self._fill()
                self._request()
        except BaseException:
            self._give_up()
            raise
        self._state = batch.state
        self._ahead.popleft()
        return batch

    # --- asking ---------------------------------------------------------------------------------
    def _fill(self) -> None:
        """As many batches as are wanted; one as long as it is not known what they look like."""
        wanted = self._wanted if self._has_begun else 1
        while len(self._ahead) < wanted:
            if self._ahead and self._ahead[-1].indices is None:
                return
            state = self._ahead[-1].state if self._ahead else self._state
            error = indices = None
            try:
                state, indices = self._advance(state)
            except Exception as found:  # it belongs to a batch whose turn is still to come
                error = found
            self._number += 1
            self._ahead.append(Batch(self._number, state, indices, error))

    def _request(self) -> None:
        for batch in self._ahead:
            if batch.is_open and not batch.sizes and len(batch.indices):
                self._request_one(batch)

    def _request_one(self, batch: Batch) -> None:
        self._fill_processes()
        batch.slot, batch.layout = self._memory()
        slot = batch.slot and (batch.slot.name, batch.slot.size, len(self.slots))
        n = len(batch.indices)
        edges = [n * i // self._n_parts for i in range(self._n_parts + 1)]
        for begin, end in itertools.pairwise(edges):
            if begin < end:
                batch.sizes[begin] = end - begin
                indices = batch.indices[begin:end]
                self.processes.put(
                    Task(batch.number, begin, indices, slot, self._capacity, batch.layout)
                )

    def _fill_processes(self) -> None:
        if self._seeds is None:
            self._seeds = Seeds.of_now(self._capacity, len(self._dataset))
        self.processes.fill(self._dataset, self._seeds, self._most_tasks)

    def _memory(self) -> tuple[Slot | None, Layout | None]:
        """Where the next batch goes, and in which layout."""
        size = self._of_one * self._capacity
        if self._layout is not None:
            size = max(size, self._layout.places(self._capacity)[1], 1)
        if not size:
            return None, None
        try:
            slot = self.slots.take(size)
        except OSError as error:
            self._no_memory = f"there is no shared memory for {size} bytes: {error}"
            return None, None
        self._no_memory = None
        return slot, self._layout

    # --- awaiting -------------------------------------------------------------------------------
    def _await(self, batch: Batch, timeout: float | None, warn: Callable[[], None]) -> None:
        begun = time.monotonic()
        rest = timeout
        while not batch.is_complete:
            for done in self.processes.results(rest):
                self._note(done)
            self._fill_processes()
            if timeout is not None:
                rest = begun + max(timeout, _SHORTEST) - time.monotonic()
                if rest <= 0 and not batch.is_complete:
                    warn()
                    begun = time.monotonic()
                    rest = max(timeout, _SHORTEST)

    def _note(self, done: Done) -> None:
        left = self._left.get(done.batch)
        batch = left or next(b for b in self._ahead if b.number == done.batch)
        batch.done[done.first] = done
        if left is not None and left.is_complete:
            del self._left[done.batch]
            self._release(left)

    def _release(self, batch: Batch) -> None:
        slot = batch.slot
        batch.forget()
        if slot is not None:
            self.slots.give_back(slot)

    def _give_up(self) -> None:
        """End all workers; what is still wanted is asked of new ones."""
        self.processes.stop()
        for batch in (*self._ahead, *self._left.values()):
            self._release(batch)
        self._left.clear()

    # --- taking ---------------------------------------------------------------------------------
    def _take(self, batch: Batch) -> None:
        slot, layout, parts, n = batch.slot, batch.layout, batch.parts(), len(batch.indices)
        # Interrupted below, this one slot is not used again; twice it must not be.
        batch.forget()
        errors = [done.error for done, _ in parts if done.error is not None]
        if errors:
            if slot is not None:
                self.slots.give_back(slot)
            batch.error = pickle.loads(errors[0])
            return
        reasons = [done.why for done, _ in parts if done.why is not None]
        if layout is None:
            examples = taking.unpacked(self.slots, slot, [done for done, _ in parts])
            batch.taken = self._learned(examples, max((d.needed for d, _ in parts), default=0))
        elif reasons:
            self._layout = None
            self._agreed = (None, 0)
            examples = taking.mixed(self.slots, slot, layout, self._capacity, parts)
            batch.taken = Taken(examples=examples, why=reasons[0])
        else:
            batch.taken = self._rows(slot, layout, n)

    def _rows(self, slot: Slot, layout: Layout, n: int) -> Taken:
        return Taken(layout, taking.rows(self.slots, slot, layout, self._capacity, n))

    def _learned(self, examples: list, needed: int) -> Taken:
        """A batch that came one by one, and what it says about others."""
        if not examples:
            return Taken(why="the batch is empty")
        try:
            layout = learn(examples)
            of_one = layout.bytes_of_one()
            if self._limit is not None and of_one > self._limit:
                raise NotWhole(f"examples have {of_one} bytes, and shared_mem is {self._limit}")
        except NotWhole as error:
            self._agreed = (None, 0)
            self._grow(needed * 5 // 4)  # others may be larger
            return Taken(examples=examples, why=str(error))
        self._grow(needed)
        known, count = self._agreed
        count = count + 1 if layout == known else 1
        self._agreed = (layout, count)
        if self._layout is None and (count >= AGREEING or not self._has_begun):
            self._layout = layout
        if self._has_begun:
            return Taken(examples=examples, why=self._no_memory or "other batches differ from it")
        slot, _ = self._memory()
        if slot is None:
            return Taken(examples=examples, why=self._no_memory)
        taking.written(slot, layout, self._capacity, examples)
        return self._rows(slot, layout, len(examples))

    def _grow(self, needed: int) -> None:
        if self._limit is None:
            self._of_one = max(self._of_one, needed)


def _end(processes: Processes, slots: Slots) -> None:
    if processes.is_owned():
        processes.stop()
        slots.unlink()
