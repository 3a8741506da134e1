"""Gradients of biases, which the product for the gradient of the weights sums up on its way."""

from __future__ import annotations

from sdbr.backends.cuda.launch import Launch
from sdbr.backends.cuda.team import by_dtype
from sdbr.ops.table import OPS
from sdbr.program.program import Program


def product_with_sums(program: Program, launches, i: int, j: int) -> Launch | None:
    """The launch that does op `i`, ``c = a.T @ b``, and op `j`, ``a.sum(0)``, if they are that.

    Its operands are those of `i` and the output of `j`. Who asks makes sure that what one writes
    the other does not touch.
    """
    product, total = (OPS[int(program.opcodes[k])].name for k in (i, j))
    if (product, total) != ("gemm", "sum"):
        return None
    (trans_a, _, accumulate), _ = program.attributes_of(i)
    (a, _), (c,) = program.operands_of(i)
    (x,), _ = program.operands_of(j)
    if not trans_a or accumulate or 0 in (*program.row_shape(a), *program.row_shape(c)):
        return None
    if program.row_shape(x) != (1, *program.row_shape(a)) or _start(program, x) != _start(
        program, a
    ):
        return None
    launch = launches[i][0]
    return by_dtype("gemm_sums", launch.section, launch.ints, launch.teams, operands=(0, 1, 2, 4))


def _start(program: Program, row: int) -> tuple[int, int]:
    return int(program.rows["slot"][row]), int(program.rows["offset"][row])
