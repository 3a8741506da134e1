"""One probe for each fix: it passes on a right module and raises on a broken one.

A probe runs on the module that sdbr has mended and on a fresh, unmended copy of it. The first
must pass; the second must fail exactly on the stacks for which the table says that the fix is
needed.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import sdbr  # noqa: F401
from sdbr.compat import FIXES

import chainer
import numpy as np

PROBES: dict[str, Callable[[ModuleType], None]] = {}


def probe(name: str) -> Callable[[Callable], Callable]:
    def register(function: Callable) -> Callable:
        PROBES[name] = function
        return function

    return register


def mended(name: str) -> ModuleType:
    """Return the module that the named fix changes, as sdbr serves it."""
    return importlib.import_module(fix_named(name).module)


def unmended(name: str) -> ModuleType:
    """Run the module's own code once more, without any fix and outside sys.modules."""
    module_name = fix_named(name).module
    package = importlib.import_module(module_name.rpartition(".")[0])
    path = Path(package.__file__).with_name(module_name.rpartition(".")[2] + ".py")
    loader = importlib.machinery.SourceFileLoader(module_name, str(path))
    spec = importlib.util.spec_from_file_location(module_name, path, loader=loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def fix_named(name: str):
    return next(fix for fix in FIXES if fix.name == name)


@probe("numpy-sctypes")
def as_strided(module: ModuleType) -> None:
    for dtype in (np.float16, np.float32, np.float64):
        x = chainer.Variable(np.arange(4, dtype=dtype))
        y = module.as_strided(x, (2, 3), (1, 1), 0)
        np.testing.assert_array_equal(y.array, [[0, 1, 2], [1, 2, 3]])
        y.grad = np.ones_like(y.array)
        y.backward()
        np.testing.assert_array_equal(x.grad, [1, 2, 2, 1])
        assert x.grad.dtype == dtype
    assert {1, 2, 4, 8} == set(module.index_dtype)


@probe("numpy-float")
def resize_images(module: ModuleType) -> None:
    x = np.arange(4, dtype=np.float32).reshape(1, 1, 2, 2)
    y = module.resize_images(x, (3, 3))
    np.testing.assert_allclose(y.array[0, 0], [[0, 0.5, 1], [1, 1.5, 2], [2, 2.5, 3]])
    y = module.resize_images(x, (4, 4), mode="nearest", align_corners=False)
    np.testing.assert_array_equal(y.array[0, 0], np.kron(x[0, 0], np.ones((2, 2))))
    y = module.resize_images(x, (1, 1), align_corners=False)
    np.testing.assert_allclose(y.array, [[[[1.5]]]])


@probe("environment-check")
def environment_check(module: ModuleType) -> None:
    module.check()


@probe("testing-helper")
def testing_helper(module: ModuleType) -> None:
    assert not _skipped(module.with_requires("numpy>=1"))
    assert _skipped(module.with_requires("numpy<1"))
    assert _skipped(module.with_requires("no-such-distribution"))
    assert _skipped(module.without_requires("numpy>=1"))


def _skipped(decorator: Callable) -> bool:
    return getattr(decorator(lambda: None), "__unittest_skip__", False)


@probe("testing-doctest")
def testing_doctest(module: ModuleType) -> None:
    assert module.skipif_requires_satisfied("numpy>=1") is True
    assert module.skipif_requires_satisfied("numpy<1") is False


@probe("caffe-messages")
def caffe_messages(module: ModuleType) -> None:
    net = module.NetParameter(name="net")
    layer = net.layer.add(name="ip", type="InnerProduct")
    layer.blobs.add().data[:] = [1, 2, 3]
    layer.phase = module.TEST
    again = module.NetParameter.FromString(net.SerializeToString())
    assert again == net
    assert list(again.layer[0].blobs[0].data) == [1, 2, 3]
    assert module.V1LayerParameter.CONVOLUTION == 4
    assert module.PoolingParameter().pool == module.PoolingParameter.MAX


@probe("pad-sequence")
def pad_sequence(module: ModuleType) -> None:
    xs = [np.array([1, 2], np.uint8), np.array([3], np.uint8)]
    with warnings.catch_warnings():
        # NumPy 1.26 does it, but says that it soon will not.
        warnings.simplefilter("ignore", DeprecationWarning)
        y = module.pad_sequence(xs, padding=-1)
    np.testing.assert_array_equal(y.array, [[1, 2], [3, 255]])
    assert y.dtype == np.uint8
    y = module.pad_sequence([x.astype(np.float32) for x in xs], padding=-1)
    np.testing.assert_array_equal(y.array, np.array([[1, 2], [3, -1]], np.float32))


@probe("sparse-matmul-float16")
def sparse_matmul(module: ModuleType) -> None:
    dense = np.array([[0, 2, 0], [1, 0, 3]], np.float16)
    right = np.arange(6, dtype=np.float16).reshape(3, 2)
    for a, b in ((dense, right), (np.stack([dense, dense]), np.stack([right, right]))):
        sparse = chainer.utils.to_coo(a, requires_grad=True)
        y = module.sparse_matmul(sparse, chainer.Variable(b))
        np.testing.assert_array_equal(y.array, a @ b)
        assert y.dtype == np.float16


@probe("deconvolution-2d-backward")
def deconvolution_2d(module: ModuleType) -> None:
    rng = np.random.RandomState(0)
    x = rng.rand(2, 3, 4, 4).astype(np.float32)
    w = rng.rand(3, 2, 3, 3).astype(np.float32)
    gradients = []
    for first in (x, chainer.Variable(x)):
        weight = chainer.Variable(w)
        y = module.deconvolution_2d(first, weight, stride=2, pad=1)
        y.grad = np.cos(y.array)
        y.backward()
        gradients.append(weight.grad)
    np.testing.assert_array_equal(*gradients)


@probe("categorical-log-prob")
def categorical(module: ModuleType) -> None:
    p = np.array([[0.2, 0.8], [0.5, 0.5], [0.9, 0.1]], np.float32)
    x = np.array([1, 0, 1], np.int32)
    for given in (x, chainer.Variable(x)):
        actual = module.Categorical(p=p).log_prob(given).array
        np.testing.assert_allclose(actual, np.log([0.8, 0.5, 0.1]), rtol=1e-6)
    samples = np.array([[0, 0, 0], [1, 1, 1]], np.int32)
    actual = module.Categorical(p=p).log_prob(samples).array
    np.testing.assert_allclose(actual, np.log(p.T), rtol=1e-6)
    single = module.Categorical(p=p[0]).log_prob(np.array(1)).array
    np.testing.assert_allclose(single, np.log(0.8), rtol=1e-6)


@probe("softmax-cross-entropy-empty")
def softmax_cross_entropy(module: ModuleType) -> None:
    x = chainer.Variable(np.zeros((0, 3), np.float32))
    loss = module.softmax_cross_entropy(x, np.zeros(0, np.int32))
    loss.backward()
    assert x.grad.shape == (0, 3)


@probe("average-pooling-nd-backward")
def average_pooling_nd(module: ModuleType) -> None:
    x, other = (chainer.Variable(np.zeros(s, np.float32)) for s in ((1, 1, 4, 4), (1, 1, 3, 3)))
    y = module.average_pooling_nd(x, 2, 2, 1, pad_value=None) + other
    y.grad = np.ones((1, 1, 3, 3), np.float32)
    y.backward()
    np.testing.assert_array_equal(other.grad, 1)


def _twice(x: chainer.Variable, loss: chainer.Variable) -> None:
    """The gradient of a second backward is that of the first."""
    gradients = []
    for _ in range(2):
        x.cleargrad()
        loss.backward(retain_grad=True)
        gradients.append(x.grad.copy())
    assert gradients[0].any()
    np.testing.assert_array_equal(gradients[1], gradients[0])


@probe("hinge-backward")
def hinge(module: ModuleType) -> None:
    x, other = (chainer.Variable(np.ones(s, np.float32)) for s in ((2, 3), ()))
    loss = module.hinge(x, np.array([0, 1], np.int32))
    _twice(x, loss)
    both = loss + other
    both.backward()
    np.testing.assert_array_equal(other.grad, 1)


@probe("ctc-backward")
def ctc(module: ModuleType) -> None:
    x = chainer.Variable(np.random.RandomState(0).randn(4, 1, 3).astype("f"))
    xs = list(chainer.functions.separate(x))
    t = np.array([[0, 1]], np.int32)
    _twice(x, module.connectionist_temporal_classification(xs, t, 2))


@probe("layer-normalization-eps")
def layer_normalization(module: ModuleType) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    ones, zeros = np.ones(3, np.float32), np.zeros(3, np.float32)
    expected = module.layer_normalization(x, ones, zeros, eps=1e-3)
    for eps in (np.float64(1e-3), np.array(1e-3)):
        v = chainer.Variable(x)
        y = module.layer_normalization(v, ones, zeros, eps=eps)
        assert y.dtype == np.float32
        np.testing.assert_array_equal(y.array, expected.array)
        y.grad = np.cos(y.array)
        y.backward()
        assert v.grad.dtype == np.float32


@probe("local-response-normalization")
def local_response_normalization(module: ModuleType) -> None:
    x = np.arange(12, dtype=np.float32).reshape(2, 6)
    expected = module.local_response_normalization(x, k=2.0, alpha=1e-2, beta=0.5).array
    for name, value in (("k", 2.0), ("alpha", 1e-2), ("beta", 0.5)):
        given = {"k": 2.0, "alpha": 1e-2, "beta": 0.5, name: np.float64(value)}
        v = chainer.Variable(x)
        y = module.local_response_normalization(v, **given)
        assert y.dtype == np.float32
        np.testing.assert_array_equal(y.array, expected)
        y.grad = np.cos(y.array)
        y.backward()
        assert v.grad.dtype == np.float32


@probe("smorms3-hyperparameters")
def smorms3(module: ModuleType) -> None:
    results = []
    for number in (float, np.float64):
        link = chainer.Link()
        link.add_param("w", initializer=np.linspace(1, 2, 5, dtype=np.float32))
        optimizer = module.SMORMS3(lr=number(0.1), eps=number(1e-8)).setup(link)
        for _ in range(3):
            link.w.grad = np.cos(link.w.array)
            optimizer.update()
        rule = link.w.update_rule
        assert {state.dtype for state in rule.state.values()} == {np.dtype(np.float32)}
        assert rule.hyperparam.parent is optimizer.hyperparam
        results.append(link.w.array)
    np.testing.assert_array_equal(*results)


@probe("debug-print-device")
def debug_print(module: ModuleType) -> None:
    text = module.Variable(np.ones((2, 3), np.float32)).debug_print()
    assert "- device: CPU\n" in text
    assert "- shape: (2, 3)\n" in text


@probe("hdf5-text")
def hdf5_text(module: ModuleType) -> None:
    import h5py

    with h5py.File("in memory", "w", driver="core", backing_store=False) as file:
        file["text"] = "abc"
        file["array"] = np.arange(3, dtype=np.float32)
        read = module.HDF5Deserializer(file)
        assert read("text", "") == "abc"
        assert read("text", None).item() == "abc"
        np.testing.assert_array_equal(read("array", None), [0, 1, 2])
        assert module.HDF5Deserializer(file, strict=False)("absent", "kept") == "kept"


@probe("cudnn-warning")
def cudnn_warning(module: ModuleType) -> None:
    saved = module.available, module.cudnn_enabled
    module.available, module.cudnn_enabled = True, False
    module._cudnn_disabled_by_user = False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            module.check_cuda_available()
    finally:
        module.available, module.cudnn_enabled = saved


if __name__ == "__main__":
    # Run as `python -W error compat_probes.py NAME`, to see an unmended module in a process that
    # has imported nothing yet: a warning at import comes only once.
    print("ready", flush=True)
    PROBES[sys.argv[1]](unmended(sys.argv[1]))
