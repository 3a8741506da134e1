"""Normalization: canonical x[outer, c, inner] with a number per channel, C-contiguous."""

from __future__ import annotations

from collections.abc import Sequence

from sdbr.backends.cpu.prepare.operands import Operand, contiguous, suffix
from sdbr.backends.cpu.prepare.space import KernelCall, describe
from sdbr.base.errors import BackendError

#: Elements of a plane from which it is taken as a row of vectors of its own (measured).
PLANE = 32
#: The widest vector: shorter runs cannot be taken as vectors.
VECTOR = 16
#: The most neighbours to one side; the kernel keeps so many in a window.
HALF = 15


def prepare(
    name: str, ins: Sequence[Operand], outs: Sequence[Operand], ints: Sequence[int]
) -> KernelCall:
    """Kernel and integers of an op of the family ``normalization``.

    Raises
    ------
    BackendError
        For gaps, the moments of nothing, runs that are shorter than a vector, and more neighbours
        than a kernel keeps.
    """
    contiguous(name, [*ins, *outs])
    shape = ins[0][1]
    if name.startswith("local_response"):
        found = _local_response(name, shape, ints)
    elif name.startswith("group_norm"):
        found = _group_norm(name, shape, ins[1][1][0], ints)
    elif name == "update_statistics":
        found = name, [*shape, *ints]
    else:
        found = _batch_norm(name, shape, len(ins), ints)
    if found is None:
        raise BackendError(f"op {name!r} has no kernel for {describe(ins)} -> {describe(outs)}")
    return f"{found[0]}_{suffix(ins[0])}", found[1]


#: Inputs where none is there that may be missing.
_FIXED_INPUTS = {"batch_norm": 3, "batch_norm_grad": 5, "fixed_batch_norm": 5}


def _batch_norm(name: str, shape, n_inputs: int, ints) -> KernelCall | None:
    """By planes or columns, with the step from one of the outer axis to the next.

    That is an integer of its own: a part of the op has fewer channels.
    """
    if 0 in shape:
        return None
    extra = n_inputs - _FIXED_INPUTS.get(name, n_inputs)
    more = extra if name == "batch_norm_grad" else ints[0] if ints else 0
    kernel = f"{name}_planes" if shape[2] >= PLANE else f"{name}_columns"
    return kernel, [*shape, more, shape[1] * shape[2], extra]


def _group_norm(name: str, shape, numbers: int, ints) -> KernelCall | None:
    if 0 in shape:
        return None
    run = shape[1] * shape[2] // numbers
    if 1 < run < VECTOR:
        return None
    return f"{name}_{'elements' if run == 1 else 'planes'}", [*shape, run, *ints]


def _local_response(name: str, shape, ints) -> KernelCall | None:
    return (name, [*shape, *ints]) if 0 <= ints[0] <= HALF else None
