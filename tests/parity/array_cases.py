"""Cases of reductions, row ops, matrix products and updates."""

from __future__ import annotations

from collections.abc import Iterator

from sdbr.ops.table import Op

import numpy as np

from .harness import Case
from .values import KINDS, Operand, blank, spread, values, whole

#: ``[outer, n, inner]``
ROWS = (
    (1, 1, 1), (3, 5, 7), (1, 1037, 1), (4, 67, 1), (1, 9, 65), (2, 33, 17), (129, 1, 3),
    (16, 10, 1), (0, 3, 2), (2, 3, 0), (1, 2100, 1), (300, 7, 1), (1, 200, 3), (2, 5, 300),
    (1, 3, 2500),
)  # fmt: skip
#: ``n, k, m`` of ``[n, k] @ [k, m]``
PRODUCTS = (
    (1, 1, 1), (3, 5, 7), (1, 33, 65), (65, 33, 1), (17, 64, 33), (64, 128, 129), (0, 4, 3),
    (4, 3, 0), (4, 0, 3), (3, 1100, 9), (1, 1100, 40), (41, 1, 37),
)  # fmt: skip
#: So many multiplications that a library may be faster than a loop.
LARGE = ((70, 300, 260), (1100, 40, 100))
#: Every number of rows and columns that is left over when tiles have been cut.
TAILS = tuple(
    (n, 5, m) for n in (1, 2, 3, 4, 5, 6, 7, 11, 13) for m in (2, 4, 7, 8, 15, 16, 23, 47)
)


# --- reductions and rows -----------------------------------------------------------------------
def reduction(op: Op, rng, dtype) -> Iterator[Case]:
    """All shapes, value classes, and runs of zeros added up."""
    picks = op.name in ("max", "min")
    shapes = ROWS if picks else (*ROWS, (2, 0, 3))
    for kind in KINDS:
        for shape in shapes:
            x = whole(spread(rng, shape, 1, dtype, kind))
            out = blank((shape[0], shape[2]), dtype)
            yield Case(op.name, f"{kind} values", [x], [out], exact=picks)


def softmax(op: Op, rng, dtype) -> Iterator[Case]:
    """Forward on any numbers, gradients on real outputs and on any numbers."""
    shapes = (*ROWS, (2, 0, 3))
    for kind in KINDS:
        for shape in shapes:
            for k in (None, *op.inplace) if kind in ("ordinary", "nan") else (None,):
                ins = [whole(spread(rng, shape, 1, dtype, kind)) for _ in op.inputs]
                if len(ins) == 2:
                    ins[0] = whole(_activated(op.name, rng, shape, dtype, kind))
                outs = [blank(shape, dtype) if k is None else ins[k]]
                what = f"{kind} values" if k is None else f"{kind} values, in place of {k}"
                yield Case(op.name, what, ins, outs)


def _activated(name: str, rng, shape, dtype, kind: str) -> np.ndarray:
    x = values(rng, shape, dtype, "ordinary" if kind == "largest" else kind)
    with np.errstate(all="ignore"):
        e = np.exp(x)
        y = e / e.sum(axis=1, keepdims=True)
        return (np.log(y) if name.startswith("log") else y).astype(dtype)


# --- matrix products ---------------------------------------------------------------------------
def _factors(rng, a_shape, b_shape, dtype, kind: str) -> tuple[np.ndarray, np.ndarray]:
    a, b = values(rng, a_shape, dtype, kind), values(rng, b_shape, dtype)
    if kind == "largest":  # no sum may overflow on the way: that would depend on its order
        return a / 1024, b
    # Sums of about one, where an activation neither saturates nor magnifies their rounding.
    return a, (b / (4 * np.sqrt(max(b_shape[-2:])))).astype(dtype)


def linear(op: Op, rng, dtype) -> Iterator[Case]:
    """Every activation, with and without bias."""
    for n, k, m in (*PRODUCTS, *TAILS, *LARGE):
        for activation in range(4):
            for bias in (False, True):
                for kind in KINDS if (n, k, m) == (3, 5, 7) else ("ordinary",):
                    x, w = _factors(rng, (n, k), (m, k), dtype, kind)
                    ins = [whole(x), whole(w)] + [whole(values(rng, (m,), dtype))] * bias
                    out = blank((n, m), dtype)
                    yield Case(op.name, f"{kind} values", ins, [out], (activation,))


def gemm(op: Op, rng, dtype) -> Iterator[Case]:
    """Every combination of transposes, overwriting and adding."""
    for n, k, m in (*PRODUCTS, *TAILS, *LARGE):
        for flags in np.ndindex(2, 2, 2):
            for kind in KINDS if (n, k, m) == (3, 5, 7) else ("ordinary",):
                a_shape = (k, n) if flags[0] else (n, k)
                b_shape = (m, k) if flags[1] else (k, m)
                a, b = _factors(rng, a_shape, b_shape, dtype, kind)
                out = whole(values(rng, (n, m), dtype)) if flags[2] else blank((n, m), dtype)
                yield Case(op.name, f"{kind} values", [whole(a), whole(b)], [out], flags)


