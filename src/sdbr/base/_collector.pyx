"""The switch of Python's garbage collector, held by several threads at once.

Compiled, so that no signal comes between a thread's being noted and its being forgotten.
"""

import gc
import sys

#: From how many new objects on the collector is spared the look at them.
PILE = 5000

cdef extern from "Python.h":
    int PyGC_Disable()
    int PyGC_Enable()
    int PyGC_IsEnabled()
    unsigned long PyThread_get_thread_ident()


cdef class Collector:
    """Off from the first thread that wants it off to the last that is done.

    A context, which may be nested; called, it gives itself.

    What was made meanwhile stays, and the collector would go through all of it twice at once, from
    the youngest generation to the oldest: it is old without that. That ends where many objects
    have become old so, until the user's program has collected all generations: garbage among them
    is found then alone, and who traces all the time would never get there.
    """

    cdef dict holders  # thread -> how often it is inside
    cdef bint was_on
    cdef object full  # how often all generations were collected, when this was last looked at
    cdef long n_aged  # objects since then

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
            self.age()
            PyGC_Enable()

    cdef age(self):
        """Put what is young among what is old, where it is much and not too much."""
        cdef long n = gc.get_count()[0]
        if n < PILE:
            return
        full = gc.get_stats()[2]["collections"]
        if full != self.full:
            self.full, self.n_aged = full, 0
        # There are several blocks of memory to an object.
        if 4 * (self.n_aged + n) > sys.getallocatedblocks():
            return
        if gc.get_freeze_count():  # the user has put objects there, which are to stay
            return
        self.n_aged += n
        gc.freeze()
        gc.unfreeze()

    def in_the_child(self):
        """Forget threads that a forked child does not have: they are never done."""
        if self.holders:
            me = PyThread_get_thread_ident()
            self.holders = {who: n for who, n in self.holders.items() if who == me}
            self.settle()
