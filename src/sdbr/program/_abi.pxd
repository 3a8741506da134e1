"""What a kernel sees, as ``kernels/frame/abi.h`` has it."""

from libc.stdint cimport int32_t, int64_t, uintptr_t

cdef extern from "frame/flight.h":
    ctypedef struct sdbr_flight:
        int64_t begun
        int64_t ended

    int sdbr_land(sdbr_flight *flight, int64_t end) noexcept nogil

cdef extern from "frame/abi.h":
    ctypedef struct sdbr_bitgen:
        pass

    ctypedef struct sdbr_runtime:
        void *sgemm
        void *dgemm
        void *sgemv
        void *dgemv
        sdbr_bitgen *bitgen
        int64_t fault_value
        int64_t fault_bound
        int64_t fault_position
        int32_t threads
        int32_t flush
        int32_t is_far
        sdbr_flight *flight

    ctypedef int (*sdbr_kernel)(const sdbr_op *op) noexcept nogil

    ctypedef struct sdbr_op:
        sdbr_kernel kernel
        char **operands
        const int64_t *ints
        const double *floats
        sdbr_runtime *runtime


cdef inline int set_blas(sdbr_runtime *runtime, tuple addresses) except -1:
    """Give the kernels the functions of BLAS: sgemm, dgemm, sgemv, dgemv."""
    runtime.sgemm = <void *> <uintptr_t> addresses[0]
    runtime.dgemm = <void *> <uintptr_t> addresses[1]
    runtime.sgemv = <void *> <uintptr_t> addresses[2]
    runtime.dgemv = <void *> <uintptr_t> addresses[3]
    return 0
