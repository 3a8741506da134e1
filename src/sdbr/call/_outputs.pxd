"""What other compiled modules may use of the arrays that are handed out."""

from sdbr.program._memory cimport Memory


cdef class Shown:
    cdef frozenset slots
    cdef dict given               # slot -> the caller's array, where a copy of it is bound
    cdef list copies              # all of the caller's in whose place a copy is bound, or None
    cdef object copied(self, int slot, array)
    cdef int clear(self) except -1
    cdef object array(self, int slot, bound)


cdef class Outputs:
    cdef Shown shown
    cdef list pools               # per output: a list of arrays
    cdef list arrays              # per output: the array of this run
    cdef list shapes
    cdef list dtypes
    cdef list slots
    cdef list windows             # of (output, slot, Window): those without memory of their own
    cdef list is_window           # per output
    cdef Memory memory
    cdef Py_ssize_t n             # of `pools`: of outputs, then memory that only windows show
    cdef int bind(self, list reused) except -1
