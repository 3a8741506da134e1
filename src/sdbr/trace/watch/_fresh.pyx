"""Which objects were made while a call ran, without a look at those that were there before.

Objects that the collector knows are in a list in the order in which they were made, as long as it
does not run: what stands behind a marker is younger than it. It moves them to lists of older ones.
"""

import gc

from cpython.mem cimport PyMem_Calloc, PyMem_Free
from cpython.object cimport PyObject

from sdbr.trace.watch._frames cimport made_before
from sdbr.trace.watch._looks cimport is_a

cdef extern from "Python.h":
    bint is_tracked "PyObject_GC_IsTracked"(PyObject *) noexcept


cdef class Addresses:
    """A set of addresses: open addressing, a power of two of places."""

    def __dealloc__(self):
        PyMem_Free(self.places)

    cdef size_t find(self, size_t address) noexcept:
        """The place of an address, or the free one where it belongs."""
        cdef size_t at = ((address >> 4) ^ (address >> 16)) & self.mask
        while self.places[at] != 0 and self.places[at] != address:
            at = (at + 1) & self.mask
        return at

    cdef bint has(self, size_t address) noexcept:
        return self.places != NULL and self.places[self.find(address)] != 0

    cdef int add(self, size_t address) except -1:
        if 2 * self.used >= self.mask:
            self.grow()
        cdef size_t at = self.find(address)
        self.used += self.places[at] == 0
        self.places[at] = address
        return 0

    cdef int grow(self) except -1:
        cdef size_t *before = self.places
        cdef size_t i, n = 0 if before == NULL else self.mask + 1
        self.mask = 1023 if n == 0 else 4 * n - 1
        self.places = <size_t *> PyMem_Calloc(self.mask + 1, sizeof(size_t))
        if self.places == NULL:
            self.places, self.mask = before, n - 1
            raise MemoryError()
        for i in range(n):
            if before[i] != 0:
                self.places[self.find(before[i])] = before[i]
        PyMem_Free(before)
        return 0


cdef class Fresh:
    """Objects that were made since `start`, in any thread.

    What is made where something fresh lay is fresh as well, so nothing has to be kept alive. Dicts
    of numbers and texts, and what has no references at all, the collector does not know: whoever
    sees one made says so (`add`).
    """

    def __init__(self):
        self.known = Addresses()

    cpdef int start(self, events) except -1:
        """What is made from now on is fresh; `events` pause while the collector runs."""
        self.events = events
        gc.callbacks.insert(0, self.begins)
        gc.callbacks.append(self.ends)
        self.marker = []
        return 0

    cpdef int stop(self) except -1:
        """Nothing is asked any more."""
        self.marker = self.events = None
        for callback in (self.begins, self.ends):
            if callback in gc.callbacks:
                gc.callbacks.remove(callback)
        return 0

    cpdef int lose(self) except -1:
        """Objects are moved without a word: what is made from now on counts as old."""
        if self.marker is not None:
            self.catch_up()
            self.marker = None
        return 0

    def begins(self, phase, info):
        """The collector is about to run: before others are told, whose code is not the call's."""
        if phase == "start":
            self.events.pause()
            if self.marker is not None:
                self.catch_up()

    def ends(self, phase, info):
        """All have been told: that the collector is about to run, or that it has.

        While one in another thread tells others, or runs their finalizers, the call goes on.
        """
        if self.marker is not None:
            self.catch_up()
        if phase == "stop":
            self.events.go_on()

    cdef bint has(self, PyObject *thing) except -1:
        """Whether it was made since."""
        if self.known.has(<size_t>thing):
            return True
        if self.marker is None or not is_tracked(thing):
            return False
        self.catch_up()
        return self.known.has(<size_t>thing)

    cdef int add(self, PyObject *thing) except -1:
        """It was made just now."""
        self.known.add(<size_t>thing)
        return 0

    cdef int catch_up(self) except -1:
        cdef list marker = []
        cdef PyObject *before = <PyObject *>self.marker
        cdef PyObject *last = <PyObject *>marker
        cdef PyObject *thing = made_before(last)
        # Where the collector has moved the old marker to an older list, all of this one was made
        # since: it is a ring.
        while thing != before and thing != last:
            self.known.add(<size_t>thing)
            thing = made_before(thing)
        self.marker = marker
        return 0


cdef class Shared:
    """What a call has made and code has a part in that runs in each replay (`static_code`, nodes).

    A replay runs that code, and not what is around it: the code meets what the traced call has
    left, and nobody meets what it leaves. So one of them may write such a thing, and nobody else
    write or read it.

    Attributes
    ----------
    filled, looked : dict of int to object
        What the code writes to, and what it reads, by addresses.
    since : Fresh or None
        What has been made since the code began that runs now.
    """

    def __init__(self, Fresh fresh, tuple told):
        self.fresh, self.told = fresh, told
        self.filled, self.looked = {}, {}

    cdef int begin(self, set its_own, events) except -1:
        """Such code begins; `its_own`: addresses of what each replay makes anew for it."""
        self.since, self.its_own = Fresh(), its_own
        self.since.start(events)
        return 0

    cdef int end(self) except -1:
        if self.since is not None:
            self.since.stop()
            self.since = None
        return 0

    cdef bint is_around(self, PyObject *thing) except -1:
        """Whether the call has made it before the code began that runs now."""
        if self.since is None:
            return True
        if is_a(<object>thing, self.told):
            return False
        return self.fresh.has(thing) and not self.since.has(thing)

    cdef bint meets_in_read(self, thing) except -1:
        """Whether what is read of `thing` is another in a replay."""
        cdef PyObject *at = <PyObject *>thing
        if not self.is_around(at):
            return False
        if self.since is not None:
            if <size_t>at in self.its_own:
                return False
            self.looked[<size_t>at] = thing
        return <size_t>at in self.filled

    cdef bint meets_in_write(self, thing, str kind) except -1:
        """Whether what is written to `thing` is met by somebody who would not in a replay."""
        cdef PyObject *at = <PyObject *>thing
        if not self.is_around(at):
            return False
        if self.since is None:
            return <size_t>at in self.looked or <size_t>at in self.filled
        self.filled[<size_t>at] = thing
        return <size_t>at not in self.its_own and (<size_t>at in self.looked or kind == "*")
