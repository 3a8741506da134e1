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
from sdbr.backends.cpu.integer import ARITHMETIC, COMPARISONS, LOGICAL
from sdbr.backends.cuda import products
from sdbr.backends.cuda.executable import CudaExecutable
from sdbr.backends.cuda.families.elementwise import text
from sdbr.backends.cuda.launch import Fault, Launch
from sdbr.backends.cuda.plan import source
from sdbr.backends.cuda.races import Races
from sdbr.backends.cuda.team import by_dtype
from sdbr.backends.numpy.executable import NumpyExecutable
from sdbr.base import options, settings
from sdbr.base.errors import BackendError
from sdbr.devices.compiled import cubin
from sdbr.devices.cublaslt import CublasLt, Handle
from sdbr.devices.cublaslt import cublaslt as installed_cublaslt
from sdbr.devices.driver import Buffer, Device, Driver
from sdbr.devices.nvrtc import nvrtc
from sdbr.ops.table import OPS
from sdbr.program.machine import Machine

import numpy as np
import pytest

from build_cache import Kept

NAME = "device-sim"
KERNELS = Path(sdbr.__file__).parent / "kernels"
HERE = Path(__file__).parent
FLAGS = ["-std=gnu99", "-Wall", "-Wextra", "-Werror", "-O0", "-ffp-contract=off"]

#: Ops whose kernels do not say in which order; define-by-run does.
IN_TURN = ("put", "scatter_add")

#: As in ``teams_on_host.h``.
TORN_TEAM = 2**64 - 1

