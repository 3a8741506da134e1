"""The frames that a call executes, and the operands of their instructions."""

from cpython.object cimport PyObject

from sdbr.trace.watch._notes cimport Notes


cdef class Executed(Notes):
    cdef readonly long n_instructions
    cdef set begun          # addresses of frames of generators that have begun during the call
    cdef set entered_before  # addresses of followed functions that were called
    cdef dict names_seen     # address of a thing -> names that were read of it
    cdef tuple keywords     # names of arguments of the call that comes next
    cdef object function    # whose frame comes next, as far as that is known
    cdef list pending       # what `asked` is in each of them, for when the next one is left
    cdef list functions     # of the frames that are followed
    cdef int offset         # of the instruction

    cdef PyObject *operand(self, int i) noexcept
    cdef object at(self, int i)
    cdef bint is_seen(self, PyObject *thing, str name) except -1
    cdef int see(self, PyObject *thing, str name) except -1
    cdef str name(self, int i)
    cdef object cell(self, int i)
    cdef int look_at_top(self) except -1
    cdef int find_in_class(self) except -1
    cdef int begin_frame(self, frame) except -1
