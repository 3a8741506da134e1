"""Reading byte code, and things of the user's, without changing any."""

from __future__ import annotations

import contextlib
import dis
import functools
import gc
import types
from collections.abc import Collection, Mapping
from typing import Any

import chainer

_MISSING = object()


class Cell:
    """A variable of an enclosing function, read like a dictionary."""

    __slots__ = ("cell", "key")

    def __init__(self, cell):
        self.cell = cell
        self.key = id(cell)

    def get(self, name: str, default: Any = None) -> Any:
        try:
            return self.cell.cell_contents
        except ValueError:  # not assigned yet
            return default


def behind(proxy: types.MappingProxyType) -> dict:
    """The dictionary of a class behind ``cls.__dict__``; for reading alone."""
    return gc.get_referents(proxy)[0]


class Field:
    """One attribute of an object, read like a dictionary whatever the key."""

    __slots__ = ("attribute", "key", "thing")

    def __init__(self, thing, attribute: str):
        self.thing = thing
        self.attribute = attribute
        self.key = (id(thing), attribute)

    def get(self, name: str, default: Any = None) -> Any:
        return getattr(self.thing, self.attribute, default)


def link_of(function) -> chainer.Link | None:
    """The link that this is a method of; None of functions, and of methods of other objects."""
    owner = getattr(function, "__self__", None)
    return owner if isinstance(owner, chainer.Link) else None


@functools.lru_cache(maxsize=1024)
def names_in(code: types.CodeType) -> tuple[frozenset, frozenset, frozenset]:
    """Names of globals, of variables of enclosing functions and of attributes that `code` reads."""
    found: tuple[set, set, set] = set(), set(), set()
    for instruction in dis.get_instructions(code):
        kind = instruction.opname
        if kind in ("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL"):
            found[0].add(instruction.argval)
        elif kind in ("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF", "STORE_DEREF"):
            found[1].add(instruction.argval)
        elif kind in ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "IMPORT_FROM"):
            found[2].add(instruction.argval)
    # `globals()['k']`, `getattr(cfg, 'k')`: names in strings.
    strings = {x for x in code.co_consts if isinstance(x, str) and x.isidentifier()}
    if "globals" in found[0]:
        found[0].update(strings)
    if found[0] & {"getattr", "hasattr", "vars"} or "__dict__" in found[2]:
        found[2].update(strings)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            for names, more in zip(found, names_in(constant), strict=True):
                names.update(more)
    return frozenset(found[0]), frozenset(found[1]), frozenset(found[2])


def place_key(holder, name: str) -> tuple:
    """What tells a place from others, however it was found."""
    if isinstance(holder, (Cell, Field)):
        return holder.key, name
    if type(holder) is types.MappingProxyType:
        return id(behind(holder)), name
    return id(holder), name


@functools.lru_cache(maxsize=1024)
def names_stored(code: types.CodeType) -> frozenset:
    """Names under which `code` stores something outside it."""
    found = {i.argval for i in dis.get_instructions(code) if i.opname in _STORES}
    if not _SETTERS.isdisjoint(code.co_names):
        found.update(x for x in code.co_consts if isinstance(x, str))
    inner = [names_stored(x) for x in code.co_consts if isinstance(x, types.CodeType)]
    return frozenset(found.union(*inner))


_STORES = frozenset({"STORE_GLOBAL", "STORE_NAME", "STORE_DEREF", "STORE_ATTR"})
_SETTERS = frozenset({"setattr", "delattr", "globals"})


def names_imported(function: types.FunctionType) -> frozenset:
    """Full names of modules that `function` imports when it runs."""
    return _imported(function.__code__, function.__globals__.get("__package__") or "")


@functools.lru_cache(maxsize=1024)
def _imported(code: types.CodeType, package: str) -> frozenset:
    found: set = set()
    before: list = [None, None]  # the level and the names, which are loaded just before
    for instruction in dis.get_instructions(code):
        if instruction.opname == "IMPORT_NAME":
            name, level = instruction.argval, before[0] if isinstance(before[0], int) else 0
            if level:
                root = package.rsplit(".", level - 1)[0] if level > 1 else package
                name = f"{root}.{name}" if name else root
            else:
                found.add(name.partition(".")[0])  # what `import a.b` binds
            found.add(name)
            found.update(f"{name}.{x}" for x in before[1] or () if isinstance(x, str))
        elif instruction.opname in ("LOAD_CONST", "LOAD_SMALL_INT"):
            before = [before[1], instruction.argval]
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= _imported(constant, package)
    return frozenset(found)


def get(thing, name: str, default: Any = None) -> Any:
    """``getattr`` for any object; one whose ``__getattr__`` raises something else has none."""
    try:
        return getattr(thing, name, default)
    except Exception:
        return default


def entries(holder: Mapping, names: Collection[str]) -> list[tuple[str, Any]]:
    """What `holder` has under `names`, as it is now: another thread may add and take entries."""
    found = ((name, holder.get(name, _MISSING)) for name in names)
    return [(name, thing) for name, thing in found if thing is not _MISSING]


def plain_fields(thing) -> dict | None:
    """The attributes of a plain object, those in slots included; None when it has no place for any.

    Parameters
    ----------
    thing : object

    Returns
    -------
    dict or None
        The object's own ``__dict__`` where it has no slots.
    """
    fields = get(thing, "__dict__")
    if type(fields) is not dict:
        fields = None
    slots = slots_of(type(thing))
    if not slots:
        return fields
    found = dict(fields or {})
    for name, slot in slots:
        with contextlib.suppress(AttributeError):  # not assigned
            found[name] = slot.__get__(thing)
    return found


#: What some classes of the standard library show like a slot.
_NO_SLOTS = ("__dict__", "__weakref__")


@functools.lru_cache(maxsize=1024)
def slots_of(cls: type) -> tuple:
    """``(name, descriptor)`` of the slots of a class and those above it."""
    return tuple(
        (name, thing)
        for base in cls.__mro__
        if base.__module__ != "builtins"
        for name, thing in list(base.__dict__.items())
        if isinstance(thing, types.MemberDescriptorType) and name not in _NO_SLOTS
    )
