"""Ops of the executor itself."""

from __future__ import annotations

from collections.abc import Sequence

from sdbr.backends.cpu.prepare.operands import Operand


def prepare(
    name: str, ins: Sequence[Operand], outs: Sequence[Operand], ints: Sequence[int]
) -> tuple[str, tuple[int, ...]]:
    """Kernel of ``nop`` or ``fork``, which gets its integers with its branches."""
    return name, ()
