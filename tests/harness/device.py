"""A GPU without a GPU: the sources of its kernels compiled for the host, under a driver in C.

Programs run as they would on a device: kernels by name, graphs, addresses, words that are written
before each run. ``with simulated():`` makes it a backend of its own, ``device-sim``.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import hashlib
import os
import re
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import sdbr
import sdbr.backends
from sdbr.backends.cuda.elementwise import text
from sdbr.backends.cuda.executable import CudaExecutable
from sdbr.backends.cuda.launch import Launch
from sdbr.backends.cuda.plan import source
from sdbr.backends.cuda.team import by_dtype
from sdbr.backends.numpy.executable import NumpyExecutable
from sdbr.base import options
from sdbr.call import find
from sdbr.devices.driver import Device, Driver
from sdbr.ops.table import OPS
from sdbr.program.machine import Machine

NAME = "device-sim"
KERNELS = Path(sdbr.__file__).parent / "kernels"
HERE = Path(__file__).parent
FLAGS = ["-std=gnu99", "-Wall", "-Wextra", "-Werror", "-O0", "-ffp-contract=off"]

_DTYPES = ("f4", "f8", "f2", "b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")
_SIZES = {
    "COPY": (1, 2, 4, 8, 16),
    "ZERO": (4, 8),
    **dict.fromkeys(("WHERE", "TAKE", "PUT"), (1, 2, 4, 8)),
}
_IN_MACROS = "REDUCTION|SOFTMAX|SOFTMAX_GRAD|MEAN_OF|MEAN_OF_GRAD|PLACES_OF|UPDATE|PRODUCT"


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
    """Each kernel that is neither elementwise nor generated."""
    sources = "\n".join(path.read_text() for path in sorted((KERNELS / "device").glob("*.cuh")))
    names = re.findall(
        r"void FN\((\w+)_team\)\(sdbr_team team, const sdbr_device_op \*op\) {", sources
    )
    names += re.findall(rf"^SDBR_(?:{_IN_MACROS})\((\w+),", sources, re.MULTILINE)
    names += [
        f"{name}_together" for name in re.findall(r"^SDBR_UPDATE\((\w+),", sources, re.MULTILINE)
    ]
    made = [by_dtype(name, dtype, (), 0) for name in names for dtype in ("f4", "f8")]
    kinds = [("CAST", (a, b)) for a in _DTYPES for b in _DTYPES]
    kinds += [("FILL", (a,)) for a in _DTYPES] + [("SCATTER", (a,)) for a in ("f4", "f8")]
    kinds += [(name, (str(n),)) for name, sizes in _SIZES.items() for n in sizes]
    for name, of in kinds:
        kernel = "scatter_add" if name == "SCATTER" else name.lower()
        made.append(Launch("_".join([kernel, *of]), f"SDBR_{name}({', '.join(of)})", ()))
    return made


def library(text: str, headers: dict[str, str], *folders: Path) -> Path:
    """A shared library of C source."""
    compiler = (sysconfig.get_config_var("CC") or "cc").split()
    if shutil.which(compiler[0]) is None:
        compiler = ["cc"]
    folder = Path(tempfile.mkdtemp(dir=_folder()))
    for name, header in headers.items():
        (folder / name).write_text(header)
    made = folder / "made.so"
    command = [*compiler, *FLAGS, *(f"-I{x}" for x in (folder, *folders)), "-shared", "-fPIC"]
    command += ["-x", "c", "-", "-o", str(made), "-lm", "-ldl"]
    subprocess.run(command, input=text, text=True, check=True)
    return made


@functools.cache
def _folder() -> str:
    """Where libraries lie till the process ends."""
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    return folder.name


@functools.cache
def every() -> tuple[Path, set[str]]:
    """All kernels that are not generated, and the lines of their sources: compiled once."""
    text, headers = source(every_elementwise() + every_other())
    return library(text, headers, KERNELS, HERE), set(_lines(headers))


def _lines(headers: dict[str, str]) -> list[str]:
    return [line for header in headers.values() for line in header.splitlines()]


_made: dict[str, Path] = {}


def machine_code(text: str, headers: dict[str, str]) -> bytes:
    """What the driver without a device loads: the path of a library."""
    made, lines = every()
    if not lines.issuperset(_lines(headers)):
        digest = hashlib.sha256("".join(headers.values()).encode()).hexdigest()
        if digest not in _made:
            _made[digest] = library(text, headers, KERNELS, HERE)
        made = _made[digest]
    return os.fsencode(made)


@functools.cache
def device() -> Device:
    """A device without a device."""
    return Device(Driver(str(library((HERE / "fake_cuda.c").read_text(), {}))))


def setting(name: str) -> ctypes.c_int64:
    """A variable of the driver without a device: see ``fake_cuda.c``."""
    return ctypes.c_int64.in_dll(device().driver._library, f"fake_{name}")


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Kernels are run by one thread: in the order of define-by-run."""
    with contextlib.ExitStack() as stack:
        for name in ("threads", "teams"):
            variable = setting(name)
            stack.callback(setattr, variable, "value", variable.value)
            variable.value = 1
        yield


class SimExecutable(CudaExecutable):
    """A program on a device without a device, where ops without a kernel are their formulas.

    Attributes
    ----------
    others : list of str
        Ops without a kernel that ran.
    """

    def __init__(self, program, memory, chained=False):
        self._plain = NumpyExecutable(program, memory)
        self.others = []
        super().__init__(program, memory, device(), machine_code, chained)

    def has_other(self, i):
        return True

    def check(self):
        try:
            super().check()
        except OverflowError:
            raise AssertionError("threads of a team did not come to the same syncs") from None

    def run_other(self, i):
        for k, j, slot in self._plain._control:
            if k == i:
                self._plain._ops[i][4][j] = self.memory.get_control(slot)
        self.others.append(self._plain._ops[i][0].name)
        self._plain._run_op(i, [None] * len(self.program.rows))


@contextlib.contextmanager
def simulated(chained: bool = False) -> Iterator[list[SimExecutable]]:
    """Make ``device-sim`` a backend; its executables, as they are made.

    `chained`: kernels of several ops, which have to be compiled for each program.
    """
    made: list[SimExecutable] = []

    class Noted(SimExecutable):
        def __init__(self, program, memory):
            super().__init__(program, memory, chained)
            made.append(self)

    names = (*options.BACKEND_NAMES, NAME)
    with contextlib.ExitStack() as stack:
        place = __name__, "_noted"
        for entered in (
            mock.patch.dict(sdbr.backends.BACKENDS, {NAME: place}),
            mock.patch.dict(sdbr.backends.MACHINES, {NAME: Machine()}),
            mock.patch.object(options, "BACKEND_NAMES", names),
            mock.patch.object(find, "BACKEND_NAMES", names),
            mock.patch.dict(globals(), {"_noted": Noted}),
        ):
            stack.enter_context(entered)
        yield made
