"""Which code is followed."""

cpdef bint is_followed(function) except -1
cpdef bint runs_followed(function) except -1
cpdef bint computes_unseen(function) except -1
cpdef object unbound(function)
cpdef bint asks(function) except -1
cpdef bint hides_code(found) except -1
