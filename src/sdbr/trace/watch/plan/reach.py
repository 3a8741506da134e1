"""All that a call may read, by the names in its code: what is compared where nobody can watch it.

Under a debugger, while the coverage of tests is measured, and on a Python whose frames are not
known, the whole of it is looked at before each replay.
"""

from __future__ import annotations

import types
from typing import Any

from sdbr.devices.arrays import ARRAYS
from sdbr.trace.code._library import is_library
from sdbr.trace.code.reading import compares_objects, names_in
from sdbr.trace.watch._looks import ATOMS, MISSING, is_a
from sdbr.trace.watch.fingerprints import LOOSE, MOST, Opaque, Same, inside, members_of, shallow

import chainer
import numpy as np

#: Builtins that ask for what an array or a number is.
_ASKING = frozenset({"type", "memoryview", "pow"})
_OF_LINKS = frozenset({"_device", "_within_init_scope", "schedule_manager", "static_schedule"})


class _Walk:
    """Goes through functions and classes of the user's, and what they can get at."""

    def __init__(self):
        self.facts: list[Any] = []
        self._seen: dict[int, int] = {}
        self._things: list[Any] = []  # kept, as their addresses count
        self._waiting: list[Any] = []

    def all_from(self, function) -> None:
        """Take down what `function` and all that it may call can read."""
        self.inside(function)
        while self._waiting:
            thing = self._waiting.pop()
            self._class(thing) if is_a(thing, (type,)) else self._function(thing)

    def inside(self, thing) -> Any:
        """What is compared of a thing; what it leads to waits."""
        kind = type(thing)
        if kind in ATOMS:
            return shallow(thing)
        if id(thing) in self._seen:
            return "again", self._seen[id(thing)]
        if len(self._seen) > MOST:
            raise Opaque("the call can reach very much")
        self._seen[id(thing)] = len(self._seen)
        self._things.append(thing)
        if kind is types.FunctionType or is_a(thing, (type,)):
            ours = thing.__dict__ if kind is types.FunctionType else {}
            # What is decorated leads to what it calls; `static_code` runs in every replay.
            follows = not is_library(thing) or "_sdbr_function" in ours
            if follows and "_sdbr_static_code" not in ours:
                self._waiting.append(thing)
            return Same(thing)
        if kind is types.MethodType:
            return self.inside(thing.__func__), self.inside(thing.__self__)
        if not is_library(kind):
            self.inside(kind)
        if is_a(thing, (chainer.Link,)):  # of numbers and arrays there other conditions tell
            fields = [
                (name, x) for name, x in list(thing.__dict__.items()) if name not in _OF_LINKS
            ]
            found = [(name, self.inside(x)) for name, x in fields if not is_a(x, (*ATOMS, *LOOSE))]
            return Same(thing), *found
        if is_a(thing, ARRAYS):
            is_host = is_a(thing, (np.ndarray,))
            numbers = np.ndarray.view(thing, np.ndarray).tobytes() if is_host else None
            return *shallow(thing), Same(thing), numbers
        if is_a(thing, (property,)):
            return tuple(map(self.inside, (thing.fget, thing.fset, thing.fdel)))
        if is_a(thing, (staticmethod, classmethod)):
            return self.inside(thing.__func__)
        return inside(thing, self.inside)

    def _class(self, kind) -> None:
        self.facts += map(Same, kind.__mro__)
        self.facts += [(name, self.inside(x)) for name, x in members_of(kind)]

    def _function(self, function) -> None:
        names, _, attributes = names_in(function.__code__)
        space = function.__globals__
        for name in sorted(_ASKING & names - space.keys()):
            raise Opaque(f"{function.__name__} asks {name}(), which has to be watched")
        if compares_objects(function.__code__):
            raise Opaque(f"{function.__name__} compares objects, which has to be watched")
        parts = [function.__defaults__, function.__kwdefaults__, function.__dict__]
        parts += [space.get(name, MISSING) for name in sorted(names)]
        for cell in function.__closure__ or ():
            try:
                parts.append(cell.cell_contents)
            except ValueError:  # not assigned yet
                parts.append(MISSING)
        modules = [x for x in parts if is_a(x, (types.ModuleType,))]
        for module in modules:  # which grow
            found = [module.__dict__.get(name, MISSING) for name in sorted(attributes)]
            modules += [x for x in found if type(x) is types.ModuleType and x not in modules]
            parts += found
        self.facts += [Same(function.__code__), *map(self.inside, parts)]


def reach(function) -> tuple:
    """What `function` and the code that it may call can read, as tuples that ``==`` compares."""
    walk = _Walk()
    try:
        walk.all_from(function)
    except Opaque as error:
        return "opaque", str(error)
    return tuple(walk.facts)


def contents(thing) -> Any:
    """All that is in `thing`, numbers of arrays included, as tuples that ``==`` compares."""
    try:
        return _Walk().inside(thing)
    except Opaque:
        return Same(thing)
