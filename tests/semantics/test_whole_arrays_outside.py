"""Row 8: arrays of whole numbers and truths outside of links, and arrays that are written alone.

What may decide about shapes is compared, until it was another one in some call: then replays read
it where it lies.
"""

from __future__ import annotations

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F

from tests.harness.twins import statistics_of
from tests.tolerances import RESULTS


class Memory:
    """As of an agent: what it keeps of its calls."""

    def __init__(self):
        self.calls, self.rewards = 0, np.zeros(20, "f")
        self.actions, self.counts = np.zeros(20, "i"), {"of": np.zeros(3, np.int64)}
        self.ended, self.order = np.zeros(20, bool), np.array([0, 1])
        self.precise = [np.zeros(20)]

    def arrays(self):
        return [
            self.rewards, self.actions, self.counts["of"], self.ended, self.order, self.precise[0],
        ]  # fmt: skip


def log(memory, x):
    memory.rewards[memory.calls] = x.sum()
    memory.precise[0][memory.calls] = float(x[0, 0])
    memory.calls += 1
    return F.tanh(x)


def log_actions(memory, x):
    memory.actions[memory.calls] = x[0].argmax()
    memory.ended[memory.calls] = x[0, 0] > 0
    memory.calls += 1
    return F.tanh(x)


def by_methods(memory, x):
    memory.ended.fill(x[0, 0] > 0)
    memory.actions.__setitem__(0, x[0].argmax())
    return F.tanh(x)


def count(memory, x):
    memory.counts["of"][x[0].argmax()] += 1
    return F.tanh(x) / (1 + memory.counts["of"])


def count_all(memory, x):
    counts = memory.counts["of"]
    counts += x[0] > 0
    return F.tanh(x) * counts.sum()


def the_last_alone(memory, x):
    memory.rewards[-1] = x.max()
    memory.ended[:] = x[0, 0] > 0
    return F.tanh(x)


def in_another_order(memory, x):
    return F.tanh(x)[memory.order] + x[memory.order]


def as_an_index(memory, x):
    return x[memory.order]


def one_of_them(memory, x):
    return F.tanh(x) * memory.counts["of"][1]


def labels(memory, x):
    return F.softmax_cross_entropy(x, memory.order.astype("i"), reduce="no")


def branches(memory, x):
    memory.counts["of"][x[0].argmax()] += 1
    return F.tanh(x) * (2 if memory.counts["of"][0] > 2 else 3)


USES = [
    log, log_actions, by_methods, count, count_all, the_last_alone, in_another_order, as_an_index,
    one_of_them, labels, branches,
]  # fmt: skip


def left_alone(memory, i):
    pass


def written(memory, i):
    memory.order[:] = [i % 2, 1 - i % 2]
    memory.counts["of"][i % 3] += 1


def replaced(memory, i):
    memory.order, memory.actions = np.array([1 - i % 2, i % 2]), memory.actions.copy()
    memory.counts["of"] = memory.counts["of"] + 1


@pytest.mark.parametrize("between", [left_alone, written, replaced])
@pytest.mark.parametrize("use", USES)
def test_replays_read_and_write_it_where_it_lies(use, between):
    found = []
    for static in (False, True):
        memory, seen = Memory(), []
        forward = lambda x, memory=memory: use(memory, x)  # noqa: E731
        call = sdbr.static_graph(forward, on_dynamic="raise") if static else forward
        for i in range(15):
            x = np.random.RandomState(i).randn(2, 3).astype("f")
            y = call(x)
            seen += [getattr(y, "array", y), *map(np.copy, memory.arrays()), memory.calls]
            assert {type(array) for array in memory.arrays()} == {np.ndarray}
            between(memory, i)
        found.append(seen)
    for i, (want, got) in enumerate(zip(*found, strict=True)):
        np.testing.assert_allclose(got, want, rtol=RESULTS, atol=RESULTS, err_msg=str(i))
    assert statistics_of(call).replays >= (11 if use in (branches, by_methods) else 12)


def test_masks_from_outside_are_compared():
    """What they select has another size each time; few are others in each call."""
    memory = Memory()
    memory.mask = np.array([True, False, True])
    call = sdbr.static_graph(lambda x: F.tanh(x)[:, memory.mask], on_dynamic="raise")
    x = chainer.Variable(np.ones((2, 3), "f"))
    for i in range(9):
        if i in (3, 6):
            memory.mask = np.arange(3) > i / 4
        assert call(x).shape == (2, memory.mask.sum())
    assert (statistics_of(call).traces, statistics_of(call).replays) == (3, 6)


class Labels:
    """Of examples, twice as many of the one kind as of the other."""

    def __init__(self):
        self.of, self.table = np.array([0, 1, 0, 1, 1, 1]), {"of": np.array([0, 1, 0, 1, 1, 1])}
        self.kind = np.array([False, True, False, True, True, True])


PICKED = {
    "by an argument": lambda one, x, i: x[:2] * one.of[i][:, None],
    "labels": lambda one, x, i: F.softmax_cross_entropy(x[:2], one.table["of"][i].astype("i")),
    "a branch": lambda one, x, i: x * (2 if one.kind[i][0] else 3),
    "by what is computed": lambda one, x, i: x * one.of[x.argmax(axis=1)][:, None],
    "by a mask": lambda one, x, i: x * one.of[: x.size][x.ravel()[:6] > 0.5].sum(),
    "of a view": lambda one, x, i: x * one.of.reshape(2, 3)[i % 2, i % 3].sum(),
    "of a copy": lambda one, x, i: x * (-one.of)[i].sum(),
    "by what was picked": lambda one, x, i: x * one.of[one.of[i]].sum(),
    "of a literal": lambda one, x, i: x * np.array([0, 1, 0, 1, 1, 1])[i].sum(),
}


@pytest.mark.parametrize("name", PICKED)
def test_what_arrays_of_the_call_pick(name):
    """Two calls that pick the same by chance tell nothing."""
    found, batches = [], [np.array(i) for i in ([1, 3], [3, 4], [5, 1], [0, 2], [2, 1])]
    for static in (False, True):
        one, seen = Labels(), []
        forward = lambda x, i, one=one: PICKED[name](one, x, i)  # noqa: E731
        call = sdbr.static_graph(forward, on_dynamic="raise") if static else forward
        for k in range(15):
            x = np.random.RandomState(k % 2).randn(3, 4).astype("f")
            y = call(x, batches[k % 5])
            seen.append(getattr(y, "array", y))
        found.append(seen)
    for want, got in zip(*found, strict=True):
        np.testing.assert_allclose(got, want, rtol=RESULTS, atol=RESULTS)
    # What a mask selects of what nobody knows takes one trace for each number.
    least = {"by a mask": 5, "of a view": 12, "of a copy": 12}
    assert statistics_of(call).replays >= least.get(name, 13)
