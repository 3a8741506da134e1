"""What user code in a replay has changed of what its call reads, put back for a moment."""

from __future__ import annotations

import collections
import itertools
import types
from collections.abc import Callable
from typing import Any, NamedTuple

from sdbr.base.failures import is_of_ours
from sdbr.trace.captured import Way
from sdbr.trace.code._library import is_library
from sdbr.trace.code.places import Attribute, Place
from sdbr.trace.code.reading import Cell, Field, behind
from sdbr.trace.guards._held import Given, is_equal, is_same
from sdbr.trace.guards.seen import fields_in
from sdbr.trace.watch._looks import MISSING, class_attribute, field, is_a, is_atom, item
from sdbr.trace.watch.fingerprints import OWNERLESS, elements_of, plain_kind, shallow
from sdbr.trace.watch.reads import KIND_ALONE, is_ours
from sdbr.trace.watch.sources import Source

import numpy as np

_REFILLED = (collections.OrderedDict, dict, list, set, collections.deque)
_SLOT = types.MemberDescriptorType
_WRAPPERS = (staticmethod, classmethod)
_PLACES = frozenset({"cell", "global", "item", "attribute", "field"})
#: Facts about what lies under a name.
_NAMED = frozenset({"attribute", "hasattr", "field"})
#: Facts that what lies at places decides.
_OF_PLACES = frozenset({*_NAMED, "value", "identity", "is"})
_OF_LIBRARIES = (
    types.ModuleType, types.FunctionType, type, types.MethodDescriptorType,
    types.WrapperDescriptorType, np.ufunc,
)  # fmt: skip


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
    if isinstance(holder, Cell):
        return Entry(holder.cell, name)
    if type(holder) is Way:
        source, parent = holder.source, holder.source.parent
        container = MISSING if parent is None else parent.get(*holder.given)
        spaces, key = _spaces_of(source, container)
        return _entry_in(spaces, key, container)
    if type(holder) is Field:
        return Entry(holder.thing, holder.attribute)
    if type(holder) is types.MappingProxyType:
        return Entry(_class_of(behind(holder)), name)
    if type(holder) is not Place:
        return Entry(holder, name) if isinstance(holder, dict) else None
    if not holder.path:
        return entry_of(holder.holder, holder.name)
    *path, step = holder.path
    container = Place(holder.holder, holder.name, tuple(path)).get()
    if type(step) is not Attribute:
        return Entry(container, step)
    return _entry_in(_spaces(container), step.name, container)


def _entry_in(spaces: list, key, container) -> Entry | None:
    """The one of `spaces` in which a thing lies, or is put."""
    home = _home(spaces, key, container) if spaces else None
    return None if home is None else Entry((spaces * 2)[home.at], key)


def _class_of(members: dict) -> type | None:
    """The class whose dictionary it is; the collector does not tell of those that are frozen."""
    left: list[type] = [object]
    done: set[int] = set()
    while left:
        cls = left.pop()
        if behind(cls.__dict__) is members:
            return cls
        below = [x for x in type.__subclasses__(cls) if id(x) not in done]
        done.update(map(id, below))
        left += below
    return None


def _spaces(holder) -> list:
    """Where an attribute is looked for, in order, but for what classes compute: object, classes."""
    own = holder.__mro__ if is_a(holder, (type,)) else [holder]
    found = [*own, *type(holder).__mro__]
    # Without classes that we have made, which are there while another thread traces a call.
    return [x for x in found if not is_a(x, (type,)) or "_sdbr_base" not in x.__dict__]


def _spaces_of(source: Source, holder) -> tuple[list, Any]:
    """Where a source looks, in order, where its parent leads to `holder`; under which key."""
    kind, key = source.kind, source.key
    if kind == "super":
        start, cls, key = key
        order = cls.__mro__
        return [*order[order.index(start) + 1 :]] if start in order else [], key
    is_place = kind in _PLACES and (kind != "item" or isinstance(holder, _REFILLED))
    if not is_place or holder is MISSING:
        return [], key
    if kind == "attribute" and type(holder) is not dict:
        return _spaces(holder), key
    return [holder.__dict__ if isinstance(holder, types.ModuleType) else holder], key


class Home(NamedTuple):
    """In which of the places where Python looks for a thing it lies.

    Attributes
    ----------
    first, at : int
        Among `_spaces_of`: where Python begins, and where it lies; after the last for nowhere.
    wrap : type or None
        In what it is there: ``staticmethod``.
    """

    first: int
    at: int
    wrap: type | None


def _home(spaces: list, key, holder) -> Home | None:
    """None where nothing lies, but something is computed."""
    first = 0
    if len(spaces) > 1:
        found = class_attribute(type(holder), key)
        if type(found) is types.GetSetDescriptorType:
            return None
        if type(found) is _SLOT:
            return Home(0, 0, None)
        if _is_first(found):
            mro = type(holder).__mro__
            first = next(i for i, x in enumerate(spaces) if any(x is kind for kind in mro))
    for at, space in enumerate(spaces[first:], first):
        lies = _lying(Entry(space, key))
        if lies is not MISSING:
            return Home(first, at, type(lies) if type(lies) in _WRAPPERS else None)
    return Home(first, len(spaces), None)