_DTYPES = ("f4", "f8", "f2", "b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")
_SIZES = {
    **dict.fromkeys(("COPY", "COPY_TOGETHER"), (1, 2, 4, 8, 16)),
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
    kinds += [("COMPARE", (k, a)) for k in COMPARISONS for a in ("f4", "f8", "i4", "i8")]
    kinds += [("INTEGER", (k, a)) for k in ARITHMETIC for a in ("i4", "i8")]
    kinds += [("INTEGER", (k, "b1")) for k in LOGICAL] + [("COUNT", ("b1",))]
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
    for name, header in {"made.c": text, **headers}.items():
        (folder / name).write_text(header)
    source, compiled, made = (str(folder / f"made.{x}") for x in ("c", "o", "so"))
    run = functools.partial(subprocess.run, check=True, timeout=900)
    command = [*compiler, *FLAGS, *(f"-I{x}" for x in (folder, *folders)), "-fPIC"]
    Kept().run(run, [*command, "-c", source, "-o", compiled])
    run([*compiler, "-shared", compiled, "-o", made, "-lm", "-ldl"])
    return Path(made)


@functools.cache
def _folder() -> str:
    """Where libraries lie till the process ends."""
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    return folder.name


@functools.cache
def every() -> tuple[Path, set[str]]:
    """All kernels that are not generated, and the lines of their sources: compiled once.

    ``SDBR_TESTS_KERNELS`` names them where the process that started this one has compiled them.
    """
    text, headers = source(every_elementwise() + every_other())
    made = os.environ.get("SDBR_TESTS_KERNELS") or library(text, headers, KERNELS, HERE)
    return Path(made), set(_lines(headers))


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


def spoiled(name: str, right: str, wrong: str) -> Callable[[str, dict[str, str]], bytes]:
    """What compiles kernels, in whose sources something is wrong.

    Parameters
    ----------
    name : str
        A file below the kernels.
    right, wrong : str
        What stands there once, and what shall stand there.
    """
    folder = Path(tempfile.mkdtemp(dir=_folder())) / "kernels"
    shutil.copytree(KERNELS, folder)
    text = (folder / name).read_text()
    assert text.count(right) == 1, text.count(right)
    (folder / name).write_text(text.replace(right, wrong))
    return lambda text, headers: os.fsencode(library(text, headers, folder, HERE))


@functools.cache
def _driver() -> Driver:
    return Driver(str(library((HERE / "fake_cuda.c").read_text(), {}, HERE)))


@functools.cache
def device(number: int = 0) -> Device:
    """A device without a device."""
    return Device(_driver(), number)


def setting(name: str) -> ctypes.c_int64:
    """A variable of the driver without a device: see ``fake_cuda.c``."""
    return ctypes.c_int64.in_dll(device().driver._library, f"fake_{name}")


@functools.cache
def cublaslt() -> CublasLt:
    """cuBLASLt without a device."""
    made = CublasLt(str(library((HERE / "fake_cublaslt.c").read_text(), {})))
    services = ctypes.c_char.in_dll(_driver()._library, "fake_services")
    ctypes.c_void_p.in_dll(made._library, "fake_driver").value = ctypes.addressof(services)
    return made


@functools.cache
def handle(number: int = 0) -> Handle:
    """The same on a device without a device."""
    return Handle(cublaslt(), device(number))


def blas_setting(name: str) -> ctypes.c_int64:
    """A variable of cuBLASLt without a device: see ``fake_cublaslt.c``."""
    return ctypes.c_int64.in_dll(cublaslt()._library, f"fake_{name}")


def blas_settings(name: str) -> ctypes.Array:
    """The same, a figure for each of its algorithms."""
    return (ctypes.c_int64 * 8).in_dll(cublaslt()._library, f"fake_{name}")


@contextlib.contextmanager
def by_library(
    folder: Path | None = None, on_gpu: bool = False, **settings: int
) -> Iterator[Races]:
    """All products are for cuBLASLt, however small: its algorithms.

    Parameters
    ----------
    folder : pathlib.Path, optional
        Where what was timed is kept.
    on_gpu : bool
        The library itself, on the GPU of this machine.
    **settings
        Variables of cuBLASLt without a device.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(products, "LEAST", 0))
        for name, value in settings.items():
            variable = blas_setting(name)
            stack.callback(setattr, variable, "value", variable.value)
            variable.value = value
        yield Races(real_handle() if on_gpu else handle(), folder)


@contextlib.contextmanager
def failing(name: str, nth: int, status: int) -> Iterator[Callable[[], bool]]:
    """The `nth` call of a function of the driver gives `status`; whether it has."""
    name_there = (ctypes.c_char * 64).in_dll(device().driver._library, "fake_fails")
    with contextlib.ExitStack() as stack:
        for what in ("fails_in", "fails_with", "lost"):
            stack.callback(setattr, setting(what), "value", 0)
        name_there.value = name.encode()
        setting("fails_in").value, setting("fails_with").value = nth, status
        has_failed: list[bool] = []
        yield lambda: has_failed[0]
        has_failed.append(setting("fails_in").value == 0)


def balance() -> dict[str, int]:
    """What the driver without a device has given, and not got back."""
    names = ("bytes", "modules", "streams", "pinned", "graphs", "nodes", "events")
    return {name: setting(name).value for name in names}


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Kernels are run by one thread: in the order of define-by-run."""
    with contextlib.ExitStack() as stack:
        for name in ("threads", "teams"):
            variable = setting(name)
            stack.callback(setattr, variable, "value", variable.value)
            variable.value = 1
        yield


@contextlib.contextmanager
def in_order(order: int) -> Iterator[None]:
    """Kernels of graphs run in another order: see ``fake_order``.

    None that begins before the one in front of it has ended forgets to wait. What is by chance is
    the same each time, whatever ran before.
    """
    variable, unwaited = setting("order"), setting("unwaited")
    setting("chance").value = 88172645463325252
    variable.value, before = order, unwaited.value
    try:
        yield
    finally:
        variable.value = 0
    assert unwaited.value == before


class SimExecutable(CudaExecutable):
    """A program on a device without a device, where ops without a kernel are their formulas.

    Attributes
    ----------
    others : list of str
        Ops without a kernel that ran.
    """

    def __init__(
        self, program, memory, chained=False, on=None, compile=machine_code, *, races=None,
        form="graph",
    ):  # fmt: skip
        self._plain = NumpyExecutable(program, memory)
        self.others = []
        super().__init__(program, memory, on or device(), compile, chained, races, form)

    def has_other(self, i):
        return True

    def finish(self):
        is_fake = self.device.driver is _driver()
        number = Fault.from_address(self.in_flight.fault).number if is_fake else 0
        try:
            super().finish()
        except IndexError:
            assert number != TORN_TEAM, "threads of a team did not come to the same syncs"
            raise

    def run_other(self, i):
        for k, j, slot in self._plain._control:
            if k == i:
                self._plain._ops[i][4][j] = self.memory.get_control(slot)
        self.others.append(self._plain._ops[i][0].name)
        self._plain._run_op(i, [None] * len(self.program.rows))


class CopiedExecutable(SimExecutable):
    """The same with memory of the device, to which arrays are copied for each run, and back."""

    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        self._buffers: dict[tuple[int, int], Buffer] = {}
        written = {r for i in range(len(self.program)) for r in self._written_by(i)}
        self._written = {int(self.moves.row_slots[r]) for r in written}

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


@functools.cache
def real_handle() -> Handle:
    """cuBLASLt on the GPU of this machine; a test is skipped where it is missing."""
    found, _ = real()
    try:
        return Handle(installed_cublaslt(found.driver.version[0]), found)
    except BackendError as error:
        pytest.skip(str(error))


def needs_gpu() -> None:
    """Skip a test where there is no GPU, or no compiler for it."""
    try:
        real()
    except BackendError as error:
        pytest.skip(str(error))


@contextlib.contextmanager
def simulated(
    chained: bool = False,
    copied: bool = False,
    on_gpu: bool = False,
    races: Races | None = None,
    form: str = "graph",
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
    races : Races, optional
        Of the library that does large products.
    form : str
        In which form kernels are launched: ``forms.NAMES``.
    """
    made: list[SimExecutable] = []

    class Noted(CopiedExecutable if copied or on_gpu else SimExecutable):
        def __init__(self, program, memory):
            there = real() if on_gpu else ()
            super().__init__(program, memory, chained, *there, races=races, form=form)
            made.append(self)

    names = (*options.BACKEND_NAMES, NAME)
    backends = settings._BY_ENTRY["sdbr_backend"]._replace(fits=lambda name: name in names)
    with contextlib.ExitStack() as stack:
        place = __name__, "_noted"
        for entered in (
            mock.patch.dict(sdbr.backends.BACKENDS, {NAME: place}),
            mock.patch.dict(sdbr.backends.MACHINES, {NAME: Machine()}),
            mock.patch.object(options, "BACKEND_NAMES", names),
            mock.patch.dict(settings._BY_ENTRY, {"sdbr_backend": backends}),
            mock.patch.dict(globals(), {"_noted": Noted}),
        ):
            stack.enter_context(entered)
        yield made
