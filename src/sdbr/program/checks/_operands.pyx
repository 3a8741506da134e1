"""What the ops of a program are given, compiled: layouts, and memory that operands share."""

import numpy as np

from sdbr.base.dtypes import DTYPES
from sdbr.base.errors import ValidationError
from sdbr.ops.table import OPS
from sdbr.program.buffers import CONSTANT

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int64_t

cdef int64_t[::1] SIZES = np.array([d.itemsize for d in DTYPES], np.int64)
cdef int64_t[::1] WRITES = np.array([op.writes for op in OPS], np.int64)
cdef int64_t[::1] ANYTHING = np.array([op.python for op in OPS], np.int64)
cdef int64_t HELD = CONSTANT

cdef enum:
    APART, TOGETHER, SAME  # how two operands lie
    MOST_MEETINGS = 256


cdef int64_t[::1] _numbers(array):
    """A copy of an array of whatever integers."""
    return np.array(array, np.int64, order="C")


@cython.final
cdef class _Places:
    """Where the rows of a program lie.

    Parameters
    ----------
    program : Program
    reached : numpy.ndarray
        See `check_rows`.
    """

    cdef int64_t[::1] kinds, slots, starts, ndims, offsets, dims, held
    cdef int64_t[:, ::1] ends
    cdef object program
    cdef unsigned char[::1] writable
    cdef dict met

    def __init__(self, program, reached):
        rows = program.rows
        self.kinds, self.slots = _numbers(rows["type"]), _numbers(rows["slot"])
        self.starts, self.ndims = _numbers(rows["dims"]), _numbers(rows["ndim"])
        self.offsets, self.dims = _numbers(rows["offset"]), _numbers(program.dims)
        self.held = np.array([slot.kind == HELD for slot in program.slots], np.int64)
        self.ends = reached
        self.writable = np.zeros(self.kinds.shape[0], np.uint8)
        self.program, self.met = program, {}

    @cython.boundscheck(False)
    @cython.wraparound(False)
    cdef int check_written(
        self, int64_t r, Py_ssize_t op, int64_t code, Py_ssize_t operand
    ) except -1:
        """Raise `ValidationError` where an op writes what it cannot; each row is looked at once."""
        if self.writable[r]:
            return 0
        problem = ""
        if self.held[self.slots[r]]:
            problem = "lies in a constant"
        elif self.folds(r):
            problem = "has elements that share memory"
        if problem:
            raise ValidationError(
                f"op {op} ({OPS[code].name}): operand {operand}, {self.program.describe_row(r)}, "
                f"is written, but {problem}"
            )
        self.writable[r] = 1
        return 0

    @cython.boundscheck(False)
    @cython.wraparound(False)
    cdef Py_ssize_t meetings(
        self, int64_t[::1] rows, Py_ssize_t begin, Py_ssize_t end, Py_ssize_t first,
        Py_ssize_t op, int64_t code, int64_t[::1] found, Py_ssize_t n,
    ) except -1:
        """Write what an op writes, what shares memory with it and how behind `n` of `found`.

        Operands from `first` on are written. Returns how many numbers `found` has then.
        """
        cdef Py_ssize_t a, b
        cdef int64_t r, q, low, high, slot
        cdef int how
        for a in range(first, end):
            r = rows[a]
            self.check_written(r, op, code, a - begin)
            low, high, slot = self.ends[0, r], self.ends[1, r], self.slots[r]
            for b in range(begin, a):
                q = rows[b]
                if self.slots[q] == slot and self.ends[0, q] < high and low < self.ends[1, q]:
                    how = self.together(r, q)
                    if how != APART:
                        if n + 3 > found.shape[0]:
                            raise ValidationError(f"op {op} ({OPS[code].name}): operands overlap")
                        found[n], found[n + 1], found[n + 2] = a - begin, b - begin, how == SAME
                        n += 3
        return n

    @cython.boundscheck(False)
    @cython.wraparound(False)
    cdef bint folds(self, int64_t r):
        """Whether elements may share bytes: an axis steps within what smaller ones reach."""
        cdef int64_t width = SIZES[self.kinds[r]], d, n, step, start = self.starts[r]
        cdef int64_t ndim = self.ndims[r]
        if self.ends[0, r] == self.ends[1, r]:
            return False
        for d in range(start + ndim - 1, start - 1, -1):  # C order, most of the time
            n, step = self.dims[d], self.dims[d + ndim]
            if n != 1:
                if step < width:
                    break
                width += (n - 1) * step
        else:
            return False
        width = SIZES[self.kinds[r]]
        axes = sorted([
            (abs(self.dims[d + ndim]), self.dims[d])
            for d in range(start, start + ndim) if self.dims[d] != 1
        ])
        for step, n in axes:
            if step < width:
                return True
            width += (n - 1) * step
        return False

    @cython.boundscheck(False)
    @cython.wraparound(False)
    cdef int together(self, int64_t a, int64_t b) except -1:
        """How two rows lie whose bytes from first to last meet."""
        if a == b:
            return SAME
        found = self.met.get((a, b))
        if found is None:
            found = self.met[a, b] = self.look(a, b)
        return found

    @cython.boundscheck(False)
    @cython.wraparound(False)
    cdef int look(self, int64_t a, int64_t b) except -1:
        cdef int64_t i, n = self.ndims[a], p = self.starts[a], q = self.starts[b]
        cdef bint same = n == self.ndims[b]
        if self.offsets[a] == self.offsets[b] and SIZES[self.kinds[a]] == SIZES[self.kinds[b]]:
            for i in range(n if same else 0):
                same = same and self.dims[p + i] == self.dims[q + i] and (
                    self.dims[p + i] == 1 or self.dims[p + n + i] == self.dims[q + n + i]
                )
            if same or (
                self.ends[1, a] == self.ends[1, b] and self.dense(a) and self.dense(b)
            ):
                return SAME
        return TOGETHER if _share(self.program, a, b) else APART

    @cython.boundscheck(False)
    @cython.wraparound(False)
    cdef bint dense(self, int64_t r):
        """Whether a row is C-contiguous."""
        cdef int64_t step = SIZES[self.kinds[r]], d, ndim = self.ndims[r]
        for d in range(self.starts[r] + ndim - 1, self.starts[r] - 1, -1):
            if self.dims[d] != 1:
                if self.dims[d + ndim] != step:
                    return False
                step *= self.dims[d]
        return True


