"""Kernels for GPUs, called on the host: the same sources, compiled by the C compiler."""

from __future__ import annotations

import ctypes
import functools
import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path

import sdbr
from sdbr.backends.cuda.elementwise import text
from sdbr.backends.cuda.launch import DeviceOp, Fault, Launch
from sdbr.backends.cuda.plan import FAMILIES, launches, source
from sdbr.backends.numpy.executable import NumpyExecutable
from sdbr.ops.table import OPS

import numpy as np

from .generators import cases_of
from .harness import Prepared

KERNELS = Path(sdbr.__file__).parent / "kernels"
HERE = Path(__file__).parent
FLAGS = ["-std=gnu99", "-Wall", "-Wextra", "-Werror", "-O0", "-ffp-contract=off"]
TEAM = 7  # threads; no divisor of the lengths that cases have
TEAMS = 3  # at most
IN_TURN = ("put_", "scatter_add_")  # kernels that do not say in which order; define-by-run does


def every_elementwise() -> list[Launch]:
    """Each kernel of each op of the families ``elementwise`` and ``special``."""
    return [
        Launch(f"{op.name}_{layout}_{dtype}", text(op, layout), (), 0, dtype)
        for op in OPS
        if op.family in ("elementwise", "special")
        for layout in ("contiguous", "strided")
        for dtype in ("f4", "f8")
    ]


def every_other() -> list[Launch]:
    """Each kernel that the cases of all families have, but elementwise and generated ones."""
    families = set(FAMILIES) - {"elementwise", "special", "fused"}
    cases = [
        case
        for op in OPS
        if op.family in families
        for dtype in ("f4", "f8")
        for case in cases_of(op.name, dtype)
    ]
    return list({launch.kernel: launch for launch in launches_of(cases)}.values())


def launches_of(cases) -> list[Launch]:
    """The launches of those of the cases that have kernels."""
    of_ops = launches(Prepared(cases, "numpy").program)
    return [launch for of_op in of_ops if of_op is not None for launch in of_op]


def compiled(wanted) -> ctypes.CDLL:
    """The kernels of these launches, as functions of the host."""
    main, headers = source(wanted)
    compiler = (sysconfig.get_config_var("CC") or "cc").split()
    if shutil.which(compiler[0]) is None:
        compiler = ["cc"]
    with tempfile.TemporaryDirectory() as folder:
        for name, header in headers.items():
            Path(folder, name).write_text(header)
        made = Path(folder, "device.so")
        folders = [f"-I{KERNELS}", f"-I{folder}", f"-I{HERE}"]
        command = [*compiler, *FLAGS, *folders, "-shared", "-fPIC", "-x", "c", "-", "-o", str(made)]
        subprocess.run([*command, "-lm"], input=main, text=True, check=True)
        return ctypes.CDLL(str(made))


@functools.cache
def every() -> tuple[ctypes.CDLL, set[str]]:
    """All kernels that are not generated, and their sources: compiled once."""
    wanted = every_elementwise() + every_other()
    return compiled(wanted), {launch.text for launch in wanted}


class SimExecutable(NumpyExecutable):
    """A program whose ops are launches on the host, where there are kernels for them.

    Attributes
    ----------
    launched : int
        Ops that ran as launches.
    """

    def __init__(self, program, memory):
        super().__init__(program, memory)
        self.launches = launches(program)
        self.launched = 0
        wanted = [launch for of_op in self.launches if of_op is not None for launch in of_op]
        library, known = every()
        is_known = all(launch.text in known for launch in wanted)
        self.library = library if is_known else compiled(wanted)

    def _run_op(self, i, views):
        if self.launches[i] is None:
            super()._run_op(i, views)
            return
        _, in_rows, out_rows, _, floats = self._ops[i]
        arrays = [self._view(r, views) for r in (*in_rows, *out_rows)]
        addresses = [x.__array_interface__["data"][0] for x in arrays]
        numbers = np.asarray([*floats, 0.0])
        work = np.full(max(launch.work for launch in self.launches[i]) + 1, np.nan)
        fault = Fault()
        for launch in self.launches[i]:
            self._launch(launch, addresses, numbers, work, fault, i)
        if fault.number:
            assert fault.number == i + 1
            raise IndexError(
                f"index {fault.value} at position {fault.position} is out of range for "
                f"{fault.bound} entries"
            )
        self.launched += 1

    def _launch(self, launch, addresses, numbers, work, fault, i):
        operands = [addresses[k] for k in launch.operands] or addresses
        lists = np.array(operands, np.uint64), np.array(launch.ints, np.int64)
        if launch.is_listed:
            operands = [x.ctypes.data for x in lists]
        op = launch.op(
            operands, numbers.ctypes.data, ctypes.addressof(fault), i + 1, work.ctypes.data
        )
        run = getattr(self.library, launch.kernel)
        run.argtypes = (ctypes.POINTER(DeviceOp), ctypes.c_int64, ctypes.c_int64)
        one = launch.kernel.startswith(IN_TURN)
        run(ctypes.byref(op), *((1, 1) if one else (TEAM, min(launch.grid, TEAMS))))
        assert ctypes.c_int64.in_dll(self.library, "sdbr_torn_teams").value == 0
