"""Whether the indices of a program point to what is there, compiled: every build asks."""

import numpy as np

from sdbr.base.dtypes import DTYPES
from sdbr.base.errors import ValidationError
from sdbr.ops.table import BY_NAME, OPS
from sdbr.program.buffers import ARENA

cimport cython
from libc.stdint cimport int64_t

from sdbr.program._layout cimport Slot


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
cdef int64_t[::1] ALIGNMENTS = np.array([d.alignment for d in DTYPES], np.int64)
cdef int64_t FORK = BY_NAME["fork"].opcode
cdef int64_t PYTHON = BY_NAME["python"].opcode
# What keeps the order or takes threads for itself cannot run beside others.
cdef int64_t[::1] APART = np.array(
    [not (op.effect or op.divides or op.reads_indices) for op in OPS], np.int64
)

cdef int64_t IN_ARENA = ARENA

cdef enum:
    MOST_AXES = 64  # of an array of NumPy
    MOST_ALIGNED = 64  # where an arena begins

#: Numbers of slots and of control values are less: memory has a place for each.
MOST_NUMBERED = 1 << 20

# Of a slot: sums of two stay within 64 bits.
cdef int64_t MOST_BYTES = <int64_t>1 << 62

cdef extern from *:
    """
    #define sdbr_add __builtin_add_overflow
    #define sdbr_multiply __builtin_mul_overflow
    """
    bint sdbr_add(int64_t a, int64_t b, int64_t *sum) nogil
    bint sdbr_multiply(int64_t a, int64_t b, int64_t *product) nogil


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
    cdef Py_ssize_t k, total
    cdef bint fine = min(lengths) >= 0 and lengths[0] > 0 and i + sum(lengths) < codes.shape[0]
    if fine:
        total = sum(lengths)
        for k in range(i + 1, i + 1 + total):
            fine = fine and APART[codes[k]]
    _check(
        fine,
        f"op {i} (fork): branches of {lengths} ops, which hold nothing that has an effect, takes "
        "indices or shares itself among threads",
    )


@cython.boundscheck(False)
@cython.wraparound(False)
def check_rows(program):
    """Raise `ValidationError` where a row does not lie inside of its slot and base.

    Returns
    -------
    numpy.ndarray
        int64[2, n]: where each row begins and ends in its slot, in bytes; nothing of an empty one.
    """
    rows = program.rows
    cdef int64_t[::1] kinds = _numbers(rows["type"]), slots = _numbers(rows["slot"])
    cdef int64_t[::1] starts = _numbers(rows["dims"]), ndims = _numbers(rows["ndim"])
    cdef int64_t[::1] dims = _numbers(program.dims), bases = _numbers(rows["base"])
    cdef int64_t[::1] of_row = _numbers(rows["kind"])
    cdef int64_t[:, ::1] given = _slots(program)
    cdef int64_t[::1] room = given[0], kind_of = given[1], align_of = given[2]
    cdef Py_ssize_t r, d, base, n = kinds.shape[0]
    cdef int64_t start, ndim
    for r in range(n):
        _check(0 <= kinds[r] < SIZES.shape[0], "a row has an unknown dtype")
        _check(0 <= slots[r] < room.shape[0], "a row has an unknown slot")
        _check(0 <= bases[r] < n, "a row has an unknown base")
        start, ndim = starts[r], ndims[r]
        _check(
            0 <= ndim <= MOST_AXES and 0 <= start <= dims.shape[0] - 2 * ndim,
            "a row has its shape outside dims",
        )
        for d in range(start, start + ndim):
            _check(dims[d] >= 0, "a row has a negative length")
    reached = _reached(rows, dims, room)
    cdef int64_t[:, ::1] ends = reached
    for r in range(n):
        base = bases[r]
        if of_row[r] != kind_of[slots[r]] or bases[base] != base or slots[base] != slots[r]:
            raise ValidationError(f"row {r}: kind, slot and base {base} do not agree")
        if ends[0, r] < ends[1, r] and not (
            ends[0, base] <= ends[0, r] and ends[1, r] <= ends[1, base]
        ):
            raise ValidationError(
                f"row {r} reaches bytes {ends[0, r]} to {ends[1, r]} of its slot, and its base "
                f"{base} bytes {ends[0, base]} to {ends[1, base]}"
            )
        if ALIGNMENTS[kinds[r]] > align_of[slots[r]]:
            raise ValidationError(f"row {r} of {DTYPES[kinds[r]].name} lies in slot {slots[r]}, "
                                  f"whose memory is aligned to {align_of[slots[r]]} bytes")
    return reached


