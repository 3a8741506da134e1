"""States that change in place, where no version tells of it."""

cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport uint64_t

cimport numpy as cnp


cdef class Like:
    cdef cnp.dtype dtype
    cdef int ndim
    cdef cnp.npy_intp dims[64]
    cdef bint requires_grad
    cdef PyObject *kind


@cython.final
cdef class Usual:
    cdef object errors, variable, fields
    cdef tuple want, filters
    cdef bint is_known
    cdef PyObject *found    # in the dictionary of this version
    cdef uint64_t version
    cpdef bint holds(self) except -1
    cdef PyObject *errors_here(self) noexcept
    cdef PyObject *filters_now(self) noexcept
    cdef bint is_here(self) noexcept


cdef bint is_like(PyObject *x, Like like) noexcept
cdef bint is_variable_like(PyObject *x, Like like) noexcept
