"""One probe for each fix: it passes on a right module and raises on a broken one.

A probe runs on the module that sdbr has mended and on a fresh, unmended copy of it. The first
must pass; the second must fail exactly on the stacks for which the table says that the fix is
needed.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import io
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace

import sdbr  # noqa: F401
from sdbr.compat import FIXES
from sdbr.compat.stack import Stack

import chainer
import numpy as np
import pytest

PROBES: dict[str, Callable[[ModuleType], None]] = {}
ROOT = Path(__file__).resolve().parents[2]
ON_NULL_GPU = "on-null-gpu" in sys.argv
#: Runs this file with those arguments where the GPU has been put in place before Chainer.
_BEFORE = """
import runpy, sys
sys.path.insert(0, sys.argv[1])
from tests.harness import null_gpu
null_gpu.install()
sys.argv = sys.argv[2:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


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


def on_null_gpu(probe: Callable[[ModuleType], None]) -> Callable[[ModuleType], None]:
    """A probe in a process of its own where CuPy works on a GPU that runs nothing."""

    def elsewhere(module: ModuleType) -> None:
        if ON_NULL_GPU:
            return probe(module)
        name = next(name for name, found in PROBES.items() if found is elsewhere)
        what = "mended" if module is mended(name) else "unmended"
        command = [sys.executable, "-c", _BEFORE, str(ROOT), __file__, name, what, "on-null-gpu"]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
        assert done.stdout == "ready\n", done.stderr
        assert not done.returncode, done.stderr

    elsewhere.on_null_gpu = True
    return elsewhere


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


@probe("softmax-cross-entropy-labels")
def labels(module: ModuleType) -> None:
    x = np.zeros((4, 3), np.float32)
    for t, expected in (
        (np.zeros(4, np.float32), "Expect: x.shape == t.shape"),
        (np.zeros(3, np.int32), "Expect: x.shape[0] == t.shape[0]"),
    ):
        try:
            module.softmax_cross_entropy(x, t)
        except chainer.utils.type_check.InvalidType as error:
            assert expected in str(error)
        else:
            raise AssertionError("labels that do not fit are taken")


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


@probe("fixed-batch-normalization-eps")
def fixed_batch_normalization(module: ModuleType) -> None:
    ones, zeros = np.ones(3, np.float32), np.zeros(3, np.float32)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for eps in (np.float64(1e-3), np.array(1e-3)):
        vs = [chainer.Variable(a) for a in (x, ones, zeros, zeros, ones)]
        y = module.fixed_batch_normalization(*vs, eps=eps)
        y.grad = np.cos(y.array)
        y.backward()
        assert {y.dtype, *[v.grad.dtype for v in vs]} == {np.dtype(np.float32)}


@probe("batch-renormalization-numbers")
def batch_renormalization(module: ModuleType) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    ones, zeros = np.ones(3, np.float32), np.zeros(3, np.float32)
    limits = np.float64(2), np.float64(1)
    v, gamma = chainer.Variable(x), chainer.Variable(ones)
    y = module.batch_renormalization(v, gamma, zeros, *limits, running_mean=zeros, running_var=ones)
    y.grad = np.cos(y.array)
    y.backward()
    assert {y.dtype, v.grad.dtype, gamma.grad.dtype} == {np.dtype(np.float32)}


@probe("clip-bounds")
@on_null_gpu
def clip(module: ModuleType) -> None:
    import cupy

    x = chainer.Variable(cupy.ones((2, 3), "f"))
    y = module.clip(x, np.float64(0), np.float64(0.5))
    chainer.functions.sum(y).backward()
    assert (y.dtype, x.grad.dtype) == (np.float32, np.float32)


@probe("embed-id-small-labels")
@on_null_gpu
def embed_id(module: ModuleType) -> None:
    import cupy

    dtypes = []

    class Kernels:
        def elementwise(self, *source):
            return lambda gy, x, width, *more: dtypes.append((x.dtype, width))

    module.cuda = Kernels()
    for ignore_label in (None, -1):
        grad = module.EmbedIDGrad((4, 300), ignore_label)
        grad.apply((cupy.zeros(2, "b"), cupy.ones((2, 300), "f")))
    for dtype, width in dtypes:
        assert np.iinfo(dtype).max >= width == 300
    assert len(dtypes) == 2


def _compiling(*names: str) -> Callable[[ModuleType], None]:
    @on_null_gpu
    def compile_kernels(module: ModuleType) -> None:
        from tests.harness import chainer_kernels

        wanted = set(names)
        for kernel in [*chainer_kernels.kernels(), *chainer_kernels.kernels("chainermn")]:
            if kernel.name in wanted:
                chainer_kernels.compile_kernel(kernel, "e", module)
                wanted.remove(kernel.name)
        assert not wanted

    return compile_kernels


probe("kernels-half-extremes")(
    _compiling(
        "roi_average_align_2d_fwd", "roi_average_align_2d_bwd", "roi_max_align_2d_fwd",
        "roi_max_align_2d_bwd", "amsbound", "adabound",
    )
)  # fmt: skip
probe("kernels-half-atomics")(
    _compiling(
        "resize_images_interpolate_grad_bilinear", "negative_sampling_calculate_gw",
        "binary_hierarchical_softmax_bwd",
    )
)  # fmt: skip
probe("kernels-half-incomplete")(
    _compiling(
        "_memcpy_gather",
        "_memcpy_scatter",
        "cupy_batched_pack_params",
        "cupy_batched_unpack_params",
    )
)


@probe("cuda-reason")
def cuda_reason(module: ModuleType) -> None:
    if not Stack().has_cublas:
        with pytest.raises(RuntimeError, match=r"Chainer cannot use it: .*'cupy-cuda13x\[ctk\]'"):
            module.check_cuda_available()


@probe("cuda-available")
def cuda_available(module: ModuleType) -> None:
    if Stack().no_gpu is not None:
        assert not module.available
        with pytest.raises(RuntimeError, match="no GPU" if Stack().has_cublas else None):
            module.check_cuda_available()


class Late:
    """A worker or a queue that looks at what it is given some time later."""

    def start(self) -> None:
        pass

    def join(self) -> None:
        pass

    def put(self, task: list | None) -> None:
        if task is not None:
            self.given = task[3]


@probe("snapshot-writers")
def snapshot_writers(module: ModuleType) -> None:
    late = Late()

    class Worker(module.StandardWriter):
        def create_worker(self, filename, outdir, target):
            late.given = target
            return late

    class Queue(module.QueueWriter):
        def create_queue(self):
            return late

        def create_consumer(self, queue):
            return late

    for writer in (Worker(), Queue()):
        array = np.zeros(3)
        writer("name", "folder", {"array": array})
        array[:] = 1
        np.testing.assert_array_equal(late.given["array"], 0)


@probe("hdf5-text-written")
def hdf5_text_written(module: ModuleType) -> None:
    import h5py

    with h5py.File("in memory", "w", driver="core", backing_store=False) as file:
        write = module.HDF5Serializer(file)
        assert write("text", "abc") == "abc"
        write("empty", "")
        write("names", np.array(["a", "bcd"]))
        write("numbers", np.arange(3))
        read = module.HDF5Deserializer(file)
        assert np.asarray(file["text"].asstr()[()]).item() == "abc"
        assert file["empty"].asstr()[()] == ""
        assert list(file["names"].asstr()) == ["a", "bcd"]
        np.testing.assert_array_equal(read("numbers", None), [0, 1, 2])


@probe("snapshot-autoload")
def snapshot_autoload(module: ModuleType) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for i, size in enumerate((1000, 1000, 300, 0)):
            data = io.BytesIO()
            np.savez(data, x=np.full(50, i))
            path = Path(folder, f"snapshot_{i}")
            path.write_bytes(data.getvalue()[:size])
            os.utime(path, (i + 1, i + 1))
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            assert module._find_latest_snapshot("snapshot_{}", folder) == "snapshot_1"
        assert len(warned) == 2


class TwoRanks:
    """What mpi4py gives, where the other of two ranks sends the same."""

    rank, size = 0, 2

    def Get_rank(self):
        return 0

    def Split(self, *args):
        return self

    def allgather(self, x):
        return [x, x]

    def gather(self, x, root=0):
        return [x, x]

    def bcast(self, x, root=0):
        return x

    def Allreduce(self, given, taken):
        taken *= 2  # in place, as ChainerMN asks for

    def Bcast(self, buffer, root=0):
        buffer[...] = 7  # what rank 0 has


def communicator(module: ModuleType):
    class Made(module.MpiCommunicatorBase):
        def _init_ranks(self):
            pass

        def multi_node_mean_grad(self, model, zero_fill=False):
            raise NotImplementedError

    return Made(TwoRanks())


@probe("ranks-mean-layout")
def ranks_mean_layout(module: ModuleType) -> None:
    for gradient in (np.ones((2, 3)), np.ones((2, 3), order="F"), np.ones((3, 4))[:, ::2]):
        for dtype in ("float16", "float32", "float64"):
            x = np.asarray(gradient * 3, dtype=dtype) if gradient.base is None else gradient
            x[...] = 3
            communicator(module)._multi_node_mean(None, x)
            np.testing.assert_array_equal(x, 3)


@probe("ranks-broadcast-layout")
def ranks_broadcast_layout(module: ModuleType) -> None:
    link = chainer.links.Linear(3, 2)
    array = link.W.array = np.zeros((2, 3), "f", order="F")
    communicator(module).bcast_data(link)
    assert link.W.array is array
    np.testing.assert_array_equal(array, 7)


@probe("ranks-iterator")
def ranks_iterator(module: ModuleType) -> None:
    sent = [np.full(1, 4, "f"), -np.ones(1, "f")]
    ranks = SimpleNamespace(bcast=lambda x, root: sent.pop(0), rank=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of older NumPy
        iterator = module._MultiNodeIteratorSlave(ranks, 0)
    assert iterator.dataset_size == 4 and iterator._order is None
    assert iterator.communicator is ranks


@probe("ranks-observations")
def ranks_observations(module: ModuleType) -> None:
    ranks = SimpleNamespace(rank=0, gather_obj=lambda x: [x, [3.0]], bcast_obj=lambda x: x)
    aggregate = module.ObservationAggregator(ranks, "loss")
    observed = {"loss": chainer.Variable(np.array(1, "f"))}
    aggregate(SimpleNamespace(observation=observed, updater=SimpleNamespace(iteration=1)))
    assert observed == {"loss": 2}


@probe("ranks-resumed")
def ranks_resumed(module: ModuleType) -> None:
    ranks = SimpleNamespace(
        size=2,
        gather_obj=lambda x: [x, x],
        bcast_obj=lambda x: x,
        bcast_data=lambda model: None,
        multi_node_mean_grad=lambda model, zero_fill: None,
    )
    for t in (0, 3):
        link = chainer.links.Linear(3, 2)
        actual = chainer.optimizers.SGD().setup(link)
        actual.t = t
        optimizer = module.create_multi_node_optimizer(actual, ranks)
        for _ in range(2):
            optimizer.update(lambda x, of=link: chainer.functions.sum(of(x)), np.ones((1, 3), "f"))
        assert actual.t == (5 if t else 1)  # a new one sends its parameters first


if __name__ == "__main__":
    # Run as `python -W error compat_probes.py NAME`, to see an unmended module in a process that
    # has imported nothing yet: a warning at import comes only once.
    print("ready", flush=True)
    PROBES[sys.argv[1]]((mended if "mended" in sys.argv else unmended)(sys.argv[1]))
    if ON_NULL_GPU:
        os._exit(0)  # destructors of CuPy's would find nothing
