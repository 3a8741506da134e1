"""Asks whether what a call has read is as it was."""

cimport cython

from sdbr.trace.watch.plan._plan cimport Plan


cpdef object failed(list steps, list values, tuple given)


@cython.final
cdef class Checks:
    cdef readonly Plan plan
    cdef list steps
    cdef Py_ssize_t size, held
    cdef int useless, waits
    cpdef object check(self, tuple args, dict kwargs)
    cdef int note(self, list values, tuple args, dict kwargs) except -1
