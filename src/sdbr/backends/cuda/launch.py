"""One launch: a kernel, its grid, and the op that it gets by value."""

from __future__ import annotations

import ctypes
import dataclasses
from collections.abc import Sequence

#: As in ``kernels/device/team.cuh``.
OPERANDS, INTS, AXES, THREADS, SCRATCH, ROOM = 16, 48, 8, 256, 2048, 6144

_BLOCKS = 132 * 8  # at most: more threads than a device holds at once only take turns


class Fault(ctypes.Structure):
    """``sdbr_fault``: what went wrong first; `number` is that of the op, from 1 on."""

    _fields_ = (
        ("number", ctypes.c_uint64),
        ("value", ctypes.c_int64),
        ("bound", ctypes.c_int64),
        ("position", ctypes.c_int64),
        ("on_host", ctypes.c_void_p),
    )


class DeviceOp(ctypes.Structure):
    """``sdbr_device_op``."""

    _fields_ = (
        ("operands", ctypes.c_void_p * OPERANDS),
        ("moving", ctypes.c_uint64),
        ("floats", ctypes.c_void_p),
        ("fault", ctypes.c_void_p),
        ("work", ctypes.c_void_p),
        ("number", ctypes.c_int64),
        ("is_lasting", ctypes.c_int64),
        ("makes_draws", ctypes.c_int64),
        ("ints", ctypes.c_int64 * INTS),
    )


@dataclasses.dataclass(frozen=True)
class Launch:
    """A kernel as a program launches it.

    Attributes
    ----------
    kernel : str
        Its name.
    text : str
        Its source, in the terms of ``kernels/device``.
    ints : tuple of int
        What the kernel reads first.
    teams : int
        Blocks of `THREADS` threads that have something to do.
    section : str
        ``'f4'``, ``'f8'`` or ``''``: of what dtype the source is; ``'chain'``: of other kernels.
    is_listed : bool
        Whether addresses and integers stand in lists in memory: there may be any number of them.
    is_update : bool
        Whether it updates one parameter, or several in one launch, by a rule.
    together : str
        The kernel that does any number of such ops; empty: there is none.
    elements : int
        How many it does, where it can be done together with others.
    work : int
        Doubles that the launches of one op hand on.
    draws : int
        Doubles in [0, 1) that are drawn for the op before the program runs.
    operands : tuple of int
        Which operands of the op the kernel has; none: all of them.
    """

    kernel: str
    text: str
    ints: tuple[int, ...]
    teams: int = 1
    section: str = ""
    is_listed: bool = False
    is_update: bool = False
    together: str = ""
    elements: int = 0
    work: int = 0
    draws: int = 0
    operands: tuple[int, ...] = ()

    @property
    def team(self) -> str:
        """The team function that the kernel consists of."""
        if not self.section:
            return f"{self.kernel}_team"
        return f"{self.kernel[: -len(self.section) - 1]}_team_{self.section}"

    @property
    def grid(self) -> int:
        """Blocks."""
        return max(1, min(self.teams, _BLOCKS))

    def op(
        self, operands: Sequence[int], floats: int, fault: int, number: int, work: int = 0
    ) -> DeviceOp:
        """What the kernel gets.

        Parameters
        ----------
        operands : sequence of int
            Addresses; where `is_listed`, of the list of addresses and of that of the integers.
        floats, fault, work : int
            Addresses of the float attributes, of the program's `Fault`, and of `work` or `draws`.
        number : int
            Of the op in its program, from 1 on.
        """
        made = DeviceOp(floats=floats, fault=fault, number=number, work=work)
        made.operands[: len(operands)] = operands
        if not self.is_listed:
            made.ints[: len(self.ints)] = self.ints
        return made


#: What an op is launched as, one after the other.
Launches = tuple[Launch, ...]


def teams_for(elements: int) -> int:
    """So many teams that each thread has one of `elements`."""
    return -(-elements // THREADS)
