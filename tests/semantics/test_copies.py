"""Row 5: copies of static links are static on their own; what is saved is Chainer's."""

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
from tests.harness.models import MLP, StaticMLP, by_hand, small_sequential
from tests.harness.twins import X, counts, mlp
from tests.tolerances import RESULTS

COPIES = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda m: pickle.loads(pickle.dumps(m)),
    "Link.copy": lambda m: m.copy("copy"),
    "Link.copy init": lambda m: m.copy("init"),
}


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("wrapped", ["instance", "method"])
def test_copies_start_empty(how, wrapped):
    model = StaticMLP() if wrapped == "method" else sdbr.static_graph(MLP(4, 8, 3))
    for _ in range(3):
        model(X)
    manager = model.schedule_manager
    twin = COPIES[how](model)
    assert isinstance(twin, type(model).__mro__[1])
    for _p, q in zip(model.params(), twin.params(), strict=True):
        if how == "copy":
            continue
        q.array = q.array + 1
    y, z = model(X), twin(X)
    assert manager.statistics.replays == 3
    assert twin.schedule_manager is not manager
    assert twin.schedule_manager.statistics.traces == 1
    twin_again = twin(X)
    assert twin.schedule_manager.statistics.replays == 1
    assert_near(z.array, twin_again.array, RESULTS, "output of the copy")
    if how == "copy":
        assert_near(z.array, y.array, RESULTS, "output of the copy and of the original")
    else:
        assert not np.allclose(y.array, z.array)


def test_repeat_gives_independent_chains():
    layer = sdbr.static_graph(MLP(4, 4, 4))
    layer(X)
    twice = layer.repeat(2)
    y = twice(X)
    for _ in range(3):
        y = twice(X)
    managers = [link.schedule_manager for link in twice]
    assert managers[0] is not managers[1] is not layer.schedule_manager
    assert [m.statistics.calls for m in managers] == [4, 4]
    want = MLP.forward(twice[1], MLP.forward(twice[0], X))
    assert_near(y.array, want.array, RESULTS, "output")


def test_isinstance_and_serializers(tmp_path):
    model = sdbr.static_graph(mlp())
    assert isinstance(model, MLP) and type(model).__name__ == "MLP"
    model(X)
    chainer.serializers.save_npz(tmp_path / "m.npz", model)
    other = mlp()
    chainer.serializers.load_npz(tmp_path / "m.npz", other)
    assert_near(other(X).array, model(X).array, RESULTS, "output")


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
        assert_near(got, want, RESULTS, "the copy")
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
