"""Whether the indices of a program point to what is there, compiled: every build asks."""

import numpy as np

from sdbr.base.dtypes import DTYPES
from sdbr.base.errors import ValidationError
from sdbr.ops.table import BY_NAME, OPS
from sdbr.program.buffers import ARENA

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int64_t


def _fixed(kinds):
    """Of each op how many words stand for one thing each."""
    return np.array([sum(not w.endswith("*") for w in words) for words in kinds], np.int64)


def _variadic(kinds):
    """Of each op whether a word stands for any number of things."""
    return np.array([any(w.endswith("*") for w in words) for words in kinds], np.int64)


cdef int64_t[::1] FIXED_IN = _fixed([op.inputs for op in OPS])
cdef int64_t[::1] VARIADIC_IN = _variadic([op.inputs for op in OPS])
cdef int64_t[::1] FIXED_OUT = _fixed([op.outputs for op in OPS])
cdef int64_t[::1] VARIADIC_OUT = _variadic([op.outputs for op in OPS])
cdef int64_t[::1] INTS = _fixed([op.ints for op in OPS])
cdef int64_t[::1] FLOATS = _fixed([op.floats for op in OPS])
cdef int64_t[::1] VARIADIC = _variadic([op.ints + op.floats for op in OPS])
cdef int64_t[::1] SIZES = np.array([d.itemsize for d in DTYPES], np.int64)
cdef int64_t FORK = BY_NAME["fork"].opcode
cdef int64_t PYTHON = BY_NAME["python"].opcode


cdef int64_t[::1] _numbers(array):
    """A copy of an array of whatever integers."""
    return np.array(array, np.int64, order="C")


cdef _check(bint condition, message):
    if not condition:
        raise ValidationError(message)


@cython.boundscheck(False)
@cython.wraparound(False)
cdef _check_offsets(int64_t[::1] offsets, int64_t total, str name):
    cdef Py_ssize_t i, n = offsets.shape[0]
    cdef bint fine = n > 0 and offsets[0] == 0 and offsets[n - 1] == total
    if fine:
        for i in range(1, n):
            fine = fine and offsets[i - 1] <= offsets[i]
    if not fine:
        raise ValidationError(f"{name} must rise from 0 to {total}")


@cython.boundscheck(False)
@cython.wraparound(False)
def check_ops(program):
    """Raise `ValidationError` where an op is none, or has not as many operands as it takes."""
    cdef int64_t[::1] codes = _numbers(program.opcodes)
    cdef int64_t[::1] offsets = _numbers(program.operand_offsets)
    cdef int64_t[::1] operands = _numbers(program.operands)
    cdef int64_t[::1] outs = _numbers(program.n_outputs)
    starts = np.array(program.attribute_offsets, np.int64)
    cdef int64_t[::1] ints = starts[:, 0].copy(), floats = starts[:, 1].copy()
    cdef Py_ssize_t i, op, n = codes.shape[0]
    cdef int64_t n_rows = len(program.rows), n_ops = FIXED_IN.shape[0]
    for i in range(n):
        if not 0 <= codes[i] < n_ops:
            raise ValidationError(f"op {i}: unknown opcode {codes[i]}; there are {n_ops}")
    _check_offsets(offsets, operands.shape[0], "operand_offsets")
    _check_offsets(ints, len(program.int_attributes), "attribute_offsets")
    _check_offsets(floats, len(program.float_attributes), "attribute_offsets")
    for i in range(operands.shape[0]):
        if not 0 <= operands[i] < n_rows:
            op = int(np.searchsorted(program.operand_offsets, i, side="right")) - 1
            raise ValidationError(
                f"op {op} ({OPS[codes[op]].name}): operand {operands[i]} is not a row; "
                f"there are {n_rows}"
            )
    _check_counts(codes, offsets, outs, ints, floats)
    for i in range(n):
        if codes[i] == FORK:
            _check_fork(program, i, codes)
        elif codes[i] == PYTHON:
            slot = int(program.int_attributes[ints[i]])
            _check(
                0 <= slot < len(program.objects),
                f"op {i} (python): object slot {slot} does not exist",
            )


@cython.boundscheck(False)
@cython.wraparound(False)
cdef _check_counts(
    int64_t[::1] codes, int64_t[::1] offsets, int64_t[::1] outs, int64_t[::1] ints,
    int64_t[::1] floats,
):
    """How many operands and attributes each op has."""
    cdef Py_ssize_t i
    cdef int64_t code, got
    for i in range(codes.shape[0]):
        code = codes[i]
        got = offsets[i + 1] - offsets[i] - outs[i]
        if got < FIXED_IN[code] or (got != FIXED_IN[code] and not VARIADIC_IN[code]):
            raise _wrong_count(i, code, got, "inputs", FIXED_IN[code])
        got = outs[i]
        if got < FIXED_OUT[code] or (got != FIXED_OUT[code] and not VARIADIC_OUT[code]):
            raise _wrong_count(i, code, got, "outputs", FIXED_OUT[code])
        if VARIADIC[code]:
            continue
        got = ints[i + 1] - ints[i]
        if got != INTS[code]:
            raise _wrong_count(i, code, got, "integer attributes", INTS[code])
        got = floats[i + 1] - floats[i]
        if got != FLOATS[code]:
            raise _wrong_count(i, code, got, "float attributes", FLOATS[code])


