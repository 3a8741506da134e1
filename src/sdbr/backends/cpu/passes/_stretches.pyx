"""Where branches end, compiled: a stretch is looked at from each point where they may begin."""

import numpy as np

cimport cython
from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport qsort

cdef enum:
    MOST_THREADS = 64


cdef int _descending(const void *a, const void *b) noexcept nogil:
    cdef double x = (<const double *>a)[0], y = (<const double *>b)[0]
    return (x < y) - (x > y)


@cython.boundscheck(False)
@cython.wraparound(False)
cdef int32_t[::1] _met(int64_t[:, ::1] uses, int32_t[::1] offsets, Py_ssize_t longest):
    """Per instruction the earlier ones whose memory it touches, one of the two writing.

    Of those that one stretch may hold together with it; they begin where `offsets` then says.
    """
    cdef Py_ssize_t u, other, first = 0, n = uses.shape[0], n_ops = offsets.shape[0] - 1
    cdef int64_t i, k, at, roots = 0
    cdef int kind
    cdef bint fine
    cdef list met = []
    for u in range(n):
        fine = 0 <= uses[u, 0] < n_ops and uses[u, 1] >= 0
        if not fine or (u and uses[u - 1, 0] > uses[u, 0]):
            raise ValueError(f"use {u}: of no instruction, of no root, or not in order")
        roots = max(roots, uses[u, 1] + 1)
    # The last use of each root so far, read and written, and from each use the one before it.
    cdef int64_t[:, ::1] last = np.full((2, roots), -1, np.int64)
    cdef int64_t[::1] before = np.empty(n, np.int64)
    cdef int64_t[::1] seen = np.full(n_ops, -1, np.int64)  # by which instruction
    for i in range(n_ops):
        at = first
        for u in range(first, n):
            if uses[u, 0] != i:
                break
            for kind in range(0 if uses[u, 4] else 1, 2):
                other = last[kind, uses[u, 1]]
                while other >= 0 and uses[other, 0] >= i - longest:
                    k = uses[other, 0]
                    if seen[k] != i and uses[other, 2] < uses[u, 3] and uses[u, 2] < uses[other, 3]:
                        seen[k] = i
                        met.append(k)
                    other = before[other]
            at = u + 1
        for u in range(first, at):
            kind = uses[u, 4] != 0
            before[u] = last[kind, uses[u, 1]]
            last[kind, uses[u, 1]] = u
        first = at
        offsets[i + 1] = len(met)
    return np.array(met, np.int32)


@cython.final
@cython.boundscheck(False)
@cython.wraparound(False)
cdef class Stretches:
    """Instructions from one point on, in sets that depend on each other.

    Parameters
    ----------
    uses : array of int64
        In the order of the program, five numbers for each operand: instruction, root, first byte
        and end of what it may touch there, whether it is written.
    costs : list of float
        Nanoseconds of each instruction; infinite where a stretch must end.
    threads, longest : int
        How many branches run at a time, how many instructions a stretch may have.
    cost : float
        Nanoseconds of a fork.
    """

    cdef int32_t[::1] offsets, met, of
    cdef double[::1] costs, price, live
    cdef double cost
    cdef Py_ssize_t longest
    cdef int threads

    def __init__(self, uses, list costs, int threads, Py_ssize_t longest, double cost):
        if not 1 <= threads <= MOST_THREADS:
            raise ValueError(f"threads: from 1 to {MOST_THREADS}, got {threads}")
        n = len(costs)
        self.offsets = np.zeros(n + 1, np.int32)
        self.met = _met(np.array(uses, np.int64).reshape(-1, 5), self.offsets, longest)
        self.of = np.zeros(n, np.int32)
        self.costs = np.array(costs, np.float64)
        self.price = np.zeros(n)
        self.live = np.zeros(longest)
        self.threads, self.longest, self.cost = threads, longest, cost

    def best_end(self, Py_ssize_t start, double least):
        """The end of the stretch from `start` that saves most; -1 where none saves `least`."""
        if start < 0:
            raise ValueError(f"start: {start}")
        cdef Py_ssize_t i, end = -1
        cdef Py_ssize_t last = min(self.costs.shape[0], start + self.longest)
        cdef double most = least, total = 0.0, largest = 0.0, gain, share
        for i in range(start, last):
            if self.costs[i] == INFINITY:
                break
            total += self.costs[i]
            largest = max(largest, self._add(start, i))
            # No branches save more than what the largest one, or an equal share, leaves over.
            share = max(largest, total / self.threads)
            if end < 0 and total - share - self.cost + 1.0 <= most:
                continue
            gain = self._gain(start, i + 1)
            if gain > most:
                end, most = i + 1, gain
            elif end >= 0 and gain <= 0:
                break  # the branches have met
        return end

    def sets(self, Py_ssize_t start, Py_ssize_t end):
        """The price and the instructions of each set of a stretch, by its last instruction."""
        cdef Py_ssize_t i
        if not 0 <= start <= end <= self.costs.shape[0]:
            raise ValueError(f"no stretch from {start} to {end}")
        for i in range(start, end):
            self._add(start, i)
        cdef dict found = {}
        for i in range(start, end):
            found.setdefault(self._last(i), []).append(i)
        return [(self.price[<Py_ssize_t>k], found[k]) for k in sorted(found)]

    cdef double _add(self, Py_ssize_t start, Py_ssize_t i) noexcept nogil:
        """Put one instruction into the set of all it depends on, which become one; its price."""
        cdef Py_ssize_t k
        cdef int32_t last
        cdef double price = self.costs[i]
        self.of[i] = <int32_t>i
        for k in range(self.offsets[i], self.offsets[i + 1]):
            if self.met[k] >= start:
                last = self._last(self.met[k])
                if last != i:
                    price += self.price[last]
                    self.of[last] = <int32_t>i
        self.price[i] = price
        return price

    cdef int32_t _last(self, Py_ssize_t k) noexcept nogil:
        """The last instruction of the set of one."""
        while self.of[k] != k:
            self.of[k] = self.of[self.of[k]]
            k = self.of[k]
        return <int32_t>k

    cdef double _gain(self, Py_ssize_t start, Py_ssize_t end) noexcept nogil:
        """Nanoseconds that threads save: each set goes to the one with the least to do."""
        cdef double[MOST_THREADS] bins
        cdef double total = 0.0, largest = 0.0
        cdef Py_ssize_t i, n = 0
        cdef int b, least
        for i in range(start, end):
            if self.of[i] == i:
                self.live[n] = self.price[i]
                n += 1
        if n < 2:
            return 0.0
        qsort(&self.live[0], n, sizeof(double), _descending)
        for b in range(self.threads):
            bins[b] = 0.0
        for i in range(n):
            least = 0
            for b in range(1, self.threads):
                if bins[b] < bins[least]:
                    least = b
            bins[least] += self.live[i]
        for b in range(self.threads):
            total += bins[b]
            largest = max(largest, bins[b])
        return total - largest - self.cost
