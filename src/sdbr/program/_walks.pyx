# cython: nonecheck=True
"""Walks over all operands of a program, compiled: what passes and the memory plan begin with."""

from sdbr.program.instruction import ControlSlot

from sdbr.program._layout cimport Instruction, Row, Slot
from sdbr.program._rows cimport whole


def live(list instructions, kept):
    """The instructions with effects, without outputs, that may raise, or whose results are read.

    Parameters
    ----------
    instructions : list of Instruction
    kept : set of int
        Root row indices that are read after the program. Rows in slots count as kept.
    """
    cdef set read = set(kept)
    cdef list result = []
    cdef Instruction instruction
    cdef Row x, root
    for instruction in reversed(instructions):
        if not _is_read(instruction.outs, read) and instruction.outs:
            if not (instruction.op.effect or instruction.op.reads_indices):
                continue
        result.append(instruction)
        for x in <list?>instruction.ins:
            root = x.root
            read.add(root.index)
    result.reverse()
    return result


cdef bint _is_read(list outs, set read) except -1:
    cdef Row y, root
    for y in outs:
        root = y.root
        if root.slot is not None or root.index in read:
            return True
    return False


def read_counts(list instructions):
    """Root -> how many inputs lie in it."""
    cdef dict found = {}
    cdef Instruction instruction
    cdef Row x, root
    for instruction in instructions:
        for x in <list?>instruction.ins:
            root = x.root
            found[root.index] = found.get(root.index, 0) + 1
    return found


def last_reads(list instructions):
    """Root -> the last instruction that reads it."""
    cdef dict found = {}
    cdef Instruction instruction
    cdef Row x, root
    cdef Py_ssize_t i
    for i in range(len(instructions)):
        instruction = instructions[i]
        for x in <list?>instruction.ins:
            root = x.root
            found[root.index] = i
    return found


def output_counts(list instructions):
    """Root -> how many instructions have outputs in it."""
    cdef dict found = {}
    cdef Instruction instruction
    cdef Row y, root
    cdef set roots
    for instruction in instructions:
        roots = set()
        for y in <list?>instruction.outs:
            root = y.root
            roots.add(root.index)
        for index in roots:
            found[index] = found.get(index, 0) + 1
    return found


def bytes_without_a_slot(list instructions):
    """Bytes of all that instructions use, but for slots."""
    cdef set seen = set()
    cdef Instruction instruction
    cdef Row x, root
    cdef Py_ssize_t n = 0
    for instruction in instructions:
        for rows in (instruction.ins, instruction.outs):
            for x in <list?>rows:
                root = x.root
                if root.slot is None and root.index not in seen:
                    seen.add(root.index)
                    n += root.nbytes
    return n


def users(list instructions, chosen):
    """Of each root that some instructions use, who reads and who writes it, in order.

    Parameters
    ----------
    instructions : list of Instruction
    chosen : iterable of int

    Returns
    -------
    dict, dict
        Root -> instructions; the second without those that nobody writes.
    """
    cdef dict reading = {}, writing
    cdef Instruction instruction
    cdef Row row, root
    cdef Py_ssize_t i
    for i in chosen:
        instruction = instructions[i]
        for rows in (instruction.ins, instruction.outs):
            for row in <list?>rows:
                root = row.root
                reading[root.index] = []
    writing = {index: [] for index in reading}
    for i in range(len(instructions)):
        instruction = instructions[i]
        _note(reading, instruction.ins, i)
        _note(writing, instruction.outs, i)
    return reading, {index: found for index, found in writing.items() if found}


cdef _note(dict users_of, list rows, Py_ssize_t i):
    cdef Row row, root
    cdef list found
    for row in rows:
        root = row.root
        found = users_of.get(root.index)
        if found is not None and (not found or found[len(found) - 1] != i):
            found.append(i)


def lifetimes(list instructions, list spans):
    """Root without a slot -> ``[root, first, last]``; `spans`: when each instruction may run."""
    cdef dict lives = {}
    cdef Instruction instruction
    cdef Row row, root
    cdef list life
    cdef Py_ssize_t i
    for i in range(len(instructions)):
        instruction = instructions[i]
        first, last = spans[i]
        for rows in (instruction.ins, instruction.outs):
            for row in <list?>rows:
                root = row.root
                if root.slot is not None:
                    continue
                life = lives.get(root.index)
                if life is None:
                    lives[root.index] = [root, first, last]
                else:
                    life[2] = last
    return lives


def constant_roots(list instructions, set private):
    """The roots that ops write which read nothing but constants, or such roots.

    `private` holds the slots of the constants.
    """
    cdef set found = set()
    cdef Instruction instruction
    cdef Row row, root
    cdef bint possible
    for instruction in instructions:
        possible = True
        for row in <list?>instruction.ins:
            root = row.root
            if root.index not in found and not _in(root.slot, private):
                possible = False
                break
        if possible:
            for row in <list?>instruction.outs:
                root = row.root
                found.add(root.index)
    return found


cdef bint _in(Slot slot, set private) except -1:
    return slot is not None and slot.index in private


def key_of_equals(Instruction instruction, dict writers):
    """What equal ops have in common at least; None where no other op may stand for this one.

    Shapes are compared only where that is the same. `writers`: root -> how many write it.
    """
    cdef list outs = instruction.outs, found
    cdef Row row, root
    op = instruction.op
    if op.effect or not outs:
        return None
    for row in outs:
        root = row.root
        if writers[root.index] != 1 or not whole(row):
            return None
    found = [op.opcode]
    for row in <list?>instruction.ins:
        root = row.root
        found.append((root.index, row.offset))
    found.extend(instruction.ints)
    for value in <tuple?>instruction.floats:
        # NaNs and zeros by their bits.
        found.append(
            ("control", value.index) if type(value) is ControlSlot else float(value).hex()
        )
    return tuple(found)
