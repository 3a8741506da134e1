"""Kernels of users: their CUDA C is rewritten to C, compiled for the dtypes at hand, and run.

What is written in Chainer for ``cuda.elementwise`` and ``cuda.reduce`` compiles and runs, in
float16, float32 and float64 (``tests/on_cupy/test_kernels.py`` compiles every literal one; the two
of ``MultiprocessParallelUpdater``, which needs NCCL, are not tried).
Not here: threads of a ``RawKernel`` that wait for each other, ``_ind`` and ``_raw_x`` in
operations, several outputs of a reduction, templates of other letters than the kernel's.
Halves are computed with as floats and rounded where they are stored.
"""

from .compiler import CompileException
from .elementwise import ElementwiseKernel
from .raw import RawKernel, RawModule
from .reduction import ReductionKernel

__all__ = ["CompileException", "ElementwiseKernel", "RawKernel", "RawModule", "ReductionKernel"]
