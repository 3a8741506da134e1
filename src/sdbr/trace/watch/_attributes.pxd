"""What reading an attribute means."""

from sdbr.trace.watch._notes cimport Notes

cpdef object attribute(Notes notes, thing, str name)
cpdef object super_attribute(Notes notes, object start, thing, object kind, str name)
cpdef object has_attribute(Notes notes, thing, str name)
cpdef object as_usual(Notes notes, thing, str name)
cpdef object write_attribute(Notes notes, thing, str name, bint deletes =*, value =*)
cpdef object wrote_attribute(Notes notes, thing, str name, bint deletes =*)
cpdef bint finds_as_usual(object kind) except -1
cpdef object enter_context(Notes notes, thing)
cpdef object match(Notes notes, thing, kind, int n, tuple names)
cpdef int waits(Notes notes) except -1
cdef int answered(Notes notes, thing, str kind, str name, value) except -1
