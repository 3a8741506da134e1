"""Ops of the executor itself."""

from __future__ import annotations

from collections.abc import Sequence

from sdbr.backends.cpu.prepare.operands import Operand, suffix


def prepare(
    name: str, ins: Sequence[Operand], outs: Sequence[Operand], ints: Sequence[int]
) -> tuple[str, tuple[int, ...]]:
    """Kernel and integers of ``question``; kernel of ``nop`` or ``fork``.

    A fork gets its integers with its branches.
    """
    if name == "question":
        return f"question_{suffix(ins[0])}", tuple(ints)
    return name, ()
