"""What user code in a replay has changed of what its call reads, put back for a moment."""

from __future__ import annotations

import collections
import types
from collections.abc import Callable
from typing import Any, NamedTuple

from sdbr.base.failures import is_of_ours
from sdbr.trace.code._library import is_library
from sdbr.trace.code.places import Attribute, Place
from sdbr.trace.code.reading import Cell
from sdbr.trace.guards._held import is_met
from sdbr.trace.guards.seen import fields_in
from sdbr.trace.watch._looks import MISSING, class_attribute, field, is_a, is_atom
from sdbr.trace.watch.fingerprints import LOOSE
from sdbr.trace.watch.reads import is_ours
from sdbr.trace.watch.sources import Source, hold

_REFILLED = (collections.OrderedDict, dict, list, set, collections.deque)
_SLOT = types.MemberDescriptorType


class Entry(NamedTuple):
    """A place that can be written to.

    Attributes
    ----------
    holder : object
    key : object
        Of an item, or the name of an attribute or variable; `WHOLE` for all that is in a container.
    """

    holder: Any
    key: Any

    def put(self, thing) -> None:
        """Let `thing` lie there; MISSING for nothing. No code of the user's runs."""
        holder, key = self.holder, self.key
        kind = next((kind for kind in _REFILLED if isinstance(holder, kind)), None)
        if key is WHOLE:
            kind.clear(holder)
            (kind.update if issubclass(kind, (dict, set)) else kind.extend)(holder, thing)
        elif isinstance(holder, types.CellType):
            if thing is MISSING:
                del holder.cell_contents
            else:
                holder.cell_contents = thing
        elif kind is None:
            owner = type if isinstance(holder, type) else object
            if thing is MISSING:
                owner.__delattr__(holder, key)
            else:
                owner.__setattr__(holder, key, thing)
        elif thing is MISSING:
            if not issubclass(kind, dict) or key in holder:
                kind.__delitem__(holder, key)
        elif issubclass(kind, dict) or key < len(holder):
            kind.__setitem__(holder, key, thing)
        else:  # of a list that was longer; those before it come first
            kind.append(holder, thing)


#: The key of all that is in a container.
WHOLE = object()


def entry_of(holder, name) -> Entry | None:
    """The place of a condition, which is asked by ``holder.get(name)``."""
    if type(holder) is Cell:
        return Entry(holder.cell, name)
    if type(holder) is not Place:
        return Entry(holder, name) if type(holder) is dict else None
    if not holder.path:
        return entry_of(holder.holder, holder.name)
    *path, step = holder.path
    container = Place(holder.holder, holder.name, tuple(path)).get()
    if type(step) is not Attribute:
        return Entry(container, step)
    return _of_attribute(container, step.name)


def _of_source(source: Source, holder) -> Entry | None:
    """The place that a source leads to, where its parent leads to `holder`."""
    if holder is MISSING or source.kind not in ("cell", "global", "item", "attribute", "field"):
        return None
    if source.kind == "item" and not isinstance(holder, _REFILLED):
        return None  # of a tuple
    if source.kind in ("cell", "item"):
        return Entry(holder, source.key)
    if isinstance(holder, types.ModuleType):
        holder = holder.__dict__
    return Entry(holder, source.key) if type(holder) is dict else _of_attribute(holder, source.key)


def _of_attribute(holder, name: str) -> Entry | None:
    """The place of an attribute; None where the class has it."""
    kind = type(holder)
    is_own = field(holder, name) is not MISSING
    if is_own or is_a(holder, (type,)) or isinstance(class_attribute(kind, name), _SLOT):
        return Entry(holder, name)
    return Entry(holder, name) if class_attribute(kind, name) is MISSING else None


