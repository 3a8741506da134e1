"""Functions, classes and modules that code finds under a name, where it may find others later."""

from __future__ import annotations

import builtins
import types
from collections.abc import Collection, Iterator
from typing import Any

from sdbr.trace.code._library import is_library, stands_in
from sdbr.trace.code.reading import entries, get


class Definitions:
    """What a call finds by name, each with its place.

    Attributes
    ----------
    items : list of (holder, str, object)
        ``holder.get(name)`` is the object; None where there is nothing yet.
    """

    def __init__(self):
        self.items: list[tuple[Any, str, Any]] = []
        self._modules: set[tuple] = set()

    def add(self, holder, name: str, thing) -> None:
        """Note what lies there, unless it is there only while somebody traces a call."""
        if thing is not None and holder.get(name) is thing and not stands_in(thing):
            self.items.append((holder, name, thing))

    def add_function(self, holder, name: str, thing, before=()) -> None:
        """Note a function of the user's; in a notebook it may be defined anew.

        `before` are classes that may get one of the name.
        """
        plain = get(thing, "fget") or get(thing, "__func__", thing)
        is_function = isinstance(plain, types.FunctionType) or get(plain, "_sdbr_function")
        if is_function and not is_library(plain):
            self.items.append((holder, name, thing))
            self.add_absent(name, before)

    def add_absent(self, name: str, classes) -> None:
        """Note classes that have no `name` of their own, but may get one."""
        self.items += [(cls.__dict__, name, None) for cls in classes if name not in cls.__dict__]

    def add_builtins(self, names: Collection[str], holder: dict) -> None:
        """Note builtins that a function finds because its module has none of the name."""
        for name, thing in entries(vars(builtins), names):
            self.items.append((holder, name, None))
            self.add(vars(builtins), name, thing)

    def add_of_library(self, module, attributes: frozenset) -> Iterator[types.FunctionType]:
        """Note what code with these attributes finds in a module of a library.

        Yields
        ------
        function
            One of the user's, which somebody has put there.
        """
        if (id(module), attributes) in self._modules:
            return
        self._modules.add((id(module), attributes))
        for name, thing in entries(module.__dict__, attributes):
            if isinstance(thing, types.ModuleType):
                self.add(module.__dict__, name, thing)
                if is_library(thing):
                    yield from self.add_of_library(thing, attributes)
            elif callable(thing):
                self.add(module.__dict__, name, thing)
                if is_users_function(thing):
                    yield thing

    def add_of_node(self, cls: type, methods: Collection[str]) -> None:
        """Note the `methods` of a function node of Chainer's, those it inherits included."""
        bases = [base for base in cls.__mro__ if base is not object and is_library(base)]
        for name in methods:
            self.add_absent(name, bases)
            for base in bases:
                self.add(base.__dict__, name, base.__dict__.get(name))

    def add_of_link(self, cls: type, attributes: Collection[str]) -> Iterator[types.FunctionType]:
        """Note the methods of a link of Chainer's; yields those that are the user's."""
        self.add_absent("forward", [cls])
        self.add_absent("__call__", [cls])
        for name, thing in entries(cls.__dict__, {"forward", "__call__", *attributes}):
            if isinstance(thing, types.FunctionType):
                self.add(cls.__dict__, name, thing)
                if is_users_function(thing):
                    yield thing


def is_users_function(thing) -> bool:
    """Whether a function in a library has been put there by the user."""
    return isinstance(thing, types.FunctionType) and not (is_library(thing) or stands_in(thing))
