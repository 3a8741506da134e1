"""What the compiled path of a call asks of audits."""

from sdbr.call._spec cimport CallSpec


cdef class Budget:
    cdef public double replayed       # seconds in replays, extrapolated from those that are timed
    cdef public double audited        # seconds in audits
    cdef public double mean           # of a replay
    cdef long long n
    cdef long long mask               # of 1 + mask replays one is timed
    cdef public bint due              # whether time is left for an audit

    cdef double start(self) noexcept
    cdef int stop(self, double start, double share) except -1


cdef class Due:
    cdef readonly Budget budget
    cdef public bint pending          # no replay has been audited yet
    cdef public list sums             # per array of the arguments: its checksum when traced
    cdef public int n_same            # how many have had these contents in all calls

    cdef bint is_due(self, CallSpec spec, list positions) except *
