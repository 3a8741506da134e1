"""What replays of a trace read, write and leave, where guards have to know of it."""

from __future__ import annotations

from typing import Any

from sdbr.devices.arrays import ARRAYS, may_be_read_in_place
from sdbr.trace.code.reading import Cell, behind
from sdbr.trace.values import ALIAS, CONSTANT, Trace, values_in
from sdbr.trace.watch._looks import is_a
from sdbr.trace.watch.sources import Source

import numpy as np


def values_used(trace: Trace) -> set[int]:
    """The values that a replay computes with, hands out or leaves, by their numbers."""
    used = {x.index for node in trace.nodes for x in node.inputs}
    used.update(x.index for node in trace.nodes if node.lasting for x in node.outputs)
    used.update(x.index for node in trace.nodes for r in node.rebind for x in r.values)
    left = [w.value for w in trace.writes], [r.items for r in trace.reports]
    stored = [s.value for s in trace.stores]
    used.update(x.index for x in values_in([trace.result, *left, stored]))
    used.update(x.source.index for x in trace.values if x.kind == ALIAS and x.index in used)
    return used


_base = np.ndarray.base.__get__


def arrays_read(trace: Trace) -> tuple[set[int], set[int]]:
    """Ids of arrays that replays read where they lie: they have to be the same.

    And of those that they have copies of: what these hold has to be.
    """
    in_place: set[int] = set()
    copied: set[int] = set()
    for value in trace.values:
        thing = value.source if value.kind == CONSTANT else None
        found = in_place if thing is None or may_be_read_in_place(thing) else copied
        while isinstance(thing, ARRAYS):  # a view is read where its base lies
            found.add(id(thing))
            # Of a traced one, what it has told in its place would go on for ever.
            thing = _base(thing) if isinstance(thing, np.ndarray) else thing.base
    return in_place, copied


def places_written(trace: Trace) -> set:
    """Places that replays write, as `place_at` tells them, and containers to which they add."""
    found = {(id(fields_in(write.link)), write.name) for write in trace.writes}
    for store in trace.stores:
        found.add(_place_of(store.sink))
        found.add(id(getattr(store.sink, "container", None)))
    return found


def _place_of(sink) -> tuple:
    """The place of a sink, as `place_at` tells it."""
    holder = sink.holder
    if isinstance(holder, Cell):
        return id(holder.cell), None
    return id(holder if type(holder) is dict else fields_in(sink.owner)), sink.name


def place_at(source: Source, values: list) -> tuple:
    """What tells the place that a source leads to from others."""
    if source.parent is None:
        return (0, None)
    key = source.key if type(source.key) is str else None
    return id(fields_in(values[source.parent.number])), key


def fields_in(thing) -> Any:
    """The dictionary of an object, class or module; the thing itself where it has none."""
    if is_a(thing, (type,)):
        # The class that we have made writes to the user's.
        return behind(thing.__dict__.get("_sdbr_base", thing).__dict__)
    try:
        fields = object.__getattribute__(thing, "__dict__")
    except AttributeError:
        return thing
    return fields if type(fields) is dict else thing
