"""Chainer's ``MultiprocessIterator``, whose workers assemble batches in shared memory."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

from sdbr.base.errors import SdbrError
from sdbr.training.feed.ahead import Ahead
from sdbr.training.feed.taken import Taken
from sdbr.training.feed.worker import Seeds

import chainer
from chainer import iterators
from chainer.iterators import _statemachine, multiprocess_iterator


class MultiprocessIterator(iterators.MultiprocessIterator):
    """Drop-in for ``chainer.iterators.MultiprocessIterator`` that hands over whole batches.

    Workers fetch the examples of a batch, each its part, and write them to where they lie in the
    batch, in shared memory: no image is pickled. `sdbr.training.StandardUpdater` takes the batch
    from there as it is; ``next()`` gives a list of examples whose arrays are views. Memory is
    used again when nobody holds an array in it. Arguments, order, epochs and snapshots are
    Chainer's.

    In workers, the global generators of NumPy and Python are seeded before each example, by
    numbers that follow from their states in the parent when the workers were started, the number
    of the batch and the place in it. (In Chainer all workers draw the same numbers.)

    Parameters
    ----------
    dataset, batch_size, repeat, shuffle, n_processes, n_prefetch, order_sampler, dataset_timeout
        As in Chainer. The order sampler is called in ``next()``, `n_prefetch` + 1 batches ahead.
    shared_mem : int, optional
        Bytes for the arrays of one example: where they have more, they are pickled.
    maxtasksperchild : int, optional
        How many parts of batches a worker fetches before another takes its place.

    Attributes
    ----------
    feed : str or None
        How the last batch was made; why examples came one by one, where they did.

    Raises
    ------
    WorkerError
        By ``next()``, if a worker was killed, or did not begin. The next call starts others. What
        the dataset raises in a worker is raised by the ``next()`` whose batch it is.
    """

    feed: str | None = None

    def _initialize_loop(self) -> None:
        self._prefetch_loop = None  # Chainer's methods look at it
        self._comm = Ahead(
            self.dataset,
            # Not a method: workers end with the last reference to the iterator.
            functools.partial(
                _advanced, self.batch_size, self.repeat, self.order_sampler, self.dataset
            ),
            self.n_processes,
            self.n_prefetch,
            self.batch_size,
            self.shared_mem,
            self._maxtasksperchild,
        )
        self.reset()

    def __next__(self) -> list:
        """The next batch.

        Returns
        -------
        list
            Of examples.

        Raises
        ------
        StopIteration
        """
        return self._take().examples()

    next = __next__

    def _take(self) -> Taken:
        if self._comm is None:
            raise SdbrError("next() of an iterator that was finalized: its workers are gone")
        batch = self._comm.get(self.dataset_timeout, multiprocess_iterator._raise_timeout_warning)
        self._previous_epoch_detail = self.epoch_detail
        self._state = batch.state
        if batch.error is not None:
            try:
                raise batch.error
            finally:
                del batch  # which has the error, which has this frame
        if batch.taken is None:
            raise StopIteration
        if batch.taken.is_whole:
            self.feed = f"batches are assembled in shared memory by {self.n_processes} processes"
        else:
            why = batch.taken.why
            self.feed = f"examples come one by one from {self.n_processes} processes: {why}"
        return batch.taken

    def serialize(self, serializer: chainer.serializer.AbstractSerializer) -> None:
        """Save or load, in Chainer's format; batches that are made ahead outlast a saving."""
        position = serializer("current_position", self.current_position)
        epoch = serializer("epoch", self.epoch)
        is_new_epoch = serializer("is_new_epoch", self.is_new_epoch)
        order = self._state.order
        if order is not None:  # Chainer's fails without one
            order = order.copy()
            try:
                serializer("order", order)
            except KeyError:
                serializer("_order", order)
        previous = self._previous_epoch_detail
        if isinstance(serializer, chainer.Serializer):
            serializer("previous_epoch_detail", previous)
            if self._comm is not None and self._comm.place is not None:
                seeds, number = self._comm.place
                serializer("sdbr_seeds", seeds.as_array())
                serializer("sdbr_batch", number)
            return
        self._reset_state(position, epoch, is_new_epoch, order)
        try:
            previous = serializer("previous_epoch_detail", previous)
        except KeyError:  # as Chainer guesses it for files of older versions
            step = self.batch_size / self._epoch_size
            previous = max(self.epoch_detail - step, 0.0) if self.epoch_detail > 0 else -1.0
        self._previous_epoch_detail = previous
        with contextlib.suppress(KeyError):  # Chainer's own files have none
            seeds = serializer("sdbr_seeds", None)
            if seeds is not None:
                number = int(serializer("sdbr_batch", 0))
                self._comm.go_on_from(Seeds.of_array(seeds), number)

    def __getstate__(self) -> dict:
        gone = ("_comm", "_state", "_prefetch_loop")
        return {
            "init": {key: value for key, value in self.__dict__.items() if key not in gone},
            "current_position": self.current_position,
            "epoch": self.epoch,
            "is_new_epoch": self.is_new_epoch,
            "order": self._state.order,
            "previous_epoch_detail": self._previous_epoch_detail,
            "place": self._comm and self._comm.place,
        }

    def __setstate__(self, state: dict) -> None:
        super().__setstate__(state)
        if state["place"] is not None:
            self._comm.go_on_from(*state["place"])

    def __copy__(self) -> MultiprocessIterator:
        other = type(self)(
            self.dataset,
            self.batch_size,
            self.repeat,
            shuffle=None,
            n_processes=self.n_processes,
            n_prefetch=self.n_prefetch,
            shared_mem=self.shared_mem,
            order_sampler=self.order_sampler,
            dataset_timeout=self.dataset_timeout,
            maxtasksperchild=self._maxtasksperchild,
        )
        other._reset_state(self.current_position, self.epoch, self.is_new_epoch, self._state.order)
        other._previous_epoch_detail = self._previous_epoch_detail
        return other


def _advanced(
    batch_size: int, repeat: bool, order_sampler: Callable | None, dataset: Any, state: Any
) -> tuple[Any, Any]:
    return _statemachine.iterator_statemachine(
        state, batch_size, repeat, order_sampler, len(dataset)
    )
