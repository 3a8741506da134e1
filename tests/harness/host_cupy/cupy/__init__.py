"""A look-alike of CuPy 14 on the memory of the host, for tests where there is no GPU.

Nothing of it is importable unless its folder is put on ``sys.path``; then ``import cupy`` finds
it, and Chainer's code for GPUs really runs: NumPy is the engine of functions (NumPy 2, whose
promotion CuPy 14 has), and the C compiler that of kernels. What is like CuPy, where tests may
depend on it:

* ``ndarray`` is no ``numpy.ndarray`` and never becomes one by itself (``ndarrays``);
* memory comes from a pool that hands freed blocks out again (``cuda.memory``);
* there are two devices, and arrays of one cannot be computed with on the other (``cuda.device``);
* kernels are the CUDA C that they were given (``kernels``, with what of it does not run);
* generators draw float32 and float64 apart (``random``).

What is not: streams run at once, nothing is asynchronous; the numbers that generators draw are
not cuRAND's; indices that are out of bounds raise IndexError; there is no cuDNN.
"""
# ruff: noqa: F401  (what is imported here is what others find here)

import numpy as _np
from numpy import (
    bool_,
    complex64,
    complex128,
    complexfloating,
    dtype,
    e,
    euler_gamma,
    float16,
    float32,
    float64,
    floating,
    generic,
    inexact,
    inf,
    int8,
    int16,
    int32,
    int64,
    int_,
    intc,
    integer,
    intp,
    nan,
    newaxis,
    number,
    pi,
    signedinteger,
    uint,
    uint8,
    uint16,
    uint32,
    uint64,
    unsignedinteger,
)

from . import creation as _creation
from . import cuda, fft, lib, linalg
from . import functions as _functions
from . import ufuncs as _ufuncs
from ._util import clear_memo, memoize
from .cuda.memory import default_pinned_pool as _pinned_pool
from .cuda.memory import default_pool as _pool
from .fusion import fuse
from .ndarrays import ndarray
from .ufuncs import ufunc

__version__ = "14.2.0"

bool = _np.bool_
double = float64
single = float32
half = float16

globals().update(_ufuncs.all_of_numpy())
globals().update(_functions.by_name())
globals().update(_creation.made_on_the_host)

from . import random, testing  # noqa: E402
from .creation import (  # noqa: E402
    array,
    asanyarray,
    asarray,
    ascontiguousarray,
    asfortranarray,
    asnumpy,
    copy,
    empty,
    empty_like,
    full,
    full_like,
    ones,
    ones_like,
    zeros,
    zeros_like,
)
from .functions import (  # noqa: E402
    apply_along_axis,
    broadcast,
    copyto,
    get_array_module,
    imag,
    iscomplex,
    isreal,
    may_share_memory,
    real,
    result_type,
    rollaxis,
    shares_memory,
    squeeze,
)
from .kernels import ElementwiseKernel, RawKernel, RawModule, ReductionKernel  # noqa: E402


def get_default_memory_pool():
    return _pool


def get_default_pinned_memory_pool():
    return _pinned_pool


def is_available():
    return True


def show_config():
    print("CuPy's look-alike on the host")
