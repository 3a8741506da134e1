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
from sdbr.backends.cuda.launch import DeviceOp, Launch
from sdbr.backends.cuda.plan import launches, source
from sdbr.backends.numpy.executable import NumpyExecutable
from sdbr.ops.table import OPS

KERNELS = Path(sdbr.__file__).parent / "kernels"
FLAGS = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-O0", "-ffp-contract=off", "-shared", "-fPIC"]
TEAM = 7  # threads; no divisor of the lengths that cases have


def every_launch() -> list[Launch]:
    """Each kernel of each op of the families whose kernels are not generated."""
    return [
        Launch(f"{op.name}_{layout}_{dtype}", text(op, layout), (), 0)
        for op in OPS
        if op.family in ("elementwise", "special")
        for layout in ("contiguous", "strided")
        for dtype in ("f4", "f8")
    ]


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
        command = [
            *compiler,
            *FLAGS,
            f"-I{KERNELS}",
            f"-I{folder}",
            "-x",
            "c",
            "-",
            "-o",
            str(made),
        ]
        subprocess.run([*command, "-lm"], input=main, text=True, check=True)
        return ctypes.CDLL(str(made))


@functools.cache
def library() -> ctypes.CDLL:
    """All kernels that are not generated."""
    return compiled(every_launch())


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
        wanted = [launch for launch in self.launches if launch is not None]
        is_generated = any(launch.kernel.startswith("fused_") for launch in wanted)
        self.library = compiled(wanted) if is_generated else library()

    def _run_op(self, i, views):
        launch = self.launches[i]
        if launch is None:
            super()._run_op(i, views)
            return
        _, in_rows, out_rows, _, floats = self._ops[i]
        arrays = [self._view(r, views) for r in (*in_rows, *out_rows)]
        op = launch.op([x.__array_interface__["data"][0] for x in arrays], floats)
        run = getattr(self.library, launch.kernel)
        run.argtypes = (ctypes.POINTER(DeviceOp), ctypes.c_int64)
        run(ctypes.byref(op), TEAM)
        self.launched += 1
