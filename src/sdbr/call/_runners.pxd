"""What other compiled modules may use of the runners."""


cdef object serve_fast(list runners, tuple args, dict kwargs, bint unhooked)
