"""What audits may cost, counted in the compiled path; checksums of arrays."""

from sdbr.base.audit_share import SHARE
from sdbr.devices.runs import wait_quietly

import numpy as np

from libc.stdint cimport uint64_t
from libc.string cimport memcmp, memcpy
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

cimport numpy as cnp

cnp.import_array()

#: Replays longer than this (in seconds) are all timed; of shorter ones one in sixteen.
cdef double TIMED = 2e-5
#: One replay counts at most as this many of the usual length: the machine may have been busy.
cdef double OUTLIER = 8
#: After so many replays audits by count no longer come at powers of two, but after so many each.
cdef long long OFTEN = 1024
#: Seconds that audits at powers of two may take in all, whatever share of the time that is.
cdef double EARLY = 1.0
#: Where audits may take less of the time than this, none comes by count.
cdef double _SHARE = SHARE


cdef double seconds() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return now.tv_sec + 1e-9 * now.tv_nsec


cdef uint64_t sum_bytes(const char *data, Py_ssize_t n) noexcept nogil:
    """A checksum in four lanes of eight bytes, so that it runs at the speed of memory."""
    cdef uint64_t prime = 0x9E3779B97F4A7C15
    cdef uint64_t a = 1, b = 2, c = 3, d = 4
    cdef uint64_t w[4]
    cdef Py_ssize_t i = 0
    while i + 32 <= n:
        memcpy(w, data + i, 32)
        a = (a ^ w[0]) * prime
        b = (b ^ w[1]) * prime
        c = (c ^ w[2]) * prime
        d = (d ^ w[3]) * prime
        a ^= a >> 29
        b ^= b >> 29
        c ^= c >> 29
        d ^= d >> 29
        i += 32
    while i < n:
        a = (a ^ <unsigned char> data[i]) * prime
        a ^= a >> 29
        i += 1
    return ((a * prime ^ b) * prime ^ c) * prime ^ d


def checksum(array):
    """A number that tells contents, shape and dtype of an array apart from others.

    Parameters
    ----------
    array : numpy.ndarray

    Returns
    -------
    int
    """
    if array.dtype.hasobject:
        return 0
    plain = np.ascontiguousarray(array)
    cdef uint64_t found = sum_bytes(
        <const char *> cnp.PyArray_DATA(plain), cnp.PyArray_NBYTES(plain)
    )
    return found


