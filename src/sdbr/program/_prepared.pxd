"""A prepared program and its Python ops, for the loop."""

from libc.stdint cimport int32_t, int64_t

cimport numpy as cnp

from sdbr.program._abi cimport sdbr_kernel


cdef class Prepared:
    cdef int64_t n_ops
    cdef int64_t n_operands
    cdef int64_t n_slots
    cdef bint draws
    cdef readonly int64_t ahead       # the first of the ops that run while the next is fetched
    cdef readonly bint is_far         # whether updates go through more memory than caches hold
    cdef readonly int threads         # that large ops are cut for
    cdef readonly Py_ssize_t cut_ops
    cdef sdbr_kernel *kernels         # per op; NULL for a Python op
    cdef int64_t *int_starts          # per op, into ints
    cdef int32_t *operand_offsets
    cdef int32_t *float_offsets       # per op
    cdef int32_t *references          # of floats to control values: pairs
    cdef int64_t n_references
    cdef int32_t *stretches           # per op: where the ops that flush as it does end
    cdef cnp.npy_bool *flushes        # per op: whether gradients or updates are made
    cdef tuple blas                   # addresses of its functions, or None
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

    cdef int point_at(self, dict arrays) except -1
    cpdef bint fits(self, program) except -1


cdef class PythonOp:
    cdef int64_t index
    cdef int64_t first_operand
    cdef object call
    cdef tuple ins                    # of (dtype, shape, strides, global slot)
    cdef tuple outs
