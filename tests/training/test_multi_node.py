"""Optimizers of ChainerMN, with a communicator of one process, and with two by MPI."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import sdbr

import chainer
import numpy as np
import pytest
from chainer import links as L
from chainer import optimizer_hooks, optimizers

from tests.harness import ranks
from tests.harness.ranks import with_mpi
from tests.tolerances import CONTRACT

SCRIPT = Path(__file__).with_name("two_ranks.py")


class Alone:
    """A communicator of one process, which counts."""

    size, rank = 1, 0

    def __init__(self):
        self.sent = self.averaged = 0

    def bcast_data(self, model):
        self.sent += 1

    def multi_node_mean_grad(self, model, zero_fill=False):
        self.averaged += 1


@pytest.fixture
def create():
    pytest.importorskip("mpi4py", reason="ChainerMN needs mpi4py: pip install '.[mpi]'")
    import chainermn

    return chainermn.create_multi_node_optimizer


def trained(make, model=None, steps=6, static=True):
    np.random.seed(0)
    model = model or L.Classifier(L.Linear(4, 3))
    if static:
        model = sdbr.static_graph(model)
    optimizer = make(optimizers.Adam()).setup(model)
    optimizer.add_hook(optimizer_hooks.WeightDecay(0.01))
    rng = np.random.RandomState(0)
    for _ in range(steps):
        optimizer.update(model, rng.randn(5, 4).astype("f"), rng.randint(0, 3, 5).astype("i"))
    return optimizer


@with_mpi
def test_alone_steps_are_whole(create):
    ours, theirs = Alone(), Alone()
    one = trained(lambda o: sdbr.static_optimizer(create(o, ours)))
    other = trained(lambda o: create(o, theirs), static=False)
    assert one.t == other.t == 5  # the first only sends
    assert one.target.schedule_manager.statistics.steps >= 3
    assert ours.sent == theirs.sent == 1
    for p, q in zip(one.target.params(), other.target.params(), strict=True):
        np.testing.assert_allclose(p.array, q.array, rtol=CONTRACT["f"][1])


@with_mpi
def test_parameters_that_are_made_later_are_sent(create):
    ours, theirs = Alone(), Alone()
    lazy = [L.Classifier(L.Linear(None, 3)) for _ in range(2)]
    one = trained(lambda o: sdbr.static_optimizer(create(o, ours)), lazy[0])
    other = trained(lambda o: create(o, theirs), lazy[1], static=False)
    assert (one.t, ours.sent) == (other.t, theirs.sent)
    for optimizer in (one, other):
        optimizer.target.add_link("more", L.Linear(2, 2))
        optimizer.setup(optimizer.target)
    batch = np.ones((5, 4), "f"), np.zeros(5, "i")
    for _ in range(3):
        one.update(one.target, *batch)
        other.update(other.target, *batch)
    assert (one.t, ours.sent) == (other.t, theirs.sent) == (one.t, 2)
    for (name, p), (_, q) in zip(
        sorted(one.target.namedparams()), sorted(other.target.namedparams()), strict=True
    ):
        if "more" not in name:
            np.testing.assert_allclose(p.array, q.array, rtol=CONTRACT["f"][1], err_msg=name)


@with_mpi
def test_what_a_user_holds(create):
    inner = optimizers.Adam()
    outer = create(inner, Alone())
    assert sdbr.static_optimizer(outer) is outer is sdbr.static_optimizer(outer)
    assert isinstance(outer, type(create(optimizers.SGD(), Alone())))
    assert isinstance(inner, optimizers.Adam) and outer.actual_optimizer is inner
    outer.alpha = 0.5
    assert inner.alpha == 0.5
    outer.setup(sdbr.static_graph(L.Classifier(L.Linear(4, 3))))
    assert "Adam" in str(sdbr.explain(outer))
    with pytest.raises(TypeError, match="communicator belongs to this process"):
        pickle.dumps(outer)


@with_mpi
@pytest.mark.parametrize("overlap", ["0", "1"])
def test_two_ranks_are_one_with_the_double_batch(overlap, monkeypatch, tmp_path):
    monkeypatch.setenv("SDBR_OVERLAP", overlap)
    collectives = ["allreduce_begin", "allreduce_end"] if overlap == "1" else ["allreduce"] * 2
    found = {}
    for n in (1, 2):
        done = ranks.start(n, SCRIPT, str(tmp_path / "found"), "float32", "float64")
        assert done.returncode == 0, done.stderr
        found[n] = json.loads((tmp_path / "found").read_text())
    assert len(found[1]) == 4
    for case, (alone,) in found[1].items():
        two = found[2][case]
        assert two[0]["params"] == two[1]["params"]  # bit by bit
        for rank in two:
            assert rank["t"] == alone["t"] == 5 and rank["replays"] >= 4
            assert rank["steps"] >= 3
            # What is not in the program of the whole step is a native call of its own.
            assert rank["native updates"] == 5 - rank["steps"]
            assert rank["collectives"] == collectives
        assert alone["steps"] >= 3
        for p, q in zip(alone["params"], two[0]["params"], strict=True):
            tolerance = CONTRACT[np.dtype(case.split()[0]).char][0]
            np.testing.assert_allclose(q, p, rtol=0, atol=tolerance * np.abs(p).max())


def test_other_objects_are_refused_as_before():
    with pytest.raises(ValueError, match="only optimizers of ChainerMN have ranks to compare"):
        sdbr.static_optimizer(optimizers.Adam(), validate_every=2)
    with pytest.raises(TypeError, match=r"expected an instance of chainer\.GradientMethod"):
        sdbr.static_optimizer(chainer.links.Linear(1, 1))
