"""Kernels for GPUs compile for them, which takes a compiler and no GPU."""

import re
import shutil
import subprocess

from sdbr.backends.cuda.plan import launches, source
from sdbr.base.errors import BackendError
from sdbr.cli.gpu_check import empty
from sdbr.devices.compiled import OPTIONS, cubin, headers
from sdbr.devices.nvrtc import nvrtc

import pytest

from tests.harness import device
from tests.harness.device import KERNELS, every_elementwise, every_other
from tests.harness.steps import BATCH, OPTIMIZERS, classifier, train

from .generators import cases_of
from .harness import Prepared

ARCHITECTURES = ("sm_80", "sm_90")


@pytest.fixture(scope="module")
def compiler():
    try:
        return nvrtc()
    except BackendError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("which", [every_elementwise, every_other])
def test_kernels_compile(compiler, architecture, which, share):
    """Without a word of the compiler's."""
    wanted = share(which())
    text, header = source(wanted)
    code, log = compiler.compile(text, {**headers(), **header}, architecture, OPTIONS)
    assert code[:4] == b"\x7fELF"
    assert log == ""
    assert all(launch.kernel.encode() in code for launch in wanted)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_kernels_that_do_nothing_compile(compiler, architecture):
    """With instructions that only newer devices have."""
    text, header = empty.SOURCE
    code, log = compiler.compile(text, {**headers(), **header}, architecture, OPTIONS)
    assert log == ""
    assert all(name.encode() in code for name in (empty.EMPTY, empty.OVERLAPPING))


def test_fused_kernels_compile(compiler):
    cases = [case for dtype in ("f4", "f8") for case in cases_of("fused", dtype)[::23]]
    wanted = [x for of_op in launches(Prepared(cases, "numpy").program) for x in of_op]
    assert len(wanted) > 50
    text, header = source(wanted)
    code, log = compiler.compile(text, {**headers(), **header}, "sm_90", OPTIONS)
    assert log == ""
    assert all(launch.kernel.encode() in code for launch in wanted)


def test_whole_steps_compile(compiler):
    """Kernels of several ops, as the driver gets them."""
    with device.simulated(chained=True) as made:
        train(classifier, BATCH, OPTIMIZERS["adam"], static=True, steps=2, backend=device.NAME)
    kernels = [call.kernel for call in made[0].calls[0]]
    members = [launch for call in made[0].calls[0] for _, launch in call.links]
    text, header = source([*kernels, *members])
    code, log = compiler.compile(text, {**headers(), **header}, "sm_90", OPTIONS)
    assert log == ""
    assert sum(launch.kernel.startswith("chain_") for launch in kernels) > 1
    assert all(launch.kernel.encode() in code for launch in kernels)


def test_what_was_compiled_is_kept(compiler, tmp_path, monkeypatch):
    monkeypatch.setenv("SDBR_CACHE", str(tmp_path))
    text, wanted = source(every_elementwise()[:1])
    first = cubin(text, wanted, "sm_90")
    [path] = (tmp_path / "cuda").iterdir()
    assert path.read_bytes() == first
    path.write_bytes(b"kept")
    assert cubin(text, wanted, "sm_90") == b"kept"
    assert cubin(text, wanted, "sm_80") != b"kept"


def test_errors_show_what_the_compiler_said(compiler):
    with pytest.raises(BackendError, match=r"cannot compile for sm_90: .*\n.*unknown_type"):
        compiler.compile("unknown_type x;", {}, "sm_90")


needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is missing")


def by_nvcc(folder, wanted, *options):
    """What nvcc says of kernels."""
    text, header = source(wanted)
    for name, body in header.items():
        (folder / name).write_text(body)
    (folder / "sdbr.cu").write_text(text)
    command = ["nvcc", "-arch=sm_90", f"-I{KERNELS}", f"-I{folder}", *options, "sdbr.cu"]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=True, timeout=900
    )
    return done.stderr


@needs_nvcc
@pytest.mark.parametrize(("which", "registers"), [(every_elementwise, 64), (every_other, 128)])
def test_nvcc_spills_no_registers(tmp_path, which, registers, share):
    """But for a few bytes of functions of mathematics in double."""
    wanted = share(which())
    said = by_nvcc(tmp_path, wanted, "-Xptxas", "-v", "-cubin", "-o", "x.cubin")
    spilled = [int(n) for n in re.findall(r"(\d+) bytes spill stores", said)]
    assert len(spilled) >= len(wanted)
    assert max(spilled) <= 48 and sum(n > 0 for n in spilled) <= 4
    assert max(int(n) for n in re.findall(r"Used (\d+) registers", said)) <= registers


@needs_nvcc
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_by_nvcc_updates_round_each_product(tmp_path, dtype):
    """As NumPy's; a product that a sum follows would be one operation with it."""
    wanted = [x for x in every_other() if x.kernel.endswith(f"_together_{dtype}")]
    assert len(wanted) > 10
    by_nvcc(tmp_path, wanted, *OPTIONS[1:], "-ptx", "-o", "x.ptx")
    code = (tmp_path / "x.ptx").read_text()
    kind = {"f4": "f32", "f8": "f64"}[dtype]
    assert f"mul.rn.{kind}" in code and f"fma.rn.{kind}" not in code
