"""What code gets hold of that is not followed."""

from sdbr.trace.watch._notes cimport Notes

cpdef object escape(Notes notes, thing, bint passes_on =*)
cpdef int numbers(Notes notes, thing) except -1
cpdef object show(Notes notes, thing)
cpdef object again(Notes notes, function, tuple args =*, tuple kwargs =*)
