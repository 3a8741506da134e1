"""What other compiled modules may use of the executor: executables."""

from libc.stdint cimport int32_t, int64_t

from sdbr.program._abi cimport sdbr_op, sdbr_runtime
from sdbr.program._memory cimport Memory
from sdbr.program._prepared cimport Prepared, PythonOp


cdef class Executable:
    cdef readonly object program
    cdef readonly Memory memory
    cdef readonly Prepared prepared
    cdef readonly Py_ssize_t native_ops
    cdef readonly Py_ssize_t python_ops
    cdef readonly int64_t runs
    cdef bint running
    cdef sdbr_op *ops
    cdef char **operands
    cdef char **last
    cdef double *floats
    cdef int32_t *control_references
    cdef int64_t n_control_references
    cdef object references
    cdef sdbr_runtime runtime
    cdef int flush                    # which denormals become zero: enum sdbr_flush
    cdef public object watch          # called with the index of each op that has run, or None

    cpdef run(self)
    cdef int run_c(self) except -1
    cdef int enter(self) except -1
    cdef int sync(self) except -1
    cdef int raise_unbound(self, int64_t local) except -1
    cdef int64_t run_native(
        self, int64_t begin, int64_t end, double *seconds, int *status) noexcept nogil
    cdef int run_segment(self, int64_t begin, int64_t end, double *seconds) except -1
    cdef int run_python(self, PythonOp op) except -1
    cdef int fail(self, int64_t index, int status) except -1
