"""What reading of a container means."""

from sdbr.trace.watch._notes cimport Notes

cpdef object subscript(Notes notes, thing, key)
cpdef bint elements(Notes notes, thing) except -1
cpdef object values(Notes notes, thing)
cpdef object through(Notes notes, thing)
cpdef object all_of(Notes notes, thing)
cpdef object length(Notes notes, thing)
cpdef object contains(Notes notes, thing, key)
cpdef object equal(Notes notes, one, other)
cpdef object operate(Notes notes, one, other, bint modulo =*)
cpdef object write_item(Notes notes, thing, key)
