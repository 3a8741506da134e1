from libc.stdint cimport intptr_t, uint64_t


cdef class InFlight:
    cdef readonly object device, fault
    cdef object pinned, buffer, programs, held, thread
    cdef uint64_t number
    cdef uint64_t *noted
    cdef intptr_t stream, per_thread
    cdef bint runs

    cpdef before(self, intptr_t stream)
    cdef turn_to(self, intptr_t stream)
    cdef clear(self)
