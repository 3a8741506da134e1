"""What other compiled modules may use of prints of arrays and Variables."""

from libc.stdint cimport uint64_t

from sdbr.trace.guards._compare cimport Print


cdef class ArrayPrint(Print):
    cdef readonly object array
    cdef readonly tuple kind
    cdef tuple strides
    cdef int flags
    cdef bytes contents           # None: only a sample is compared
    cdef readonly object total    # of a large one, until the traced call is over
    cdef uint64_t sample
    cdef bint is_of_kind(self, object thing) except -1
    cdef bint lies_alike(self, object thing) except -1


cdef class VariablePrint(Print):
    cdef object reference
    cdef size_t identity
    cdef readonly tuple kind


cdef class DevicePrint(Print):
    cdef readonly object array
    cdef readonly tuple kind
    cdef bytes contents