class Met:
    """What a schedule has met where its guards look; objects are held weakly.

    Parameters
    ----------
    guards : Guards
        They hold now.
    """

    def __init__(self, guards):
        self.guards = guards
        self.conditions = [
            (condition, _held(condition[0].get(condition[1], MISSING)))
            for condition in [*guards.stable.given, *guards.volatile.given]
        ]
        self.seen = guards.seen
        things = [] if self.seen is None else self.seen.things()
        self.things = list(map(_held, things))
        contents = map(_contents_of, things)
        self.contents = [None if x is None else _held_contents(x) for x in contents]

    def put_back(self) -> list[tuple[Entry, Any]]:
        """Let there lie what lay there; the places, with what lies there now."""
        done: list[tuple[Entry, Any]] = []
        for condition, held in self.conditions:
            if not is_met(condition):
                self._swap(entry_of(*condition[:2]), held, done)
        for guard in [] if self.seen is None else self.seen.broken():
            values = self.seen.things()
            if guard.holds(values):
                continue  # by what has been put back
            if guard.kind in ("value", "identity"):
                self._swap_things(guard, done)
            elif guard.kind != "is" and self.contents[guard.source.number] is not None:
                self._swap_contents(guard, values, done)
        return done

    def _swap_things(self, guard, done: list) -> None:
        """What lies at a place, or else what it lies in: a tuple is replaced whole."""
        source = guard.source
        # Arrays that replays read where they lie are compared, and held, by their identity.
        held = guard.want.thing if guard.kind == "identity" else self.things[source.number]
        while source.parent is not None:
            values = self.seen.things()
            if guard.holds(values):
                break
            self._swap(_of_source(source, values[source.parent.number]), held, done)
            source = source.parent
            held = self.things[source.number]

    def _swap_contents(self, guard, values: list, done: list) -> None:
        """Of a container, or of an object: what the code itself has written, where that will do."""
        number = guard.source.number
        container = _contents_of(values[number])
        before = None if container is None else self.contents[number](container)
        if before is None:
            return
        if isinstance(container, dict):
            for key in [*before, *(key for key in container if key not in before)]:
                thing = before.get(key, MISSING)
                if container.get(key, MISSING) is not thing:
                    self._swap(Entry(container, key), _just(thing), done)
        if not guard.holds(values):
            self._swap(Entry(container, WHOLE), _just(before), done)

    def _swap(self, place: Entry | None, held: Callable | None, done: list) -> None:
        if place is None or held is None:
            return
        before = held()
        if before is not None:
            _swap(place, None if before is _NONE else before, done)


def _swap(place: Entry, before, done: list) -> None:
    """Let `before` lie at a place, where that can be; guards are asked afterwards."""
    try:
        lying = _lying(place)
        place.put(before)
    except Exception as error:
        if not is_of_ours(error):  # of a signal
            raise
        return
    done.append((place, lying))


#: In the place of None, which tells that an object is gone.
_NONE = object()


def _just(thing) -> Callable[[], Any]:
    return lambda: _NONE if thing is None else thing


def _held(thing) -> Callable[[], Any] | None:
    """A function that gives `thing`, or None once it is gone; none of what is bound anew."""
    if thing is None or thing is MISSING or is_atom(thing):
        return _just(thing)
    return None if is_a(thing, LOOSE) else hold(thing)


def _contents_of(thing):
    """A container, or the dictionary of an object of the user's; None for others."""
    if isinstance(thing, _REFILLED):
        return thing
    if is_ours(thing) or isinstance(thing, type) or is_library(type(thing)):
        return None
    fields = fields_in(thing)
    return fields if type(fields) is dict else None


def _held_contents(container) -> Callable[[Any], Any]:
    """What gives the contents of a container, given what it is by now; None where some are gone."""
    is_dict = isinstance(container, dict)
    parts = [_held_part(x) for x in (container.values() if is_dict else container)]
    keys = list(container) if is_dict else None

    def contents(now):
        there = {id(x): x for x in (now.values() if isinstance(now, dict) else now)}
        found = [part(there) for part in parts]
        if any(x is None for x in found):
            return None
        found = [None if x is _NONE else x for x in found]
        return found if keys is None else dict(zip(keys, found, strict=True))

    return contents


def _held_part(thing) -> Callable[[dict], Any]:
    held = _held(thing)
    if held is not None:
        return lambda there: held()
    number = id(thing)  # an array with a weak reference cannot be resized
    return lambda there: there.get(number)


def _lying(place: Entry):
    holder, key = place
    if key is WHOLE:
        return dict(holder) if isinstance(holder, dict) else list(holder)
    if isinstance(holder, types.CellType):
        try:
            return holder.cell_contents
        except ValueError:
            return MISSING
    if isinstance(holder, dict):
        return dict.get(holder, key, MISSING)
    if isinstance(holder, _REFILLED):
        return holder[key] if key < len(holder) else MISSING
    try:
        return (type if isinstance(holder, type) else object).__getattribute__(holder, key)
    except AttributeError:
        return MISSING


class Undone:
    """What user code has changed, put back until the call that goes on has come there.

    Parameters
    ----------
    met : Met
    bound : list of (Entry, object)
        What is bound from other things by now, and what was.
    """

    def __init__(self, met: Met, bound: list[tuple[Entry, Any]]):
        self.changed: list[tuple[Entry, Any]] = []
        for place, before in bound:
            _swap(place, before, self.changed)
        self.changed += met.put_back()
        self.is_whole = met.guards.hold()
        if not self.is_whole:
            self.redo()

    def redo(self) -> None:
        """Let there lie again what the code has put there."""
        for place, thing in reversed(self.changed):
            place.put(thing)
        self.changed = []
