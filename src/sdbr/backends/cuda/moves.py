"""Where the slots of a program lie, and which of them lie elsewhere from run to run.

Addresses are part of graphs. A slot that turns out to be bound to another array *moves*: from then
on its address is read from a table. Arenas lie elsewhere only when a larger one was made for a
program that is new, which is rare: then graphs are recorded again, with the new address in them.
"""

from __future__ import annotations

from sdbr.program.buffers import ARENA, CONSTANT
from sdbr.program.program import Program

import numpy as np

#: So often a slot more may turn out to move; the next time all do that ever can.
MOST = 3


class Moves:
    """The slots of a program.

    Parameters
    ----------
    program : Program

    Attributes
    ----------
    fixed : numpy.ndarray or None
        uint64[n], addresses when graphs were recorded last; None: nothing has run yet.
    moving : set of int
        Slots whose address is read from a table.
    on_host : set of int
        Slots that no kernel reads, wherever they lie.
    row_slots, offsets : numpy.ndarray
        Of each row.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.fixed: np.ndarray | None = None
        self.moving: set[int] = set()
        self.row_slots = np.asarray(program.rows["slot"], np.intp)
        self.offsets = program.rows["offset"].astype(np.uint64)
        self.on_host = {k for k, slot in enumerate(program.slots) if slot.host}
        kinds = [slot.kind for slot in program.slots]
        self._arenas = {k for k, kind in enumerate(kinds) if kind == ARENA}
        self._can = {k for k, kind in enumerate(kinds) if kind not in (ARENA, CONSTANT)}
        self._can -= self.on_host
        self._times = 0

    def note(self, addresses: np.ndarray) -> bool:
        """Compare with where slots lay; whether graphs have to be recorded anew.

        Parameters
        ----------
        addresses : numpy.ndarray
            uint64[n], of the slots of the program.
        """
        if self.fixed is None:
            self.fixed = addresses
            return False
        changed = set(np.flatnonzero(addresses != self.fixed).tolist())
        changed -= self.moving | self.on_host
        if not changed:
            return False
        self.fixed = addresses
        if changed <= self._arenas:
            return True
        self._times += 1
        self.moving |= self._can if self._times > MOST else changed - self._arenas
        self.program.moving = [self.program.slots[k].name for k in sorted(self.moving)]
        return True

    def rows(self, addresses: np.ndarray) -> np.ndarray:
        """The address of each row."""
        return addresses[self.row_slots] + self.offsets

    def does(self, r: int) -> bool:
        """Whether a row moves."""
        return int(self.row_slots[r]) in self.moving
