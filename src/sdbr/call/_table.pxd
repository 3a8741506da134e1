"""What other compiled modules may use of the table of runners."""

from libc.stdint cimport uint64_t

from sdbr.program._arenas cimport Arena


cdef class Runner:
    cdef readonly object schedule
    cdef bint running
    cdef public object met        # the answers of a call that went another way, or None
    cdef bint halted              # whether no other runner may serve the call that it was asked for
    cdef Group group
    cdef Runner then              # which runner of the group serves after this one; None: itself
    cdef bint sure                # whether that was so the last time
    cdef object attempt(self, callee, tuple args, dict kwargs, bint unhooked)


cdef class Group:
    cdef uint64_t look
    cdef list runners             # never changed in place: another thread may be going over it
    cdef Runner served            # the last one that did
    cdef Runner likely            # the one that is asked first
    cdef Group then               # which group served after this one; None: itself


cdef class Table:
    cdef dict groups
    cdef Group last               # the one that served the last call
    cdef readonly bint halted     # whether a runner knew the last call and left it, as for an audit
    cdef readonly Runner tried    # the last one that met another answer, where none served the call
    cdef readonly Arena arena     # of programs that leave nothing in it
    cdef uint64_t config_version
    cdef uint64_t config_look
    cdef bint free                # whether whole numbers may be others in some calls
    cdef object serve(self, callee, tuple args, dict kwargs, bint unhooked)
    cdef int note(self, Runner runner) except -1
    cdef int put(self, Runner runner, callee, tuple args, dict kwargs) except -1
    cdef int leave(self, Group group, list kept) except -1
    cdef uint64_t look_of(self, callee, tuple args, dict kwargs) except? 0
