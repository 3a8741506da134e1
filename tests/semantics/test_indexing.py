"""Row 10: index arrays, lists and masks that change between calls, wherever they come from."""

from __future__ import annotations

import sdbr

import chainer
import chainer.functions as F
import numpy as np
import pytest
from chainer import Variable

from tests.harness.models import Net
from tests.tolerances import DOUBLE, ROUNDINGS, SUMS

PLACES = [0, 1]
ARRAY = np.array([0, 1])
MASK = np.array([True, False, True, True])


def body(self, x):
    picked = F.sum(x[PLACES]) + 2 * F.sum(x[self.places]) + 3 * F.sum(x[self.array])
    chosen = F.where(self.condition, x, -x)
    return picked + 4 * F.sum(x[ARRAY]), chosen, x[MASK], F.pad_sequence([x], 5, self.fill)


def expected(model, x):
    picked = x[PLACES].sum() + 2 * x[model.places].sum() + 3 * x[model.array].sum()
    filled = np.concatenate([x, np.full((1, 3), model.fill)])
    return picked + 4 * x[ARRAY].sum(), np.where(model.condition, x, -x), x[MASK], filled[None]


def change(model, what: str) -> None:
    if what == "global list":
        PLACES[0] = 3 - PLACES[0]
    elif what == "list of the chain":
        model.places[1] = 0
    elif what == "array of the chain":
        model.array[0] = 3
    elif what == "condition of the chain":
        model.condition[0] = False
    elif what == "global array":
        ARRAY[0] = 2 - ARRAY[0]
    elif what == "mask":
        MASK[1] = not MASK[1]
    elif what == "padding":
        model.fill = 0.75


#: Whether a new trace is needed.
CHANGES = {
    "global list": True,
    "list of the chain": True,
    "array of the chain": False,
    "condition of the chain": False,
    "global array": True,
    "mask": True,
    "padding": False,
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_chooses_may_change(what):
    model = Net(body)
    model.places, model.array, model.fill = [0, 2], np.array([1, 1]), 0.5
    model.condition = np.array([True, False, True])
    static = sdbr.static_graph(model, on_dynamic="raise")
    statistics = static.schedule_manager.statistics

    def check():
        x = np.random.RandomState(statistics.calls).randn(4, 3)
        for got, want in zip(static(Variable(x)), expected(model, x), strict=True):
            np.testing.assert_allclose(got.array, want, DOUBLE)

    for _ in range(3):
        check()
    replays, traces = statistics.replays, statistics.traces
    assert replays and statistics.python_ops == 0
    change(model, what)
    check()
    assert statistics.traces == traces + CHANGES[what]
    check()
    assert statistics.replays > replays


SMALL = np.random.RandomState(0).randn(3, 2).astype("f")


TABLE = np.random.RandomState(1).randn(4, 2).astype("f")


BATCHES = [np.random.RandomState(k).randint(0, 4, 3).astype("i") for k in (0, 0, 1, 2, 3)]


@pytest.mark.parametrize(
    "f",
    [
        lambda x, t: F.relu(x) * TABLE[t],
        lambda x, t: F.relu(x) * TABLE[t, 0][:, None],
        lambda x, t: F.relu(x) * TABLE.take(t, axis=0),
        lambda x, t: F.relu(x) * np.take(TABLE, t, axis=0),
        lambda x, t: F.relu(x) * np.asarray(TABLE, "f")[t],
        lambda x, t: F.relu(x) * TABLE[np.ix_(t, [0, 1])],
        lambda x, t: F.relu(TABLE.dot(x[:2])[:3] * t[0]),
        lambda x, t: F.relu(x) * np.full((3, 2), t[0], "f"),
    ],
)
@pytest.mark.parametrize("outside", ["global", "closure"])
def test_tables_indexed_by_arguments(f, outside):
    """Also where the first calls all get the same indices."""
    if outside == "closure":
        inner, table = f, TABLE
        f = lambda x, t: inner(x, t) * table[t]  # noqa: E731
    static = sdbr.static_graph(f, on_dynamic="raise")
    for t in BATCHES:
        got = static(SMALL, t).array
        np.testing.assert_allclose(got, f(SMALL, t).array, ROUNDINGS)
        assert type(TABLE) is np.ndarray
    assert static.schedule_manager.statistics.replays >= 3


def test_tables_are_back_after_an_error():
    def f(x):
        raise ValueError(TABLE[0])

    static = sdbr.static_graph(f)
    with pytest.raises(ValueError, match=r"\["):
        static(SMALL)
    assert type(TABLE) is np.ndarray


# --- index arrays without dimensions ------------------------------------------------------------
LAST = np.array(-1)


@pytest.mark.parametrize("look", [
    lambda a, b: F.scatter_add(a, (0, slice(0, 1), LAST), b),
    lambda a, b: F.get_item(a, (0, slice(0, 1), LAST)) * b,
    lambda a, b: F.get_item(a, (LAST, slice(0, 2))) * b,
], ids=["scatter_add", "get_item", "first axis"])  # fmt: skip
def test_an_index_array_without_dimensions_adds_none(look):
    static = sdbr.static_graph(look, on_dynamic="raise")
    rng = np.random.RandomState(0)
    for _ in range(4):
        data = rng.randn(4, 2, 3).astype("f"), rng.randn(1).astype("f")
        found = []
        for call in (look, static):
            a, b = map(chainer.Variable, data)
            y = call(a, b)
            F.sum(y * y).backward()
            found.append([y.array, a.grad, b.grad])
        for got, want in zip(found[1], found[0], strict=True):
            assert got.shape == want.shape
            np.testing.assert_allclose(got, want, SUMS, SUMS)
    assert static.schedule_manager.statistics.replays >= 2