def _share(program, a, b):
    """Whether two rows have a byte in common, or nobody can tell soon."""
    try:
        return np.shares_memory(_Addressed(program, a), _Addressed(program, b), max_work=100_000)
    except (RuntimeError, OverflowError):
        return True


def _Addressed(program, row):
    """An array like a row at a pretended address, which nobody reads."""
    class At:
        __array_interface__ = {
            "version": 3,
            "typestr": f"|V{DTYPES[program.rows['type'][row]].itemsize}",
            "shape": program.row_shape(row),
            "strides": program.row_strides(row),
            "data": (4096 + int(program.rows["offset"][row]), True),
        }

    return np.asarray(At())


@cython.boundscheck(False)
@cython.wraparound(False)
cdef int64_t[::1] _layouts(program, list layouts):
    """Of each row its place in `layouts`, which get the dtypes and shapes that there are."""
    cdef int64_t[::1] kinds = _numbers(program.rows["type"]), dims = _numbers(program.dims)
    cdef int64_t[::1] starts = _numbers(program.rows["dims"])
    cdef int64_t[::1] ndims = _numbers(program.rows["ndim"])
    cdef int64_t[::1] found = np.empty(kinds.shape[0], np.int64)
    cdef int64_t[::1] key = np.empty(1 + np.max(program.rows["ndim"], initial=0), np.int64)
    cdef dict known = {}
    cdef Py_ssize_t r
    cdef int64_t d
    for r in range(kinds.shape[0]):
        key[0] = kinds[r]
        for d in range(ndims[r]):
            key[1 + d] = dims[starts[r] + d]
        mark = PyBytes_FromStringAndSize(<char *> &key[0], (1 + ndims[r]) * sizeof(int64_t))
        number = known.get(mark)
        if number is None:
            number = known[mark] = len(layouts)
            layouts.append((DTYPES[kinds[r]], tuple([key[1 + d] for d in range(ndims[r])])))
        found[r] = number
    return found


@cython.boundscheck(False)
@cython.wraparound(False)
def unlike_ops(program, reached):
    """The first op of all that are alike: in kind, layouts of operands, integers, how many floats.

    Indices have been found to be right, see `check_ops` and `check_rows`.

    Parameters
    ----------
    program : Program
    reached : numpy.ndarray
        Where each row begins and ends in its slot.

    Returns
    -------
    list of (int, int, tuple, tuple, tuple, int, tuple)
        Op, opcode, dtype and shape of each input and of each output, integers, how many floats,
        and which operands share memory, see `overlap_problem`.

    Raises
    ------
    ValidationError
        Where an op writes what cannot be written.
    """
    cdef list layouts = []
    cdef int64_t[::1] kinds = _layouts(program, layouts)
    cdef int64_t[::1] codes = _numbers(program.opcodes), outs = _numbers(program.n_outputs)
    cdef int64_t[::1] offsets = _numbers(program.operand_offsets)
    cdef int64_t[::1] operands = _numbers(program.operands)
    cdef int64_t[:, ::1] starts = np.array(program.attribute_offsets, np.int64, order="C")
    cdef int64_t[::1] ints = _numbers(program.int_attributes)
    cdef _Places places = _Places(program, reached)
    cdef Py_ssize_t i, k, n, d, most = 5 + operands.shape[0] + ints.shape[0]
    cdef int64_t[::1] key = np.empty(most + 3 * MOST_MEETINGS, np.int64)
    cdef set seen = set()
    cdef list found = []
    for i in range(codes.shape[0]):
        key[0], key[1] = codes[i], outs[i]
        key[2], key[3] = starts[i + 1, 1] - starts[i, 1], offsets[i + 1] - offsets[i]
        key[4] = starts[i + 1, 0] - starts[i, 0]
        n = 5
        for k in range(offsets[i], offsets[i + 1]):
            key[n] = kinds[operands[k]]
            n += 1
        for k in range(starts[i, 0], starts[i + 1, 0]):
            key[n] = ints[k]
            n += 1
        most = n
        if not ANYTHING[codes[i]]:
            k = offsets[i] if WRITES[codes[i]] else offsets[i + 1] - outs[i]
            n = places.meetings(operands, offsets[i], offsets[i + 1], k, i, codes[i], key, n)
        mark = PyBytes_FromStringAndSize(<char *> &key[0], n * sizeof(int64_t))
        if mark not in seen:
            seen.add(mark)
            given = [layouts[key[5 + k]] for k in range(key[3])]
            k = key[3] - outs[i]
            numbers = tuple([key[5 + key[3] + d] for d in range(key[4])])
            meetings = tuple([(key[d], key[d + 1], bool(key[d + 2])) for d in range(most, n, 3)])
            found.append(
                (i, codes[i], tuple(given[:k]), tuple(given[k:]), numbers, key[2], meetings)
            )
    return found
