"""Arenas that programs share: those which leave nothing there."""

from weakref import ref as _ref

from cpython.list cimport PyList_GET_ITEM
from cpython.object cimport PyObject
from libc.stdint cimport int64_t

from sdbr.program._memory cimport Memory


cdef class Arena:
    """An arena that programs work in one after another: as large as the largest of them needs.

    For programs that leave nothing there. Many that come in turn touch the memory of one.
    """

    def __cinit__(self):
        self.lodgers = []

    def join(self, Memory memory, program):
        """Let `program` work here on `memory`, which has no arena of its own yet.

        Parameters
        ----------
        memory : Memory
        program : Program

        Returns
        -------
        Lodger or None
            None where the program needs no arena, or lies on another device than those before.
        """
        cdef Lodger lodger, one
        slot = program.arena_slot()
        if slot is None or (self.lodgers and self.device != memory.device):
            return None
        self.device = memory.device
        lodger = Lodger(self, memory, slot, program.arena_bytes)
        memory.grow(slot + 1, 0)
        known = [which() for which in self.lodgers]
        living = [one for one in known if one is not None and one.arena is self]
        living.append(lodger)
        self.lodgers = [_ref(one) for one in living]
        needed = max([one.nbytes for one in living])
        if self.array is None or self.array.nbytes != needed:
            self.array = memory.arena(program, needed)
            for one in living:
                if not one.runs:  # one that does looks again before its next run
                    one.memory.bind(one.slot, self.array)
        else:
            memory.bind(slot, self.array)
        return lodger


cdef class Lodger:
    """A program that works in an arena with others.

    Parameters
    ----------
    arena : Arena
    memory : Memory
    slot : int
        Of the arena.
    nbytes : int
        How much of it the program needs.
    """

    def __init__(self, Arena arena, Memory memory, int slot, int64_t nbytes):
        self.arena = arena
        self.memory = memory
        self.slot = slot
        self.nbytes = nbytes

    cdef int enter(self) except -1:
        """Take the arena for a run; where another one runs there, have one's own from now on."""
        if self.arena is None:
            return 0
        if self.arena.taken:  # in another thread, or around this run
            self.memory.bind(self.slot, self.memory.bytes(self.nbytes))
            self.arena = None
            return 0
        self.arena.taken = self.runs = True
        if PyList_GET_ITEM(self.memory.owners, self.slot) != <PyObject *> self.arena.array:
            self.memory.bind_fast(self.slot, <PyObject *> self.arena.array)
        return 0

    cdef int leave(self) except -1:
        """Give the arena back, if it was taken."""
        if self.runs:
            self.arena.taken = self.runs = False
        return 0
