"""Results of a call that lie on memory which something else shows as well."""

from __future__ import annotations

import math
from typing import NamedTuple

from sdbr.devices.arrays import contiguous, is_writeable
from sdbr.program._memory import view_of
from sdbr.program.buffers import Row
from sdbr.program.builder import Builder

import numpy as np


class Window(NamedTuple):
    """Where a result lies on the array that is bound to its slot, if that is in C order.

    Attributes
    ----------
    shape, strides, offset :
        As in NumPy, in bytes.
    dtype : numpy.dtype
    writeable : bool
        Whether Chainer lets the user write to it.
    is_whole : bool
        The very array.
    """

    shape: tuple
    strides: tuple
    offset: int
    dtype: np.dtype
    writeable: bool
    is_whole: bool

    def on(self, array: np.ndarray) -> np.ndarray:
        """The view of `array`, which may have any strides; a copy where NumPy has to make one."""
        if self.is_whole:
            return array
        if array.flags.c_contiguous:
            return view_of(array, self.shape, self.strides, self.offset, self.writeable)
        places = self._places(array)
        first = int(places.flat[0]) if places.size else 0
        strides = (
            tuple(
                int(places.take(1, axis).flat[0]) - first if n > 1 else 0
                for axis, n in enumerate(places.shape)
            )
            if places.size
            else self.strides
        )
        if np.array_equal(places, first + _spread(self.shape, strides)):
            return view_of(array, self.shape, strides, first, self.writeable)
        copy = contiguous(array)
        return view_of(copy, self.shape, self.strides, self.offset, self.writeable)

    def _places(self, array: np.ndarray) -> np.ndarray:
        """Per item of the result where it lies in `array`, in bytes from its first item."""
        items = np.ascontiguousarray(_spread(array.shape, array.strides))
        size = self.dtype.itemsize
        strides = tuple(s // size * items.itemsize for s in self.strides)
        return view_of(items, self.shape, strides, self.offset // size * items.itemsize, True)


class Gradient(NamedTuple):
    """Where a gradient lies that is handed out.

    Attributes
    ----------
    slot : int
    made : (tuple, numpy.dtype) or None
        Shape and dtype of what is bound to the slot for it; None: the slot is that of an incoming
        gradient, which is there.
    window : Window or None
        The part that is shown; None for all of it.
    """

    slot: int
    made: tuple | None
    window: Window | None

    def on(self, array: np.ndarray) -> np.ndarray:
        """The gradient, where `array` is bound to the slot; written to as `array` may be."""
        found = array if self.window is None else self.window.on(array)
        if is_writeable(array) or found is array:
            return found
        found.flags.writeable = False
        return found


class HandedOut(NamedTuple):
    """What is handed to the user.

    Attributes
    ----------
    places : list of (Value, int, tuple, dtype)
        Value, slot, shape, dtype.
    views : dict
        Index of a value -> Window: those that have no memory of their own.
    hidden : list of (int, tuple, dtype)
        Slot, shape and dtype of memory that is handed out in windows only.
    """

    places: list
    views: dict
    hidden: list


def window(row: Row, writeable: bool | None = None) -> Window:
    """The window that `row` is on the array that is bound to its slot.

    Where it is not known whether Chainer lets the user write there, elements that several places
    show are not written.
    """
    root = row.root
    is_whole = row.offset == 0 and row.shape == root.shape and row.strides == root.strides
    if writeable is None:
        steps = zip(row.shape, row.strides, strict=True)
        writeable = 0 in row.shape or all(s or n < 2 for n, s in steps)
    return Window(row.shape, row.strides, row.offset, row.dtype, writeable, is_whole and writeable)


def shows_all(row: Row, repeated: bool) -> bool:
    """Whether `row` has every element of its memory: once, or also again and again."""
    if 0 in row.shape or (not repeated and row.nbytes != row.root.nbytes):
        return False
    seen = math.prod(n for n, step in zip(row.shape, row.strides, strict=True) if step or n < 2)
    return seen * row.dtype.itemsize == row.root.nbytes


def apart(b: Builder, ys: list[Row], xs: list[Row]) -> list[Row]:
    """`ys`, copied where they lie on the memory of one of `xs`."""
    roots = {x.root.index for x in xs}
    return [b.copy(y) if y.root.index in roots else y for y in ys]


def _spread(shape: tuple, strides: tuple) -> np.ndarray:
    """Where every item lies, in bytes from the first."""
    places = np.zeros(shape, np.intp)
    for axis, (n, stride) in enumerate(zip(shape, strides, strict=True)):
        steps = np.arange(n, dtype=np.intp) * stride
        places += steps.reshape((n,) + (1,) * (len(shape) - axis - 1))
    return places
