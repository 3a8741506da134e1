"""What calling means."""

from sdbr.trace.watch._notes cimport Notes

cpdef object call(Notes notes, function, list args, dict kwargs)
cdef int read_parts(Notes notes, function) except -1
cdef object undecorated(function)
cdef bint runs_users(link) except -1
