"""What other compiled modules may use of the gradients of a whole step."""

from sdbr.program._memory cimport Memory


cdef class Gradient:
    cdef object __weakref__
    cdef dict attributes          # of the parameter
    cdef tuple shape              # what the programs were made for
    cdef object dtype
    cdef object array             # or None
    cdef Memory memory            # to which it is bound
    cdef int slot                 # there
    cdef bint bind(self, Memory memory, int slot) except -1
    cdef int take(self, Memory memory, int slot) except -1
    cdef int let_go(self) except -1


cdef class Gradients:
    cdef list gradients
    cdef list slots
    cdef list fresh               # indices of those that have to be published
    cdef list reached             # whether the loss depends on each, so that its scale is noted
    cdef Memory memory
    cdef int bind(self) except -1
    cdef int publish(self, scale, bint filled) except -1


cdef class Added:
    cdef list items
    cdef list arrays
    cdef Memory memory
    cdef int bind(self) except -1
    cdef int publish(self, tuple args, list positions, scale) except -1
