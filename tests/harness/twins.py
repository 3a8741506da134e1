"""A model twice, define-by-run and static, and one iteration of both."""

from __future__ import annotations

import sdbr

import numpy as np
from chainer import functions as F

from tests.harness.comparison import assert_all_near, assert_near, copy_of, gradients_of
from tests.harness.models import MLP, floats, labels
from tests.tolerances import GRADIENTS, RESULTS, SUMS


def pair(make, seed=0, **options):
    """A define-by-run and a static model with the same parameters."""
    np.random.seed(seed)
    plain = make()
    np.random.seed(seed)
    return plain, sdbr.static_graph(make(), on_dynamic="raise", **options)


def step(model, *args):
    """Output and gradients of one iteration."""
    y = model(*args)
    model.cleargrads()
    F.sum(y * y).backward()
    return copy_of(y.array), gradients_of(model)


def agree(plain, static, *args):
    (y, g), (z, h) = step(static, *args), step(plain, *args)
    assert_near(y, z, RESULTS, "output")
    assert_all_near(g, h, GRADIENTS, "gradient")


def mlp():
    return MLP(4, 8, 3)


X = floats(5, 4)(np.random.RandomState(7))


Z = floats(5, 4)(np.random.RandomState(8))


POINTS = floats(5, 4)(np.random.RandomState(0))
KINDS = labels(3, 5)(np.random.RandomState(1))


def twins(make, **options):
    np.random.seed(0)
    plain = make()
    return plain, sdbr.static_graph(plain.copy(mode="copy"), **options)


_RNG = np.random.RandomState(0)
SIX = [floats(5, 4)(_RNG) for _ in range(6)]


def both(plain, static, iteration, times=4):
    """Run ``iteration(model, i)`` on both models and compare what it returns: dicts of arrays."""
    for i in range(times):
        want, got = iteration(plain, i), iteration(static, i)
        assert_all_near(got, want, SUMS, f"iteration {i}")


def statistics_of(model):
    return model.schedule_manager.statistics


def counts(thing) -> tuple[int, int, int]:
    """Traces, replays and calls that ran define-by-run."""
    statistics = statistics_of(thing)
    return statistics.traces, statistics.replays, statistics.define_by_run_calls
