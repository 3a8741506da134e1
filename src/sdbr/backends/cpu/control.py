"""Ops of the executor itself."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from sdbr.backends.cpu.prepare.operands import Operand, contiguous, suffix


def prepare(
    name: str, ins: Sequence[Operand], outs: Sequence[Operand], ints: Sequence[int]
) -> tuple[str, tuple[int, ...]]:
    """Kernel and integers of ``question`` and collectives; kernel of ``nop`` or ``fork``.

    A fork gets its integers with its branches.
    """
    if name == "question":
        return f"question_{suffix(ins[0])}", tuple(ints)
    if name in ("allreduce", "allreduce_begin", "allreduce_end"):
        contiguous(name, ins)
        gradients = ins[1:] if name == "allreduce_end" else ins
        sizes = [prod(shape) for _, shape, _ in gradients]
        return f"{name}_{suffix(ins[0])}", (*ints, len(sizes), *sizes)
    return name, ()
