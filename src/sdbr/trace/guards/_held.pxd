"""What other compiled modules may use of the conditions that are compared at every call."""


cdef class Conditions:
    cdef list holders
    cdef list names
    cdef list checks
    cdef list wants
    cdef readonly list given      # as they were taken up, to be told of
    cdef bytearray codes
    cdef tuple failing(self)
