"""When to audit a replay, decided in the compiled path."""

from sdbr.audit._budget import checksum

from cpython.object cimport PyObject
from libc.stdint cimport uint64_t

cimport numpy as cnp

from sdbr.audit._budget cimport Budget, sum_bytes
from sdbr.base._python cimport sdbr_data, sdbr_is_plain
from sdbr.call._spec cimport Leaves, leaves_of

cnp.import_array()


cdef class Due:
    """When the replays of one schedule are audited.

    Parameters
    ----------
    budget : Budget
        Of the manager.
    leaves : list of ndarray
        The arrays among the arguments of the traced call.

    Attributes
    ----------
    pending : bool
        Whether no replay has been audited yet.
    n_same : int
        Of how many arrays no call has brought other contents than the traced one.
    """

    def __init__(self, Budget budget, list leaves):
        self.budget = budget
        self.pending = True
        self.sums = [checksum(x) for x in leaves]
        self.n_same = len(leaves)

    cdef bint is_due(self, Leaves now, list positions) except *:
        """Whether to audit the call with these leaves; its arrays are at `positions`."""
        cdef Py_ssize_t i
        cdef PyObject *array
        cdef object wanted
        if self.pending or self.budget.due:
            return True
        if self.n_same:
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
                elif checksum(<object> array) != wanted:
                    return True
        return False

    def again(self):
        """The same for another schedule of the same call."""
        other = Due(self.budget, [])
        other.sums = list(self.sums)
        other.n_same = self.n_same
        return other

    def due(self, list leaves):
        """The same for the arrays of a call."""
        return self.is_due(leaves_of(leaves), list(range(len(leaves))))

    def audited(self, list leaves):
        """Note that a call with these arrays has been audited."""
        self.pending = False
        for i, x in enumerate(leaves):
            if self.sums[i] is not None and checksum(x) != self.sums[i]:
                self.sums[i] = None
                self.n_same -= 1
