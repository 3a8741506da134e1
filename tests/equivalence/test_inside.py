"""Every function of chainer.functions: ``chainer.grad`` inside the static call."""

from __future__ import annotations

import dataclasses

import chainer
import numpy as np

from tests.harness.comparison import variables_of
from tests.tolerances import EQUIVALENCE, INSIDE

from .harness import check
from .tables import SOME, each


def with_gradients(case, double: bool):
    """The case with the gradients of its outputs as further outputs of the same call."""

    def call(*xs):
        result = case.call(*xs)
        ys = [y for y in variables_of(result) if isinstance(y, chainer.Variable)]
        ends = [y for y in ys if y.creator_node is not None and y.dtype.kind == "f"]
        wanted = [x for x in xs if isinstance(x, chainer.Variable)]
        if not ends or not wanted:
            return result
        gys = [
            chainer.Variable(np.cos(np.arange(y.size) + 1.0).reshape(y.shape).astype(y.dtype))
            for y in ends
        ]
        return result, chainer.grad(ends, wanted, gys, enable_double_backprop=double)

    # Gradients are summed in another order than Chainer's: in float16 that shows.
    tolerances = {**(case.tolerances or EQUIVALENCE), **INSIDE}
    # What F.forget hides has no gradient inside of the call: the second trace takes it as it is.
    traces = case.traces + (case.name == "forget")
    return dataclasses.replace(case, call=call, native=False, tolerances=tolerances, traces=traces)


# The derivative of x / x is rounding error and nothing else.
ROUNDING = "operator x / x"


@each(SOME)
def test_gradients_inside_the_call(case):
    """Differentiated once more where Chainer can."""
    check(with_gradients(case, case.second and case.id != ROUNDING), case.dtypes[-1])
