"""What the compiled path of a call asks of audits."""

from sdbr.audit._budget cimport Budget
from sdbr.call._spec cimport Leaves


cdef class Due:
    cdef readonly Budget budget
    cdef public bint pending          # no replay has been audited yet
    cdef public list sums             # per array of the arguments: its checksum when traced
    cdef public int n_same            # how many have had these contents in all calls

    cdef bint is_due(self, Leaves now, list positions) except *
