"""Fixes for kernels of Chainer's that the headers of CuPy no longer take with float16.

What is missing stands before their source: templates that no other type but float16 fits. Other
compilers than CUDA's see nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from types import ModuleType

from sdbr.compat.fix import FunctionFix, wrap
from sdbr.compat.stack import Stack


def _for_cuda(text: str) -> str:
    return f"#ifdef __CUDACC__\n{text}\n#endif\n"


_HALF = """
#ifndef SDBR_OF_HALF
#define SDBR_OF_HALF
namespace sdbr {
template <typename T> struct of_half {};
template <> struct of_half<float16> { typedef float type; };
}
#endif
"""
#: Differences of halves are floats in CuPy.
_EXTREME = """
template <typename T>
__device__ typename sdbr::of_half<T>::type {0}(float x, T y) {{ return {0}(x, float(y)); }}
template <typename T>
__device__ typename sdbr::of_half<T>::type {0}(T x, float y) {{ return {0}(float(x), y); }}
"""
_ATOMIC = """
template <typename T>
__device__ void atomicAdd(T *place, typename sdbr::of_half<T>::type x) { atomicAdd(place, T(x)); }
"""
#: In CuPy 14 only kernels with an argument of float16 know what it is.
_DEFINED = "#include <cupy/float16.cuh>\n#include <cuda_fp16.h>\n"


def _text_before(text: str, names: Collection[str]) -> Callable[[ModuleType], None]:
    """What puts `text` before the sources of kernels, by their names."""

    def make_elementwise(elementwise):
        def with_more_known(in_params, out_params, operation, name, **kwargs):
            if name in names:
                kwargs["preamble"] = _for_cuda(text) + kwargs.get("preamble", "")
            return elementwise(in_params, out_params, operation, name, **kwargs)

        return with_more_known

    def make_raw(raw):
        def with_more_known(code, name, *args, **kwargs):
            if name in names:
                code = _for_cuda(text) + code
            return raw(code, name, *args, **kwargs)

        return with_more_known

    def apply(module: ModuleType) -> None:
        import chainer

        for name, make in (("elementwise", make_elementwise), ("raw", make_raw)):
            wrap(module, name, make)
            setattr(chainer.cuda, name, getattr(module, name))  # the same by its old name

    return apply


def _is_cupy_14(stack: Stack) -> bool:
    return (stack.cupy or ()) >= (14,)


EXTREMES = FunctionFix(
    name="kernels-half-extremes",
    module="chainer.backends.cuda",
    reason="min and max of a float and a float16 are ambiguous: F.roi_max_align_2d, "
    "F.roi_average_align_2d, AMSBound and AdaBound do not compile with float16",
    stacks="any with CuPy (13 and 14 were tried)",
    needed=lambda stack: stack.has_cupy,
    apply=_text_before(
        _HALF + _EXTREME.format("min") + _EXTREME.format("max"),
        {
            "roi_average_align_2d_fwd", "roi_average_align_2d_bwd", "roi_max_align_2d_fwd",
            "roi_max_align_2d_bwd", "amsbound", "adabound",
        },
    ),
)  # fmt: skip

ATOMICS = FunctionFix(
    name="kernels-half-atomics",
    module="chainer.backends.cuda",
    reason="atomicAdd takes no float for a float16: F.resize_images, F.negative_sampling and "
    "L.BinaryHierarchicalSoftmax have no backward with float16",
    stacks="CuPy >= 14",
    needed=_is_cupy_14,
    apply=_text_before(
        _HALF + _ATOMIC,
        {
            "resize_images_interpolate_grad_bilinear", "negative_sampling_calculate_gw",
            "binary_hierarchical_softmax_bwd",
        },
    ),
)  # fmt: skip

INCOMPLETE = FunctionFix(
    name="kernels-half-incomplete",
    module="chainer.backends.cuda",
    reason="kernels without an argument of float16 do not know the type: "
    "MultiprocessParallelUpdater and ChainerMN cannot gather gradients",
    stacks="CuPy >= 14",
    needed=_is_cupy_14,
    apply=_text_before(
        _DEFINED,
        {
            "_memcpy_gather", "_memcpy_scatter", "cupy_batched_pack_params",
            "cupy_batched_unpack_params",
        },
    ),
)  # fmt: skip

FIXES = (EXTREMES, ATOMICS, INCOMPLETE)
