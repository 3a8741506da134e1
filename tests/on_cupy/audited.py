"""What is audited here: a perceptron, and kernels that are wrong."""

from __future__ import annotations

import contextlib
from unittest import mock

from sdbr.backends.cuda import gpus

import chainer
import chainer.functions as F
import chainer.links as L
import pytest

from tests.conftest import ON
from tests.harness import device

from .programs import normal, whole

no_gpu = pytest.mark.skipif(ON == "gpu", reason="kernels are spoiled where the host runs them")
EVERY = 1e9  # a share that lets every replay be audited


def perceptron(self, x, t):
    return F.softmax_cross_entropy(self.out(F.tanh(self.layer(x))), t)


def made(way, forward=perceptron):
    ones = chainer.initializers.Constant(0.5)
    return way.model(
        forward,
        layer=lambda: L.Linear(3, 4, initial_bias=ones),
        out=lambda: L.Linear(4, 3, initial_bias=ones),
    )


def batch(k):
    return normal(5, 3, seed=k), whole(3, 5, seed=k)


@contextlib.contextmanager
def spoiled(*what):
    """Kernels are compiled of altered sources."""
    compiler = device.spoiled(*what)
    with mock.patch.object(gpus, "gpu", lambda number: (device.device(number), compiler)):
        yield


WRONG_ADAM = (
    "update/elements.h",
    "return f[5] * p - f[4] * (step",
    "return f[5] * p + f[4] * (step",
)