def same_bytes(a, b):
    """Whether two arrays have the same shape, dtype and bytes: NaN equals NaN, 0.0 not -0.0."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.hasobject:
        return all(x is y for x, y in zip(a.flat, b.flat))
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    return memcmp(cnp.PyArray_DATA(a), cnp.PyArray_DATA(b), cnp.PyArray_NBYTES(a)) == 0


cdef fused Float:
    float
    double


cdef bint largest(const Float *a, const Float *b, Py_ssize_t n, double *found) noexcept nogil:
    """The largest |a - b| and |b|, as NumPy gives them; False where one is not finite."""
    cdef Float error, scale, far = 0, big = 0
    cdef Py_ssize_t i
    for i in range(n):
        error = a[i] - b[i] if a[i] > b[i] else b[i] - a[i]
        scale = b[i] if b[i] > 0 else -b[i]
        if not (error - error == 0 and scale - scale == 0):
            return False
        far = error if error > far else far
        big = scale if scale > big else big
    found[0], found[1] = far, big
    return True


def largest_difference(cnp.ndarray got not None, cnp.ndarray want not None):
    """``max(|got - want|)`` and ``max(|want|)`` of two arrays of one shape and dtype.

    Parameters
    ----------
    got, want : numpy.ndarray

    Returns
    -------
    tuple of float or None
        None where something is not finite, and for arrays with gaps or of other dtypes than float32
        and float64.
    """
    cdef double found[2]
    cdef Py_ssize_t n = cnp.PyArray_SIZE(want)
    cdef bint finite
    if not (cnp.PyArray_IS_C_CONTIGUOUS(got) and cnp.PyArray_IS_C_CONTIGUOUS(want)):
        return None
    if not (cnp.PyArray_ISALIGNED(got) and cnp.PyArray_ISALIGNED(want)):
        return None
    if not (cnp.PyArray_ISNOTSWAPPED(got) and cnp.PyArray_ISNOTSWAPPED(want)):
        return None
    if cnp.PyArray_TYPE(want) == cnp.NPY_FLOAT and cnp.PyArray_TYPE(got) == cnp.NPY_FLOAT:
        finite = largest(
            <const float *> cnp.PyArray_DATA(got), <const float *> cnp.PyArray_DATA(want), n, found
        )
    elif cnp.PyArray_TYPE(want) == cnp.NPY_DOUBLE and cnp.PyArray_TYPE(got) == cnp.NPY_DOUBLE:
        finite = largest(
            <const double *> cnp.PyArray_DATA(got), <const double *> cnp.PyArray_DATA(want), n,
            found,
        )
    else:
        return None
    return (found[0], found[1]) if finite else None


cdef class Budget:
    """Seconds that one manager has spent in replays and in audits.

    Attributes
    ----------
    replayed, audited : float
    audits : int
        How many audits have begun.
    mark : float
        What `audited` was when something turned out wrong: there is time for early ones again.
    due : bool
        Whether the audits have had less than their share.
    """

    cdef double start(self) noexcept:
        """To be called before a replay; 0 for one that is not timed."""
        self.n += 1
        return 0 if self.n & self.mask else seconds()

    cdef int stop(self, double start, double share) except -1:
        """To be called after a replay, with what `start` gave."""
        cdef double took
        if start == 0:
            return 0
        took = seconds() - start
        if self.mean > 0 and took > OUTLIER * self.mean:
            took = OUTLIER * self.mean
        self.mean += (took - self.mean) / (8 if self.mean > 0 else 1)
        self.replayed += took * (self.mask + 1)
        self.mask = 0 if self.mean > TIMED else 15
        self.due = self.audited < share * self.replayed
        return 0

    def add(self, double took, double share):
        """Count seconds of a replay that was timed elsewhere (a backward)."""
        self.count(took, share)

    cdef void count(self, double took, double share) noexcept:
        """The same for compiled code."""
        self.replayed += took
        self.due = self.audited < share * self.replayed

    def spend(self, double took, double share):
        """Count seconds of an audit."""
        self.audited += took
        self.due = self.audited < share * self.replayed


cdef class AuditCount:
    """Which replays are audited by their number, however little time small ones take.

    The 1st, the 2nd, the 4th and so on to the 1,024th while audits have taken less than a second in
    all, then each 1,024th. One that would take more than half of the time that audits may take is
    put off until twice as many replays have passed. An audit for another reason counts as well.

    Attributes
    ----------
    n : int
        Replays so far, those that were audited included.
    """

    def __init__(self):
        self.next = 1

    cpdef bint is_due(self, double share, Budget budget, double mean) noexcept:
        """Whether the next replay is one of them; `mean` seconds is what one takes."""
        cdef long long between = self.next - self.last
        if self.n + 1 < self.next or share < _SHARE:
            return False
        if between < OFTEN and budget.audited - budget.mark < EARLY:
            return True
        if budget.audited <= 0.5 * share * between * mean * budget.audits:
            return True
        self.next += between
        return False

    cpdef void served(self) noexcept:
        """Count a replay that is not audited."""
        self.n += 1

    def audited(self):
        """Count one that is."""
        self.n += 1
        self.last, self.next = self.n, 1
        while self.next <= min(self.n, OFTEN - 1):
            self.next *= 2
        if self.n >= OFTEN:
            self.next = self.n + OFTEN

    def restart(self):
        """Begin anew: something was wrong."""
        self.n, self.last, self.next = 0, 0, 1


cdef class Clock:
    """The time that runs on a GPU take. Nobody waits for a run, so a few of them are waited for.

    The first one, the fourth, the sixteenth and so on; the others count as the last of these.

    Parameters
    ----------
    budget : Budget
    device : int
    """

    def __init__(self, Budget budget, device):
        self.budget, self.device, self.next = budget, device, 1

    cdef double start(self) except? -1:
        """To be called before a run; -1 for one that nobody waits for."""
        self.n += 1
        if self.n < self.next:
            return -1
        self.wait()
        return seconds()

    cdef int stop(self, double start, double share) except -1:
        """To be called after a run, with what `start` gave."""
        if start != -1:
            self.wait()
            self.mean = seconds() - start
            self.next *= 4
        self.budget.add(self.mean, share)
        return 0

    cdef wait(self):
        wait_quietly(self.device)

    def begin(self):
        """As `start`."""
        return self.start()

    def end(self, double start, double share):
        """As `stop`."""
        self.stop(start, share)
