"""Row 5 of the contract: links and parameters stay the user's; copies are static on their own."""

from __future__ import annotations

import copy
import pickle

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.comparison import assert_near
from tests.harness.models import MLP


def counts(model) -> tuple[int, int, int]:
    statistics = model.schedule_manager.statistics
    return statistics.traces, statistics.replays, statistics.define_by_run_calls


def by_hand(layers, x):
    """What a Sequential computes, define-by-run."""
    for layer in layers:
        x = layer(x)
    return x.array


def small_sequential():
    np.random.seed(0)
    return chainer.Sequential(L.Linear(4, 5), F.relu, L.Linear(5, 4))


@pytest.mark.parametrize("calls", [1, 2, 3, 4])
def test_a_parameter_of_another_dtype_fails_as_in_define_by_run(calls):
    """However the next call is served: by a trace, the slower path or the compiled one."""
    x = np.ones((2, 4), "f")
    model = sdbr.static_graph(L.Linear(4, 3))
    for _ in range(calls):
        model(x)
    arrays = [p.array for p in model.params()]
    for p in model.params():
        p.array = p.array.astype("d")
    with pytest.raises(chainer.utils.type_check.InvalidType):
        model(x)
    for p, array in zip(model.params(), arrays, strict=True):
        p.array = array
    model(x)
    before = model.schedule_manager.statistics.replays
    np.testing.assert_array_equal(model(x).array, F.linear(x, model.W, model.b).array)
    assert model.schedule_manager.statistics.replays == before + 1


@pytest.mark.parametrize(
    "how",
    [
        lambda m: m.copy("share"),
        lambda m: m.copy("copy"),
        copy.copy,
        copy.deepcopy,
        lambda m: pickle.loads(pickle.dumps(m)),
        lambda m: m.repeat(1)[0],
    ],
    ids=["share", "copy", "copy.copy", "deepcopy", "pickle", "repeat"],
)
def test_copies_of_a_static_sequential_are_static(how):
    model = sdbr.static_graph(small_sequential(), max_schedules=3)
    x = np.random.RandomState(0).randn(6, 4).astype("f")
    for _ in range(3):
        model(x)
    other = how(model)
    for i in range(4):
        got = other(x + i).array
        want = by_hand(other, x + i)
        assert_near(got, want, 1e-5, "the copy")
    assert counts(other) == (1, 3, 0)
    assert counts(model) == (1, 2, 0)
    assert other.schedule_manager.options.max_schedules == 3


def test_a_sequential_with_a_lambda_cannot_be_pickled():
    model = sdbr.static_graph(chainer.Sequential(L.Linear(4, 4), lambda x: x * 2))
    for copier in (pickle.dumps, copy.deepcopy):
        with pytest.raises(ValueError, match="lambda"):
            copier(model)
    for _ in range(3):
        model(np.ones((2, 4), "f"))
    assert counts(model) == (1, 2, 0)


def test_a_sequential_whose_layers_change():
    model = sdbr.static_graph(small_sequential())
    x = np.random.RandomState(0).randn(6, 4).astype("f")

    def replace_first():
        model[0] = L.Linear(4, 5)

    changes = [
        lambda: None,
        lambda: model.append(F.tanh),
        lambda: model.insert(1, F.sigmoid),
        lambda: model.__delitem__(1),
        replace_first,
        lambda: model.pop(),
        lambda: model.extend(chainer.Sequential(F.relu, L.Linear(4, 2))),
    ]
    for i, change in enumerate(changes):
        change()
        for j in range(2):
            want = by_hand(model, x + j)
            assert_near(model(x + j).array, want, 1e-5, f"change {i}, call {j}")
    # A trace for each change but the deletion, which brings earlier layers back.
    assert counts(model) == (len(changes) - 1, len(changes) + 1, 0)


@pytest.mark.parametrize("mode", ["init", "copy", "share"])
def test_the_three_modes_of_copy(mode):
    model = sdbr.static_graph(MLP(4, 5, 3))
    x = np.random.RandomState(0).randn(6, 4).astype("f")
    for _ in range(3):
        model(x)
    model.cleargrads()
    other = model.copy(mode)
    shared = [p.array is q.array for p, q in zip(model.params(), other.params(), strict=True)]
    assert all(shared) if mode == "share" else not any(shared)
    for _ in range(3):
        F.sum(other(x)).backward()
    assert counts(other) == (1, 2, 0)
    assert all(p.grad is None for p in model.params())
