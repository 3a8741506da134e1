"""Rounding errors of replays that sum: at most 1.5 times those of Chainer's code on the same data.

Both are taken against Chainer's code in a wider dtype, as roots of means of squares over many
elements. What Chainer rounds with is NumPy, in pairs of pairs along the last axis, and BLAS.
"""

from __future__ import annotations

from sdbr.ops.table import OPS
from sdbr.static_optimizer import static_optimizer

import chainer
import numpy as np
import pytest
from chainer import optimizer_hooks, optimizers

from tests.tolerances import FEW_ROUNDINGS, TIMES_CHAINERS

from .summing import CASES
from .sums import WIDER, measured, squares

#: Families without sums, or of sums of integers, of the terms of one formula, or of Python's code.
OTHERS = {"control", "data", "elementwise", "random", "special", "integer", "recurrent", "fused"}
#: Ops of other families that choose, count, move or multiply, or work element by element.
NO_SUMS = """
max min softmax_cross_entropy_grad softmax_cross_entropy_no_reduce_grad sigmoid_cross_entropy_grad
sigmoid_cross_entropy_no_reduce sigmoid_cross_entropy_no_reduce_grad mean_squared_error_grad
mean_absolute_error_grad accuracy select_item select_item_grad negate_item argmax argmin take put
where max_pooling max_pooling_index max_pooling_pick update_statistics all_finite resize
"""
#: Norms, below; images, which Chainer resizes in float32 alone; and what other programs than those
#: of calls have: of whole steps, by the code of batch_norm_grad, or of gradients of gradients.
OTHER_CASES = {"clip_norm", "lars", "resize_grad", "batch_norm_relu_grad", "local_response_grad"}
NORMS = {
    "clip_norm": lambda: optimizer_hooks.GradientClipping(0.01),
    "lars": lambda: optimizer_hooks.GradientLARS(),
}

# Where a long double is a double, nothing says what is exact beside float64.
needs_wider = pytest.mark.skipif(
    np.finfo("g").nmant <= np.finfo("d").nmant, reason="long doubles are doubles here"
)
of_both_dtypes = pytest.mark.parametrize("dtype", ["f", pytest.param("d", marks=needs_wider)])


def assert_as_good(name: str, got: float, plain: float, last: float) -> None:
    limit = max(TIMES_CHAINERS * plain, FEW_ROUNDINGS * last)
    assert got <= limit, (
        f"{name}: {got / plain:.2f} times the error of Chainer's own code, "
        f"{got / last:.2f} units in the last place"
    )


@of_both_dtypes
@pytest.mark.parametrize("name", CASES)
def test_no_more_rounding_than_chainers(name, dtype):
    for what, errors in measured(CASES[name], dtype).items():
        assert_as_good(what, *errors)


def test_every_op_that_sums_has_a_case():
    measured_here = {name for case in CASES.values() for name in case.ops.split()}
    elementwise = {
        op.name for op in OPS if op.step or op.family in OTHERS or (op.updates and op.cut)
    }
    others = elementwise | set(NO_SUMS.split()) | OTHER_CASES
    assert not measured_here & others
    assert {op.name for op in OPS} - measured_here - others == set()


# --- norms of gradients ---------------------------------------------------------------------------
def _hooked(hook: str, arrays: list, static: bool) -> list[np.ndarray]:
    """Gradients as an update with this hook leaves them."""
    model = chainer.Chain()
    with model.init_scope():
        for i, (p, g) in enumerate(arrays):
            parameter = chainer.Parameter(p.copy())
            parameter.grad = g.copy()
            setattr(model, f"p{i}", parameter)
    optimizer = optimizers.SGD()
    optimizer = (static_optimizer(optimizer) if static else optimizer).setup(model)
    optimizer.add_hook(NORMS[hook]())
    with chainer.using_config("sdbr_backend", "auto" if static else "off"):
        optimizer.update()
    if static:
        assert optimizer.update_statistics.native_calls == 1
    return [p.grad for _, p in sorted(model.namedparams())]


@of_both_dtypes
@pytest.mark.parametrize("hook", NORMS)
def test_norms_of_gradients(hook, dtype):
    total = 0
    for _ in range(20):
        arrays = [np.random.randn(2, *shape).astype(dtype) for shape in [(30, 400), (9001,)]]
        wide = [a.astype(WIDER[dtype]) for a in arrays]
        runs = [_hooked(hook, arrays, True), _hooked(hook, arrays, False)]
        for got, plain, exact in zip(*runs, _hooked(hook, wide, False), strict=True):
            total = total + squares(got, plain, exact)
    assert_as_good(hook, *np.sqrt(total[1:] / total[0]))
