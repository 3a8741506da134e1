"""Matrix products."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from sdbr.ops import elementwise
from sdbr.ops.op import Layout, Ops

import numpy as np

Array = np.ndarray
define = Ops()


#: Activations by the number that `linear` carries, and their gradients by that of `gemm_mask`.
ACTIVATIONS: dict[int, Callable] = {
    0: lambda x: x,
    **{op.activation: op.formula for op in elementwise.OPS if op.activation},
}
ACTIVATION_GRADS: dict[int, Callable] = {
    op.activation_grad: op.formula for op in elementwise.OPS if op.activation_grad
}


def transposed(x: Array, flag: int) -> Array:
    """`x` with its last two axes swapped when `flag` is set."""
    return x.swapaxes(-1, -2) if flag else x


def _factors(
    ins: Sequence[Layout], outs: Sequence[Layout], ints: Sequence[int], floats: Sequence
) -> str:
    """op(a) @ op(b) gives c, with as many pairs of matrices as there are."""
    a, b, c = ins[0][1], ins[1][1], outs[0][1]
    if not len(a) == len(b) == len(c) or not a[:-2] == b[:-2] == c[:-2]:
        return f"{len(c)} axes each"
    (n, k), (k2, m) = (
        x[-2:][::-1] if flag else x[-2:] for x, flag in zip((a, b), ints[:2], strict=True)
    )
    return "" if k == k2 and (n, m) == c[-2:] else "op(a) @ op(b) has the shape of c"


def _multiplied(ins: Sequence[Layout], outs: Sequence[Layout], ints: Sequence[int]) -> int:
    """A multiplication and an addition for each term of each sum: n m k of them."""
    a, b, c = (math.prod(shape) for _, shape in (*ins[:2], outs[0]))
    pairs = math.prod(outs[0][1][:-2])
    # Of [n, k], [k, m] and [n, m] the square root of the product of all sizes is n m k.
    return 2 * math.isqrt(a * b * c // pairs) if pairs else 0


def _known(numbers: dict[int, Callable]) -> Callable[..., str]:
    """The rule that `activation` is one of some numbers."""

    def rule(
        ins: Sequence[Layout], outs: Sequence[Layout], ints: Sequence[int], floats: Sequence
    ) -> str:
        return "" if ints[0] in numbers else f"activation {ints[0]}, of {sorted(numbers)}"

    return rule


@define(
    "linear",
    "x:T[n,k] w:T[m,k] b:T[m]?",
    "y:T[n,m]",
    "y = act(x @ w.T + b); all C-contiguous; activation 0 none, 1 relu, 2 sigmoid, 3 tanh",
    ints="activation",
    by_row=(0,),
    cut="rows",
    product=True,
    flops=_multiplied,
    rule=_known(ACTIVATIONS),
)
def linear(x: Array, w: Array, *b: Array, activation: int) -> Array:
    """``act(x @ w.T + b)``."""
    z = x @ w.T
    return ACTIVATIONS[activation](z + b[0] if b else z)


@define(
    "gemm",
    "a:T b:T",
    "c:T[n,m]",
    "c = op(a) @ op(b) + (c if accumulate else 0); C-contiguous 2-D; op transposes when "
    "trans_a / trans_b is 1",
    ints="trans_a<2 trans_b<2 accumulate<2",
    direct=True,
    by_row=(0,),
    cut="rows",
    product=True,
    flops=_multiplied,
    rule=_factors,
)
def gemm(ins, outs, attributes) -> None:
    """``c = op(a) @ op(b) + (c if accumulate else 0)``."""
    product = transposed(ins[0], attributes["trans_a"]) @ transposed(ins[1], attributes["trans_b"])
    outs[0][...] = outs[0] + product if attributes["accumulate"] else product


define(
    "batch_matmul",
    "a:T b:T",
    "c:T[i,n,m]",
    "c[i] = op(a[i]) @ op(b[i]); 3-D, C-contiguous",
    lambda a, b, trans_a, trans_b: transposed(a, trans_a) @ transposed(b, trans_b),
    ints="trans_a<2 trans_b<2",
    cut="matrices",
    product=True,
    flops=_multiplied,
    rule=_factors,
)

define(
    "gemm_mask",
    "a:T[n,m] b:T[m,k] y:T[n,k]",
    "c:T[n,k]",
    "c = (a @ b) * act'(y); y: output of the activation below, 1 relu, 2 sigmoid, 3 tanh",
    lambda a, b, y, activation: ACTIVATION_GRADS[activation](y, a @ b),
    ints="activation",
    by_row=(0, 2),
    cut="rows",
    product=True,
    flops=_multiplied,
    rule=_known(ACTIVATION_GRADS),
)

OPS = define.ops
