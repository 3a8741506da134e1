"""Kernels of users on the look-alike: what Chainer has compiles, what CUDA C means is kept."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import chainer
import cupy
import numpy as np
import pytest
from chainer.backends import cuda
from cupy.kernels import compiler, parameters, sources

FOLDERS = ("functions", "links", "optimizers", "optimizer_hooks", "initializers", "utils")
#: Letters that are integers in Chainer's kernels; all others are floats.
INTEGERS = {"S": np.int32, "I": np.int32}
#: Where a letter is something else than elsewhere.
OF_KERNEL = {"pad_sequence_fwd": {"P": np.dtype(np.uint64)}}


def literal_kernels():
    """The calls of ``elementwise`` and ``reduce`` in Chainer whose code is literal."""
    root = Path(chainer.__file__).parent
    for path in sorted(path for folder in FOLDERS for path in (root / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func).removeprefix("backend.")
            if called not in ("cuda.elementwise", "cuda.reduce"):
                continue
            parts = [x.value for x in node.args if isinstance(x, ast.Constant)]
            if len(parts) == len(node.args):
                given = {k.arg: ast.unparse(k.value) for k in node.keywords}
                yield path.relative_to(root), called, parts, given


LITERAL = list(literal_kernels())


@pytest.mark.parametrize("dtype", "fde")
@pytest.mark.parametrize(
    ("path", "called", "parts", "given"),
    LITERAL,
    ids=[f"{p.stem} {x[-1]}" for p, _, x, _ in LITERAL],
)
def test_kernels_of_chainer_compile(path, called, parts, given, dtype):
    module = importlib.import_module(".".join(["chainer", *path.with_suffix("").parts]))
    options = {k: getattr(module, name, name) for k, name in given.items()}
    kernel = (cupy.ReductionKernel if called == "cuda.reduce" else cupy.ElementwiseKernel)(
        *parts, **options
    )
    letters = {p.type for p in kernel.params if p.dtype is None}
    letters = {x: np.dtype(INTEGERS.get(x, dtype)) for x in letters}
    letters.update(OF_KERNEL.get(kernel.name, {}))
    dtypes = [letters.get(p.type, p.dtype) for p in kernel.params]
    if called == "cuda.reduce":
        source = sources.reduction(kernel, dtypes, letters)
    else:
        source = sources.elementwise(kernel, dtypes, letters)
    assert compiler.run_of(source)


def test_the_kernels_of_chainer_are_found():
    assert len(LITERAL) > 100
    assert {path.parts[0] for path, *_ in LITERAL} >= {"functions", "links", "optimizers"}


def test_broadcasting_and_types():
    kernel = cupy.ElementwiseKernel("T x, S y, float64 z", "T out", "out = x * y + z", "mixed")
    x, y = cupy.arange(3, dtype="f")[:, None], cupy.arange(4, dtype="i")
    got = kernel(x, y, 0.5)
    assert (type(got), got.dtype, got.shape) == (cupy.ndarray, np.float32, (3, 4))
    np.testing.assert_array_equal(got.get(), np.arange(3)[:, None] * np.arange(4) + 0.5)
    with pytest.raises(TypeError, match="Type is mismatched"):
        kernel(x, y, cupy.zeros(4, "f"))


def test_scalars_take_the_types_of_arrays():
    kernel = cupy.ElementwiseKernel("T x, T y", "T out", "out = x + y", "of_scalars")
    assert kernel(cupy.ones(2, "e"), 0.1).dtype == np.float16
    assert kernel(cupy.ones(2, "i"), 2.7).get().tolist() == [3, 3]
    with pytest.raises(ValueError, match="Loop size is undecided"):
        kernel(1.0, 2.0)


def test_outputs_that_are_given():
    kernel = cupy.ElementwiseKernel("T x", "T y, T z", "y += x; z = y * 2", "outputs")
    x, y, z = cupy.arange(3.0), cupy.ones(3), cupy.empty(3)
    returned = kernel(x, y, z)
    assert returned[0] is y and returned[1] is z
    assert (y.get().tolist(), z.get().tolist()) == ([1, 2, 3], [2, 4, 6])
    made = kernel(x)
    assert isinstance(made, tuple) and len(made) == 2
    with pytest.raises(ValueError, match="Out shape is mismatched"):
        kernel(x, cupy.ones((2, 3)), z)


def test_layouts_and_devices():
    kernel = cupy.ElementwiseKernel("T x, raw T w", "T y", "y = x - w[i]", "layouts")
    x = cupy.arange(12.0).reshape(3, 4)
    got = kernel(x.T[::-1], x.T[::-1])
    assert not got.get().any() and got.shape == (4, 3)
    with cuda.Device(1), pytest.raises(ValueError, match="different from the current device"):
        kernel(x, x)


def test_raw_arrays():
    kernel = cupy.ElementwiseKernel(
        "raw T x, raw S at",
        "raw T out",
        "int ind[] = {at[i], (int)(x.shape()[1] - 1)}; atomicAdd(&out[i % 2], x[ind] * x.size());",
        "raw_arrays",
    )
    x, at = cupy.arange(6.0).reshape(3, 2), cupy.asarray([2, 0, 1], "i")
    out = cupy.zeros(2)
    kernel(x, at, out, size=3)
    assert out.get().tolist() == [5 * 6 + 3 * 6, 1 * 6]
    with pytest.raises(ValueError, match="Output array size is Undecided"):
        cupy.ElementwiseKernel("T x", "raw T y", "y[i] = x", "undecided")(x)


def test_what_is_of_c_plus_plus():
    kernel = cupy.ElementwiseKernel(
        "T x",
        "T y, T z",
        """
        T least, most;
        bounds(x, least, most);
        if (x < 0) { y = T(-1); z = 0; return; }
        if (x == 0) { y = 5; continue; }
        y = min(least, static_cast<T>(1.5)); z = max(most, 2) + half_of(x);
        """,
        "of_c_plus_plus",
        preamble="""
        template <typename T> __device__ T half_of(const T& x) { return x / 2; }
        __device__ void bounds(T x, T &least, T &most) { least = x; most = x + 1; }
        """,
    )
    y, z = cupy.full(4, 7.0), cupy.full(4, 7.0)
    kernel(cupy.asarray([-1.0, 0.0, 1.0, 2.0]), y, z)
    assert y.get().tolist() == [-1, 5, 1, 1.5]
    assert z.get().tolist() == [0, 7, 2.5, 4]


def test_loop_preparation():
    kernel = cupy.ElementwiseKernel("T x", "T y", "y = sum += x", "prepared", loop_prep="T sum = 0")
    assert kernel(cupy.arange(4.0)).get().tolist() == [0, 1, 3, 6]


@pytest.mark.parametrize("axis", [None, 0, 1, (0, 2), -1])
@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions(axis, keepdims):
    kernel = cupy.ReductionKernel("T x, T y", "T z", "x * y", "a + b", "z = sqrt(a)", "0", "norm")
    x = np.random.default_rng(0).standard_normal((2, 3, 4))
    got = kernel(cupy.asarray(x), cupy.asarray(x), axis=axis, keepdims=keepdims)
    want = np.sqrt((x * x).sum(axis, keepdims=keepdims))
    assert type(got) is cupy.ndarray and got.shape == want.shape
    np.testing.assert_allclose(got.get(), want)


def test_reductions_without_identity():
    kernel = cupy.ReductionKernel("T x", "T y", "x", "max(a, b)", "y = a", None, "largest")
    assert kernel(cupy.asarray([-3.0, -1.0, -2.0])).item() == -1
    with pytest.raises(ValueError, match="no identity"):
        kernel(cupy.zeros(0))


RAW = r"""
__device__ float twice(const float x) { return 2 * x; }
extern "C" __global__ void scaled(const float* x, float a, int n, float* __restrict__ y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;  // of an element
    if (i >= n) return;
    y[i] += a * twice(x[i]);
}
"""


def test_raw_kernels():
    x, y = cupy.arange(5, dtype="f"), cupy.ones(5, "f")
    kernel = cuda.raw(RAW, "scaled")
    assert kernel((2,), (4,), (x, np.float32(0.5), np.int32(5), y)) is None
    np.testing.assert_array_equal(y.get(), np.arange(5) + 1)
    (kernel,) = [cupy.RawModule(code=RAW).get_function("scaled")]
    kernel((2,), (4,), (x, np.float32(0.5), 3, y[1:]))
    assert y.get().tolist() == [1, 2, 4, 6, 5]


def test_raw_kernels_that_wait_are_not_played():
    code = 'extern "C" __global__ void waits() { __syncthreads(); }'
    with pytest.raises(NotImplementedError, match="waits"):
        cuda.raw(code, "waits")((1,), (1,), ())


def test_code_that_does_not_compile():
    with pytest.raises(compiler.CompileException, match="nothing_of_the_kind"):
        cupy.ElementwiseKernel("T x", "T y", "y = nothing_of_the_kind * x", "wrong")(cupy.zeros(2))


def test_parameters():
    x, n = parameters.parse(" raw T x ,int32 n")
    assert (x.name, x.raw, x.dtype) == ("x", True, None)
    assert (n.name, n.raw, n.dtype) == ("n", False, np.int32)
    assert parameters.parse("") == ()
