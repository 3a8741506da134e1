"""Rows and slots: what the operands of a program point to.

A row is a typed, strided window into the memory of a *slot*. Slots are the
units that are bound to memory at run time: an arena, a caller's array, a
parameter, an owned output, a constant. A view is a row like any other; it
shares the slot of its base.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

ARENA, BOUND, OWNED, CONSTANT, STAGED = range(5)
KIND_NAMES = ("arena", "bound", "owned", "constant", "staged")


class Slot:
    """A piece of memory that is bound as a whole.

    Attributes
    ----------
    index : int
        Position in the slot table of the schedule.
    kind : int
        ``ARENA`` (one per program, sized by the memory plan), ``BOUND``
        (memory of the caller: arguments, parameters, state), ``OWNED``
        (an array handed to the user), ``CONSTANT`` or ``STAGED`` (memory of a GPU that an array
        of the host is copied to before each run).
    shape, dtype :
        Of the array that is bound; C-contiguous. ``None`` for an arena
        before it is planned.
    name : str
        For the disassembler.
    array : numpy.ndarray or None
        The value of a constant.
    host : bool
        Whether it is memory of the host in a program for a GPU; an ``ARENA`` is that of one row.
    """

    __slots__ = ("array", "dtype", "host", "index", "kind", "name", "nbytes", "shape")

    def __init__(self, index: int, kind: int, shape, dtype, name: str, array=None):
        self.index = index
        self.kind = kind
        self.shape = shape
        self.dtype = dtype
        self.name = name
        self.array = array
        self.host = False
        self.nbytes = 0


class Row:
    """One row of the buffer table.

    Attributes
    ----------
    index : int
        Position in the row table of the schedule.
    dtype : numpy.dtype
    shape, strides : tuple of int
        Elements and bytes, as in NumPy.
    root : Row
        The row that owns the memory; itself for a root.
    offset : int
        Bytes from the start of the root. For a root in an arena, the memory
        plan adds ``place``.
    slot : Slot or None
        Of the root; ``None`` until the memory plan puts the root into an arena.
    place : int
        Offset of a root in its slot.
    size, nbytes : int
        Elements and the bytes that these take.
    is_contiguous : bool
        Whether the elements lie in C order without gaps.
    """

    __slots__ = (
        "dtype",
        "index",
        "is_contiguous",
        "name",
        "nbytes",
        "offset",
        "place",
        "root",
        "shape",
        "size",
        "slot",
        "strides",
    )

    def __init__(self, index, dtype, shape, strides, root, offset, slot, name):
        self.index = index
        self.dtype = dtype
        self.shape = shape
        self.strides = strides
        self.root = self if root is None else root
        self.offset = offset
        self.slot = slot
        self.place = 0
        self.name = name
        # Every pass asks for these many times, and they never change.
        itemsize = dtype.itemsize
        plain, size = plain_layout(shape, itemsize)
        self.size = size
        self.nbytes = size * itemsize
        self.is_contiguous = strides == plain or is_c_contiguous(shape, strides, itemsize)

    def __repr__(self) -> str:
        return f"<Row {self.index} {self.name} {self.dtype}{list(self.shape)}>"

    @property
    def ndim(self) -> int:
        return len(self.shape)


def c_strides(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Strides in bytes of a C-contiguous array."""
    return plain_layout(shape if type(shape) is tuple else tuple(shape), itemsize)[0]


@functools.lru_cache(1024)
def plain_layout(shape: tuple[int, ...], itemsize: int) -> tuple[tuple[int, ...], int]:
    """Strides in bytes of a C-contiguous array, which rows of one shape share, and its size."""
    strides = [0] * len(shape)
    size = 1
    for i in range(len(shape) - 1, -1, -1):
        strides[i] = size * itemsize
        size *= shape[i]
    return tuple(strides), size


def is_c_contiguous(shape, strides, itemsize: int) -> bool:
    """NumPy's rule: axes of length 1 may have any stride, empty arrays are contiguous."""
    if 0 in shape:
        return True
    step = itemsize
    for n, s in zip(reversed(shape), reversed(strides), strict=True):
        if n != 1:
            if s != step:
                return False
            step *= n
    return True
