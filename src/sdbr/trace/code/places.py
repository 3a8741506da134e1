"""Where a thing lies that a call reads from outside of links, so that later calls find it again."""

from __future__ import annotations

import argparse
import collections
import itertools
import types
from collections.abc import Iterator
from typing import Any

from sdbr.trace.code._library import is_library
from sdbr.trace.code.reading import get, place_key, plain_fields

import chainer

_MISSING = object()
_MOST = 20_000  # items that are looked at in one place
_OPEN = (types.SimpleNamespace, argparse.Namespace, chainer.Distribution)
_DICTS = (dict, types.MappingProxyType)
_SEQUENCES = (list, tuple, collections.deque)
_CLOSED = (
    str, bytes, int, float, complex, bool, type(None), type, types.ModuleType,
    types.FunctionType, types.BuiltinFunctionType, chainer.FunctionNode, chainer.Function,
)  # fmt: skip


class Attribute:
    """A step to an attribute of an object; every other step is an index or a key."""

    __slots__ = ("name",)

    def __init__(self, name: str):
        self.name = name

    def __eq__(self, other) -> bool:
        return type(other) is Attribute and other.name == self.name

    def __hash__(self) -> int:
        return hash((Attribute, self.name))

    def __repr__(self) -> str:
        return f".{self.name}"


class Place:
    """A holder, a name in it, and the steps from there; read like the dictionary of a link.

    It stands for the link in the source of a value.

    Parameters
    ----------
    holder : dict, mappingproxy, Cell or Field
    name : str
    path : tuple
        Indices, keys and `Attribute`.
    label : str
        How the user knows what lies at the beginning of the path.
    """

    __slots__ = ("holder", "label", "name", "path")

    def __init__(self, holder, name: str, path: tuple = (), label: str = ""):
        self.holder = holder
        self.name = name
        self.path = path
        steps = [repr(step) if type(step) is Attribute else f"[{step!r:.40}]" for step in path]
        self.label = (label or name) + "".join(steps)

    @property
    def __dict__(self) -> Place:  # type: ignore[override]
        return self

    @property
    def key(self) -> tuple:
        """What is equal for two that are the same place."""
        return *place_key(self.holder, self.name), self.path

    def get(self, name: str | None = None, default: Any = None) -> Any:
        """What lies there now."""
        thing = self.holder.get(self.name, _MISSING)
        for step in self.path:
            thing = _go(thing, step)
        return default if thing is _MISSING else thing

    def __getitem__(self, name: str) -> Any:
        thing = self.get(name, _MISSING)
        if thing is _MISSING:
            raise KeyError(self.label)
        return thing

    def __repr__(self) -> str:
        return self.label


def _go(thing, step):
    try:
        if type(step) is not Attribute:
            # Not `thing[step]`, which a defaultdict would add.
            return thing.get(step, _MISSING) if isinstance(thing, _DICTS) else thing[step]
        fields = get(thing, "__dict__")
        if type(fields) is dict and step.name in fields:
            return fields[step.name]
        return getattr(thing, step.name)
    except Exception:  # of whatever lies there now
        return _MISSING


def things_in(thing) -> Iterator[tuple[tuple, Any]]:
    """Variables, parameters and links that can be reached from `thing`, each with its path.

    Through containers and plain objects, not through links and functions.
    """
    seen: set[int] = set()
    waiting = collections.deque([((), thing)])
    left = _MOST
    while waiting:
        path, thing = waiting.popleft()
        if isinstance(thing, chainer.Variable) or chainer.Link in type(thing).__mro__:
            yield path, thing
            continue
        if isinstance(thing, _CLOSED) or id(thing) in seen:
            continue
        seen.add(id(thing))
        for step, item in itertools.islice(_steps(thing), left):
            left -= 1
            if not isinstance(item, _CLOSED):
                waiting.append(((*path, step), item))


def _steps(thing) -> Iterator[tuple[Any, Any]]:
    if isinstance(thing, _DICTS):
        yield from list(thing.items())
    elif isinstance(thing, _SEQUENCES):
        yield from enumerate(list(thing))
    elif isinstance(thing, types.MethodType):
        yield Attribute("__self__"), thing.__self__
    elif isinstance(thing, _OPEN) or not is_library(type(thing)):
        for name, item in list((plain_fields(thing) or {}).items()):
            if isinstance(name, str):
                yield Attribute(name), item
