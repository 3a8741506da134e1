"""What the compiled path of a call asks of the time that audits take."""

from libc.stdint cimport uint64_t


cdef class Budget:
    cdef public double replayed       # seconds in replays, extrapolated from those that are timed
    cdef public double audited        # seconds in audits
    cdef public long long audits      # how many these were
    cdef public double mark           # seconds in audits when some of them were given again
    cdef public double mean           # of a replay
    cdef long long n
    cdef long long mask               # of 1 + mask replays one is timed
    cdef public bint due              # whether time is left for an audit

    cdef double start(self) noexcept
    cdef int stop(self, double start, double share) except -1
    cdef void count(self, double took, double share) noexcept


cdef class AuditCount:
    cdef readonly long long n         # replays so far, audited ones included
    cdef long long last, next         # the last of them that was audited; when one is due again

    cpdef bint is_due(self, double share, Budget budget, double mean) noexcept
    cpdef void served(self) noexcept


cdef class Clock:
    cdef Budget budget
    cdef object device
    cdef double mean
    cdef long long n, next            # how many runs; the next that is waited for

    cdef double start(self) except? -1
    cdef int stop(self, double start, double share) except -1
    cdef wait(self)


cdef uint64_t sum_bytes(const char *data, Py_ssize_t n) noexcept nogil
cdef double seconds() noexcept nogil