def _wrong_count(op, code, got, what, expected):
    return ValidationError(f"op {op} ({OPS[code].name}): {got} {what}, expected {expected}")


cdef _check_fork(program, Py_ssize_t i, int64_t[::1] codes):
    lengths = program.attributes_of(i)[0]
    cdef Py_ssize_t k, total = sum(lengths)
    cdef bint fine = min(lengths) >= 0 and lengths[0] > 0 and i + total < codes.shape[0]
    if fine:
        for k in range(i + 1, i + 1 + total):
            fine = fine and codes[k] != FORK and codes[k] != PYTHON
    _check(
        fine,
        f"op {i} (fork): branches of {lengths} ops, which hold no python op and no fork",
    )


@cython.boundscheck(False)
@cython.wraparound(False)
def check_rows(program):
    """Raise `ValidationError` where a row does not lie inside of its slot."""
    rows = program.rows
    cdef int64_t[::1] kinds = _numbers(rows["type"]), slots = _numbers(rows["slot"])
    cdef int64_t[::1] starts = _numbers(rows["dims"]), ndims = _numbers(rows["ndim"])
    cdef int64_t[::1] offsets = _numbers(rows["offset"]), dims = _numbers(program.dims)
    cdef int64_t[::1] room = np.array(
        [
            program.arena_bytes if s.kind == ARENA and s.nbytes == 0 else s.nbytes
            for s in program.slots
        ],
        np.int64,
    )
    cdef Py_ssize_t r, d, n = kinds.shape[0]
    cdef int64_t low, high, reach, start, ndim
    cdef bint empty
    for r in range(n):
        _check(0 <= kinds[r] < SIZES.shape[0], "a row has an unknown dtype")
    for r in range(n):
        _check(0 <= slots[r] < room.shape[0], "a row has an unknown slot")
    for r in range(n):
        start, ndim = starts[r], ndims[r]
        _check(
            0 <= ndim <= dims.shape[0] and 0 <= start <= dims.shape[0] - 2 * ndim,
            "a row has its shape outside dims",
        )
        for d in range(start, start + ndim):
            _check(dims[d] >= 0, "a row has a negative length")
    for r in range(n):
        start, ndim = starts[r], ndims[r]
        low, high, empty = offsets[r], offsets[r] + SIZES[kinds[r]], False
        for d in range(start, start + ndim):
            empty = empty or dims[d] == 0
            reach = (dims[d] - 1) * dims[d + ndim]
            if reach < 0:
                low += reach
            else:
                high += reach
        if not empty and (low < 0 or high > room[slots[r]]):
            raise ValidationError(
                f"row {r} reaches bytes {low} to {high} of slot {slots[r]}, "
                f"which has {room[slots[r]]}"
            )


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
def unlike_ops(program):
    """The first op of all that are alike: in kind, layouts of operands, integers, how many floats.

    Indices have been found to be right, see `check_ops` and `check_rows`.

    Returns
    -------
    list of (int, int, tuple, tuple, tuple, int)
        Op, opcode, dtype and shape of each input and of each output, integers, how many floats.
    """
    cdef list layouts = []
    cdef int64_t[::1] kinds = _layouts(program, layouts)
    cdef int64_t[::1] codes = _numbers(program.opcodes), outs = _numbers(program.n_outputs)
    cdef int64_t[::1] offsets = _numbers(program.operand_offsets)
    cdef int64_t[::1] operands = _numbers(program.operands)
    cdef int64_t[:, ::1] starts = np.array(program.attribute_offsets, np.int64, order="C")
    cdef int64_t[::1] ints = _numbers(program.int_attributes)
    cdef Py_ssize_t i, k, n, d
    cdef Py_ssize_t most = 4 + operands.shape[0] + ints.shape[0]
    cdef int64_t[::1] key = np.empty(most, np.int64)
    cdef set seen = set()
    cdef list found = []
    for i in range(codes.shape[0]):
        key[0], key[1] = codes[i], outs[i]
        key[2], key[3] = starts[i + 1, 1] - starts[i, 1], offsets[i + 1] - offsets[i]
        n = 4
        for k in range(offsets[i], offsets[i + 1]):
            key[n] = kinds[operands[k]]
            n += 1
        for k in range(starts[i, 0], starts[i + 1, 0]):
            key[n] = ints[k]
            n += 1
        mark = PyBytes_FromStringAndSize(<char *> &key[0], n * sizeof(int64_t))
        if mark not in seen:
            seen.add(mark)
            given = [layouts[key[4 + k]] for k in range(key[3])]
            k = key[3] - outs[i]
            numbers = tuple([key[4 + key[3] + d] for d in range(n - 4 - key[3])])
            found.append((i, codes[i], tuple(given[:k]), tuple(given[k:]), numbers, key[2]))
    return found
