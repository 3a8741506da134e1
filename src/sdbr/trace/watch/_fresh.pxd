"""Which objects were made while a call ran."""

from cpython.object cimport PyObject


cdef class Addresses:
    cdef size_t *places  # 0 in those that are free
    cdef size_t mask     # one less than there are
    cdef size_t used

    cdef size_t find(self, size_t address) noexcept
    cdef bint has(self, size_t address) noexcept
    cdef int add(self, size_t address) except -1
    cdef int grow(self) except -1


cdef class Fresh:
    cdef Addresses known  # at which something was made
    cdef object events    # of the call
    cdef list marker      # made when `known` was last complete; None: not watched

    cpdef int start(self, events) except -1
    cpdef int stop(self) except -1
    cpdef int lose(self) except -1
    cdef bint has(self, PyObject *thing) except -1
    cdef int add(self, PyObject *thing) except -1
    cdef int catch_up(self) except -1


cdef class Shared:
    cdef Fresh fresh
    cdef tuple told                # classes of what is told otherwise
    cdef dict filled, looked
    cdef Fresh since
    cdef set its_own

    cdef int begin(self, set its_own, events) except -1
    cdef int end(self) except -1
    cdef bint is_around(self, PyObject *thing) except -1
    cdef bint meets_in_read(self, thing) except -1
    cdef bint meets_in_write(self, thing, str kind) except -1
