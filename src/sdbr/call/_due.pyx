"""When to audit a replay, decided in the compiled path."""

from sdbr.audit.contents import checksums
from sdbr.devices.arrays import NO_MEMORY

from cpython.object cimport PyObject
from libc.stdint cimport uint64_t

cimport numpy as cnp

from sdbr.audit._budget cimport AuditCount, Budget, Clock, sum_bytes
from sdbr.base._python cimport sdbr_data, sdbr_is_plain
from sdbr.call._spec cimport Leaves, leaves_of

cnp.import_array()


cdef list sums_of(list arrays):
    """Checksums; None for each where a GPU has no memory to compute them."""
    try:
        return checksums(arrays)
    except NO_MEMORY:
        return [None] * len(arrays)


cdef class Due:
    """When the replays of one schedule are audited.

    Parameters
    ----------
    budget : Budget
        Of the manager.
    leaves : list of ndarray
        The arrays among the arguments of the traced call.
    device : int, optional
        The GPU that they lie on. Looking at what they hold there takes kernels and a wait: it is
        done in the first eight replays, and then ever more rarely.
    count : AuditCount, optional
        Of other schedules as well; else one of its own.

    Attributes
    ----------
    pending : bool
        Whether no replay has been audited yet.
    n_same : int
        Of how many arrays no call has brought other contents than the traced one.
    """

    def __init__(self, Budget budget, list leaves, device=None, AuditCount count=None):
        self.budget = budget
        self.count = AuditCount() if count is None else count
        self.pending = True
        self.sums = sums_of(leaves)
        self.n_same = len(leaves)
        self.device = device
        self.next_look = 1
        if device is not None:
            self.clock, self.backwards = Clock(budget, device), Clock(budget, device)

    cdef double start(self) except? -1:
        """To be called before a replay that is not audited; 0 for one whose time is not taken."""
        self.count.served()
        return self.budget.start() if self.clock is None else self.clock.start()

    cdef int stop(self, double start, double share) except -1:
        """To be called after a replay, with what `start` gave."""
        return self.budget.stop(start, share) if self.clock is None else self.clock.stop(
            start, share
        )

    cdef bint is_due(self, Leaves now, list positions, double share) except *:
        """Whether to audit the call with these leaves; its arrays are at `positions`."""
        cdef double mean = self.budget.mean if self.clock is None else self.clock.mean
        cdef Py_ssize_t i
        cdef PyObject *array
        cdef object wanted
        if self.pending or self.budget.due or self.met_other:
            return True
        if self.count.is_due(share, self.budget, mean):
            return True
        if not self.n_same:
            return False
        if self.device is not None:
            return self.is_other_there(now, positions)
        for i in range(len(self.sums)):
            wanted = self.sums[i]
            if wanted is None:
                continue
            array = now.arrays[<int> positions[i]]
            if sdbr_is_plain(array):
                if sum_bytes(
                    sdbr_data(array), cnp.PyArray_NBYTES(<cnp.ndarray> array)
                ) != <uint64_t> wanted:
                    return True
            elif checksums([<object> array]) != [wanted]:
                return True
        return False

    cdef bint is_other_there(self, Leaves now, list positions) except *:
        """Whether arrays of a GPU hold something else than those of the traced call."""
        self.n_looks += 1
        if self.n_looks < self.next_look:
            return False
        self.next_look += 1 + self.n_looks // 8
        places = [i for i, wanted in enumerate(self.sums) if wanted is not None]
        found = sums_of([<object> now.arrays[<int> positions[i]] for i in places])
        self.met_other = any([
            x is not None and x != self.sums[i] for i, x in zip(places, found)
        ])
        return self.met_other

    def again(self):
        """The same for another schedule of the same call."""
        other = Due(self.budget, [], self.device)
        other.sums = list(self.sums)
        other.n_same = self.n_same
        return other

    def due(self, list leaves, double share):
        """The same for the arrays of a call."""
        return self.is_due(leaves_of(leaves), list(range(len(leaves))), share)

    def restart(self):
        """Audit the next replay, and count anew: something was wrong."""
        self.pending = True
        self.count.restart()

    def begins(self):
        """Note that an audit begins, whatever comes of it."""
        self.count.audited()
        self.budget.audits += 1

    def audited(self, list leaves):
        """Note that a call with these arrays has been audited."""
        self.pending = self.met_other = False
        for i, found in enumerate(sums_of(leaves) if self.n_same else []):
            if self.sums[i] is not None and found is not None and found != self.sums[i]:
                self.sums[i] = None
                self.n_same -= 1
