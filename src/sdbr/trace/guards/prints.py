"""What can be reached from an object, as it is now, to compare with later.

Lists, dicts, plain objects and arrays inside them change without anybody noticing: what a call
reads of them is compared after the traced call, and before every replay.
"""

from __future__ import annotations

import argparse
import collections
import functools
import hashlib
import types
from typing import Any

from sdbr.base.reasons import Remedy
from sdbr.trace.arrays.provenance import PURE, TracedArray, is_traced, strip
from sdbr.trace.code.outside import GENERATORS, holds_scalars, is_library, moves_on
from sdbr.trace.code.places import Place
from sdbr.trace.code.reading import get, plain_fields
from sdbr.trace.values import ATTRIBUTE, CONSTANT, AttributeWrite, values_in

import chainer
import numpy as np

_SCALARS = (int, float, str, bool, bytes, complex, type(None), np.generic)
_DEPTH = 100
_EXACT = 1 << 16  # bytes that are compared one by one
_WHOLE = 1 << 22  # bytes of which a digest is compared; of larger arrays that of a sample
_MOST_CAPTURED = 64
_MOST_ARRAYS = 256
_MOST_OBJECTS = 1000
_MOST_ITEMS = 1 << 14
_OPEN = (
    types.SimpleNamespace, argparse.Namespace, collections.UserDict, collections.UserList,
    collections.UserString, collections.ChainMap,
)  # fmt: skip
_MAPPINGS = (dict, types.MappingProxyType)
_CLOSED = (
    chainer.Link, chainer.Variable, chainer.FunctionNode, chainer.Function, types.ModuleType,
    types.FunctionType, types.MethodType,
    types.BuiltinFunctionType, functools.partial, type, chainer.FunctionHook, chainer.LinkHook,
)  # fmt: skip

#: Numbers, also those that optimizers, update rules and links keep in objects of Chainer.
_OF_LIBRARIES = (int, float, str, bool, chainer.optimizer.Hyperparameter, chainer.Initializer)

# How an array or a Variable is used: bound as the very object, or read anew in every call.
SAME, LIKE = "same", "like"


class _Array:
    """An array: by its contents, unless the schedule reads it anew."""

    __slots__ = ("array", "contents", "kind")

    def __init__(self, array: np.ndarray):
        self.array = array
        self.kind = (array.shape, array.dtype)  # now: both may be set in place
        self.contents = _contents(array)

    def matches(self, thing, live: dict) -> bool:
        mine, how = self.array, live.get(id(self.array))
        if type(thing) is not type(mine) or (thing.shape, thing.dtype) != self.kind:
            return False
        if how is SAME:
            return thing is mine
        return how is LIKE or _contents(thing) == self.contents


class _Variable:
    """A Variable: by identity and kind; by kind alone if the schedule reads it anew."""

    __slots__ = ("kind", "variable")

    def __init__(self, variable: chainer.Variable):
        self.variable = variable
        self.kind = _kind_of(variable)

    def matches(self, thing, live: dict) -> bool:
        if thing is not self.variable and live.get(id(self.variable)) is not LIKE:
            return False
        return isinstance(thing, chainer.Variable) and _kind_of(thing) == self.kind


class _Items:
    """A list, tuple or deque."""

    __slots__ = ("items", "kind")

    def __init__(self, thing, place: tuple, walk: _Walk):
        self.kind = type(thing)
        self.items = [walk.taken(x, (*place, _Key(i))) for i, x in enumerate(thing)]

    def matches(self, thing, live: dict) -> bool:
        if type(thing) is not self.kind or len(thing) != len(self.items):
            return False
        return all(same(a, b, live) for a, b in zip(thing, self.items, strict=False))


class _Plain:
    """A large list or dict of plain things, compared as a whole."""

    __slots__ = ("items",)

    def __init__(self, items):
        self.items = items

    def matches(self, thing, live: dict) -> bool:
        return type(thing) is type(self.items) and thing == self.items


class _Set:
    """A set or frozenset."""

    __slots__ = ("items",)

    def __init__(self, thing):
        self.items = frozenset(thing)

    def matches(self, thing, live: dict) -> bool:
        return isinstance(thing, (set, frozenset)) and thing == self.items


