"""What an instruction calls, and with which arguments."""

from sdbr.trace.watch._executed cimport Executed

cdef int call_of(Executed w, int n, tuple names, int above) except -1
cdef int called(Executed w, function, first, int n, tuple names, int above) except -1
cdef int beside(Executed w) except -1
cdef int indexed(Executed w, int i, key) except -1
cdef int is_one(Executed w, int op, int arg) except -1
cdef int gives_back(Executed w, int op, int arg) except -1
cdef int call_all(Executed w, int n) except -1
