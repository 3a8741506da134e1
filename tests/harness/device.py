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
from collections.abc import Callable, Iterator
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
from sdbr.base.errors import BackendError
from sdbr.call import find
from sdbr.devices.compiled import cubin
from sdbr.devices.driver import Buffer, Device, Driver
from sdbr.devices.nvrtc import nvrtc
from sdbr.ops.table import OPS
from sdbr.program.machine import Machine

import numpy as np
import pytest

NAME = "device-sim"
KERNELS = Path(sdbr.__file__).parent / "kernels"
HERE = Path(__file__).parent
FLAGS = ["-std=gnu99", "-Wall", "-Wextra", "-Werror", "-O0", "-ffp-contract=off"]

#: Ops of families with kernels that have none yet.
NOT_YET = {
    "cumsum", "cumprod", "cumprod_grad", "prod", "prod_grad", "resize", "resize_grad",
    "slstm", "slstm_grad", "tree_lstm", "tree_lstm_grad",
}  # fmt: skip
#: Ops whose kernels do not say in which order; define-by-run does.
IN_TURN = ("put", "scatter_add")

_DTYPES = ("f4", "f8", "f2", "b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")
_SIZES = {
    "COPY": (1, 2, 4, 8, 16),
    "ZERO": (4, 8),
    **dict.fromkeys(("WHERE", "TAKE", "PUT"), (1, 2, 4, 8)),
}
_IN_MACROS = "REDUCTIONS|SOFTMAX|SOFTMAX_GRAD|MEAN_OF|MEAN_OF_GRAD|PLACES_OF|UPDATE|PRODUCT"


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
    reductions = re.findall(r"^SDBR_REDUCTIONS\((\w+),", sources, re.MULTILINE)
    names += [f"{name}_{what}" for name in reductions for what in ("parts", "of_parts")]
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

    def __init__(self, program, memory, chained=False, on=None, compile=machine_code):
        self._plain = NumpyExecutable(program, memory)
        self.others = []
        super().__init__(program, memory, on or device(), compile, chained)

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


class CopiedExecutable(SimExecutable):
    """The same with memory of the device, to which arrays are copied for each run, and back."""

    def __init__(self, *args):
        super().__init__(*args)
        self._buffers: dict[tuple[int, int], Buffer] = {}
        written = {r for i in range(len(self.program)) for r in self._written_by(i)}
        self._written = {int(self._row_slots[r]) for r in written}

    def _written_by(self, i):
        ins, outs = self.program.operands_of(i)
        return [*ins, *outs] if OPS[int(self.program.opcodes[i])].updates else outs

    def run(self):
        with self.device.current():
            self._copy_there()
            try:
                super().run()
            finally:
                self._copy_back()

    def run_other(self, i):
        self._copy_back()
        super().run_other(i)
        self._copy_there()

    def _addresses(self):
        return np.array([self._buffer(array).address for array in self._arrays()], np.uint64)

    def _arrays(self):
        arrays = [self.memory.array(int(slot)) for slot in self._slots]
        assert all(array is not None for array in arrays)
        return arrays

    def _buffer(self, array):
        """One for the same memory, whatever slots are bound to it."""
        key = array.ctypes.data, array.nbytes
        if key not in self._buffers:
            self._buffers[key] = self.device.allocate(array.nbytes)
        return self._buffers[key]

    def _copy_there(self):
        for array in self._arrays():
            self.stream.to_device(self._buffer(array).address, array)
        self.stream.synchronize()

    def _copy_back(self):
        self.stream.synchronize()
        for k, array in enumerate(self._arrays()):
            if k in self._written:
                self.stream.to_host(array, self._buffer(array).address)
        self.stream.synchronize()


@functools.cache
def real() -> tuple[Device, Callable]:
    """The GPU of this machine, and what compiles for it.

    Raises
    ------
    BackendError
        Where there is none, or no compiler.
    """
    found = Device(Driver())
    nvrtc()
    return found, lambda text, headers: cubin(text, headers, found.architecture)


def needs_gpu() -> None:
    """Skip a test where there is no GPU, or no compiler for it."""
    try:
        real()
    except BackendError as error:
        pytest.skip(str(error))


@contextlib.contextmanager
def simulated(
    chained: bool = False, copied: bool = False, on_gpu: bool = False
) -> Iterator[list[SimExecutable]]:
    """Make ``device-sim`` a backend; its executables, as they are made.

    Parameters
    ----------
    chained : bool
        Kernels of several ops, which have to be compiled for each program.
    copied : bool
        Arrays are copied to the device for each run, and back.
    on_gpu : bool
        On the GPU of this machine; copied.
    """
    made: list[SimExecutable] = []

    class Noted(CopiedExecutable if copied or on_gpu else SimExecutable):
        def __init__(self, program, memory):
            super().__init__(program, memory, chained, *(real() if on_gpu else ()))
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
