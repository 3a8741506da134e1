"""The pass ``pooling``: relu and maximum pooling, backward."""

from __future__ import annotations

import math

import sdbr
from sdbr.ops.table import BY_NAME

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np
import pytest

from tests.harness.models import Net
from tests.tolerances import RESULTS, ROUNDINGS

WINDOWS = {"pairs": (2, 2, 0), "overlapping": (3, 2, 1), "dense": (3, 1, 1), "gaps": (1, 2, 0)}


def pooled(window):
    return lambda self, x: F.max_pooling_2d(F.relu(self.conv(x)), *window)


def read_twice(self, x):
    h = F.relu(self.conv(x))
    return F.max_pooling_2d(h, 2) + F.average_pooling_2d(h, 2, pad=1)


def pooled_twice(self, x):
    h = F.relu(self.conv(x))
    return F.max_pooling_2d(h, 2) + F.max_pooling_2d(h, 3, 2, 1)


def train(body, off=""):
    """Parameters after some steps, the elements of each relu_grad, and bytes of memory."""
    np.random.seed(0)
    model = Net(
        lambda self, x, t: F.softmax_cross_entropy(self.out(body(self, x)), t),
        conv=L.Convolution2D(2, 5, 3),
        out=L.Linear(None, 4),
    )
    with chainer.using_config("sdbr_disabled_passes", off):
        model = sdbr.static_graph(model, on_dynamic="raise")
        optimizer = sdbr.static_optimizer(chainer.optimizers.SGD(0.1)).setup(model)
        rng = np.random.RandomState(0)
        for _ in range(4):
            x, t = rng.randn(3, 2, 9, 9).astype("f"), rng.randint(0, 4, 3).astype("i")
            optimizer.update(model, x, t)
    statistics = model.schedule_manager.statistics
    assert (statistics.steps, statistics.python_ops) == (3, 0)
    step = model.schedule_manager.static_schedule.programs["step"]
    masks = np.flatnonzero(step.opcodes == BY_NAME["relu_grad"].opcode).tolist()
    sizes = [math.prod(step.row_shape(step.operands_of(i)[1][0])) for i in masks]
    return [p.array for p in model.params()], sizes, step.arena_bytes


@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
def test_the_mask_is_taken_from_the_maxima(window):
    got, sizes, memory = train(pooled(window))
    want, plain, more = train(pooled(window), "pooling")
    outside = F.max_pooling_2d(np.zeros((3, 5, 7, 7), "f"), *window).size
    assert (sizes, plain) == ([outside], [3 * 5 * 7 * 7])
    assert memory <= more
    for x, y in zip(got, want, strict=True):
        np.testing.assert_allclose(x, y, RESULTS, ROUNDINGS)


@pytest.mark.parametrize("body", [read_twice, pooled_twice])
def test_not_where_gradients_come_from_elsewhere_as_well(body):
    got, sizes, _ = train(body)
    want, plain, _ = train(body, "pooling")
    for x, y in zip(got, want, strict=True):
        np.testing.assert_allclose(x, y, RESULTS, ROUNDINGS)
    assert sizes == plain
