"""What can be reached from an object, as it is now, to compare with later.

Lists, dicts, plain objects and arrays inside them change without anybody noticing: what a call
reads of them is compared after the traced call, and before every replay. What that may cost is
bounded: of what is larger, identity and size are compared (of arrays some places as well), and it
is noted as not compared.
"""

from __future__ import annotations

import argparse
import collections
import functools
import types
from typing import Any

from sdbr.devices.arrays import ARRAYS, Array
from sdbr.trace.arrays.stripping import is_traced
from sdbr.trace.code._library import is_library
from sdbr.trace.code.moving import GENERATORS, moves_on
from sdbr.trace.code.named import reads_by_name
from sdbr.trace.code.reading import plain_fields
from sdbr.trace.guards._arrays import (
    LIKE,
    SAME,
    ArrayPrint,
    DevicePrint,
    VariablePrint,
)
from sdbr.trace.guards._compare import (
    COUNTS_WRITES,
    SCALARS,
    BothPrint,
    FieldsPrint,
    ItemsPrint,
    PlainPrint,
    Print,
    SetPrint,
    SizePrint,
    same,
)

import chainer
import numpy as np

__all__ = (
    "LIKE", "SAME", "ArrayPrint", "FieldsPrint", "ItemsPrint", "Print", "VariablePrint", "same",
)  # fmt: skip

MOST_DEPTH = 100
_MOST_BYTES = 1 << 16  # of an array of which each byte is compared,
_MOST_BYTES_IN_ALL = 1 << 18  # and of all such arrays in one thing
_MOST_ARRAYS = 256
_MOST_OBJECTS = 1000  # that are looked into, in one thing
_MOST_ITEMS = 512  # of a container that holds more than numbers and texts,
_MOST_IN_SET = 1 << 12  # of a set,
_MOST_PLAIN = 1 << 15  # of a container of numbers and texts
_FEW_ITEMS = 64
_MOST_LOOKED_AT = 1 << 20  # in one container, to see whether they are numbers and texts
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


