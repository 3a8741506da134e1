"""The quick ``SerialIterator`` gives the examples, epochs and errors of Chainer's own."""

from __future__ import annotations

from sdbr.compat.speed import ORIGINALS
from sdbr.compat.speed._examples import of_rows

import numpy as np
import pytest
from chainer.datasets import SubDataset, TupleDataset
from chainer.iterators import SerialIterator, ShuffleOrderSampler

RNG = np.random.RandomState(0)
X = RNG.rand(11, 2, 3).astype("f")
T = np.arange(11, dtype="i")
#: By name: the columns of a dataset whose examples are made at once.
AT_ONCE = {
    "images and labels": (X, T),
    "one column": (X,),
    "three": (X, T, X[:, 0]),
    "other layouts": (X[::-1], np.asfortranarray(X), X.T.copy().T),
    "other dtypes": (T.astype(">i8"), X.astype("e"), np.arange(11).astype("M8[s]")),
    "strings and objects": (T.astype("U"), np.array([{"a": i} for i in range(11)], object)),
    "records": (np.zeros(11, [("a", "f"), ("b", "i")]), T),
    "read-only": (np.broadcast_to(np.float32(3), (11, 2)), T),
}
OTHERS = {
    "lists": (X, T.tolist()),
    "classes": (X.view(np.recarray), T),
    "datasets": (TupleDataset(X, T), T),
}


def go(call, dataset, **options):
    iterator = SerialIterator(dataset, 4, **options)
    found = []
    for _ in range(9):
        try:
            batch = call(iterator)
        except (StopIteration, IndexError) as error:
            batch = (type(error), str(error))
        found.append(
            (batch, iterator.epoch_detail, iterator.previous_epoch_detail, iterator.is_new_epoch)
        )
    return found


def assert_same(one, other):
    for (batch, *flags), (wanted, *expected) in zip(one, other, strict=True):
        assert flags == expected and type(batch) is type(wanted)
        if isinstance(batch, tuple):
            assert batch == wanted
            continue
        for example, right in zip(batch, wanted, strict=True):
            assert type(example) is type(right) is tuple
            for x, y in zip(example, right, strict=True):
                assert type(x) is type(y)
                if isinstance(x, np.ndarray):
                    assert x.strides == y.strides and x.dtype == y.dtype
                    assert x.flags.writeable == y.flags.writeable
                    assert np.shares_memory(x, y) and x.ctypes.data == y.ctypes.data
                np.testing.assert_equal(x, y)


@pytest.mark.parametrize("options", [{}, {"shuffle": False}, {"repeat": False}], ids=str)
@pytest.mark.parametrize("name", [*AT_ONCE, *OTHERS])
def test_same(name, options):
    columns = {**AT_ONCE, **OTHERS}[name]
    assert SerialIterator.next is SerialIterator.__next__ is not ORIGINALS["next"]
    found = []
    for call in (SerialIterator.next, ORIGINALS["next"]):
        if options.get("shuffle", True):
            sampler = ShuffleOrderSampler(np.random.RandomState(3))
            options = {**options, "order_sampler": sampler}
        found.append(go(call, TupleDataset(*columns), **options))
    assert_same(*found)
    made = of_rows(columns, np.arange(3))
    assert (made is None) == (name in OTHERS)


def test_other_orders_and_errors():
    dataset = TupleDataset(X, T)
    dataset._length = 14
    samplers = {
        "negative": lambda order, position: np.arange(11) - 11,
        "narrow": lambda order, position: np.arange(11, dtype="i"),
        "beyond": lambda order, position: np.arange(14)[::-1].copy(),
    }
    for sampler in samplers.values():
        one, other = (
            go(call, dataset, order_sampler=sampler)
            for call in (SerialIterator.next, ORIGINALS["next"])
        )
        assert_same(one, other)
    assert of_rows((X, T), np.arange(3, dtype="i")) is None


def test_datasets_of_a_users_own():
    class Mine(TupleDataset):
        def __getitem__(self, index):
            return "mine"

    assert SerialIterator(Mine(X, T), 2).next() == ["mine", "mine"]
    assert len(SerialIterator(SubDataset(TupleDataset(X, T), 0, 5), 2).next()[0]) == 2


def test_a_patched_dataset(monkeypatch):
    monkeypatch.setattr(TupleDataset, "__getitem__", lambda self, index: "patched")
    assert SerialIterator(TupleDataset(X, T), 2).next() == ["patched", "patched"]
