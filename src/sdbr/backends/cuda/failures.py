"""What errors of GPUs say of the program that met them."""

from __future__ import annotations

from collections.abc import Sequence

from sdbr.base.errors import BackendError
from sdbr.devices.driver import Device
from sdbr.ops.table import OPS
from sdbr.program.program import Program


def explain(
    error: BackendError,
    program: Program,
    ops: Sequence[int],
    device: Device,
    written: Sequence[int] = (),
) -> None:
    """Add to an error what ran, its shapes, and where; only once.

    Parameters
    ----------
    error : BackendError
    program : Program
    ops : sequence of int
        Those that ran together.
    device : Device
    written : sequence of int
        Those that were launched before, and write what outlives the run.
    """
    if error.ops is not None:
        return
    error.ops = ops
    where = f"on GPU {device.ordinal} ({device.name})"
    text = [str(error), f"in {program.name or 'program'}, {described(program, ops)}, {where}"]
    if written:
        updates = any(OPS[int(program.opcodes[i])].updates for i in written)
        what = "parameters and moments" if updates else "gradients"
        text.append(f"{what} may have been written by what was launched before")
    error.args = ("; ".join(text), *error.args[1:])


def described(program: Program, ops: Sequence[int]) -> str:
    """One op, or the first and the last of several, with what they read and write."""
    first, last = (" ".join(program.describe_op(i).split()) for i in (ops[0], ops[-1]))
    if len(ops) == 1:
        return f"op {first}"
    return f"{len(ops)} ops: from {first}, to {last}"
