"""What other compiled modules may use of kinds of arrays."""

from cpython.array cimport array as int_array
from cpython.object cimport PyObject


cdef class Kinds:
    cdef list dtypes
    cdef int_array ndims
    cdef int_array starts         # per kind: where its shape begins in `dims`
    cdef int_array dims
    cdef bint fits(self, Py_ssize_t k, PyObject *array) noexcept
    cdef object new(self, Py_ssize_t k)