class _Fields:
    """A dict, or the attributes of a plain object, which has to be the very one."""

    __slots__ = ("items", "owner", "whole")

    def __init__(self, owner, fields: dict, whole: bool, place: tuple, walk: _Walk):
        self.owner = owner
        self.whole = whole
        kind = _Key if owner is None else _Attribute
        if not whole:  # an object of a library: its numbers alone
            for k, x in list(fields.items()):
                walk.note_moving(x, (*place, kind(k)))
            fields = _numbers(fields)
        self.items = {k: walk.taken(x, (*place, kind(k))) for k, x in list(fields.items())}

    def matches(self, thing, live: dict) -> bool:
        if self.owner is not None:
            if thing is not self.owner:
                return False
            thing = plain_fields(thing)
            if not self.whole:
                thing = _numbers(thing)
        elif not isinstance(thing, _MAPPINGS):
            return False
        if thing.keys() != self.items.keys():
            return False
        return all(same(thing[k], want, live) for k, want in self.items.items())


class _Both:
    """A container that has attributes as well."""

    __slots__ = ("attributes", "items")

    def __init__(self, items, attributes: _Fields):
        self.items = items
        self.attributes = attributes

    def matches(self, thing, live: dict) -> bool:
        return self.items.matches(thing, live) and self.attributes.matches(thing, live)


_PRINTS = (_Array, _Variable, _Items, _Plain, _Set, _Fields, _Both)


class _Walk:
    """Takes the print of one thing; what is met again, and the rest of very much, by identity.

    Attributes
    ----------
    moving : list of (tuple, object)
        Iterators, generators and queues on the way, each with its place.
    beyond : list of tuple
        Places of what is only compared by identity, because there is so much.
    """

    def __init__(self):
        self.seen: set[int] = set()
        self.arrays = _MOST_ARRAYS
        self.moving: list[tuple] = []
        self.beyond: list[tuple] = []

    def note_moving(self, thing, place: tuple) -> None:
        """Whether `thing` is one of those that give something else each time they are asked."""
        if isinstance(thing, GENERATORS) or moves_on(thing) is not None:
            self.moving.append((place, thing))

    def taken(self, thing, place: tuple = ()) -> Any:
        """What `thing` holds now."""
        if isinstance(thing, _SCALARS):
            return thing
        if isinstance(thing, np.ndarray):
            return self._array(thing, place)
        if isinstance(thing, chainer.Variable):
            return thing if isinstance(thing, chainer.Parameter) else _Variable(thing)
        self.note_moving(thing, place)
        if id(thing) in self.seen:
            return thing
        if len(place) > _DEPTH or len(self.seen) > _MOST_OBJECTS:
            if not isinstance(thing, _CLOSED):
                self.beyond.append(place)
            return thing
        if isinstance(thing, (*_MAPPINGS, list, tuple, collections.deque)):
            self.seen.add(id(thing))
            plain = holds_scalars(thing)
            if plain is not None:
                return _Plain(plain)
            if len(thing) > _MOST_ITEMS:
                self.beyond.append(place)
                return thing
            if isinstance(thing, _MAPPINGS):
                print_ = _Fields(None, dict(thing), True, place, self)
            else:
                print_ = _Items(thing, place, self)
            fields = None if is_library(type(thing)) else plain_fields(thing)
            if fields and fields is not thing:  # a subclass, with attributes
                return _Both(print_, _Fields(thing, fields, True, place, self))
            return print_
        if isinstance(thing, (set, frozenset)):
            return _Set(thing)
        if isinstance(thing, bytearray):
            return _Items(thing, place, self)
        fields = None if isinstance(thing, _CLOSED) else plain_fields(thing)
        if fields is None:
            return thing
        whole = isinstance(thing, _OPEN) or not is_library(type(thing))
        if not whole and callable(thing) and not isinstance(thing, chainer.Initializer):
            return thing
        self.seen.add(id(thing))
        return _Fields(thing, fields, whole, place, self)

    def _array(self, array: np.ndarray, place: tuple) -> Any:
        self.arrays -= 1
        if self.arrays < 0 or array.dtype == object:
            self.beyond.append(place)
            return array
        if array.nbytes > _WHOLE:
            self.beyond.append(place)  # a sample is compared
        return _Array(array)


def taken(thing, recorder=None, name: str = "") -> Any:
    """What `thing` holds now, to be given to `same` later.

    Parameters
    ----------
    thing : object
    recorder : Recorder, optional
        Of the call that may read `thing`: is told of what makes the call dynamic, and of what lies
        beyond the limits.
    name : str
        How messages call `thing`.
    """
    walk = _Walk()
    print_ = walk.taken(thing)
    if recorder is not None:
        for place, part in walk.moving:
            recorder.note_moving(name + _text(place), part)
        if walk.beyond:
            recorder.note_beyond(name, [_text(place) for place in walk.beyond])
    return print_


