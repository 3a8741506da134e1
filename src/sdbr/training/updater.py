"""Chainer's ``StandardUpdater``, fed by arrays."""

from __future__ import annotations

from typing import Any

from sdbr.training.gather import NotGathered, advance, gather
from sdbr.training.multiprocess_iterator import MultiprocessIterator

from chainer.dataset import convert
from chainer.iterators import SerialIterator
from chainer.training import updaters


class StandardUpdater(updaters.StandardUpdater):
    """Drop-in for ``chainer.training.updaters.StandardUpdater`` that takes batches whole.

    Where the main iterator is a ``SerialIterator`` over arrays (an ndarray, or a ``TupleDataset``,
    ``DictDataset`` or ``SubDataset`` of them) and the converter is ``concat_examples``, each batch
    is taken from the arrays at once. Where it is a `sdbr.training.MultiprocessIterator`, batches
    are those that its workers have assembled. Otherwise iterator and converter are called, as in
    Chainer. Batches, states of iterators and random numbers are the same. Arguments are Chainer's.

    Attributes
    ----------
    feed : str or None
        How the last batch was made; why not whole, where it was not. `sdbr.explain` of a static
        optimizer has it, too.
    """

    feed: str | None = None

    def update_core(self) -> None:
        """One iteration."""
        iterator = self._iterators["main"]
        in_arrays = self._arrays(iterator)
        optimizer = self._optimizers["main"]
        if optimizer.__dict__.get("_sdbr_feed") is not self.feed:
            optimizer._sdbr_feed = self.feed
        loss_func = self.loss_func or optimizer.target
        if isinstance(in_arrays, tuple):
            optimizer.update(loss_func, *in_arrays)
        elif isinstance(in_arrays, dict):
            optimizer.update(loss_func, **in_arrays)
        else:
            optimizer.update(loss_func, in_arrays)
        if self.auto_new_epoch and iterator.is_new_epoch:
            optimizer.new_epoch(auto=True)

    def _arrays(self, iterator: Any) -> Any:
        device = self.input_device
        why = self._why_not(iterator)
        how = "batches are made by Chainer's iterator and converter"
        if why is not None:
            batch = iterator.next()
            if type(iterator) is MultiprocessIterator and "next" not in iterator.__dict__:
                how = iterator.feed
        elif type(iterator) is MultiprocessIterator:
            taken = iterator._take()
            self._feed_is(iterator.feed)
            if taken.is_whole:
                return _sent(taken.whole(), device)
            return convert._call_converter(self.converter, taken.examples(), device)
        else:
            indices = advance(iterator)
            try:
                arrays = gather(iterator.dataset, indices)
            except (NotGathered, IndexError) as error:
                why = str(error)
                batch = [iterator.dataset[index] for index in indices]
            else:
                self._feed_is("batches are taken from arrays by index")
                return _sent(arrays, device)
        self._feed_is(f"{how}: {why}")
        return convert._call_converter(self.converter, batch, device)

    def _feed_is(self, feed: str | None) -> None:
        if self.feed != feed:
            self.feed = feed

    def _why_not(self, iterator: Any) -> str | None:
        if type(iterator) not in (SerialIterator, MultiprocessIterator):
            return f"the iterator is a {type(iterator).__name__}"
        if self.converter is not convert.concat_examples:
            name = getattr(self.converter, "__name__", type(self.converter).__name__)
            return f"the converter is {name}"
        if "next" in iterator.__dict__:
            return "the iterator has a next of its own"
        return None


def _sent(arrays: Any, device: Any) -> Any:
    """The same on a device."""
    if device is None:
        return arrays
    if isinstance(arrays, tuple):
        return tuple([convert.to_device(device, x) for x in arrays])
    if isinstance(arrays, dict):
        return {key: convert.to_device(device, x) for key, x in arrays.items()}
    return convert.to_device(device, arrays)
