"""Functions and classes that were made by ``exec`` in a namespace that is no module's."""

from __future__ import annotations

import sdbr

import numpy as np
import pytest
from chainer import FunctionNode
from chainer import functions as F

from tests.harness.comparison import assert_near
from tests.harness.models import TwoLayers
from tests.harness.twins import counts, twins
from tests.tolerances import GRADIENTS, RESULTS

CODE = """
def scaled(x):
    return x * 2

class Scale:
    def __init__(self, by):
        self.by = by
    def __call__(self, x):
        return x * self.by

class Double(FunctionNode):
    def forward(self, inputs):
        x, = inputs
        return x * 2,
    def backward(self, indexes, gradients):
        return gradients[0] * 2,

def doubled(x):
    return Double().apply((x,))[0]
"""


@pytest.fixture(params=[{}, {"__name__": "nowhere"}], ids=["no name", "not imported"])
def made(request):
    space = dict(request.param, FunctionNode=FunctionNode)
    exec(CODE, space)
    assert space["scaled"].__module__ == request.param.get("__name__")
    return space


@pytest.mark.parametrize("which", ["scaled", "Scale", "doubled"])
@pytest.mark.parametrize("where", ["attribute", "closure"])
def test_code_of_no_module(made, which, where):
    thing = made["Scale"](3.0) if which == "Scale" else made[which]

    def forward(self, x, t):
        scale = self.scale if where == "attribute" else thing
        return F.softmax_cross_entropy(scale(self.o(F.tanh(self.l(x)))), t)

    plain, static = twins(lambda: TwoLayers(forward), on_dynamic="raise")
    plain.scale = static.scale = thing
    for i in range(5):
        rng = np.random.RandomState(i)
        rows = 6 if i < 3 else 9
        x, t = rng.randn(rows, 4).astype("f"), rng.randint(0, 3, rows).astype("i")
        losses = [model(x, t) for model in (plain, static)]
        for model, loss in zip((plain, static), losses, strict=True):
            model.cleargrads()
            loss.backward()
        assert_near(losses[1].array, losses[0].array, RESULTS, "loss")
        assert_near(static.l.W.grad, plain.l.W.grad, GRADIENTS, "gradient")
    assert counts(static)[1] >= 3


def test_a_function_that_is_static_itself(made):
    static = sdbr.static_graph(made["scaled"], on_dynamic="raise")
    x = np.ones((2, 3), "f")
    for i in range(4):
        np.testing.assert_array_equal(static(x + i), made["scaled"](x + i))
    assert counts(static) == (1, 3, 0)
