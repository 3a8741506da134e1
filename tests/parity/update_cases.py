"""Cases of updates of parameters and of hooks on gradients."""

from __future__ import annotations

from collections.abc import Iterator

from sdbr.ops import update as update_ops
from sdbr.ops.op import Op

import numpy as np

from .harness import Case
from .values import KINDS, Operand, blank, values, whole

SHAPES = ((1,), (7,), (16,), (3, 5), (67,), (1037,), (0,))
INFINITY = float("inf")
#: alpha_t, 1 - beta1, 1 - beta2, eps, eta, decay, lower, upper
ADAM = {
    "plain": (1e-3, 0.1, 1e-3, 1e-8, 1.0, 1.0, 0.0, INFINITY),
    "no bounds": (1e-3, 0.1, 1e-3, 1e-8, 1.0, 1.0, -INFINITY, INFINITY),
    "decoupled weight decay": (2e-3, 0.2, 1e-2, 1e-6, 0.7, 0.99, 0.0, INFINITY),
    "bounded": (1e-3, 0.1, 1e-3, 1e-8, 1.0, 1.0, 0.01, 0.1),
}


#: From which operand on they are means of squares, which are not negative.
SQUARES = {"adam": 3, "rmsprop": 2, "ada_grad": 2, "ada_delta": 2, "msvag": 3, "smorms3": 4}
#: Mean, whose square is not above the mean of squares: then what is between them has no root.
MEANS = {"rmsprop_graves": (2, 3)}


def update(op: Op, rng, dtype) -> Iterator[Case]:
    """Rules and hooks that write the operands they read."""
    variants = {
        "sgd": [("", (0.1,)), ("", (0.0,))],
        "momentum_sgd": [("", (0.1, 0.9))],
        "weight_decay": [("", (5e-4,)), ("", (0.3,))],
        "lasso": [("", (5e-4,)), ("", (0.3,))],
        "adam": list(ADAM.items()),
        "add_noise": [("", ())],
        "hard_clip": [
            ("", (-0.5, 0.25)),
            ("crossed", (0.5, -0.5)),
            ("no bound", (float("nan"), 0.5)),
        ],
        "lars": [("", (0.01, 0.1, 1e-9)), ("short", (1e6, 0.1, 1e-9))],
        "corrected_momentum_sgd": [("", (0.1, 0.9))],
        "nesterov_ag": [("", (0.1, 0.9, 0.81, 0.19))],
        "ada_grad": [("", (0.1, 1e-3))],
        "ada_delta": [("", (0.9, 0.1, 1e-3))],
        "rmsprop_graves": [("", (0.01, 0.9, 0.1, 0.8, 1e-3))],
        "smorms3": [("", (0.05, 1e-3))],
        "msvag": [
            ("", (0.1, 0.1, 1.0, 0.01, 0.1, 0.05, 0.95)),
            ("", (0.1, 0.2, 0.5, 0.0, 0.6, 0.9, 0.1)),
        ],
        "rmsprop": [("", (0.01, 0.9, 0.1, 0.0, 1e-3)), ("eps inside", (0.01, 0.9, 0.1, 1e-3, 0.0))],
    }[op.name]
    of_gradients = op.outputs[0].startswith("g_out")
    squares = SQUARES.get(op.name, len(op.inputs))
    for what, floats in variants:
        for kind in KINDS:
            for shape in SHAPES if kind == "ordinary" else ((67,),):
                for n in (4, 5) if op.name == "adam" else (len(op.inputs),):
                    ins = [whole(values(rng, shape, dtype, kind)) for _ in range(n)]
                    ins[squares:] = [whole(abs(x.base)) for x in ins[squares:]]
                    if op.name in MEANS:
                        square, mean = MEANS[op.name]
                        with np.errstate(all="ignore"):
                            ins[square] = whole(abs(ins[square].base) + ins[mean].base ** 2 * 2)
                    outs = [ins[0]] if of_gradients else ins[1:n]
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


def all_finite(op: Op, rng, dtype) -> Iterator[Case]:
    """One to three gradients, of which the last holds what is not finite."""
    for kind in ("ordinary", "nan", "infinity", "largest", "denormal"):
        for shapes in (((67,),), ((1037,), (1,), (3, 5)), ((7,), (0,))):
            ordinary = [whole(values(rng, shape, dtype, "ordinary")) for shape in shapes[:-1]]
            ins = [*ordinary, whole(values(rng, shapes[-1], dtype, kind))]
            yield Case(op.name, f"{kind} values", ins, [blank((), np.float64)], exact=True)


BY_OP = {
    **{op.name: update for op in update_ops.OPS},
    "clip_norm": clip_norm,
    "all_finite": all_finite,
}