class _Walk:
    """Takes the print of one thing; what is met again, and the rest of very much, by identity.

    Parameters
    ----------
    names : frozenset or None
        Attributes of plain objects that the code may read; None: it may read any.

    Attributes
    ----------
    moving : list of (tuple, object)
        Iterators, generators and queues on the way, each with its place.
    beyond : list of tuple
        Places of what is not compared in full, because there is so much.
    large : list of Print
        What is compared in full only until the traced call is over.
    variables : list of Variable
        Which no print holds.
    compared : set of int
        Ids of arrays, compared in full or not.
    """

    def __init__(self, names: frozenset | None = None):
        self.names = names
        self.seen: set[int] = set()
        self.arrays = _MOST_ARRAYS
        self.bytes = _MOST_BYTES_IN_ALL
        self.moving: list[tuple] = []
        self.beyond: list[tuple] = []
        self.large: list = []
        self.variables: list = []
        self.compared: set[int] = set()

    def note_moving(self, thing, place: tuple) -> None:
        """Whether `thing` is one of those that give something else each time they are asked."""
        if isinstance(thing, GENERATORS) or moves_on(thing) is not None:
            self.moving.append((place, thing))

    def taken(self, thing, place: tuple = ()) -> Any:
        """What `thing` holds now."""
        if isinstance(thing, SCALARS):
            return thing
        if isinstance(thing, ARRAYS):
            # One that is followed is no array of before the call: it has put it there.
            return thing if is_traced(thing) else self._array(thing, place)
        if isinstance(thing, chainer.Variable):
            if isinstance(thing, chainer.Parameter):
                return thing
            self.variables.append(thing)
            return VariablePrint(thing)
        self.note_moving(thing, place)
        if id(thing) in self.seen:
            return thing
        if len(place) > MOST_DEPTH or len(self.seen) > _MOST_OBJECTS:
            if not isinstance(thing, _CLOSED):
                self.beyond.append(place)
            return thing
        if isinstance(thing, (*_MAPPINGS, list, tuple, collections.deque, bytearray)):
            return self._container(thing, place)
        if isinstance(thing, (set, frozenset)):
            return SetPrint(thing) if len(thing) <= _MOST_IN_SET else self._size(thing, place)
        fields = None if isinstance(thing, _CLOSED) else plain_fields(thing)
        if fields is None:
            return thing
        whole = isinstance(thing, _OPEN) or not is_library(type(thing))
        if not whole and callable(thing) and not isinstance(thing, chainer.Initializer):
            return thing
        self.seen.add(id(thing))
        names = self.names if reads_by_name(type(thing)) else None
        return self._fields(thing, fields, whole, place, names)

    def _container(self, thing, place: tuple) -> Any:
        self.seen.add(id(thing))
        n = len(thing)
        plain = _FEW_ITEMS < n <= _MOST_LOOKED_AT and _is_plain(thing)
        if plain and type(thing) is dict and (n <= _MOST_PLAIN or COUNTS_WRITES):
            return PlainPrint(thing, n <= _MOST_PLAIN)
        if n > (_MOST_PLAIN if plain else _MOST_ITEMS):
            return self._size(thing, place)
        if isinstance(thing, _MAPPINGS):
            print_ = self._fields(None, dict(thing), True, place)
        else:
            items = list(thing)
            if not plain:
                items = [self.taken(x, (*place, _Key(i))) for i, x in enumerate(items)]
            print_ = ItemsPrint(type(thing), items)
        fields = None if is_library(type(thing)) else plain_fields(thing)
        if fields and fields is not thing:  # a subclass, with attributes
            return BothPrint(print_, self._fields(thing, fields, True, place))
        return print_

    def _fields(self, owner, fields: dict, whole: bool, place: tuple, names=None) -> FieldsPrint:
        kind = _Key if owner is None else _Attribute
        if not whole:  # an object of a library: its numbers alone
            for k, x in list(fields.items()):
                self.note_moving(x, (*place, kind(k)))
            fields = _numbers(fields)
        items = {
            k: self.taken(x, (*place, kind(k)))
            for k, x in list(fields.items())
            if names is None or k in names
        }
        return FieldsPrint(owner, items, whole, names, None if whole else _numbers)

    def _size(self, thing, place: tuple) -> SizePrint:
        self.beyond.append(place)
        self.large.append(SizePrint(thing))
        return self.large[-1]

    def _array(self, array: np.ndarray, place: tuple) -> Any:
        kind = DevicePrint if isinstance(array, Array) else ArrayPrint
        self.compared.add(id(array))
        self.arrays -= 1
        if self.arrays < 0 or array.dtype == object:
            self.beyond.append(place)
            return array
        if array.nbytes <= min(_MOST_BYTES, self.bytes):
            self.bytes -= array.nbytes
            return kind(array, True)
        self.beyond.append(place)
        self.large.append(kind(array, False))
        return self.large[-1]


def taken(thing, recorder=None, name: str = "") -> Any:
    """What `thing` holds now, to be given to `same` later.

    Parameters
    ----------
    thing : object
    recorder : Recorder, optional
        Of the call that may read `thing`: knows what attributes its code names, and is told of
        what makes the call dynamic, and of what lies beyond the limits.
    name : str
        How messages call `thing`.
    """
    walk = _Walk(None if recorder is None else recorder.names_read)
    print_ = walk.taken(thing)
    if recorder is None:
        settle(walk.large)
        return print_
    recorder.variables_read += walk.variables
    recorder.arrays_compared |= walk.compared
    for place, part in walk.moving:
        recorder.note_moving(name + _text(place), part)
    if walk.beyond:
        recorder.note_beyond(name, [_text(place) for place in walk.beyond], walk.large)
    return print_


def settle(large: list) -> None:
    """The traced call is over: of these prints identity and size are compared from now on."""
    for print_ in large:
        print_.settle()


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


def is_constant(thing) -> bool:
    """Whether `thing` cannot change in place: a tuple of numbers, texts and the like."""
    if type(thing) is tuple:
        return all(map(is_constant, thing))
    return isinstance(thing, (*SCALARS, type, np.dtype))


def _numbers(fields: dict) -> dict:
    """What is compared of an object of a library."""
    return {k: x for k, x in list(fields.items()) if isinstance(x, _OF_LIBRARIES)}


def _is_plain(thing) -> bool:
    """Whether a container holds numbers and texts alone."""
    items = thing.values() if isinstance(thing, _MAPPINGS) else thing
    return all(type(x) in _PLAIN for x in list(items))
