"""Events of the code that runs in a thread."""

from sdbr.trace.watch._followed cimport Followed
from sdbr.trace.watch._frames cimport Layout


cdef class Events(Followed):
    cdef void *thread        # that is watched; NULL: none
    cdef int paused          # how often
    cdef bint hushed         # before 3.12: the trace function is taken away while it is paused
    cdef bint called         # before 3.12: someone has put our trace function back himself
    # From 3.12 on.
    cdef object monitoring   # sys.monitoring
    cdef int tool
    cdef list instrumented   # layouts of code objects with events of their own

    cpdef int pause(self) except -1
    cpdef int go_on(self) except -1
    cpdef int give_up(self) except -1
    cdef bint is_other(self) noexcept
    cdef int take_hook(self) except -1
    cdef str give_hook_back(self)
    cdef int take_tool(self) except -1
    cdef str give_tool_back(self)
    cdef int instrument(self, Layout layout) except -1
    cdef bint is_about_top(self) noexcept
