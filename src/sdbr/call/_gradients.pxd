"""What other compiled modules may use of the gradients of a whole step."""

from sdbr.program._memory cimport Memory


cdef class Gradients:
    cdef list dicts
    cdef list shapes              # what the program was made for
    cdef list dtypes
    cdef list arrays
    cdef list slots
    cdef list fresh               # indices of those that have to be published
    cdef Memory memory
    cdef int bind(self) except -1
    cdef int publish(self) except -1
