"""What iterables give to compiled code."""

from sdbr.trace.watch._notes cimport Notes

cpdef object each(Notes notes, thing, meaning)
cpdef object called_with(Notes notes, function, list iterables)
cdef int own_cell(Notes notes, int i, bint writes) except -1
cdef bint converts(Notes notes) except -1
cdef int iterated(Notes notes, thing) except -1