def _text(place: tuple) -> str:
    return "".join(map(str, place))


class _Key:
    """One step of a place: an item."""

    __slots__ = ("key",)

    def __init__(self, key):
        self.key = key

    def __str__(self) -> str:
        return f"[{self.key!r:.30}]"


class _Attribute(_Key):
    """One step of a place: an attribute."""

    __slots__ = ()

    def __str__(self) -> str:
        return f".{self.key}"


def same(thing, want, live: dict) -> bool:
    """Whether `thing` is as it was; `live` maps ids of arrays and Variables to `SAME` or `LIKE`."""
    if isinstance(want, _PRINTS):
        return want.matches(thing, live)
    # repr tells 0.0 from -0.0 and makes nan equal to itself.
    return thing is want or (
        type(thing) is type(want) and isinstance(want, _SCALARS) and repr(thing) == repr(want)
    )


def is_constant(thing) -> bool:
    """Whether `thing` cannot change in place: a tuple of numbers, texts and the like."""
    if type(thing) is tuple:
        return all(map(is_constant, thing))
    return isinstance(thing, (*_SCALARS, type, np.dtype))


def _numbers(fields: dict) -> dict:
    """What is compared of an object of a library."""
    return {k: x for k, x in list(fields.items()) if isinstance(x, _OF_LIBRARIES)}


def _kind_of(variable) -> tuple:
    array = variable._data[0]
    if array is None:
        return (None,)
    return array.shape, array.dtype, variable.requires_grad


