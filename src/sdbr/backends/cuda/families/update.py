"""Updates of parameters, and hooks on gradients."""

from __future__ import annotations

from collections.abc import Sequence

from sdbr.backends.cpu import update
from sdbr.backends.cpu.prepare.operands import Operand
from sdbr.backends.cuda.launch import Launches, teams_for
from sdbr.backends.cuda.team import by_dtype
from sdbr.ops.op import Op


def prepare(
    op: Op, ins: Sequence[Operand], outs: Sequence[Operand], ints: Sequence[int]
) -> Launches:
    """The launches of an op of the family ``update``.

    Raises
    ------
    BackendError
        For gaps.
    """
    kernel, numbers = update.prepare(op.name, list(ins), list(outs), tuple(ints))
    name, dtype = kernel[:-3], kernel[-2:]
    if name == "lars":
        return (
            by_dtype("lars_sums", dtype, numbers, 2, work=2),
            by_dtype(name, dtype, numbers, teams_for(numbers[0]), work=2),
        )
    if name == "all_finite":
        return (
            by_dtype(
                "all_finite_counts", dtype, numbers, numbers[0], is_listed=True, work=numbers[0]
            ),
            by_dtype(name, dtype, numbers, 1, is_listed=True, work=numbers[0]),
        )
    if name != "clip_norm":
        return (
            by_dtype(
                name, dtype, numbers, teams_for(numbers[0]), is_update=True,
                together=f"{name}_together", elements=numbers[0],
            ),
        )  # fmt: skip
    count, *sizes = numbers
    return (
        by_dtype("clip_norm_sums", dtype, numbers, count, is_listed=True, work=count),
        by_dtype(name, dtype, numbers, teams_for(max(sizes)), is_listed=True, work=count),
    )
