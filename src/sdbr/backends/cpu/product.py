"""Kernels of matrix products.

Small and medium products run in kernels of this package, which fuse bias and
activation and cost no call of BLAS; the others go to the BLAS that SciPy brings.
"""

from __future__ import annotations

import functools

from sdbr.backends.cpu.prepare.operands import Operand, contiguous, suffix
from sdbr.base.threads import num_threads

#: Multiply-adds per thread from which BLAS is called (measured, see docs/performance.md), and on
#: machines for which there are no wide vectors here.
ONE_THREAD = 1 << 28
NO_VECTORS = 1 << 12


def prepare(name: str, ins: list[Operand], outs: list[Operand], ints: tuple[int, ...]):
    """Kernel and integers of one product; see :mod:`sdbr.backends.cpu`."""
    contiguous(name, ins)
    contiguous(name, outs)
    kind, numbers = _PREPARE[name](ins, outs, ints)
    return f"{kind}_{suffix(outs[0])}", numbers


def _large(n: int, m: int, k: int) -> bool:
    """Whether the product is one for BLAS."""
    work = n * m * k
    if work < NO_VECTORS:
        return False
    if _level() == "baseline":
        return True
    return work >= ONE_THREAD * num_threads()


@functools.cache
def _level() -> str:
    from sdbr.backends.cpu._kernels import simd_level

    return simd_level()


def _linear(ins, outs, ints):
    (n, k), m = ins[0][1], ins[1][1][0]
    numbers = (n, m, k, ints[0], int(len(ins) == 3))
    if _large(n, m, k):
        return "linear_blas", numbers
    return ("linear_row" if n == 1 else "linear"), numbers


def _gemm(ins, outs, ints):
    n, m = outs[0][1]
    trans_a, trans_b, accumulate = ints
    k = ins[0][1][0 if trans_a else 1]
    # The step between rows of a, or between its columns: parts of an op see fewer rows.
    numbers = (n, m, k, trans_a, trans_b, accumulate, n if trans_a else k)
    if _large(n, m, k):
        return "gemm_blas", numbers
    if n == 1 and m == 1 and not accumulate:
        return "linear_row", (n, m, k, 0, 0)
    if k == 1:
        return "gemm_outer", numbers
    if n == 1 and not trans_b:
        return "gemm_row", numbers
    return "gemm", numbers


def _batch_matmul(ins, outs, ints):
    count, n, m = outs[0][1]
    trans_a, trans_b = ints
    k = ins[0][1][1 if trans_a else 2]
    kind = "batch_matmul_blas" if _large(n, m, k) else "batch_matmul"
    return kind, (n, m, k, trans_a, trans_b, 0, count)


def _gemm_mask(ins, outs, ints):
    (n, k), m = ins[0][1], outs[0][1][1]
    numbers = (n, m, k, ints[0])
    if _large(n, m, k):
        return "gemm_mask_blas", numbers
    return ("gemm_mask_row" if n == 1 else "gemm_mask"), numbers


_PREPARE = {
    "linear": _linear,
    "gemm": _gemm,
    "batch_matmul": _batch_matmul,
    "gemm_mask": _gemm_mask,
}
