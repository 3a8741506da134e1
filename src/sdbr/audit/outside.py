"""What user code may reach outside of its links, by the names in its byte code.

Globals, variables of enclosing functions, attributes of classes, of modules and of plain objects:
nothing tells when they are written, so an audit looks at all of them.
"""

from __future__ import annotations

import argparse
import collections
import functools
import gc
import operator
import sys
import types
from typing import Any

from sdbr.devices.arrays import ARRAYS
from sdbr.trace.code._library import is_library, is_library_name
from sdbr.trace.code.reading import (
    Cell,
    Field,
    entries,
    get,
    names_imported,
    names_in,
    plain_fields,
)

import chainer
import numpy as np

_SCALARS = (int, float, str, bool, complex, type(None))
_MOST_WALKED = 4000
_OPEN = (
    types.SimpleNamespace, argparse.Namespace, collections.UserDict, collections.UserList,
    collections.UserString, collections.ChainMap,
)  # fmt: skip
_NODES = (chainer.FunctionNode, chainer.Function)  # replays run their methods anew
_DESCRIPTORS = (
    types.MemberDescriptorType, types.GetSetDescriptorType,
    types.WrapperDescriptorType, types.MethodDescriptorType,
)  # fmt: skip
_LEAVES = (*_SCALARS, bytes, *ARRAYS, np.generic, chainer.Variable, types.ModuleType)
#: Methods that no call of a static function runs, and what is no method.
_NOT_ASKED = frozenset({
    "__init__", "__new__", "__del__", "__repr__", "__reduce__", "__getstate__", "__setstate__",
    "__dict__", "__weakref__", "__module__", "__doc__", "__qualname__", "__annotations__",
    "__slotnames__", "__slots__", "__static_attributes__", "__firstlineno__", "__match_args__",
    "__orig_bases__", "__dataclass_fields__", "__dataclass_params__", "__abstractmethods__",
    "__parameters__",
})  # fmt: skip
# Classes of what leads nowhere, and attributes in which Chainer keeps such things.
_NUMBERS = frozenset({
    int, float, bool, complex, type(None), *ARRAYS, chainer.Variable, chainer.Parameter,
})  # fmt: skip
_OF_LINKS = frozenset({"_params", "_persistent", "_within_init_scope", "_device"})

# Of the standard library: what may hold something of the user's.
_HOLDING = frozenset({
    "functools", "contextlib", "operator", "_operator", "collections", "types", "weakref",
})  # fmt: skip
_GETTERS = (operator.attrgetter, operator.methodcaller)


