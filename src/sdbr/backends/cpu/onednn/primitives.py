"""Layouts and primitives, put together as the steps of a sequence."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence as Items

from sdbr.backends.cpu.onednn.library import OneDNN

F32 = 3
ANY = 1
#: The library's names for the arguments of a primitive.
SRC, DST, WEIGHTS, BIAS, SCRATCHPAD = 1, 17, 33, 41, 80
DIFF_SRC, DIFF_DST, DIFF_WEIGHTS = 129, 145, 161
#: Its names for what can be asked of a primitive descriptor.
QUERY = {SRC: 129, DIFF_SRC: 130, WEIGHTS: 131, DIFF_WEIGHTS: 132, DST: 133, DIFF_DST: 134}
QUERY_SCRATCHPAD = 136

_Dims = ctypes.c_int64 * 12


def dims(numbers: Items[int]):
    """An array of lengths as the library takes it."""
    return _Dims(*numbers)


def strided(library: OneDNN, shape: Items[int], strides: Items[int]):
    """The layout of a float32 array; strides in elements."""
    return library.create(
        "memory_desc",
        "memory_desc_create_with_strides",
        len(shape),
        dims(shape),
        F32,
        dims(strides),
    )


def plain(library: OneDNN, shape: Items[int]):
    """The layout of a C-contiguous float32 array."""
    return strided(library, shape, _c_strides(shape))


def channels_last(library: OneDNN, shape: Items[int]):
    """The layout in which the second axis moves fastest."""
    order = [0, *range(2, len(shape)), 1]
    strides = [0] * len(shape)
    for axis, stride in zip(order, _c_strides([shape[a] for a in order]), strict=True):
        strides[axis] = stride
    return strided(library, shape, strides)


def chosen(library: OneDNN, shape: Items[int]):
    """A layout that the primitive may choose."""
    return library.create(
        "memory_desc", "memory_desc_create_with_tag", len(shape), dims(shape), F32, ANY
    )


def _c_strides(shape: Items[int]) -> list[int]:
    strides = [1] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        strides[i] = strides[i + 1] * shape[i + 1]
    return strides


class Steps:
    """Collects the primitives of a sequence and places what lies between them.

    Attributes
    ----------
    steps : list
        As :class:`sdbr.backends.cpu.onednn._onednn.Sequence` takes them.
    scratch : int
        Bytes of scratch memory.
    """

    def __init__(self, library: OneDNN):
        self.library = library
        self.steps: list = []
        self.scratch = 0

    def space(self, layout) -> int:
        """A place in the scratch memory; a page each, so that none shares a cache line."""
        place = self.scratch
        self.scratch += -(-self.library.size(layout) // 4096) * 4096
        return place

    def add(self, descriptor, arguments: list) -> None:
        """Append the primitive of a descriptor; `arguments` are ``(key, layout, place)``."""
        library = self.library
        pad = library.layout_of(descriptor, QUERY_SCRATCHPAD)
        if library.size(pad):
            arguments = [*arguments, (SCRATCHPAD, pad, self.space(pad))]
        primitive = library.create("primitive", "primitive_create", descriptor.address)
        self.steps.append((primitive, arguments))

    def reorder(self, source, source_place: int, target, target_place: int) -> None:
        """Append a copy from one layout to another."""
        library = self.library
        engine = library.engine.address
        descriptor = library.create(
            "primitive_desc",
            "reorder_primitive_desc_create",
            source.address,
            engine,
            target.address,
            engine,
            library.attributes.address,
        )
        self.add(descriptor, [(SRC, source, source_place), (DST, target, target_place)])


def operand(index: int) -> int:
    """The place of an operand of the op."""
    return -1 - index
