"""``cupy.RawKernel`` and ``cupy.RawModule``: thread after thread, block after block.

What waits for other threads (``__syncthreads``, shared memory) is not played.
"""

from __future__ import annotations

import ctypes
import re

import numpy as np

from .. import convert, ndarrays
from . import compiler, translate
from .sources import prelude

_INDICES = """
struct place { unsigned x, y, z; };
static struct place threadIdx, blockIdx, blockDim, gridDim;
"""
_LOOPS = """
void run(const unsigned *sizes, void **given) {
    gridDim = (struct place){sizes[0], sizes[1], sizes[2]};
    blockDim = (struct place){sizes[3], sizes[4], sizes[5]};
    for (blockIdx.z = 0; blockIdx.z < gridDim.z; blockIdx.z++)
    for (blockIdx.y = 0; blockIdx.y < gridDim.y; blockIdx.y++)
    for (blockIdx.x = 0; blockIdx.x < gridDim.x; blockIdx.x++)
    for (threadIdx.z = 0; threadIdx.z < blockDim.z; threadIdx.z++)
    for (threadIdx.y = 0; threadIdx.y < blockDim.y; threadIdx.y++)
    for (threadIdx.x = 0; threadIdx.x < blockDim.x; threadIdx.x++)
        %s;
}
"""


class RawKernel:
    """A function of CUDA C, which takes memory for what it is."""

    def __init__(self, code, name, options=(), backend="nvrtc", **kwargs):
        self.code, self.name, self.options = code, name, options
        self.__name__ = name

    def __call__(self, grid, block, args, **kwargs):
        if re.search(r"__syncthreads|__shared__", self.code):
            raise NotImplementedError(f"the look-alike of CuPy cannot run {self.name}: it waits")
        convert.check_devices(convert.arrays_in(args))
        sizes = [*_three(grid), *_three(block)]
        held = [_value(x) for x in args]
        given = (ctypes.c_void_p * len(held))(*[ctypes.addressof(x) for x in held])
        compiler.run_of(self._source())((ctypes.c_uint * 6)(*sizes), given)

    def _source(self):
        code = re.sub(r"//[^\n]*", "", self.code)
        code = re.sub(r'extern\s+"C"|\b__(?:global|restrict)__\b', "", code)
        code = translate.functions(translate.casts(code, ()))
        found = re.search(rf"\b{re.escape(self.name)}\s*\(([^()]*)\)\s*\{{", code)
        kinds = [re.sub(r"\w+\s*$", "", part.strip()) for part in found.group(1).split(",")]
        values = ", ".join(f"*({kind} *)given[{i}]" for i, kind in enumerate(kinds))
        loops = _LOOPS % f"{self.name}({values})"
        return "\n".join([prelude(), _INDICES, code, loops])


class RawModule:
    def __init__(self, *, code=None, path=None, **kwargs):
        self.code = code

    def get_function(self, name):
        return RawKernel(self.code, name)


def _three(sizes) -> list[int]:
    return [*map(int, sizes), 1, 1][:3]


def _value(thing):
    """An argument as it lies in memory: a pointer to an array, a number of its own size."""
    if isinstance(thing, ndarrays.ndarray):
        return ctypes.c_void_p(thing.data.ptr)
    if isinstance(thing, np.generic):
        return ctypes.create_string_buffer(thing.tobytes(), thing.nbytes)
    if isinstance(thing, bool):
        return ctypes.c_bool(thing)
    if isinstance(thing, int):
        return ctypes.c_longlong(thing)
    if isinstance(thing, float):
        return ctypes.c_double(thing)
    raise TypeError(f"Unsupported type {type(thing)}")
