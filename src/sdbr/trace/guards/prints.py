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
from itertools import repeat
from typing import Any

from sdbr.trace.code.library import is_library
from sdbr.trace.code.moving import GENERATORS, moves_on
from sdbr.trace.code.reading import plain_fields

import chainer
import numpy as np

_SCALARS = (int, float, str, bool, bytes, complex, type(None), np.generic)
MOST_DEPTH = 100
_EXACT = 1 << 16  # bytes that are compared one by one
_WHOLE = 1 << 22  # bytes of which a digest is compared; of larger arrays that of a sample
_MOST_ARRAYS = 256
_MOST_OBJECTS = 1000
_MOST_ITEMS = 1 << 14
_FEW_ITEMS = 64
_MOST_COMPARED = 1 << 16  # plain numbers in one container: compared in some hundred microseconds
_PLAIN = (int, float, str, bool, complex, type(None))
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


class ArrayPrint:
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


class VariablePrint:
    """A Variable: by identity and kind; by kind alone if the schedule reads it anew."""

    __slots__ = ("kind", "variable")

    def __init__(self, variable: chainer.Variable):
        self.variable = variable
        self.kind = _kind_of(variable)

    def matches(self, thing, live: dict) -> bool:
        if thing is not self.variable and live.get(id(self.variable)) is not LIKE:
            return False
        return isinstance(thing, chainer.Variable) and _kind_of(thing) == self.kind


class ItemsPrint:
    """A list, tuple or deque."""

    __slots__ = ("items", "kind")

    def __init__(self, thing, place: tuple, walk: _Walk):
        self.kind = type(thing)
        self.items = [walk.taken(x, (*place, _Key(i))) for i, x in enumerate(list(thing))]

    def matches(self, thing, live: dict) -> bool:
        if type(thing) is not self.kind or len(thing) != len(self.items):
            return False
        now = list(thing)  # another thread may write while it is compared
        return len(now) == len(self.items) and all(map(same, now, self.items, repeat(live)))


class PlainPrint:
    """A large list or dict of plain things, compared as a whole."""

    __slots__ = ("items",)

    def __init__(self, items):
        self.items = items

    def matches(self, thing, live: dict) -> bool:
        return type(thing) is type(self.items) and thing == self.items


class SetPrint:
    """A set or frozenset."""

    __slots__ = ("items",)

    def __init__(self, thing):
        self.items = frozenset(thing)

    def matches(self, thing, live: dict) -> bool:
        return isinstance(thing, (set, frozenset)) and thing == self.items


class FieldsPrint:
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

    def now(self, thing) -> dict | None:
        """What `thing` holds now; a copy, for another thread may write; None if it is no such."""
        if self.owner is not None:
            if thing is not self.owner:
                return None
            fields = plain_fields(thing)
            return dict(fields) if self.whole else _numbers(fields)
        return dict(thing) if isinstance(thing, _MAPPINGS) else None

    def matches(self, thing, live: dict) -> bool:
        now = self.now(thing)
        if now is None or now.keys() != self.items.keys():
            return False
        return all(same(now[k], want, live) for k, want in self.items.items())


class BothPrint:
    """A container that has attributes as well."""

    __slots__ = ("attributes", "items")

    def __init__(self, items, attributes: FieldsPrint):
        self.items = items
        self.attributes = attributes

    def matches(self, thing, live: dict) -> bool:
        return self.items.matches(thing, live) and self.attributes.matches(thing, live)


PRINTS = (ArrayPrint, VariablePrint, ItemsPrint, PlainPrint, SetPrint, FieldsPrint, BothPrint)


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
            return thing if isinstance(thing, chainer.Parameter) else VariablePrint(thing)
        self.note_moving(thing, place)
        if id(thing) in self.seen:
            return thing
        if len(place) > MOST_DEPTH or len(self.seen) > _MOST_OBJECTS:
            if not isinstance(thing, _CLOSED):
                self.beyond.append(place)
            return thing
        if isinstance(thing, (*_MAPPINGS, list, tuple, collections.deque)):
            self.seen.add(id(thing))
            plain = holds_scalars(thing)
            if plain is not None:
                return PlainPrint(plain)
            if len(thing) > _MOST_ITEMS:
                self.beyond.append(place)
                return thing
            if isinstance(thing, _MAPPINGS):
                print_ = FieldsPrint(None, dict(thing), True, place, self)
            else:
                print_ = ItemsPrint(thing, place, self)
            fields = None if is_library(type(thing)) else plain_fields(thing)
            if fields and fields is not thing:  # a subclass, with attributes
                return BothPrint(print_, FieldsPrint(thing, fields, True, place, self))
            return print_
        if isinstance(thing, (set, frozenset)):
            return SetPrint(thing)
        if isinstance(thing, bytearray):
            return ItemsPrint(thing, place, self)
        fields = None if isinstance(thing, _CLOSED) else plain_fields(thing)
        if fields is None:
            return thing
        whole = isinstance(thing, _OPEN) or not is_library(type(thing))
        if not whole and callable(thing) and not isinstance(thing, chainer.Initializer):
            return thing
        self.seen.add(id(thing))
        return FieldsPrint(thing, fields, whole, place, self)

    def _array(self, array: np.ndarray, place: tuple) -> Any:
        self.arrays -= 1
        if self.arrays < 0 or array.dtype == object:
            self.beyond.append(place)
            return array
        if array.nbytes > _WHOLE:
            self.beyond.append(place)  # a sample is compared
        return ArrayPrint(array)


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
    if isinstance(want, PRINTS):
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


def holds_scalars(thing):
    """A copy of a large container of plain things, which compares fast; None if it is no such."""
    if type(thing) not in (dict, list, set) or not _FEW_ITEMS < len(thing) <= _MOST_COMPARED:
        return None
    items = thing.values() if type(thing) is dict else thing
    return thing.copy() if all(type(x) in _PLAIN for x in items) else None