def _contents(array: np.ndarray) -> bytes:
    if array.nbytes <= _EXACT:
        return array.tobytes()
    if array.nbytes > _WHOLE:
        array = array.reshape(-1)[:: max(1, array.nbytes // _EXACT)]
    return hashlib.blake2b(np.ascontiguousarray(array), digest_size=16).digest()


class PrintRecording:
    """The part of the recorder that looks into what attributes hold."""

    def __init__(self):
        super().__init__()
        self._prints: dict[tuple, tuple] = {}  # (id(link), name) -> (thing, its print)
        self._captured: list = []  # (array or Variable, Value)
        self.looked_at: set[int] = set()  # ids of nodes of strange Variables whose array was read

    def look_into(self, link, name: str, thing) -> None:
        """Note what an attribute holds, when it is first read."""
        if (id(link), name) in self._prints or is_constant(thing):
            return
        label = f"{type(link).__name__}.{name}"
        self.know_places(link.__dict__, name, thing, label)
        print_ = taken(thing, self, name)
        if isinstance(print_, _PRINTS):
            self._prints[id(link), name] = (thing, print_)
            found = list(_inside(thing, ()))
            if len(found) <= _MOST_CAPTURED:
                for path, leaf in found:
                    self._capture(Place(link.__dict__, name, path, label), leaf)

    def note_moving(self, name: str, thing) -> None:
        """The call may ask `thing`, which gives something else each time."""
        if isinstance(thing, GENERATORS):
            self.generators.watch(thing, f"{name!r}, a random generator of its own,")
        else:
            reason = moves_on(thing)
            self.mark_dynamic(f"{name!r} {reason.text}", reason.remedy)

    def note_beyond(self, name: str, places: list[str]) -> None:
        """Parts of what the call may read are too much to be compared."""
        more = f" and {len(places) - 1} more parts" if len(places) > 1 else ""
        self.trace.unwatched.append(f"{name}{places[0]}{more}")

    def _capture(self, place: Place, leaf) -> None:
        """A Variable or array in a container: what lies in its place is read in every call."""
        source = (place, place.label)
        if isinstance(leaf, chainer.Variable):
            if leaf._data[0] is None or id(leaf._node) in self._nodes:
                self.note_alias(leaf, source)
                return
            value = self.value(ATTRIBUTE, leaf._data[0], leaf.requires_grad, source, True)
            self.know_variable(leaf, value)
        else:
            if self.find_array(leaf) is not None:
                return
            value = self.value(ATTRIBUTE, leaf, False, source, False)
            self.know_array(leaf, value)
        self._captured.append((leaf, value))

    def unchanged_prints(self) -> list:
        """Keys of what is as it was when it was first read."""
        return [k for k, (thing, print_) in self._prints.items() if same(thing, print_, {})]

    def forgive_prints(self, keys: list) -> None:
        """What has changed of these since was changed by ``static_code``: no replay compares it."""
        for key in keys:
            thing, print_ = self._prints[key]
            if not same(thing, print_, {}):
                self._prints[key] = (thing, taken(thing))
                self.effect_containers.append(thing)

    def write_fields(self) -> list:
        """After the call: results in plain objects; any other change makes it dynamic.

        Returns
        -------
        list of (Variable or ndarray)
            In whose place later calls may find another.
        """
        kept: list = []
        for (_, name), (thing, print_) in self._prints.items():
            fields = _changed_fields(thing, print_)
            if fields is None or not all(self._write_field(*field, kept) for field in fields):
                self.mark_dynamic(
                    f"what attribute {name!r} holds changed during the call", Remedy.PASS_NUMBERS
                )
        return kept

    def finish_prints(self, kept: list) -> None:
        """What has to be compared later, and what of it may be another then."""
        trace = self.trace
        forgiven = {id(thing) for thing in self.effect_containers}
        trace.prints = {
            key: None if id(thing) in forgiven else print_
            for key, (thing, print_) in self._prints.items()
        }
        used = {x.index for node in trace.nodes for x in node.inputs}
        used.update(x.index for node in trace.nodes for r in node.rebind for x in r.values)
        used.update(x.index for x in values_in([trace.result, [w.value for w in trace.writes]]))
        used.update(x.index for x in values_in([r.items for r in trace.reports]))
        used.update(x.index for x in values_in([s.value for s in trace.stores]))
        used.update(x.source.index for x in trace.values if x.kind == "alias" and x.index in used)
        trace.live = {id(x.source): SAME for x in trace.values if x.kind == CONSTANT}
        trace.live.update((id(thing), LIKE) for thing in kept)
        for thing, value in self._captured:
            if value.is_variable or value.index in used:
                trace.live[id(thing)] = LIKE
        trace.live.update((id(thing), LIKE) for thing in self.finish_places(kept))

    def _write_field(self, owner, name: str, old, kept: list) -> bool:
        """A result that the call gave to an attribute of a plain object: replays do so, too.

        What was there before goes to `kept` where the call has not looked at it: later calls may
        find another in its place.
        """
        new = get(owner, "__dict__", {}).get(name)
        if new is None:
            return False  # in a slot
        if is_traced(new):
            if new.ndim == 0 or new.origin is PURE:
                return False
            value, owner.__dict__[name] = self.of_array(new), strip(new)
        elif isinstance(new, chainer.Parameter) or id(new._node) not in self._nodes:
            return False
        else:
            value = self.of_variable(new)
        if isinstance(old, _Variable):
            array = old.variable._data[0]
            node = id(old.variable._node)
            if node in self._nodes:
                if not self.lies_where(old.variable, new):
                    return False
            elif node in self.looked_at or self.find_array(array) is not None:
                return False
            kept.append(old.variable)
        elif isinstance(old, _Array):
            return False  # NumPy may have read it out of our sight
        self.trace.writes.append(AttributeWrite(owner, name, value))
        return True


_MISSING = object()


def _changed_fields(thing, want) -> list | None:
    """Attributes of plain objects in `thing` that now hold another Variable or traced array.

    Returns
    -------
    list of (object, str, object) or None
        The object, the attribute, and the print of what it was; None when anything else changed.
    """
    if same(thing, want, {}):
        return []
    if isinstance(want, _Items) and type(thing) is want.kind and len(thing) == len(want.items):
        parts = [_changed_fields(a, b) for a, b in zip(thing, want.items, strict=True)]
    elif isinstance(want, _Fields) and want.whole:
        now = thing if want.owner is None else plain_fields(thing) if thing is want.owner else {}
        if not want.items.keys() <= now.keys():
            return None
        parts = []
        for name, x in list(now.items()):
            old = want.items.get(name, _MISSING)
            is_new = want.owner is not None and type(x) in (chainer.Variable, TracedArray)
            if is_new and not same(x, old, {}):
                parts.append([(want.owner, name, old)])
            else:
                parts.append(None if old is _MISSING else _changed_fields(x, old))
    else:
        return None
    return None if any(part is None for part in parts) else [f for part in parts for f in part]


def _inside(thing, path: tuple):
    """Variables and arrays in containers, each with its path of keys."""
    if isinstance(thing, chainer.Variable):
        if path and not isinstance(thing, chainer.Parameter):
            yield path, thing
    elif type(thing) is np.ndarray:
        if path:
            yield path, thing
    elif len(path) < _DEPTH:
        if type(thing) in (list, tuple):
            for i, x in enumerate(thing[: _MOST_CAPTURED + 1]):
                yield from _inside(x, (*path, i))
        elif isinstance(thing, dict):
            for key, x in list(thing.items())[: _MOST_CAPTURED + 1]:
                yield from _inside(x, (*path, key))
