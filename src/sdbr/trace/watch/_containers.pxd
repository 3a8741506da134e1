"""What reading of a container means."""

from sdbr.trace.watch._notes cimport Notes

cpdef bint is_computed(thing) except -1
cpdef object advance(Notes notes, iterator)
cpdef object subscript(Notes notes, thing, key)
cpdef object get_item(Notes notes, thing, key)
cpdef bint elements(Notes notes, thing) except -1
cpdef object values(Notes notes, thing)
cpdef object through(Notes notes, thing)
cpdef object all_of(Notes notes, thing)
cpdef object length(Notes notes, thing)
cpdef object count(Notes notes, thing)
cpdef object identify(Notes notes, key)
cpdef object contains(Notes notes, thing, key)
cpdef object holds(Notes notes, thing, key)
cpdef object equal(Notes notes, one, other, int depth =*)
cpdef object operate(Notes notes, one, other, bint modulo =*)
cpdef object write_item(Notes notes, thing, key, bint deletes =*, value =*)
cpdef object put(Notes notes, thing, str name, list args)
cpdef object set_item(Notes notes, thing, key, bint deletes =*)
cpdef int computed_from(Notes notes, list things, bint one_by_one=*) except -1
