"""Matrix products by kernels of this package: row-major, C-contiguous."""

from __future__ import annotations

from collections.abc import Sequence

from sdbr.backends.cpu.prepare.operands import Operand, contiguous, suffix
from sdbr.backends.cuda.launch import Launches
from sdbr.backends.cuda.team import by_dtype
from sdbr.ops.op import Op

_TILE = 64  # as in kernels/device/product.cuh


def prepare(
    op: Op, ins: Sequence[Operand], outs: Sequence[Operand], ints: Sequence[int]
) -> Launches:
    """The launch of a product.

    Raises
    ------
    BackendError
        For gaps.
    """
    contiguous(op.name, [*ins, *outs])
    n, m = outs[0][1][-2:]
    count = outs[0][1][0] if op.name == "batch_matmul" else 1
    trans_a, trans_b, activation, accumulate = 0, 0, 0, 0
    kernel = op.name
    if op.name == "linear":
        trans_b, activation = 1, ints[0]
        kernel = "linear_bias" if len(ins) == 3 else "linear"
    elif op.name == "gemm_mask":
        activation = ints[0]
    else:
        trans_a, trans_b, accumulate = (*ints, 0)[:3]
        kernel = "gemm"
    depth = ins[0][1][-2 if trans_a else -1]
    steps_a = (1, n) if trans_a else (depth, 1)
    steps_b = (1, depth) if trans_b else (m, 1)
    numbers = (n, m, depth, *steps_a, *steps_b, count, n * depth, depth * m, activation, accumulate)
    tiles = count * -(-n // _TILE) * -(-m // _TILE)
    return (by_dtype(kernel, suffix(outs[0]), numbers, tiles),)
