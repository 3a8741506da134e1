"""Kernels for GPUs, as far as no GPU is needed: they compile, and on the host they are right."""

import ctypes
import re
import shutil
import subprocess

import sdbr.backends
from sdbr.backends.cuda import launch
from sdbr.backends.cuda.launch import DeviceOp, Launch
from sdbr.backends.cuda.plan import FAMILIES, launches, source
from sdbr.base.errors import BackendError
from sdbr.devices.compiled import OPTIONS, cubin, headers
from sdbr.devices.nvrtc import nvrtc
from sdbr.ops.table import OPS

import numpy as np
import pytest

from . import device_sim
from .device_sim import SimExecutable, every_launch, library
from .generators import cases_of
from .harness import Case, Prepared, assert_parity
from .values import Operand, blank

NAMES = [op.name for op in OPS if op.family in FAMILIES]
ARCHITECTURES = ("sm_80", "sm_90")


@pytest.fixture
def simulated(monkeypatch):
    """The backend ``device-sim``, and the executables that were made for it."""
    made = []

    class Noted(SimExecutable):
        def __init__(self, program, memory):
            super().__init__(program, memory)
            made.append(self)

    monkeypatch.setattr(device_sim, "Noted", Noted, raising=False)
    monkeypatch.setitem(sdbr.backends.BACKENDS, "device-sim", (device_sim.__name__, "Noted"))
    return made


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", NAMES)
def test_op(simulated, name, dtype):
    assert_parity(cases_of(name, dtype), "device-sim")
    assert simulated
    for executable in simulated:
        assert executable.launched == len(executable.program)


def test_the_op_of_a_launch_is_that_of_the_kernels():
    bytes_of = ctypes.c_int64.in_dll(library(), "sdbr_device_op_bytes")
    assert bytes_of.value == ctypes.sizeof(DeviceOp)
    text = headers()["device/team.cuh"]
    for name in ("OPERANDS", "INTS", "FLOATS", "AXES"):
        [value] = re.findall(rf"SDBR_DEVICE_{name} = (\d+)", text)
        assert int(value) == getattr(launch, name)


@pytest.mark.parametrize(("work", "grid"), [(0, 1), (1, 1), (256, 1), (257, 2), (10**9, 1056)])
def test_grids(work, grid):
    assert Launch("x", "", (), work).grid == grid


@pytest.fixture(scope="module")
def compiler():
    try:
        return nvrtc()
    except BackendError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_kernels_compile(compiler, architecture):
    """Without a word of the compiler's."""
    text, wanted = source(every_launch())
    code, log = compiler.compile(text, {**headers(), **wanted}, architecture, OPTIONS)
    assert code[:4] == b"\x7fELF"
    assert log == ""
    for name in ("add_contiguous_f4", "lgamma_strided_f8"):
        assert name.encode() in code


def test_fused_kernels_compile(compiler):
    cases = [case for dtype in ("f4", "f8") for case in cases_of("fused", dtype)[::23]]
    wanted = [x for x in launches(Prepared(cases, "numpy").program) if x is not None]
    assert len(wanted) == len(cases) > 50
    text, header = source(wanted)
    code, log = compiler.compile(text, {**headers(), **header}, "sm_90", OPTIONS)
    assert log == ""
    assert all(launch.kernel.encode() in code for launch in wanted)


def test_ops_without_a_kernel_are_nobodys_launch():
    """More axes than a kernel counts; ops of other families."""
    x = np.ones((3,) * 9, "f4")
    operand = Operand(x, x[(slice(None, None, 2),) * 9])
    many = Case("negative", "", [operand], [blank((2,) * 9, "f4")])
    whole_sum = cases_of("sum", "f4")[:1]
    assert launches(Prepared([many, *whole_sum], "numpy").program) == [None, None]


def test_equal_fused_ops_share_a_kernel():
    cases = [case for case in cases_of("fused", "f4") if case.what == "in place"]
    kernels = {x.kernel for x in launches(Prepared(cases, "numpy").program)}
    assert len(cases) == 4 and len(kernels) == 1


def test_what_was_compiled_is_kept(compiler, tmp_path, monkeypatch):
    monkeypatch.setenv("SDBR_CACHE", str(tmp_path))
    text, wanted = source(every_launch()[:1])
    first = cubin(text, wanted, "sm_90")
    [path] = (tmp_path / "cuda").iterdir()
    assert path.read_bytes() == first
    path.write_bytes(b"kept")
    assert cubin(text, wanted, "sm_90") == b"kept"
    assert cubin(text, wanted, "sm_80") != b"kept"


def test_errors_show_what_the_compiler_said(compiler):
    with pytest.raises(BackendError, match=r"cannot compile for sm_90: .*\n.*unknown_type"):
        compiler.compile("unknown_type x;", {}, "sm_90")


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is missing")
def test_kernels_spill_no_registers(tmp_path):
    """But for a few bytes of functions of mathematics in double."""
    text, wanted = source(every_launch())
    for name, header in wanted.items():
        (tmp_path / name).write_text(header)
    (tmp_path / "sdbr.cu").write_text(text)
    command = ["nvcc", "-arch=sm_90", f"-I{device_sim.KERNELS}", f"-I{tmp_path}", "-Xptxas", "-v"]
    done = subprocess.run(
        [*command, "-cubin", "-o", "x.cubin", "sdbr.cu"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    spilled = [int(n) for n in re.findall(r"(\d+) bytes spill stores", done.stderr)]
    assert len(spilled) >= len(every_launch())
    assert max(spilled) <= 48 and sum(n > 0 for n in spilled) <= 4
    assert max(int(n) for n in re.findall(r"Used (\d+) registers", done.stderr)) <= 64
