"""Places outside the links where a call may leave something, and which a replay can write."""

from __future__ import annotations

import types
import weakref
from collections.abc import MutableMapping
from typing import Any

from sdbr.trace.code.reading import Cell, behind, get, plain_fields, slots_of

import chainer


class Sink:
    """One place, known by `key`; guards read it with ``holder.get(name)``."""

    __slots__ = ("holder", "key", "name", "owner")

    def __init__(self, owner, name: str):
        self.owner = owner
        self.name = name
        self.holder = self._holder()
        known = isinstance(self.holder, (Cell, _Fields))
        self.key = (self.holder.key if known else id(self.holder), name)

    def _holder(self) -> Any:
        return self.owner

    @property
    def is_of_object(self) -> bool:
        """Whether it is in an object or dict, in whose place there may be another one later."""
        return "__builtins__" not in self.owner  # else globals: those of a function

    def put(self, thing, target=None) -> None:
        """Write `thing`; `target` is the Variable that a replay has made, where it is needed."""
        self.holder[self.name] = thing

    def clear(self) -> None:
        """Leave nothing there."""
        del self.holder[self.name]


class Entries(MutableMapping):
    """A place as a dictionary of one entry, or of none: what audits note and put back."""

    def __init__(self, sink: Sink):
        self.sink = sink

    def __getitem__(self, name: str):
        found = self.sink.holder.get(name, self)
        if name != self.sink.name or found is self:
            raise KeyError(name)
        return found

    def __setitem__(self, name: str, thing) -> None:
        self.sink.put(thing)

    def __delitem__(self, name: str) -> None:
        self.sink.clear()

    def __iter__(self):
        return iter([self.sink.name] if self.sink.name in self else [])

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name) -> bool:
        return name == self.sink.name and self.sink.holder.get(name, self) is not self


class Enclosed(Cell):
    """A variable of an enclosing function, with its name."""

    __slots__ = ("name",)

    def __init__(self, cell, name: str):
        super().__init__(cell)
        self.name = name


class ClassSink(Sink):
    """An attribute of a class."""

    __slots__ = ()
    is_of_object = False

    def _holder(self):
        return behind(self.owner.__dict__)

    def put(self, thing, target=None) -> None:
        type.__setattr__(self.owner, self.name, thing)

    def clear(self) -> None:
        type.__delattr__(self.owner, self.name)


class CellSink(Sink):
    """A variable of an enclosing function; `owner` is `Enclosed`."""

    __slots__ = ()
    is_of_object = False

    def put(self, thing, target=None) -> None:
        self.owner.cell.cell_contents = thing

    def clear(self) -> None:
        del self.owner.cell.cell_contents


class FieldSink(Sink):
    """An attribute of a plain object, module or function, in its dictionary or in a slot."""

    __slots__ = ()
    is_of_object = True

    def _holder(self):
        fields = get(self.owner, "__dict__")
        in_slot = any(slot == self.name for slot, _ in slots_of(type(self.owner)))
        return fields if type(fields) is dict and not in_slot else _Fields(self.owner)

    def put(self, thing, target=None) -> None:
        if type(self.holder) is dict:  # past properties of the name
            self.holder[self.name] = thing
        else:
            object.__setattr__(self.owner, self.name, thing)

    def clear(self) -> None:
        object.__delattr__(self.owner, self.name)


class VariableSink(Sink):
    """An attribute of a Variable of the call, or of a parameter.

    A replay has another Variable in the place of the traced one, which nothing here may keep.
    """

    __slots__ = ()
    is_of_object = False

    def __init__(self, variable, name: str):
        self.owner = weakref.ref(variable)
        self.name = name
        self.holder = variable.__dict__ if isinstance(variable, chainer.Parameter) else None
        self.key = (id(variable), name)

    def put(self, thing, target=None) -> None:
        setattr(self.owner() if target is None else target, self.name, thing)

    def clear(self) -> None:
        delattr(self.owner(), self.name)


class _Fields:
    """The slots of an object, read like a dictionary."""

    __slots__ = ("key", "owner")

    def __init__(self, owner):
        self.owner = owner
        self.key = id(owner)

    def get(self, name: str, default: Any = None) -> Any:
        return (plain_fields(self.owner) or {}).get(name, default)


def fields_of(owner) -> dict:
    """What lies in the places of `owner` now, by name; to be read at once or copied."""
    if isinstance(owner, dict):
        return owner
    if isinstance(owner, Enclosed):
        found = owner.get("", owner)
        return {} if found is owner else {owner.name: found}
    if isinstance(owner, type):
        return behind(owner.__dict__)
    return plain_fields(owner) or {}


def sink_of(owner, name: str) -> Sink:
    """The place `name` of a dictionary, class, cell or object."""
    if isinstance(owner, dict):
        return Sink(owner, name)
    if isinstance(owner, Enclosed):
        return CellSink(owner, name)
    return (ClassSink if isinstance(owner, type) else FieldSink)(owner, name)


def describe(owner, name: str) -> str:
    """How a warning calls a place."""
    if isinstance(owner, dict):
        return f"{name!r} of a dict"
    if isinstance(owner, types.ModuleType):
        return f"{name!r} of module {owner.__name__}"
    if isinstance(owner, Enclosed):
        return f"{name!r} of an enclosing function"
    if isinstance(owner, type):
        return f"attribute {name!r} of class {owner.__name__}"
    kind = "function" if isinstance(owner, types.FunctionType) else type(owner).__name__
    return f"attribute {name!r} of a {kind}"
