"""The buffer table: makes the rows and slots of a schedule."""

from __future__ import annotations

from sdbr.program._making import new_root, new_view
from sdbr.program.machine import Machine
from sdbr.program.rows import (
    ARENA,
    BOUND,
    CONSTANT,
    KIND_NAMES,
    OWNED,
    STAGED,
    Row,
    Slot,
    c_strides,
    is_c_contiguous,
)

import numpy as np

__all__ = [
    "ARENA",
    "BOUND",
    "CONSTANT",
    "KIND_NAMES",
    "OWNED",
    "ROW_DTYPE",
    "STAGED",
    "BufferTable",
    "Row",
    "Slot",
    "c_strides",
    "is_c_contiguous",
]

#: In the state of a memory: the op that has raised.
FAILED = "failed"

#: Buffer table of a program: one structured element per row.
ROW_DTYPE = np.dtype(
    [
        ("kind", np.int32),
        ("slot", np.int32),
        ("type", np.int32),
        ("ndim", np.int32),
        ("dims", np.int64),  # start in `dims`: shape, then strides
        ("base", np.int32),  # row that owns the memory; itself for a root
        ("offset", np.int64),  # bytes from the start of the slot
    ]
)


class BufferTable:
    """All slots and rows of one schedule; its programs share them.

    Parameters
    ----------
    machine : Machine, optional
        What the programs are made for.
    """

    def __init__(self, machine: Machine | None = None) -> None:
        self.machine = Machine() if machine is None else machine
        self.slots: list[Slot] = []
        self.rows: list[Row] = []
        self._constants: dict = {}
        self.private: set[int] = set()  # slots of constants

    def slot(self, kind: int, shape=None, dtype=None, name: str = "", array=None) -> Slot:
        slot = Slot(len(self.slots), kind, shape, dtype, name, array)
        if shape is not None:
            n = np.dtype(dtype).itemsize
            for s in shape:
                n *= s
            slot.nbytes = n
        self.slots.append(slot)
        return slot

    def root(self, shape, dtype, slot: Slot | None = None, name: str = "") -> Row:
        """A new C-contiguous root row; without a slot the memory plan places it."""
        return new_root(self.rows, shape, dtype, slot, name)

    def bound(self, shape, dtype, name: str) -> Row:
        """A root on memory that the caller binds (argument, parameter, state)."""
        return self.root(shape, dtype, self.slot(BOUND, tuple(shape), np.dtype(dtype), name), name)

    def staged(self, shape, dtype, name: str) -> Row:
        """A root on memory of a GPU that an array of the host is copied to before each run."""
        return self.root(shape, dtype, self.slot(STAGED, tuple(shape), np.dtype(dtype), name), name)

    def on_host(self, kind: int, shape, dtype, name: str, array=None) -> Row:
        """A root on memory of the host, in a program for a GPU."""
        slot = self.slot(kind, tuple(shape), np.dtype(dtype), name, array)
        slot.host = True
        return self.root(shape, dtype, slot, name)

    def owned(self, shape, dtype, name: str) -> Row:
        """A root on memory that is handed to the user after the run."""
        return self.root(shape, dtype, self.slot(OWNED, tuple(shape), np.dtype(dtype), name), name)

    def constant(self, array) -> Row:
        """A root on a private, read-only copy of `array`."""
        array = np.array(array, order="C", copy=True)
        key = (array.dtype.str, array.shape, array.tobytes()) if array.nbytes <= 64 else None
        row = self._constants.get(key) if key else None
        if row is None:
            slot = self.slot(CONSTANT, array.shape, array.dtype, "constant", array)
            self.private.add(slot.index)
            row = self.root(array.shape, array.dtype, slot, "constant")
            if key:
                self._constants[key] = row
        return row

    def forget_rows(self, for_good: bool = True) -> None:
        """Let go of all rows when the programs are assembled; the slots stay.

        For good: nobody else holds one. A root refers to itself, and would be there, with all that
        refers to it, until the collector comes, which would look through everything that is new.
        """
        if for_good:
            for row in self.rows:
                row.root = None
        self.rows.clear()
        self._constants.clear()

    def is_private(self, slot: Slot | None) -> bool:
        """Whether a slot holds a constant that nobody else can reach, so that it never changes."""
        return slot is not None and slot.index in self.private

    def view(self, base: Row, shape, strides, offset: int = 0, name: str = "") -> Row:
        """A window into the memory of `base`; `offset` in bytes from the start of `base`."""
        return new_view(self.rows, base, shape, strides, offset, name)
