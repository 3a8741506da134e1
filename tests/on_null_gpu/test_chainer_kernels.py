"""Every kernel that is written in Chainer compiles with the headers of this CuPy."""

from __future__ import annotations

import collections
import sys

import chainer
import cupy
import numpy as np
import pytest
from chainer import functions as F
from chainer import gradient_check
from chainer.backends import cuda
from chainer.functions.pooling import max_pooling_nd as pooling
from chainer.training.updaters import multiprocess_parallel_updater as updater

from tests.harness import chainer_kernels

KERNELS = [*chainer_kernels.kernels(), *chainer_kernels.kernels("chainermn")]
LITERAL = [kernel for kernel in KERNELS if kernel.parts is not None]
#: How many are generated, by the file.
GENERATED = {
    "average_pooling_nd": 2, "max_pooling_nd": 4, "tree_lstm": 2, "rmsprop": 1, "conv_nd": 2,
    "pure_nccl_communicator": 1,
}  # fmt: skip


BY_DTYPE = [(k, dtype) for k in LITERAL for dtype in ("f" if k.maker == "raw" else "fde")]


@pytest.mark.parametrize(("kernel", "dtype"), BY_DTYPE, ids=[f"{k} {x}" for k, x in BY_DTYPE])
def test_literal(kernel, dtype):
    chainer_kernels.compile_kernel(kernel, dtype, cuda)


def test_all_are_found():
    assert len(LITERAL) > 130
    assert collections.Counter(k.maker for k in LITERAL)["raw"] == 2
    found = collections.Counter(k.path.stem for k in KERNELS if k.parts is None)
    assert dict(found) == GENERATED


@pytest.fixture
def made(monkeypatch):
    """Where kernels have been made that were then compiled."""
    places = set()

    def noted(make):
        def note(*args, **kwargs):
            kernel = make(*args, **kwargs)
            frame = sys._getframe(1)
            place = frame.f_code.co_filename, frame.f_lineno

            def call(*args, **kwargs):
                result = kernel(*args, **kwargs)
                places.add(place)
                return result

            return call

        return note

    monkeypatch.setattr(cuda, "elementwise", noted(cuda.elementwise))
    return places


def _pooled(dtype):
    x = chainer.Variable(cupy.ones((1, 2, 4, 4, 4), dtype))
    for pool in (F.average_pooling_nd, F.max_pooling_nd):
        y = pool(x, 2)
        gy = chainer.Variable(cupy.ones(y.shape, dtype))
        (gx,) = chainer.grad([y], [x], [gy], enable_double_backprop=True)
        chainer.grad([gx], [gy], [chainer.Variable(cupy.ones(x.shape, dtype))])
    # What a backward by cuDNN would go on with.
    y, ggx = (cupy.ones((1, 2, 2, 2, 2), dtype), cupy.ones((1, 2, 4, 4, 4), dtype))
    function = pooling.MaxPoolingND(3, 2)
    function.apply((x,))
    pooling.MaxPoolingNDWithIndexes(function)._forward_gpu_compute_indexes_again((x.array, ggx))


def _convolved(dtype):
    x = chainer.Variable(cupy.ones((1, 2, 4, 4, 4), dtype))
    w = chainer.Variable(cupy.ones((3, 2, 2, 2, 2), dtype))
    y = F.convolution_nd(x, w)
    y.grad = cupy.ones(y.shape, dtype)
    y.backward()


def _tree_lstm(dtype):
    children = [chainer.Variable(cupy.ones((2, 3), dtype)) for _ in range(2)]
    c, h = F.tree_lstm(*children, chainer.Variable(cupy.ones((2, 15), dtype)))
    (F.sum(c) + F.sum(h)).backward()


def _rmsprop(dtype):
    for inside in (True, False):
        p = chainer.Parameter(cupy.ones(3, dtype))
        optimizer = chainer.optimizers.RMSprop(eps=0.01, eps_inside_sqrt=inside)
        p.update_rule = optimizer.create_update_rule()
        p.grad = cupy.ones(3, dtype)
        p.update()


@pytest.mark.parametrize("dtype", "fde")
def test_generated(dtype, made):
    for run in (_pooled, _convolved, _tree_lstm, _rmsprop):
        run(dtype)
    missing = [
        f"{kernel.path}:{kernel.lines[0]}"
        for kernel in KERNELS
        if kernel.parts is None
        and kernel.path.parts[0] == "chainer"  # ChainerMN cannot be imported without MPI
        and not any(
            name.endswith(str(kernel.path)) and kernel.lines[0] <= line <= kernel.lines[1]
            for name, line in made
        )
    ]
    assert not missing


@pytest.mark.parametrize("dtype", "fde")
def test_generated_by_chainermn(dtype):
    name = np.dtype(dtype).name
    cuda.elementwise("", f"{name} x", "x *= (1.0/2)", "div_by_size")(cupy.ones(3, dtype))


@pytest.mark.parametrize("dtype", "fd")
def test_of_numerical_gradients(dtype):
    x = cupy.ones((2, 3), dtype)
    (gx,) = gradient_check.numerical_grad(lambda: (x * 2,), (x,), (cupy.ones((2, 3), dtype),))
    assert (gx.shape, gx.dtype) == (x.shape, x.dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_of_gathered_gradients(dtype):
    with chainer.using_config("dtype", dtype):
        link = chainer.links.Linear(3, 2)
    link.to_device("@cupy:0")
    for p in link.params():
        p.grad = cupy.ones(p.shape, dtype)
    gathered = updater.gather_grads(link)
    assert (gathered.shape, gathered.dtype) == ((8,), np.float32)
    updater.scatter_grads(link, gathered)
