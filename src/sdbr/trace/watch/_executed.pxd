"""The frames that a call executes, and the operands of their instructions."""

from cpython.object cimport PyObject

from sdbr.trace.watch._notes cimport Notes


cdef class Executed(Notes):
    cdef readonly long n_instructions
    cdef set begun          # addresses of frames of generators that have begun during the call
    cdef set entered_before  # addresses of followed functions that were called
    cdef set looked_for      # addresses of classes and code objects: looked for there
    cdef dict names_seen     # address of a thing -> names that were read of it
    cdef tuple keywords     # names of arguments of the call that comes next
    cdef object callee      # what the instruction calls; None where it calls nothing
    cdef PyObject *first    # borrowed: the upper two of its operands, as far as they matter
    cdef PyObject *second
    cdef object function    # whose frame comes next, as far as that is known
    cdef list pending       # what `asked` is in each of them, for when the next one is left
    cdef list functions     # of the frames that are followed
    cdef list is_called     # of the same: whether code that is followed has called them
    cdef public object moving   # texts of sources where numbers lie that were others before
    cdef public object moves    # gives what the code gets of such a number
    cdef object moved           # (source, number) of the one that comes on the stack next
    cdef object settings    # `environment` when the call began
    cdef bint binds         # the last attribute was loaded with the object beside a method
    cdef int offset         # of the instruction

    cdef PyObject *operand(self, int i) noexcept
    cdef int put(self, int i, thing) except -1
    cdef object at(self, int i)
    cdef bint is_seen(self, PyObject *thing, str name) except -1
    cdef int see(self, PyObject *thing, str name) except -1
    cdef str name(self, int i)
    cdef object cell(self, int i)
    cdef int look_at_top(self) except -1
    cdef int hand_over(self, PyObject *top) except -1
    cdef int show_owner(self, str name) except -1
    cdef int show(self, int i, bint is_used) except -1
    cdef int show_written(self, int i) except -1
    cdef int lets_move(self, PyObject *array) except -1
    cdef object view_of(self, PyObject *array, bint is_used)
    cdef bint is_in_ours(self) except -1
    cdef int find_defaults(self, function) except -1
    cdef int find_in_class(self) except -1
    cdef int find_in(self, kind, code) except -1
    cdef int begin_frame(self, frame) except -1
