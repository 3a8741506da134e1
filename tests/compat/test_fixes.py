"""Each fix makes its function right, and is there only as long as its stack needs it."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from types import ModuleType, SimpleNamespace

import sdbr
from sdbr.compat import FIXES, objects
from sdbr.compat.requirements import ResolutionError, WorkingSet
from sdbr.compat.stack import Stack, is_importable, parse_version

import compat_probes
import numpy as np
import pytest
from compat_probes import PROBES

STACK = Stack()
OPTIONAL = {
    "hdf5-text": "h5py",
    "hdf5-text-written": "h5py",
    "cudnn-warning": "cupy",
    "cuda-available": "cupy",
    "cuda-reason": "cupy",
    **{fix.name: "mpi4py" for fix in FIXES if fix.module.startswith("chainermn.")},
}
# A warning at the first import is all that breaks on some stacks: these need a new process.
NEW_PROCESS = {"environment-check", "testing-helper", "testing-doctest"}

each_fix = pytest.mark.parametrize("fix", FIXES, ids=lambda fix: fix.name)


def need_optional(name: str) -> None:
    package = OPTIONAL.get(name)
    if package is not None and importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    if getattr(PROBES[name], "on_null_gpu", False):
        from tests.harness import null_gpu

        reason = null_gpu.why_not()
        if reason is not None:
            pytest.skip(reason)


def unmended_fails(name: str) -> bool:
    if name in NEW_PROCESS:
        command = [sys.executable, "-W", "error", compat_probes.__file__, name]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert done.stdout == "ready\n", done.stderr
        return done.returncode != 0
    try:
        PROBES[name](compat_probes.unmended(name))
    except Exception:
        return True
    return False


def test_every_fix_has_a_probe():
    assert sorted(fix.name for fix in FIXES) == sorted(PROBES)


def test_every_fix_says_what_it_is():
    for fix in FIXES:
        assert fix.reason and fix.stacks and fix.chainer == "7.8.1"
        assert fix.module.startswith(("chainer.", "chainermn."))


@each_fix
def test_right(fix):
    need_optional(fix.name)
    PROBES[fix.name](compat_probes.mended(fix.name))


@each_fix
def test_needed_where_the_table_says_so(fix):
    need_optional(fix.name)
    fails = unmended_fails(fix.name)
    if fix.needed(STACK):
        assert fails, f"fix {fix.name!r} is no longer needed on this stack: {STACK}"
    else:
        assert not fails, f"fix {fix.name!r} is needed on this stack, too: {STACK}"


@each_fix
def test_reported_when_applied(fix):
    need_optional(fix.name)
    compat_probes.mended(fix.name)
    reported = (fix.name, fix.reason) in sdbr.compat.applied_fixes()
    assert reported == fix.needed(STACK)


def test_cudnn_advice_is_silenced():
    def check_cuda_available():
        raise AssertionError("not called")

    module = SimpleNamespace(check_cuda_available=check_cuda_available)
    objects.CUDNN_WARNING.apply(module)
    assert check_cuda_available._already_warned is True


def cuda_with(is_available):
    """A module like ``chainer.backends.cuda`` where CuPy is installed."""
    cupy = SimpleNamespace(cuda=SimpleNamespace(is_available=is_available))
    return SimpleNamespace(available=True, cupy=cupy, _resolution_error=None)


def insufficient():
    raise RuntimeError("cudaErrorInsufficientDriver")


@pytest.mark.parametrize("is_available", [lambda: False, insufficient])
def test_cupy_without_a_gpu(is_available, monkeypatch):
    """Chainer does not take CuPy for a GPU, and says why."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    module = cuda_with(is_available)
    objects.CUDA_AVAILABLE.apply(module)
    assert module.available is False
    text = "CuPy is here, but no GPU: CUDA_VISIBLE_DEVICES hides every GPU"
    assert module._resolution_error == text


