"""What other compiled modules may use of parameters that are updated in float32."""

from sdbr.program._memory cimport Memory


cdef class Master:
    cdef readonly object parameter  # in float16
    cdef readonly object copy       # the parameter in float32
    cdef object rule
    cdef list data                  # what holds the array of `parameter`
    cdef object spare               # an array that it had, and that may be used again; or None
    cdef object before              # `t` of the rule that has not used `copy` yet; or None
    cdef bint refresh(self, bint counted) except -1
    cdef int bind(self, Memory memory, int slot) except -1
    cdef int publish(self, Memory memory, int slot) except -1


cdef class Masters:
    cdef Memory memory
    cdef list masters
    cdef list slots
    cpdef int bind(self) except -1
    cpdef int publish(self) except -1