def batch_matmul(op: Op, rng, dtype) -> Iterator[Case]:
    """Every combination of transposes, batches of none, one and three."""
    for batch in (0, 1, 3):
        for n, k, m in (*PRODUCTS, *LARGE[: batch == 1]):
            for flags in np.ndindex(2, 2):
                for kind in KINDS if (n, k, m) == (3, 5, 7) else ("ordinary",):
                    a_shape = (batch, k, n) if flags[0] else (batch, n, k)
                    b_shape = (batch, m, k) if flags[1] else (batch, k, m)
                    a, b = _factors(rng, a_shape, b_shape, dtype, kind)
                    out = blank((batch, n, m), dtype)
                    yield Case(op.name, f"{kind} values", [whole(a), whole(b)], [out], flags)


def gemm_mask(op: Op, rng, dtype) -> Iterator[Case]:
    """The three activations whose gradient can be folded into a product."""
    for n, k, m in (*PRODUCTS, *TAILS, *LARGE):
        for activation in (1, 2, 3):
            for kind in KINDS if (n, k, m) == (3, 5, 7) else ("ordinary",):
                a, b = _factors(rng, (n, k), (k, m), dtype, kind)
                y = np.tanh(values(rng, (n, m), dtype))
                ins = [whole(a), whole(b), whole(y)]
                yield Case(op.name, f"{kind} values", ins, [blank((n, m), dtype)], (activation,))


# --- update ------------------------------------------------------------------------------------
UPDATE_SHAPES = ((1,), (7,), (16,), (3, 5), (67,), (1037,), (0,))
INFINITY = float("inf")
#: alpha_t, 1 - beta1, 1 - beta2, eps, eta, decay, lower, upper
ADAM = {
    "plain": (1e-3, 0.1, 1e-3, 1e-8, 1.0, 1.0, 0.0, INFINITY),
    "no bounds": (1e-3, 0.1, 1e-3, 1e-8, 1.0, 1.0, -INFINITY, INFINITY),
    "decoupled weight decay": (2e-3, 0.2, 1e-2, 1e-6, 0.7, 0.99, 0.0, INFINITY),
    "bounded": (1e-3, 0.1, 1e-3, 1e-8, 1.0, 1.0, 0.01, 0.1),
}


def update(op: Op, rng, dtype) -> Iterator[Case]:
    """Rules and hooks that write the operands they read."""
    variants = {
        "sgd": [("", (0.1,)), ("", (0.0,))],
        "momentum_sgd": [("", (0.1, 0.9))],
        "weight_decay": [("", (5e-4,)), ("", (0.3,))],
        "lasso": [("", (5e-4,)), ("", (0.3,))],
        "adam": list(ADAM.items()),
    }[op.name]
    written = {"weight_decay": [0], "lasso": [0], "sgd": [1], "momentum_sgd": [1, 2]}.get(op.name)
    for what, floats in variants:
        for kind in KINDS:
            for shape in UPDATE_SHAPES if kind == "ordinary" else ((67,),):
                for n in (4, 5) if op.name == "adam" else (len(op.inputs),):
                    ins = [whole(values(rng, shape, dtype, kind)) for _ in range(n)]
                    ins[3:] = [whole(abs(x.base)) for x in ins[3:]]  # second moments
                    outs = [ins[i] for i in written or range(1, n)]
                    yield Case(
                        op.name, f"{what}, {kind} values", ins, outs, (), floats, per_element=True
                    )


def clip_norm(op: Op, rng, dtype) -> Iterator[Case]:
    """One to three gradients, above and below the threshold."""
    for kind in ("ordinary", "nan", "infinity", "zero", "denormal"):
        for shapes in (((67,),), ((3, 5), (1037,), (1,)), ((0,), (7,))):
            for threshold in (0.5, 1e6):
                ins = [whole(values(rng, shape, dtype, kind)) for shape in shapes]
                out: Operand = blank((), np.float64)
                case = Case(op.name, f"{kind} values", ins, [out], (), (threshold,))
                case.written = ins
                case.tolerance = dtype.str[1:]  # the norm is float64 whatever the gradients are
                yield case
    ins = [whole(np.zeros(7, dtype))]
    yield Case(op.name, "all zero", ins, [blank((), np.float64)], (), (1.0,), written=ins)


BY_OP = {
    "linear": linear,
    "gemm": gemm,
    "batch_matmul": batch_matmul,
    "gemm_mask": gemm_mask,
    "clip_norm": clip_norm,
    **dict.fromkeys(("softmax", "softmax_grad", "log_softmax", "log_softmax_grad"), softmax),
}
BY_FAMILY = {"reduction": reduction, "update": update}
