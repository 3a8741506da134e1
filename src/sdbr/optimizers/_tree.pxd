"""What an update asks about the parameters of its target."""

from cpython.object cimport PyObject


cdef struct Lookup:
    # A dict that must hold this very value under this key.
    PyObject *where
    PyObject *key
    PyObject *value


cdef struct Size:
    # A set or list that must keep its size.
    PyObject *where
    Py_ssize_t size


cdef class Tree:
    cdef readonly object target
    cdef readonly bint opaque     # a link chooses its parameters by code of its own
    cdef list kept
    cdef list params
    cdef object version_cell
    cdef object version
    cdef Lookup *lookups
    cdef Size *sizes
    cdef list lists               # of (list, tuple of its items)
    cdef Py_ssize_t n_lookups
    cdef Py_ssize_t n_sizes

    cpdef bint check(self)
    cdef bint walk(self)
