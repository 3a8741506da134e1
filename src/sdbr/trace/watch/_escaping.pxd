"""What code gets hold of that is not followed."""

from sdbr.trace.watch._notes cimport Notes

cdef enum Way:
    TAKES = 0  # past the methods of its class
    ASKS = 1  # by these
    IS_SEEN = 2  # by whoever stands for that code

cpdef object escape(Notes notes, thing, bint passes_on =*, Way way =*)
cpdef int meet(one, other) except -1
cpdef int meet_any(thing) except -1
cpdef bint is_number(thing) noexcept
cpdef int numbers(Notes notes, thing) except -1
cpdef object show(Notes notes, thing)
cpdef object again(Notes notes, function, tuple args =*, tuple kwargs =*)
