"""What the compiled path of a call asks of audits."""

from sdbr.audit._budget cimport AuditCount, Budget, Clock
from sdbr.call._spec cimport Leaves


cdef class Due:
    cdef readonly Budget budget
    cdef readonly AuditCount count    # which replays are audited by their number
    cdef public bint pending          # no replay has been audited yet
    cdef public list sums             # per array of the arguments: its checksum when traced
    cdef public int n_same            # how many have had these contents in all calls

    cdef object device                # the GPU that replays run on; None: the host
    cdef Clock clock                  # of replays there
    cdef readonly Clock backwards     # of their backwards
    cdef long long n_looks, next_look
    cdef bint met_other               # the last look there found other contents

    cdef double start(self) except? -1
    cdef int stop(self, double start, double share) except -1
    cdef bint is_due(self, Leaves now, list positions, double share) except *
    cdef bint is_other_there(self, Leaves now, list positions) except *