def _is_first(found) -> bool:
    """Whether what a class has counts before what an object has: a property."""
    kind = type(found)
    names = ("__set__", "__delete__")
    return any(class_attribute(kind, name) is not MISSING for name in names)


class Met:
    """Where the guards of a schedule look, to put back what lay there.

    Parameters
    ----------
    guards : Guards
        They hold now.
    """

    def __init__(self, guards):
        self.guards = guards
        self.fixed: list[tuple] = []  # conditions, with what always lies there
        self.asked: list[tuple] = []
        for holder, name, check, want, *_ in [*guards.stable.given, *guards.volatile.given]:
            lies = want if check in (is_same, is_equal) else holder.get(name, MISSING)
            if check in (is_same, is_equal) or lies is None or lies is MISSING:
                self.fixed.append((holder, name, lies))
            elif type(holder) is not Given:
                self.asked.append((holder, name))
        self.sources: list[Source] = []
        self.things: list[Any] = []  # what always lies at sources
        # Its number, its parent's, how to look there and for what: what may be held weakly is.
        self.looks: list[tuple[int, int, Callable | None, Any]] = []
        self.known: set[int] = set()
        self.homes: dict[int, Home] = {}
        self.kinds: dict[int, type] = {}  # of objects of which nothing else is compared
        self.filled: list[int] = []
        if guards.seen is not None:
            self._take(guards.seen.asked())

    def _take(self, asked: list[tuple[Source, list]]) -> None:
        """Sources, with what is compared there."""
        self.sources = [source for source, _ in asked]
        for source, guards in list(asked):
            for guard in guards:
                if guard.kind in _NAMED and type(guard.key) is str:
                    kind = "field" if guard.kind == "field" else "attribute"
                    self.sources.append(Source(kind, source, guard.key))
                    self.sources[-1].number = len(asked)
                    asked.append((self.sources[-1], [guard]))
        things = things_at(self.sources)
        self.things = [None] * len(things)
        needed: set[int] = set()  # that something is looked up in
        for source, guards in reversed(asked):
            if guards or source.number in needed:
                self._look_at(source, guards, things, needed)
        self.looks.reverse()

    def _look_at(self, source: Source, guards: list, things: list, needed: set) -> None:
        """How to tell, when a replay begins, what lies there."""
        number, parent, thing = source.number, source.parent, things[source.number]
        if parent is not None and guards:
            spaces, key = _spaces_of(source, things[parent.number])
            home = _home(spaces, key, things[parent.number]) if spaces else None
            if home is not None and _has(spaces, key, home, thing):
                self.homes[number] = home
        if _contents_of(thing) is not None and any(g.kind not in _OF_PLACES for g in guards):
            self.filled.append(number)
            needed.add(number)
        wants = (g.want for g in guards if g.kind == "value" and not g.is_ours)
        want = next(wants, None)
        if type(want) is tuple and len(want) == 1:
            self.kinds[number] = want[0]
        if number not in self.homes and number not in needed:
            return
        self.known.add(number)
        moves = type(want) is tuple and want is KIND_ALONE.get(want[0])
        if want is not None and not moves and (is_atom(thing) or _is_of_library(thing)):
            self.things[number] = thing
        elif want is not None and type(want) is not tuple:
            self.looks.append((number, -1, None, want))
        else:
            at = -1 if parent is None else parent.number
            self.looks.append((number, at, source.step, source.key))
            needed.add(at)

    def put_back(self, objects: tuple[list, list, list]) -> list[tuple[Entry, Any]]:
        """Let there lie what lay there; the places, with what lies there now.

        Parameters
        ----------
        objects : tuple
            What lay at `asked`, at the sources and, of containers, in `filled`.
        """
        done: list[tuple[Entry, Any]] = []
        asked, things, contents = objects
        lay = [(*place, thing) for place, thing in zip(self.asked, asked, strict=True)]
        for holder, name, before in self.fixed + lay:
            if not _is_one(holder.get(name, MISSING), before):
                _swap(entry_of(holder, name), before, done)
        things = things.copy()
        for source in self.sources:
            number = source.number
            holder = None if source.parent is None else things[source.parent.number]
            if number not in self.known:
                things[number] = _stepped(holder, source)
                continue
            home = self.homes.get(number)
            if home is not None:
                _put_at(source, holder, home, things[number], done)
            kind, thing = self.kinds.get(number), things[number]
            if kind is not None and plain_kind(type(thing)) is not kind:
                _swap(Entry(thing, "__class__"), kind, done)
        for number, before in zip(self.filled, contents, strict=True):
            _put_contents(_contents_of(things[number]), before, done)
        return done


