"""What other compiled modules may use of the executor: memory and executables."""

from libc.stdint cimport int32_t, int64_t

from sdbr.program._memory cimport Memory


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

    ctypedef int (*sdbr_kernel)(const sdbr_op *op) noexcept nogil

    ctypedef struct sdbr_op:
        sdbr_kernel kernel
        char **operands
        const int64_t *ints
        const double *floats
        sdbr_runtime *runtime


cdef class Prepared:
    cdef int64_t n_ops
    cdef int64_t n_operands
    cdef int64_t n_slots
    cdef bint draws
    cdef bint blas
    cdef readonly int threads         # that large ops are cut for
    cdef readonly Py_ssize_t cut_ops
    cdef sdbr_kernel *kernels         # per op; NULL for a Python op
    cdef int64_t *int_starts          # per op, into ints
    cdef int32_t *operand_offsets
    cdef int32_t *float_offsets
    cdef tuple source                 # the arrays of the program
    cdef object arrays                # keeps the memory of the pointers below
    cdef int64_t *ints
    cdef int32_t *slots               # global index of each slot of the program
    cdef int64_t *needed              # bytes of each slot
    cdef int64_t *patch_starts
    cdef int32_t *patch_operands
    cdef int64_t *patch_offsets
    cdef list python                  # of PythonOp
    cdef readonly dict choices        # by index of the op; what they hold lives as long

    cdef bint fits(self, program) except -1


cdef class PythonOp:
    cdef int64_t index
    cdef int64_t first_operand
    cdef object call
    cdef tuple ins                    # of (dtype, shape, strides, global slot)
    cdef tuple outs


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
    cdef public object watch          # called with the index of each op that has run, or None

    cpdef run(self)
    cdef int run_c(self) except -1
    cdef int enter(self) except -1
    cdef int sync(self) except -1
    cdef int raise_unbound(self, int64_t local) except -1
    cdef int64_t run_native(
        self, int64_t begin, int64_t end, double *seconds, int *status) except -1
    cdef int run_segment(self, int64_t begin, int64_t end, double *seconds) except -1
    cdef int run_python(self, PythonOp op) except -1
    cdef int fail(self, int64_t index, int status) except -1
