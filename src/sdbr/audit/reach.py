"""What the code of a call reaches outside of its links: where it may write as well.

Found once for a schedule, by the byte code of the functions that the call may run and of the user's
own function nodes. Other threads may change such things at any time: putting them back would undo
that, so they are looked at only while there is one thread.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Iterator
from typing import Any

from sdbr.audit.outside import Outside
from sdbr.trace._node_copies import inner_function
from sdbr.trace.code._library import is_library
from sdbr.trace.code.reading import Cell, Field

MISSING = object()
_HOLDERS = (dict, types.MappingProxyType, Cell, Field)


class Reached:
    """One name of a holder, as a dictionary of one entry.

    Parameters
    ----------
    holder : dict, mappingproxy, Cell or Field
    name : str
    owner : type or None
        The class whose mappingproxy it is.
    """

    __slots__ = ("holder", "name", "owner")

    def __init__(self, holder, name: str, owner: type | None = None):
        self.holder = holder
        self.name = name
        self.owner = owner

    def keys(self) -> list[str]:
        """The name, if it is there."""
        return [] if self.holder.get(self.name, MISSING) is MISSING else [self.name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __getitem__(self, name: str) -> Any:
        return self.holder.get(name)

    def get(self, name: str, default: Any = None) -> Any:
        """What is there now."""
        return self.holder.get(name, default)

    def __setitem__(self, name: str, value: Any) -> None:
        if isinstance(self.holder, Cell):
            self.holder.cell.cell_contents = value
        elif isinstance(self.holder, Field):
            setattr(self.holder.thing, self.holder.attribute, value)
        elif self.owner is not None:
            setattr(self.owner, name, value)
        elif isinstance(self.holder, dict):
            self.holder[name] = value

    def pop(self, name: str, default: Any = None) -> None:
        """Take the entry away, where that is possible."""
        if isinstance(self.holder, dict):
            self.holder.pop(name, default)
        elif self.owner is not None and name in vars(self.owner):
            delattr(self.owner, name)


def reached(function, owner, trace) -> list[Reached]:
    """The places outside of links that the code of a call may write.

    Parameters
    ----------
    function : callable
        Undecorated.
    owner : chainer.Link or None
    trace : Trace
    """
    return _gathered([Outside(function, owner), *_of_nodes(trace)])


def reached_by_node(cls: type) -> list[Reached]:
    """The same of the methods of a function node of a user, and what lies on its classes.

    Parameters
    ----------
    cls : type
        Of the node, or of the old-style ``Function`` behind it.
    """
    found = _gathered(_of_class(cls))
    there = {(id(entry.holder), entry.name) for entry in found}
    for base in cls.__mro__:
        if is_library(base):
            continue
        for name, thing in list(vars(base).items()):
            if name[:2] != "__" and not _is_code(thing) and (id(vars(base)), name) not in there:
                found.append(Reached(vars(base), name, base))
    return found


def _gathered(outsides: Iterable[Outside]) -> list[Reached]:
    found: dict[tuple, Reached] = {}
    for outside in outsides:
        classes = {id(members): cls for cls, members in outside.members.items()}
        for holder, name, thing in outside.entries:
            key = (getattr(holder, "key", id(holder)), name)
            if key in found or _is_fixed(thing) or type(holder) not in _HOLDERS:
                continue
            try:
                if holder.get(name, MISSING) is not MISSING:
                    found[key] = Reached(holder, name, classes.get(id(holder)))
            except AttributeError:
                continue  # a field that only looks like one
        for cls in outside.classes:
            for name, thing in list(vars(cls).items()):
                key = (id(cls), name)
                if key not in found and name[:2] != "__" and not _is_code(thing):
                    found[key] = Reached(vars(cls), name, cls)
    return list(found.values())


def _is_code(thing) -> bool:
    return callable(thing) or hasattr(type(thing), "__get__")


def _of_nodes(trace) -> Iterator[Outside]:
    """What the methods of the user's own function nodes reach."""
    seen = set()
    for node in trace.nodes:
        for function in (node.template, inner_function(node.template)):
            cls = type(function)
            if function is None or cls in seen or is_library(cls):
                continue
            seen.add(cls)
            yield from _of_class(cls)


def _of_class(cls: type) -> Iterator[Outside]:
    for base in cls.__mro__:
        for thing in () if is_library(base) else list(vars(base).values()):
            if isinstance(thing, types.FunctionType):
                yield Outside(thing, None)


def _is_fixed(thing) -> bool:
    return isinstance(thing, (types.ModuleType, types.FunctionType, types.BuiltinFunctionType))