class Outside:
    """What a call of `function` may reach outside, as it is now.

    Attributes
    ----------
    entries : list of (holder, str, object)
        ``holder.get(name)`` is what the code would read; the object is what it was.
    classes : dict of type
        The user's classes that the call may look into.
    members : dict
        Of a class -> its attributes.
    """

    def __init__(self, function, owner):
        self.entries: list[tuple[Any, str, Any]] = []
        self.classes: dict[type, Any] = {}  # each with the extent that its members were read for
        self.members: dict[type, Any] = {}
        self._read_before: list = []
        self._kept_modules: dict[int, Any] = {}
        self._functions: list = []
        self._seen: set[int] = set()
        self._walked: dict[int, Any] = {}
        self._attributes: set[str] = {"forward", "__call__"}
        self._holders: dict[tuple[int, str], None] = {}
        self._past_links = self._by_name = False
        self._follow(function)
        self._walk(function) if owner is None else self._link(owner)
        done: tuple = ()
        while self._functions or done != self._extent():
            while self._functions:
                self._read(self._functions.pop())
            done = self._extent()
            for cls in [c for c, known in self.classes.items() if known != done[1:]]:
                self.classes[cls] = done[1:]
                self._class_members(cls)
            for module in list(self._kept_modules.values()):
                self._thing({}, module.__name__, module, frozenset(self._attributes))
            for function in list(self._read_before):
                for name, thing in entries(function.__dict__, self._attributes):
                    self._thing(function.__dict__, name, thing, frozenset())
        if owner is not None and "update_rule" in self._attributes:
            for parameter in owner.params():
                rule = get(parameter, "update_rule")
                if rule is not None:
                    self._thing(parameter.__dict__, "update_rule", rule, frozenset())
        if self._past_links and owner is not None:
            self._raw_attributes(owner)

    def _extent(self) -> tuple:
        return len(self.classes), len(self._attributes), self._by_name

    def _follow(self, function) -> None:
        if get(function, "_sdbr_static_code") is not None:
            return  # runs every time: nothing that it reads is frozen
        function = get(function, "_sdbr_function", function)
        function = get(function, "__func__", function)
        if (
            isinstance(function, types.FunctionType)
            and id(function) not in self._seen
            and not is_library(function)
        ):
            self._seen.add(id(function))
            self._functions.append(function)

    def _link(self, link: chainer.Link) -> None:
        children = {id(child): child for child in link.links()}
        self._walked.update(children)  # their parents hold them, too
        for child in children.values():
            self.classes.setdefault(type(child))
            for name, thing in list(child.__dict__.items()):
                if type(thing) not in _NUMBERS and name not in _OF_LINKS:
                    self._walk(thing)

    def _raw_attributes(self, link: chainer.Link) -> None:
        """Numbers that ``vars(self)['name']`` would read, which passes no hook of ours."""
        for child in link.links():
            for name, thing in entries(child.__dict__, self._attributes):
                if isinstance(thing, _SCALARS):
                    self._add(child.__dict__, name, thing)

    def _walk(self, thing) -> None:
        """Follow the functions in `thing`, also in containers, plain objects and partials."""
        if isinstance(thing, types.ModuleType) and not is_library(thing):
            self._kept_modules[id(thing)] = thing
        if id(thing) in self._walked or isinstance(thing, _LEAVES):
            return
        if len(self._walked) > _MOST_WALKED:
            return
        self._walked[id(thing)] = thing
        if isinstance(thing, type):
            if not is_library(thing) and not issubclass(thing, _NODES):
                self.classes.setdefault(thing)
            return
        if isinstance(thing, _NODES):
            return
        if _is_link(type(thing)):
            self._link(thing)
            return
        if not is_library(type(thing)):
            self.classes.setdefault(type(thing))
        if isinstance(thing, (dict, list, tuple, collections.deque)):
            for item in list(thing.values() if isinstance(thing, dict) else thing):
                if not isinstance(item, _SCALARS):
                    self._walk(item)
        elif isinstance(thing, functools.partial):
            self._walk(thing.func)
            for name, part in (("args", thing.args), ("keywords", thing.keywords)):
                if part:
                    self._thing(Field(thing, name), f"{name} of a partial", part, frozenset())
        elif isinstance(thing, types.MethodType):
            self._follow(thing)
            owner = thing.__self__
            if isinstance(owner, type) or _is_link(type(owner)) or is_library(type(owner)):
                self._walk(owner)
            else:
                self._thing(Field(thing, "__self__"), "the object of a method", owner, frozenset())
        elif isinstance(thing, types.FunctionType) or is_library(type(thing)):
            self._follow(thing)
            self._look_behind(thing)
            if type(thing) is not types.FunctionType and isinstance(thing, _OPEN):
                self._walk(thing.__dict__)
        else:
            self._follow(thing)
            self._look_behind(thing)
            self._walk(plain_fields(thing) or {})

    def _look_behind(self, thing) -> None:
        """Follow what an object of the standard library holds."""
        self._attributes |= _names_asked_by(thing)
        for part in _parts_of(thing) if not isinstance(thing, types.FunctionType) else ():
            self._walk(part)

    def _class_members(self, cls: type) -> None:
        """Methods and numbers among the attributes of a class that the code asks for."""
        if not is_library(type(cls)):
            self.classes.setdefault(type(cls))
        for base in cls.__mro__:
            if is_library(base):
                continue
            # One for all: asking the class again gives another.
            members = self.members.setdefault(base, base.__dict__)
            asked = self._attributes & members.keys()
            if self._by_name:
                asked = members.keys() - _NOT_ASKED
            # Python itself calls these.
            asked |= {n for n in members.keys() - _NOT_ASKED if n[:2] == n[-2:] == "__"}
            for name in asked:
                thing = members[name]
                if isinstance(thing, property):
                    self._follow(thing.fget)
                elif isinstance(thing, (staticmethod, classmethod)):
                    self._follow(thing.__func__)
                elif isinstance(thing, _SCALARS):
                    self._add(members, name, thing)
                elif _is_link(type(thing)):
                    self._walk(thing)
                    self._add(members, name, thing)
                elif (
                    isinstance(thing, (*_DESCRIPTORS, type, types.FunctionType))
                    or name[:2] == name[-2:] == "__"
                    or get(thing, "_sdbr_function") is not None
                    or (callable(thing) and is_library(thing))
                ):
                    self._walk(thing)
                else:
                    self._thing(members, name, thing, frozenset())

    def _read(self, function: types.FunctionType) -> None:
        # functools.wraps gives a wrapper of ours the module of what it wraps.
        holder = function.__globals__
        if is_library_name(holder.get("__name__", ""), holder.get("__file__")):
            for part in _wrapped_by(function):
                self._walk(part)
            return
        names, enclosed, attributes = names_in(function.__code__)
        self._read_before.append(function)
        self._attributes |= attributes | (names & {"getattr"})
        self._by_name |= "getattr" in names
        self._settings(attributes)
        self._past_links |= "vars" in names or "__dict__" in attributes
        for name, thing in entries(holder, names):
            if name[0] == "@":  # put there by pytest, for its own use
                continue
            self._thing(holder, name, thing, attributes)
        for name, cell in zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=True
        ):
            if name in enclosed and name != "__class__":
                enclosing = Cell(cell)
                thing = enclosing.get(name, self)
                if thing is not self:
                    self._thing(enclosing, name, thing, attributes)
        for kind in ("__defaults__", "__kwdefaults__"):
            defaults = getattr(function, kind)
            if defaults:
                name = f"defaults of {function.__name__}"
                self._thing(Field(function, kind), name, defaults, frozenset())
        for name in names_imported(function):
            module = sys.modules.get(name)
            if module is not None:
                self._thing(sys.modules, name, module, attributes)

    def _settings(self, attributes: frozenset) -> None:
        """Objects and functions that the user has put into ``chainer.config``."""
        for settings in (chainer.global_config.__dict__, chainer.config._local.__dict__):
            for name, thing in entries(settings, attributes):
                if isinstance(thing, types.FunctionType) or _is_plain(thing):
                    self._thing(settings, name, thing, frozenset())

    def _thing(self, holder, name: str, thing, attributes) -> None:
        if isinstance(thing, types.ModuleType):
            if not is_library(thing):
                self._module(thing, attributes)
            return
        if isinstance(thing, type):
            if not is_library(thing):
                if not issubclass(thing, (chainer.Link, *_NODES)):
                    self._follow(thing.__init__)
                if not issubclass(thing, _NODES):
                    self.classes.setdefault(thing)
                for attribute, member in entries(thing.__dict__, attributes):
                    if isinstance(member, _SCALARS):
                        members = self.members.setdefault(thing, thing.__dict__)
                        self._add(members, attribute, member)
            return
        self._walk(thing)
        if callable(thing) and get(thing, "__name__") == name:
            return
        self._add(holder, name, thing)

    def _module(self, module, attributes) -> None:
        for name, thing in entries(module.__dict__, attributes):
            if not isinstance(thing, types.ModuleType):
                self._thing(module.__dict__, name, thing, frozenset())
            elif is_library(thing) or id(thing) not in self._seen:
                self._seen.add(id(thing))
                self._thing(module.__dict__, name, thing, attributes)

    def _add(self, holder, name: str, thing) -> None:
        key = (holder.key if isinstance(holder, (Cell, Field)) else id(holder), name)
        if key not in self._holders:
            self._holders[key] = None
            self.entries.append((holder, name, thing))


