# cython: nonecheck=True
"""From instructions to flat arrays, compiled: every build does it for each op and row."""

import operator

import numpy as np

from sdbr.base.dtypes import DTYPE_CODES
from sdbr.base.errors import ValidationError
from sdbr.program.buffers import ROW_DTYPE
from sdbr.program.builder import ControlSlot

cimport cython
from libc.stdint cimport int32_t, int64_t

from sdbr.program._layout cimport Instruction, Row, Slot


@cython.final
cdef class _UsedRows:
    """The rows of a schedule that a program uses, numbered anew in the order of their use.

    Attributes
    ----------
    rows, slots : list of Row, list of Slot
    """

    cdef int32_t[::1] index  # of each row in the table of the schedule -> in this one; or -1
    cdef list rows, slots
    cdef Py_ssize_t n_dims

    def __init__(self, Py_ssize_t n_rows):
        self.index = np.full(n_rows, -1, np.int32)
        self.rows, self.slots = [], []
        self.n_dims = 0

    cdef int32_t use(self, Row row) except -1:
        """Number of `row` in the program's table."""
        cdef Py_ssize_t i = row.index
        cdef Row root
        if not 0 <= i < self.index.shape[0]:
            raise ValidationError(f"{row!r} is of another table")
        if self.index[i] < 0:
            root = row.root
            if root is not row:
                self.use(root)
            if root.slot is None:
                raise ValidationError(f"{row!r} has no memory: the program was not planned")
            self.index[i] = <int32_t>len(self.rows)
            self.rows.append(row)
            self.n_dims += 2 * len(row.shape)
        return self.index[i]

    @cython.boundscheck(False)
    @cython.wraparound(False)
    cdef dict arrays(self):
        """The buffer table by the names in `Program`."""
        cdef Py_ssize_t i, dim = 0, n = len(self.rows)
        cdef int64_t[:, ::1] columns = np.empty((len(ROW_DTYPE), n), np.int64)
        dims, sources = np.empty(self.n_dims, np.int64), np.empty(n, np.int32)
        cdef int64_t[::1] lengths = dims
        cdef int32_t[::1] source = sources
        cdef tuple shape, strides
        cdef list names = []
        cdef dict slots = {}
        cdef Row row, root
        cdef Slot slot
        for i in range(n):
            row = self.rows[i]
            root, shape, strides = row.root, row.shape, row.strides
            slot = root.slot
            place = slots.get(slot.index)
            if place is None:
                place = slots[slot.index] = len(self.slots)
                self.slots.append(slot)
            columns[0, i] = slot.kind
            columns[1, i] = place
            columns[2, i] = DTYPE_CODES[row.dtype]
            columns[3, i] = len(shape)
            columns[4, i] = dim
            columns[5, i] = self.index[<Py_ssize_t>root.index]
            columns[6, i] = root.place + row.offset
            for length in shape:
                lengths[dim] = length
                dim += 1
            for length in strides:
                lengths[dim] = length
                dim += 1
            source[i] = row.index
            names.append(row.name)
        rows = np.empty(n, ROW_DTYPE)
        for name, column in zip(ROW_DTYPE.names, np.asarray(columns), strict=True):
            rows[name] = column
        return {
            "rows": rows,
            "dims": dims,
            "slots": tuple(self.slots),
            "row_names": tuple(names),
            "sources": sources,
        }


@cython.boundscheck(False)
@cython.wraparound(False)
def flat_arrays(list instructions, Py_ssize_t n_rows):
    """What a program has of its ops and rows, by the names in `Program`.

    Parameters
    ----------
    instructions : list of Instruction
    n_rows : int
        How many rows the table of the schedule has.
    """
    cdef Py_ssize_t i, n = len(instructions)
    cdef Py_ssize_t operand = 0, integer = 0, number = 0
    cdef Instruction instruction
    counts = np.empty((3, n + 1), np.int64)
    cdef int64_t[:, ::1] sizes = counts
    for i in range(n):
        instruction = instructions[i]
        sizes[0, i], sizes[1, i], sizes[2, i] = operand, integer, number
        operand += len(instruction.ins) + len(instruction.outs)
        integer += max(len(instruction.ints), instruction.obj is not None)
        number += len(instruction.floats)
    sizes[0, n], sizes[1, n], sizes[2, n] = operand, integer, number
    found = {
        "opcodes": np.empty(n, np.int32),
        "operand_offsets": counts[0].astype(np.int32),
        "operands": np.empty(operand, np.int32),
        "n_outputs": np.empty(n, np.int32),
        "attribute_offsets": np.ascontiguousarray(counts[1:].T, np.int32),
        "int_attributes": np.empty(integer, np.int64),
        "float_attributes": np.empty(number, np.float64),
        "flushes": np.empty(n, bool),
    }
    used = _UsedRows(n_rows)
    _fill(instructions, used, found)
    found.update(used.arrays())
    return found


@cython.boundscheck(False)
@cython.wraparound(False)
cdef _fill(list instructions, _UsedRows used, dict found):
    """What there is of each op."""
    cdef int32_t[::1] opcodes = found["opcodes"], operands = found["operands"]
    cdef int32_t[::1] n_outputs = found["n_outputs"]
    cdef int64_t[::1] ints = found["int_attributes"]
    cdef double[::1] floats = found["float_attributes"]
    cdef unsigned char[::1] flushes = found["flushes"].view(np.uint8)
    cdef Py_ssize_t i, first, operand = 0, integer = 0, number = 0
    cdef list control = [], objects = [], labels = [], lines = [], links = [], outs
    cdef Instruction instruction
    for i in range(len(instructions)):
        instruction = instructions[i]
        opcodes[i] = instruction.op.opcode
        outs = instruction.outs
        for rows in (instruction.ins, outs):
            for row in <list?>rows:
                operands[operand] = used.use(row)
                operand += 1
        n_outputs[i] = <int32_t>len(outs)
        first = integer
        for value in instruction.ints:
            ints[integer] = value if type(value) is int else operator.index(value)
            integer += 1
        if instruction.obj is not None:
            ints[first] = len(objects)
            integer = max(integer, first + 1)
            objects.append(instruction.obj)
        for value in instruction.floats:
            if type(value) is ControlSlot:
                control.append((number, value.index))
            floats[number] = value
            number += 1
        flushes[i] = bool(instruction.flushes)
        labels.append(instruction.label)
        lines.append(instruction.line)
        links.append(instruction.link)
    found["control_references"] = np.array(control, np.int32).reshape(-1, 2)
    found["objects"], found["labels"] = tuple(objects), tuple(labels)
    found["lines"], found["links"] = tuple(lines), tuple(links)