@cython.boundscheck(False)
@cython.wraparound(False)
cdef int64_t[:, ::1] _slots(program):
    """Of each slot its bytes, kind and alignment."""
    cdef tuple slots = tuple(program.slots)
    cdef int64_t[:, ::1] found = np.empty((3, len(slots)), np.int64)
    cdef int64_t arena = _bytes(program.arena_bytes), kind, size
    cdef set numbers = set()
    cdef Slot slot
    cdef Py_ssize_t i
    for i in range(len(slots)):
        slot = slots[i]
        kind, size = slot.kind, _bytes(slot.nbytes)
        number = slot.index
        if kind == IN_ARENA:
            size = size or arena
        elif size != _taken(slot):
            raise ValidationError(
                f"slot {i} ({slot.name!r}) of {size} bytes, for {slot.dtype}{list(slot.shape)}"
            )
        if number in numbers or not 0 <= number < MOST_NUMBERED:
            raise ValidationError(f"slot {i} ({slot.name!r}): number {number}, taken or none")
        numbers.add(number)
        found[0, i], found[1, i] = size, kind
        found[2, i] = MOST_ALIGNED if slot.dtype is None else slot.dtype.alignment
    return found


cdef int64_t _taken(Slot slot) except -1:
    """Bytes of the array that a slot is bound to."""
    cdef int64_t size
    if slot.shape is None:
        return slot.nbytes
    size = slot.dtype.itemsize
    for n in <tuple?>slot.shape:
        if sdbr_multiply(size, n, &size) or size > MOST_BYTES:
            return MOST_BYTES
    return size


cdef int64_t _bytes(number) except -1:
    if not 0 <= number < MOST_BYTES:
        raise ValidationError(f"{number} bytes of memory")
    return number


@cython.boundscheck(False)
@cython.wraparound(False)
cdef _reached(rows, int64_t[::1] dims, int64_t[::1] room):
    """Where each row begins and ends in its slot, which has room for it."""
    cdef int64_t[::1] kinds = _numbers(rows["type"]), slots = _numbers(rows["slot"])
    cdef int64_t[::1] starts = _numbers(rows["dims"]), ndims = _numbers(rows["ndim"])
    cdef int64_t[::1] offsets = _numbers(rows["offset"])
    cdef Py_ssize_t r, d, n = kinds.shape[0]
    reached = np.zeros((2, n), np.int64)
    cdef int64_t[:, ::1] ends = reached
    cdef int64_t low, high, size, wide, align
    cdef bint empty, fits, straight
    for r in range(n):
        align, empty = ALIGNMENTS[kinds[r]], False
        low, high, size = offsets[r], 0, SIZES[kinds[r]]
        fits, straight = not sdbr_add(low, size, &high), offsets[r] % align == 0
        for d in range(starts[r], starts[r] + ndims[r]):
            empty = empty or dims[d] == 0
            if dims[d] > 1:
                straight = straight and dims[d + ndims[r]] % align == 0
                fits = fits and not sdbr_multiply(size, dims[d], &size)
                fits = fits and not sdbr_multiply(dims[d] - 1, dims[d + ndims[r]], &wide)
                if fits and wide < 0:
                    fits = not sdbr_add(low, wide, &low)
                elif fits:
                    fits = not sdbr_add(high, wide, &high)
        if empty and fits:
            low, high = offsets[r], offsets[r]
        if not fits or low < 0 or high > room[slots[r]]:
            reach = _exactly(rows[r], dims)
            raise ValidationError(
                f"row {r} reaches bytes {reach[0]} to {reach[1]} of slot {slots[r]}, "
                f"which has {room[slots[r]]}"
            )
        if not straight:
            raise ValidationError(f"row {r}: its elements lie at no multiples of {align} bytes")
        if not empty:
            ends[0, r], ends[1, r] = low, high
    return reached


def _exactly(row, dims):
    """First byte and end of a row, however large."""
    start, ndim = int(row["dims"]), int(row["ndim"])
    shape = [int(n) for n in dims[start:start + ndim]]
    strides = [int(n) for n in dims[start + ndim:start + 2 * ndim]]
    steps = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
    start = int(row["offset"])
    end = start + DTYPES[row["type"]].itemsize
    return start + sum(min(s, 0) for s in steps), end + sum(max(s, 0) for s in steps)