def _put_at(source: Source, holder, home: Home, before, done: list) -> None:
    """Let `before` lie where it lay, and nothing where Python looks before that."""
    spaces, key = _spaces_of(source, holder)
    for space in spaces[home.first : home.at]:
        if not _is_one(_lying(Entry(space, key)), MISSING):
            _swap(Entry(space, key), MISSING, done)
    if not _has(spaces, key, home, before):
        wrapped = before if home.wrap is None else home.wrap(before)
        _swap(Entry(spaces[home.at], key), wrapped, done)


def _has(spaces: list, key, home: Home, thing) -> bool:
    """Whether `thing` lies there."""
    if home.at == len(spaces):
        return True
    lies = _lying(Entry(spaces[home.at], key))
    if home.wrap is not None:
        lies = lies.__func__ if type(lies) is home.wrap else MISSING
    return _is_one(lies, thing)


def _put_contents(container, before, done: list) -> None:
    """Of a container, or of an object: what the code itself has written, where that will do."""
    if container is None:
        return
    if isinstance(container, dict):
        for key in [*before, *(key for key in container if key not in before)]:
            thing = before.get(key, MISSING)
            if not _is_one(dict.get(container, key, MISSING), thing):
                _swap(Entry(container, key), thing, done)
    pairs = itertools.zip_longest(elements_of(container), elements_of(before), fillvalue=MISSING)
    if not all(_is_one(*pair) for pair in pairs):
        _swap(Entry(container, WHOLE), before, done)


def _swap(place: Entry | None, before, done: list) -> bool:
    """Let `before` lie at a place; whether that can be."""
    try:
        lying = _lying(place)
        place.put(before)
    except Exception as error:
        if not is_of_ours(error):  # of a signal
            raise
        return False
    done.append((place, lying))
    return True


def _is_one(now, before) -> bool:
    """Whether two things are one, or one number; or the first stands there for another thread."""
    if now is before or is_ours(now):
        return True
    return is_atom(now) and is_atom(before) and shallow(now) == shallow(before)


def _is_of_library(thing) -> bool:
    """Whether a library holds it anyway."""
    if is_a(thing, (types.BuiltinFunctionType,)):
        return is_a(thing.__self__, OWNERLESS)
    if is_a(thing, (types.FunctionType,)) and "<locals>" in thing.__qualname__:
        return False  # it may hold anything
    return is_a(thing, _OF_LIBRARIES) and is_library(thing)


def _stepped(holder, source: Source):
    is_lost = source.parent is not None and holder is MISSING
    return MISSING if is_lost else source.step(holder, source.key, ((), {}))


def things_at(sources: list[Source]) -> list:
    """What lies at sources, which parents come before, by their numbers."""
    things: list[Any] = []
    for source in sources:
        things.append(
            _stepped(None if source.parent is None else things[source.parent.number], source)
        )
    return things


def _contents_of(thing):
    """A container, or the dictionary of an object of the user's; None for others."""
    if isinstance(thing, _REFILLED):
        return thing
    if is_ours(thing) or isinstance(thing, type) or is_library(type(thing)):
        return None
    fields = fields_in(thing)
    return fields if type(fields) is dict else None


def contents_now(thing):
    """What is in a container, or in an object; by now it may be something else."""
    contents = _contents_of(thing)
    return None if contents is None else _lying(Entry(contents, WHOLE))


def _lying(place: Entry):
    """What lies at a place itself. No code of the user's runs."""
    holder, key = place
    if key is WHOLE:
        keys = elements_of(holder)
        return {x: dict.get(holder, x) for x in keys} if isinstance(holder, dict) else keys
    if isinstance(holder, types.CellType):
        try:
            return holder.cell_contents
        except ValueError:
            return MISSING
    if isinstance(holder, _REFILLED):
        return item(holder, key)
    if key == "__class__":
        return type(holder)
    slot = MISSING if is_a(holder, (type,)) else class_attribute(type(holder), key)
    if type(slot) is not _SLOT:
        return field(holder, key)
    try:
        return slot.__get__(holder)
    except AttributeError:
        return MISSING


class Undone:
    """What user code has changed, put back until the call that goes on has come there.

    Parameters
    ----------
    met : Met
    objects : tuple
        What lay there when the replay began.
    bound : list of (Entry or None, object, callable)
        What is bound from other things by now, what was, and what asks whether that is bound again:
        a part of what cannot be written to comes back with the whole.
    """

    def __init__(
        self, met: Met, objects: tuple, bound: list[tuple[Entry | None, Any, Callable[[], bool]]]
    ):
        self.changed: list[tuple[Entry, Any]] = []
        left = [ask for place, before, ask in bound if not _swap(place, before, self.changed)]
        self.changed += met.put_back(objects)
        self.is_whole = all(ask() for ask in left) and met.guards.hold()
        if not self.is_whole:
            self.redo()

    def redo(self) -> None:
        """Let there lie again what the code has put there."""
        for place, thing in reversed(self.changed):
            place.put(thing)
        self.changed = []
