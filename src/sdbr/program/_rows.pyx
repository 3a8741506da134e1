# cython: nonecheck=True
"""What several passes need to know about rows, compiled: they ask it of each operand."""

from sdbr.program.instruction import ControlSlot
from sdbr.program.rows import BOUND

import numpy as np

from sdbr.program._layout cimport Instruction, Row, Slot

#: What a program reads after its end is never dead.
NEVER = 1 << 60

cdef object _BOUND = BOUND


def fields(thing):
    """What compiled code finds in each field of a row, slot or instruction, by name."""
    cdef Slot slot
    cdef Row row
    cdef Instruction made
    if isinstance(thing, Slot):
        slot = thing
        found = (
            slot.array, slot.dtype, slot.host, slot.index, slot.kind, slot.name, slot.nbytes,
            slot.shape,
        )
    elif isinstance(thing, Row):
        row = thing
        found = (
            row.dtype, row.index, row.is_contiguous, row.name, row.nbytes, row.offset, row.place,
            row.root, row.shape, row.size, row.slot, row.strides,
        )
    else:
        made = thing
        found = (
            made.floats, made.flushes, made.ins, made.ints, made.label, made.line, made.link,
            made.obj, made.op, made.outs,
        )
    return dict(zip(sorted(type(thing).__slots__), found, strict=True))


def _check_layout():
    """Compiled code reads fields where this version of Python has put them."""
    slot = Slot(0, 1, (2,), "f", "name", "array")
    row = Row(3, np.dtype("f"), (2, 3), (12, 4), None, 7, slot, "name")
    made = Instruction("op", [row], [], (1,), (2.0,), "label", "line", "link", "object", True)
    for thing in (slot, row, made):
        if any(getattr(thing, name) is not value for name, value in fields(thing).items()):
            raise ImportError(f"fields of {type(thing).__name__} lie elsewhere than expected")


_check_layout()


cpdef bint whole(Row row) except -1:
    """Whether a row is all of its root, in C order."""
    cdef Row root = row.root
    return row is root or (
        row.offset == 0 and row.is_contiguous is True and row.nbytes == root.nbytes
    )


cpdef bint is_bound(Row row) except -1:
    """Whether a row lies in memory of the caller."""
    cdef Row root = row.root
    cdef Slot slot = root.slot
    return slot is not None and slot.kind == _BOUND


cpdef list written(Instruction instruction):
    """Roots that an instruction writes, or may write: ops with effects write some inputs."""
    cdef list rows = instruction.outs
    cdef Row row, root
    if len(rows) != 1 or instruction.op.effect:
        if instruction.op.writes_inputs:
            rows = rows + instruction.ins
    if len(rows) == 1:
        row = rows[0]
        root = row.root
        return [root.index]
    found = set()
    for row in rows:
        root = row.root
        found.add(root.index)
    return list(found)


cpdef tuple layout(Row row):
    """What two equal rows have in common."""
    cdef Row root = row.root
    return root.index, row.offset, row.shape, row.strides


cdef bint reach(Row row, Py_ssize_t *low, Py_ssize_t *high) except -1:
    """`extent`, without numbers of Python."""
    cdef Py_ssize_t start = row.offset, end, r, i
    cdef tuple shape, strides
    if row.is_contiguous is True:
        low[0], high[0] = start, start + <Py_ssize_t>row.nbytes
        return 0
    shape, strides = row.shape, row.strides
    end = start + <Py_ssize_t>row.dtype.itemsize
    for i in range(len(shape)):
        r = (<Py_ssize_t>shape[i] - 1) * <Py_ssize_t>strides[i]
        if r < 0:
            start += r
        else:
            end += r
    low[0], high[0] = start, end
    return 0


cpdef tuple extent(Row row):
    """First byte and end of what a row reaches, from the start of its root."""
    cdef Py_ssize_t low = 0, high = 0
    reach(row, &low, &high)
    return low, high


cpdef bint overlap(Row row, Py_ssize_t low, Py_ssize_t high) except -1:
    """Whether a row reaches into some bytes of its root."""
    cdef Py_ssize_t start = 0, end = 0
    reach(row, &start, &end)
    return start < high and low < end


def number_key(value):
    """What two equal float attributes have in common; NaNs and zeros by their bits."""
    if type(value) is ControlSlot:
        return ("control", value.index)
    return float(value).hex()


def readers(list instructions):
    """Root -> positions of the instructions that read it."""
    cdef dict found = {}
    cdef list places
    cdef Instruction instruction
    cdef Row x, root
    cdef Py_ssize_t i
    for i in range(len(instructions)):
        instruction = instructions[i]
        for x in <list?>instruction.ins:
            root = x.root
            places = found.get(root.index)
            if places is None:
                found[root.index] = [i]
            elif places[len(places) - 1] != i:
                places.append(i)
    return found


def writer_counts(list instructions):
    """Root -> how many instructions write it."""
    cdef dict counts = {}
    cdef Instruction instruction
    for instruction in instructions:
        for index in written(instruction):
            counts[index] = counts.get(index, 0) + 1
    return counts


class Replacement:
    """Roots that others take the place of: gives the rows that stand for theirs.

    Parameters
    ----------
    table : BufferTable
        Where new rows are made.
    """

    def __init__(self, table):
        self.table = table
        self.roots = {}
        self.made = {}

    def __bool__(self):
        return bool(self.roots)

    def replace(self, root, by):
        """From now on the root `by`, which has as many bytes, stands for `root`."""
        self.roots[root.index] = by

    def of(self, Row row):
        """The row to use in the place of `row`."""
        cdef Row root = row.root, by = self.roots.get(root.index)
        if by is None:
            return row
        if row.shape == by.shape and row.strides == by.strides and row.offset == 0:
            return by
        key = (by.index, row.offset, row.shape, row.strides)
        view = self.made.get(key)
        if view is None:
            view = self.made[key] = self.table.view(by, row.shape, row.strides, row.offset)
        return view

    def all_of(self, list rows):
        """`of` for each row, or the very list where none is replaced."""
        cdef dict roots = self.roots
        cdef Row row, root
        for row in rows:
            root = row.root
            if root.index in roots:
                return [self.of(row) for row in rows]
        return rows
