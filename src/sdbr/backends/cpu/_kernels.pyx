"""The kernels that were built, in this module: names and addresses, levels, limits, times."""

import numpy as np

from sdbr.base.errors import BackendError, SettingError
from sdbr.base.settings import refused_variable, variable
from sdbr.base.threads import num_threads

from cpython.pycapsule cimport PyCapsule_GetName, PyCapsule_GetPointer
from libc.stdint cimport int64_t, uintptr_t
from libc.string cimport memset

cimport numpy as cnp

from sdbr.program._abi cimport sdbr_kernel, sdbr_op, sdbr_runtime, set_blas

cnp.import_array()

cdef extern from "frame/registry.h":
    const char *const sdbr_step_names[]
    ctypedef struct sdbr_limit:
        const char *name
        int value
    const sdbr_limit sdbr_limits[]
    ctypedef struct sdbr_registry_entry:
        const char *name
        sdbr_kernel kernel

    const char *SDBR_COMPILER
    const char *SDBR_BUILD_FLAGS
    const char *SDBR_BUILD_SIMD
    const char *SDBR_CYTHON_VERSION
    const sdbr_registry_entry *const *sdbr_registries(int) noexcept nogil
    int sdbr_supports(int) noexcept nogil

cdef extern from "frame/loop.h":
    enum: SDBR_OK
    int64_t sdbr_run_segment(const sdbr_op *, int64_t, int64_t, int *) noexcept nogil
    double sdbr_seconds() noexcept nogil
    double sdbr_thread_seconds() noexcept nogil

LEVELS = ("baseline", "avx2", "avx512")


def _choose_level():
    """The highest level that compiler and machine support; SDBR_SIMD may lower it."""
    asked = variable("SDBR_SIMD")
    refused = refused_variable("SDBR_SIMD")
    if refused:
        raise SettingError(refused)
    return [i for i in range(LEVELS.index(asked) + 1) if sdbr_supports(i)][-1]


cdef dict _kernel_addresses(int level):
    cdef const sdbr_registry_entry *const *unit = sdbr_registries(level)
    cdef const sdbr_registry_entry *entry
    found = {}
    while unit[0] != NULL:
        entry = unit[0]
        while entry.name != NULL:
            found[entry.name.decode()] = <uintptr_t> entry.kernel
            entry += 1
        unit += 1
    return found


cdef int _level = _choose_level()
cdef dict _kernels = _kernel_addresses(_level)


def build_info():
    """How this module was built.

    Returns
    -------
    dict
        ``compiler``, ``flags``, ``cython`` and ``levels`` (SIMD levels that were built).
    """
    return {
        "compiler": (<bytes> SDBR_COMPILER).decode(),
        "flags": (<bytes> SDBR_BUILD_FLAGS).decode(),
        "cython": (<bytes> SDBR_CYTHON_VERSION).decode(),
        "levels": (<bytes> SDBR_BUILD_SIMD).decode().split(),
    }


def simd_level():
    """The SIMD level in use: ``'baseline'``, ``'avx2'`` or ``'avx512'``."""
    return LEVELS[_level]


def kernel_names():
    """Names of the native kernels, sorted."""
    return sorted(_kernels)


def kernel_address(name):
    """Address of a kernel at the SIMD level in use; None where there is none of that name."""
    return _kernels.get(name)


def limits():
    """What the kernels take of each thing at most, see ``kernels/frame/sdbr_limits.h``.

    Returns
    -------
    dict
        Name -> number.
    """
    cdef int i = 0
    found = {}
    while sdbr_limits[i].name != NULL:
        found[sdbr_limits[i].name.decode()] = sdbr_limits[i].value
        i += 1
    return found


def step_codes():
    """The steps that a fused op may consist of: name -> position of its row function.

    Returns
    -------
    dict
    """
    cdef int i = 0
    codes = {}
    while sdbr_step_names[i] != NULL:
        codes[sdbr_step_names[i].decode()] = i
        i += 1
    return codes


def blas_addresses():
    """Addresses of sgemm, dgemm, sgemv and dgemv of the BLAS that SciPy was built with.

    Kernels pass 64-bit integers whose address serves 32-bit readers as well
    (every supported platform is little-endian), so both builds of SciPy work.

    Raises
    ------
    BackendError
        If SciPy has none to take.
    """
    try:
        from scipy.linalg import cython_blas
        api = cython_blas.__pyx_capi__
        return tuple([_pointer(api[name]) for name in ("sgemm", "dgemm", "sgemv", "dgemv")])
    except (ImportError, AttributeError, KeyError) as error:
        raise BackendError(f"scipy.linalg.cython_blas is not usable: {error!r}") from error


cdef object _pointer(object capsule):
    return <uintptr_t> PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule))


def kernel_seconds(name, ints, list operands, double budget, int runs, bint alone=False):
    """Seconds of each run of one kernel on arrays; no more once they are `budget` together.

    With `alone`, the time that this thread computes: right for a kernel that uses no other thread,
    and not disturbed by what else the machine does.

    Raises
    ------
    BackendError
        If there is no such kernel, or it reports an error.
    """
    cdef sdbr_runtime runtime
    cdef sdbr_op op
    cdef double seconds
    cdef double total = 0.0
    cdef int status = SDBR_OK
    cdef int64_t at
    if name not in _kernels:
        raise BackendError(f"no kernel {name!r} at SIMD level {LEVELS[_level]}")
    numbers = np.array(list(ints) or [0], np.int64)
    addresses = np.array([a.ctypes.data for a in operands] or [0], np.uintp)
    memset(&runtime, 0, sizeof(runtime))
    set_blas(&runtime, blas_addresses())
    runtime.threads = 1 if alone else num_threads()
    memset(&op, 0, sizeof(op))
    op.kernel = <sdbr_kernel> <uintptr_t> _kernels[name]
    op.operands = <char **> cnp.PyArray_DATA(addresses)
    op.ints = <const int64_t *> cnp.PyArray_DATA(numbers)
    op.runtime = &runtime
    taken = []
    while len(taken) < runs and total < budget:
        with nogil:
            seconds = sdbr_thread_seconds() if alone else sdbr_seconds()
            at = sdbr_run_segment(&op, 0, 1, &status)
            seconds = (sdbr_thread_seconds() if alone else sdbr_seconds()) - seconds
        if at != 1:
            raise BackendError(f"kernel {name!r} gave status {status}")
        taken.append(seconds)
        total += seconds
    return taken