def _is_link(cls: type) -> bool:
    # Link is an abstract class: isinstance would remember its answer in each of its subclasses.
    return chainer.Link in cls.__mro__


def _is_plain(thing) -> bool:
    """Whether `thing` is an object of a user's class that holds data."""
    closed = _is_link(type(thing)) or isinstance(thing, (type, *_LEAVES)) or callable(thing)
    return not closed and not is_library(type(thing)) and plain_fields(thing) is not None


def _parts_of(thing) -> list:
    """What an object of the standard library holds, where that may be the user's."""
    if type(thing).__module__ not in _HOLDING:
        return []
    return [part for part in gc.get_referents(thing) if part is not type(thing)]


def _names_asked_by(thing) -> frozenset:
    """The names that ``operator.attrgetter('a.b')`` and ``methodcaller('m')`` ask for."""
    if not isinstance(thing, _GETTERS):
        return frozenset()
    texts = [x for x in thing.__reduce__()[1] if isinstance(x, str)]
    return frozenset(name for text in texts for name in text.split("."))


def _wrapped_by(function: types.FunctionType) -> list:
    """What a function of a library that stands for one of the user's leads to."""
    cells = [get(cell, "cell_contents") for cell in function.__closure__ or ()]
    return [*cells, *function.__dict__.values()]
