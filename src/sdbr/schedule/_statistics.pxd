"""What the compiled path of a call counts."""


cdef class Statistics:
    cdef public long long calls
    cdef public long long traces
    cdef public long long builds
    cdef public long long replays
    cdef public long long steps
    cdef public long long define_by_run_calls
    cdef public long long compiled_backwards
    cdef public long long native_calls
    cdef public long long python_ops
    cdef public long long second_backwards
    cdef public long long second_replays
    cdef void replayed(self, Usage usage, int python_ops, bint is_new) noexcept
    cpdef int count_run(self, executable) except -1


cdef class Usage:
    cdef public long long served
    cdef public long long replays
    cdef public long long last_call
