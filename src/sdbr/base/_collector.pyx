"""The switch of Python's garbage collector, held by several threads at once.

Compiled, so that no signal comes between a thread's being noted and its being forgotten.
"""

cdef extern from "Python.h":
    int PyGC_Disable()
    int PyGC_Enable()
    int PyGC_IsEnabled()
    unsigned long PyThread_get_thread_ident()


cdef class Collector:
    """Off from the first thread that wants it off to the last that is done.

    A context, which may be nested; called, it gives itself.
    """

    cdef dict holders  # thread -> how often it is inside
    cdef bint was_on

    def __cinit__(self):
        self.holders = {}

    def __call__(self):
        return self

    def __enter__(self):
        me = PyThread_get_thread_ident()
        if not self.holders:
            self.was_on = PyGC_IsEnabled()
            PyGC_Disable()
        self.holders[me] = self.holders.get(me, 0) + 1
        return self

    def __exit__(self, kind, error, trace):
        me = PyThread_get_thread_ident()
        n = self.holders.pop(me) - 1
        if n:
            self.holders[me] = n
        self.settle()
        return False

    cdef settle(self):
        if not self.holders and self.was_on:
            PyGC_Enable()

    def in_the_child(self):
        """Forget threads that a forked child does not have: they are never done."""
        if self.holders:
            me = PyThread_get_thread_ident()
            self.holders = {who: n for who, n in self.holders.items() if who == me}
            self.settle()
