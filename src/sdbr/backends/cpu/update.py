"""Kernels of the update family: parameter updates and gradient hooks."""

from __future__ import annotations

from math import prod

from sdbr.backends.cpu.prepare.operands import Operand, contiguous, suffix


def prepare(name: str, ins: list[Operand], outs: list[Operand], ints: tuple[int, ...]):
    """Kernel and integers of one update op; see :mod:`sdbr.backends.cpu`."""
    contiguous(name, ins)
    if name in ("clip_norm", "all_finite"):  # of any number of gradients
        sizes = [prod(shape) for _, shape, _ in ins]
        return f"{name}_{suffix(ins[0])}", (len(ins), *sizes)
    contiguous(name, outs)
    if name == "adam" and len(ins) == 5:
        name = "adam_vhat"
    return f"{name}_{suffix(ins[0])}", (prod(ins[0][1]),)
