"""Batches taken from arrays by index: what Chainer's iterator and ``concat_examples`` make."""

from __future__ import annotations

from typing import Any

import numpy as np
from chainer.datasets import DictDataset, SubDataset, TupleDataset
from chainer.iterators import SerialIterator, _statemachine


class NotGathered(Exception):
    """The text says what is no array."""


def advance(iterator: SerialIterator) -> np.ndarray:
    """What ``SerialIterator.next`` does before it looks at examples.

    Returns
    -------
    ndarray of intp, shape (batch,)
        The indices of the batch.

    Raises
    ------
    StopIteration
    """
    iterator._previous_epoch_detail = iterator.epoch_detail
    iterator._state, indices = _statemachine.iterator_statemachine(
        iterator._state,
        iterator.batch_size,
        iterator.repeat,
        iterator.order_sampler,
        len(iterator.dataset),
    )
    if indices is None:
        raise StopIteration
    return indices


def gather(dataset: Any, indices: np.ndarray) -> Any:
    """What ``concat_examples([dataset[i] for i in indices])`` gives.

    Parameters
    ----------
    dataset : ndarray, TupleDataset, DictDataset or SubDataset
    indices : ndarray of intp, shape (batch,)

    Returns
    -------
    ndarray, tuple of ndarray or dict of ndarray
        Of shape (batch, ...).

    Raises
    ------
    NotGathered
        If that is not certain: `dataset` is something else, or is made of something else.
    IndexError
        If an index is out of range.
    """
    while type(dataset) is SubDataset:
        indices = _of_base(dataset, indices)
        dataset = dataset._dataset
    kind = type(dataset)
    if kind is TupleDataset:
        return tuple([_rows(column, indices) for column in dataset._datasets])
    if kind is DictDataset:
        return {key: _rows(column, indices) for key, column in dataset._datasets.items()}
    if kind is np.ndarray:
        return _rows(dataset, indices)
    raise NotGathered(f"the dataset is a {kind.__name__}")


def _of_base(dataset: SubDataset, indices: np.ndarray) -> np.ndarray:
    if len(indices) and not 0 <= indices.min() <= indices.max() < len(dataset):
        raise IndexError("dataset index out of range")
    indices = indices + dataset._start
    order = dataset._order
    if order is None:
        return indices
    is_array = type(order) is np.ndarray
    found = order[indices] if is_array else np.asarray([order[i] for i in indices])
    if found.dtype.kind not in "iu" or found.ndim != 1:
        raise NotGathered("the order of the dataset is not one of integers")
    return found.astype(np.intp, copy=False)


def _rows(column: Any, indices: np.ndarray) -> np.ndarray:
    if type(column) is not np.ndarray:
        raise NotGathered(
            f"the dataset has a {type(column).__name__} where there could be an array"
        )
    plain = column.dtype.kind in "biufc" and column.dtype.isnative
    # Rows in another order give batches in another order.
    if not plain or not column.ndim or not column.flags.c_contiguous:
        raise NotGathered(f"the dataset has an array of {column.dtype} that is not plain")
    return column.take(indices, axis=0)
