"""How arrays lie in memory, and which of them are one: where the code of a call can learn that."""

from __future__ import annotations

from collections.abc import Iterator

from sdbr.devices.arrays import ARRAYS
from sdbr.trace.guards._held import Given
from sdbr.trace.values import CONSTANT, PARAMETER, Trace

import chainer
import numpy as np

#: What the call has found elsewhere than under a name of a link, by its values.
_GIVEN = (PARAMETER, CONSTANT)


def layout_of(array) -> tuple:
    """What code can learn of how an array lies in memory: its steps, its flags."""
    flags = array.flags.num if isinstance(array, np.ndarray) else None
    return array.strides, flags


def aliasing(things) -> tuple:
    """Which of `things` are the same object."""
    if len(things) < 2:
        return ()
    first: dict[int, int] = {}
    return tuple(first.setdefault(id(x), i) for i, x in enumerate(things))


def layout_conditions(trace: Trace) -> Iterator[tuple]:
    """The conditions on arrays that a call has found; those on its arguments are in the key."""
    reads = [read for read in trace.reads if _array_of(read.value) is not None]
    if trace.asks_layout:
        found = [(read.link.__dict__, read.name, read.value) for read in reads]
        found += [(place, place.label, thing) for place, thing, _ in trace.places]
        for place, layout in trace.borrowed:
            yield place, place.label, _lies_alike, layout
        found += [(Given(x.source), "array", x.source) for x in trace.values if x.kind in _GIVEN]
        for holder, name, thing in found:
            array = _array_of(thing)
            if array is not None:
                yield holder, name, _lies_alike, layout_of(array)


def _array_of(thing):
    array = thing._data[0] if isinstance(thing, chainer.Variable) else thing
    return array if isinstance(array, ARRAYS) else None


def _lies_alike(thing, want) -> bool:
    array = _array_of(thing)
    return array is not None and layout_of(array) == want
