"""Numbers and objects that user code reads from outside its chain; its byte code tells which.

Globals, variables of enclosing functions, attributes of classes, of modules and of plain objects:
nothing tells when they are written, so they are looked at before every replay.
"""

from __future__ import annotations

import argparse
import collections
import functools
import sys
import types
from typing import Any

from sdbr.base.reasons import Reason, Remedy
from sdbr.devices.arrays import ARRAYS
from sdbr.trace.code._library import is_library, is_library_name
from sdbr.trace.code.hidden import names_asked_by, parts_of, wrapped_by
from sdbr.trace.code.moving import is_stood_for, moves_on, tells_time
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


class Outside:
    """What a call of `function` may read from outside, as it is now; `given`: `callables_in`.

    Attributes
    ----------
    entries : list of (holder, str, object)
        ``holder.get(name)`` is what the code would read; the object is what it was.
    draws : list of (holder, str, object)
        Those of them that are draws of NumPy's global generator.
    names_nodes : bool
        Whether it may reach function nodes by a name of which no patch tells.
    reason : Reason or None
        Why the call cannot be static.
    unwatched : list of str
        What was not looked at, because there is so much.
    functions : list of function
        The user's functions whose byte code was read.
    """

    def __init__(self, function, owner, given=()):
        self.reason: Reason | None = None
        self.entries: list[tuple[Any, str, Any]] = []
        self.draws: list[tuple[Any, str, Any]] = []
        self.unwatched: list[str] = []
        self.functions: list = []
        self._kept_modules: dict[int, Any] = {}
        self._functions: list = []
        self._seen: set[int] = set()
        self._walked: dict[int, Any] = {}
        self._classes: dict[type, Any] = {}  # each with the extent that its members were read for
        self._members: dict[type, Any] = {}
        self._attributes: set[str] = {"forward", "__call__"}
        self._holders: dict[tuple[int, str], None] = {}
        self._past_links = self._by_name = False
        self._follow(function)
        self._walk(function) if owner is None else self._link(owner)
        for name, thing in given:
            self._note_reason(name, thing, frozenset())
            self._walk(thing)
        done: tuple = ()
        while self._functions or done != self._extent():
            while self._functions:
                self._read(self._functions.pop())
            done = self._extent()
            for cls in [c for c, known in self._classes.items() if known != done[1:]]:
                self._classes[cls] = done[1:]
                self._class_members(cls)
            for module in list(self._kept_modules.values()):
                self._thing({}, module.__name__, module, frozenset(self._attributes))
            for function in list(self.functions):
                for name, thing in entries(function.__dict__, self._attributes):
                    self._thing(function.__dict__, name, thing, frozenset())
        if owner is not None and "update_rule" in self._attributes:
            for parameter in owner.params():
                rule = get(parameter, "update_rule")
                if rule is not None:
                    self._thing(parameter.__dict__, "update_rule", rule, frozenset())
        if self._past_links and owner is not None:
            self._raw_attributes(owner)
        self.names_nodes = self._by_name or "_creator_node" in self._attributes

    def _extent(self) -> tuple:
        return len(self._classes), len(self._attributes), self._by_name

    @property
    def classes(self) -> list[type]:
        """The user's classes that the call may look into, bases and metaclasses included."""
        every = {base: None for cls in self._classes for base in (*cls.__mro__, type(cls))}
        return [cls for cls in every if not is_library(cls)]

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
            self._classes.setdefault(type(child))
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
            text = f"functions beyond {_MOST_WALKED} objects that the call may reach"
            if text not in self.unwatched:
                self.unwatched.append(text)
            return
        self._walked[id(thing)] = thing
        if isinstance(thing, type):
            if not is_library(thing) and not issubclass(thing, _NODES):
                self._classes.setdefault(thing)
            return
        if isinstance(thing, _NODES):
            return
        if _is_link(type(thing)):
            self._link(thing)
            return
        if not is_library(type(thing)):
            self._classes.setdefault(type(thing))
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
        self._attributes |= names_asked_by(thing)
        for part in parts_of(thing) if not isinstance(thing, types.FunctionType) else ():
            self._walk(part)

    def _class_members(self, cls: type) -> None:
        """Methods and numbers among the attributes of a class that the code asks for."""
        if not is_library(type(cls)):
            self._classes.setdefault(type(cls))
        for base in cls.__mro__:
            if is_library(base):
                continue
            # One for all: asking the class again gives another.
            members = self._members.setdefault(base, base.__dict__)
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
            for part in wrapped_by(function):
                self._walk(part)
            return
        names, enclosed, attributes = names_in(function.__code__)
        self.functions.append(function)
        self._attributes |= attributes | (names & {"getattr"})
        self._by_name |= "getattr" in names
        self._note_unreadable(names - holder.keys(), attributes)
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
                for thing in defaults.values() if isinstance(defaults, dict) else defaults:
                    self._note_reason(name, thing, frozenset())
        for name in names_imported(function):
            module = sys.modules.get(name)
            if module is not None:
                self._thing(sys.modules, name, module, attributes)

    def _note_unreadable(self, builtin: frozenset, attributes: frozenset) -> None:
        """Code and variables that are found while the call runs, and only then."""
        found = (builtin & {"eval", "exec"}) | (attributes & {"_getframe", "f_globals", "f_locals"})
        if found and self.reason is None:
            text = f"{min(found)!r} reaches what cannot be looked up before the call"
            self.reason = Reason(text, Remedy.USE_FUNCTIONS)

    def _settings(self, attributes: frozenset) -> None:
        """Objects and functions that the user has put into ``chainer.config``."""
        for settings in (chainer.global_config.__dict__, chainer.config._local.__dict__):
            for name, thing in entries(settings, attributes):
                if isinstance(thing, types.FunctionType) or _is_plain(thing):
                    self._thing(settings, name, thing, frozenset())

    def _thing(self, holder, name: str, thing, attributes) -> None:
        self._note_reason(name, thing, attributes)
        if isinstance(thing, types.ModuleType):
            if not is_library(thing):
                self._module(thing, attributes)
            return
        if isinstance(thing, type):
            if not is_library(thing):
                if not issubclass(thing, (chainer.Link, *_NODES)):
                    self._follow(thing.__init__)
                if not issubclass(thing, _NODES):
                    self._classes.setdefault(thing)
                for attribute, member in entries(thing.__dict__, attributes):
                    if isinstance(member, _SCALARS):
                        members = self._members.setdefault(thing, thing.__dict__)
                        self._add(members, attribute, member)
            return
        if is_stood_for(thing) and isinstance(holder, (dict, Cell)):
            self.draws.append((holder, name, thing))
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

    def _note_reason(self, name: str, thing, attributes) -> None:
        reason = self.reason or moves_on(thing) or tells_time(thing, attributes)
        if reason is not self.reason:
            self.reason = Reason(f"{name!r} {reason.text}", reason.remedy)

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
