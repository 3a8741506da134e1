"""One launch: a kernel, its grid, and the op that it gets by value."""

from __future__ import annotations

import ctypes
import dataclasses

#: As in ``kernels/device/team.cuh``.
OPERANDS, INTS, FLOATS, AXES = 16, 48, 32, 8

THREADS = 256  # of a block
_BLOCKS = 132 * 8  # at most: more threads than a device holds at once only take turns


class DeviceOp(ctypes.Structure):
    """``sdbr_device_op``."""

    _fields_ = (
        ("operands", ctypes.c_void_p * OPERANDS),
        ("ints", ctypes.c_int64 * INTS),
        ("floats", ctypes.c_double * FLOATS),
    )


@dataclasses.dataclass(frozen=True)
class Launch:
    """A kernel as a program launches it.

    Attributes
    ----------
    kernel : str
        Its name: op, layout and dtype.
    text : str
        Its source, in the terms of ``kernels/device``.
    ints : tuple of int
        What the kernel reads first.
    work : int
        How much its threads have to do: one does a piece at a time.
    """

    kernel: str
    text: str
    ints: tuple[int, ...]
    work: int

    @property
    def grid(self) -> int:
        """Blocks of `THREADS` threads."""
        return max(1, min(-(-self.work // THREADS), _BLOCKS))

    def op(self, operands, floats) -> DeviceOp:
        """What the kernel gets, for operands at these addresses."""
        made = DeviceOp()
        made.operands[: len(operands)] = operands
        made.ints[: len(self.ints)] = self.ints
        made.floats[: len(floats)] = floats
        return made
