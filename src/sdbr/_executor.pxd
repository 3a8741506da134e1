"""What other compiled modules may use of the executor: executables."""

from libc.stdint cimport int64_t

from sdbr.program._abi cimport sdbr_flight, sdbr_op, sdbr_runtime
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
    cdef sdbr_runtime runtime
    cdef sdbr_flight flight           # collectives that are under way
    cdef bint out_of_step             # a run failed between two collectives
    cdef int flush                    # which denormals become zero: enum sdbr_flush
    cdef bint by_op                   # whether times are those of each op, in `run_timed`
    cdef bint whole                   # whether the next run that is observed is not
    cdef public object watch          # called with the index of each op that has run, or None

    cpdef run(self)
    cdef int run_c(self) except -1
    cdef int enter(self) except -1
    cdef int leave(self) except -1
    cdef int sync(self) except -1
    cdef void read_control(self) noexcept
    cdef int raise_unbound(self, int64_t local) except -1
    cdef int64_t run_native(
        self, int64_t begin, int64_t end, double *seconds, int *status) noexcept nogil
    cdef int run_segment(self, int64_t begin, int64_t end, double *seconds) except -1
    cdef int64_t run_stretch(
        self, int64_t begin, int64_t end, double *seconds, int *status) noexcept nogil
    cdef int run_python(self, PythonOp op) except -1
    cdef str note(self, int64_t index)
    cdef int fail(self, int64_t index, int status) except -1
