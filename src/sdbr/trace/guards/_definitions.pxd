"""What the compiled path of a call asks of the code that it may run."""

from cpython.object cimport PyObject
from libc.stdint cimport uint64_t


cdef struct Looked:
    PyObject *d
    uint64_t version
    Py_ssize_t end     # of its names among those of all


cdef class Definitions:
    cdef list dicts
    cdef list names
    cdef list things
    cdef list functions
    cdef list codes
    cdef list classes
    cdef list bases
    cdef list tags                # of the classes when nothing had changed
    cdef Looked *looked
    cdef bint classes_hold(self)
    cdef Py_ssize_t failed_function(self) except -2
    cpdef str failed(self)
