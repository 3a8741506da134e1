"""What is followed, for where events come from."""

from cpython.object cimport PyObject

from sdbr.trace.watch._frames cimport Layout

cdef enum:
    N_RECENT = 512

cdef enum Event:
    INSTRUCTION
    LEFT
    RAISED
    UNWOUND


cdef class Followed:
    # Of the frame that was entered last, of those that are followed and still executed.
    cdef readonly Layout layout
    cdef PyObject *top       # the frame; borrowed from `frames`
    cdef list frames         # from the outermost: those that were entered and not left
    cdef list layouts        # of each of them
    cdef list were           # what `f_trace_opcodes` of each was
    cdef dict known          # address of a code object -> its layout, or itself: not followed
    cdef PyObject *recent[N_RECENT]          # some of them, by address: what is kept by `known`
    cdef PyObject *recent_layouts[N_RECENT]  # NULL: not followed
    cdef bint on             # events are wanted: no handler has failed
    cdef object error        # what a handler raised

    cpdef bint follows(self, code) except -1
    cpdef bint wants(self, frame) except -1
    cpdef int entered(self, frame) except -1
    cpdef int instruction(self, frame, int offset) except -1
    cpdef int left(self, frame, value) except -1
    cpdef int raised(self, frame, error) except -1
    cpdef int unwound(self, frame) except -1

    cdef Layout layout_of(self, PyObject *code)
    cdef int enter(self, PyObject *frame, Layout layout) except -1
    cdef int leave(self) except -1
    cdef int leave_all(self) except -1
    cdef int meet(self, Event event, int at, PyObject *value) noexcept
    cdef int fail(self, error) noexcept
