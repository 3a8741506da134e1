"""What other compiled modules may use of the versions of dictionaries."""

from cpython.object cimport PyObject
from libc.stdint cimport uint64_t


ctypedef struct Counted:
    PyObject *d                   # borrowed from `dicts`
    uint64_t version


cdef class Dicts:
    cdef list dicts
    cdef list items
    cdef Counted *counted
    cdef Py_ssize_t n
    cpdef bint moved(self) except -1