@pytest.mark.parametrize("driver", [True, False])
@pytest.mark.parametrize(
    ("error", "helps"),
    [
        ("libcublas.so.12: cannot open shared object file\nmore of it", True),
        ("numpy.core failed", False),
        ("", False),
    ],
)
def test_cupy_that_chainer_cannot_use(error, helps, driver, monkeypatch):
    """Which library is missing, and what brings it; and that there is no driver either."""
    why = None if driver else "there is no CUDA driver"
    monkeypatch.setattr("sdbr.compat.objects.Stack", lambda: SimpleNamespace(no_gpu=why))
    module = SimpleNamespace(_resolution_error=ImportError(error))
    objects.CUDA_REASON.apply(module)
    text = module._resolution_error
    assert text.startswith("CuPy is here, but Chainer cannot use it: ")
    assert error.partition("\n")[0] in text and "\n" not in text
    assert ("pip install 'cupy-cuda12x[ctk]'" in text) == helps
    assert text.endswith("; besides, there is no CUDA driver") != driver


def test_cupy_with_a_gpu(monkeypatch):
    """CUDA is not asked where there may be one: forked processes could not use it then."""

    def asked():
        raise AssertionError

    monkeypatch.setattr("sdbr.compat.objects.Stack", lambda: SimpleNamespace(no_gpu=None))
    module = cuda_with(asked)
    objects.CUDA_AVAILABLE.apply(module)
    assert module.available is True


def test_why_there_is_no_gpu(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr("ctypes.CDLL", lambda path: None)
    assert Stack().no_gpu is None
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert Stack().no_gpu == "CUDA_VISIBLE_DEVICES hides every GPU"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")

    def missing(path):
        raise OSError(f"{path}: not there")

    monkeypatch.setattr("ctypes.CDLL", missing)
    assert Stack().no_gpu == "there is no CUDA driver (libcuda.so.1: not there)"


def test_caffe_model_is_read(tmp_path):
    from chainer.links.caffe import CaffeFunction
    from chainer.links.caffe.protobuf3 import caffe_pb2

    net = caffe_pb2.NetParameter()
    layer = net.layer.add(name="ip", type="InnerProduct", bottom=["x"], top=["y"])
    layer.inner_product_param.bias_term = False
    blob = layer.blobs.add()
    blob.shape.dim[:] = [2, 3]
    blob.data[:] = range(6)
    path = tmp_path / "net.caffemodel"
    path.write_bytes(net.SerializeToString())

    (y,) = CaffeFunction(str(path))(inputs={"x": np.ones((1, 3), np.float32)}, outputs=["y"])
    np.testing.assert_array_equal(y.array, [[3, 12]])


def test_caffe_model_is_written(tmp_path):
    import chainer
    from chainer.exporters import caffe

    model = chainer.links.Linear(3, 2)
    with chainer.using_config("train", True):
        caffe.export(model, [chainer.Variable(np.ones((1, 3), np.float32))], str(tmp_path), True)
    assert (tmp_path / "chainer_model.caffemodel").stat().st_size > 0


def test_requirements():
    working_set = WorkingSet()
    working_set.require("numpy>=1.26", "chainer==7.8.1", "no-such-thing; python_version<'3'")
    with pytest.raises(ResolutionError, match="not installed"):
        working_set.require("no-such-distribution")
    with pytest.raises(ResolutionError, match="is installed"):
        working_set.require("numpy>=1.26", "numpy<1")


@pytest.mark.parametrize(
    ("text", "version"),
    [("2.4.0rc1", (2, 4, 0)), ("80", (80,)), ("1.17.0.dev0+g1", (1, 17, 0)), ("unknown", ())],
)
def test_parse_version(text, version):
    assert parse_version(text) == version


def test_is_importable(monkeypatch):
    assert is_importable("numpy") and not is_importable("no_such_module")
    monkeypatch.setitem(sys.modules, "a_stand_in", ModuleType("a_stand_in"))
    assert is_importable("a_stand_in")
