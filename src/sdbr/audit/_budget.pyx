"""What audits may cost, counted in the compiled path; checksums of arrays."""

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
