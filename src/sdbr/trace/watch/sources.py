"""Sources: the paths by which a call has reached what it read."""

from __future__ import annotations

import builtins
import contextvars
import logging
import sys
import types
import weakref
from typing import Any

from sdbr.trace.code._library import is_library
from sdbr.trace.watch._looks import MISSING, field, item, lookup, superior

__all__ = ("MISSING", "Source", "hold")


def hold(thing) -> Any:
    """A function that gives `thing`, or None once it is gone; what cannot be let go of is kept."""
    try:
        return (weakref.WeakMethod if type(thing) is types.MethodType else weakref.ref)(thing)
    except TypeError:
        return lambda: thing


def _global(holder, name, given):
    fields = holder.__dict__ if isinstance(holder, types.ModuleType) else holder
    found = fields.get(name, MISSING)
    if found is MISSING:
        fields = fields.get("__builtins__", builtins)
        fields = fields if type(fields) is dict else fields.__dict__
        found = fields.get(name, MISSING)
    return found


def _cell(holder, key, given):
    try:
        return holder.cell_contents
    except ValueError:  # not assigned yet
        return MISSING


def _asked(holder, name, given):
    """Of libraries alone: their code, and CPython's, runs."""
    try:
        return getattr(holder, name)
    except Exception:
        return MISSING


def _cached(holder, key, given):
    """What a function with a cache gives, which computes it again where the cache is cleared.

    And what lies in a variable of the context, or a weak reference leads to.
    """
    try:
        if isinstance(holder, weakref.ref):
            return weakref.ref.__call__(holder)
        ask = holder.get if type(holder) is contextvars.ContextVar else holder
        return ask(*key[0], **dict(key[1]))
    except Exception:
        return MISSING


def _closure(holder, key, given):
    try:
        return holder.__closure__[key]
    except (AttributeError, IndexError, TypeError):  # of another function by now
        return MISSING


def _default(holder, key, given):
    try:
        return (holder.__defaults__ if type(key) is int else holder.__kwdefaults__)[key]
    except (AttributeError, IndexError, KeyError, TypeError):  # others by now
        return MISSING


def _constant(holder, key, given):
    thing = key()
    return MISSING if thing is None else thing


_STEPS = {
    "given": lambda holder, key, given: (len(given[0]), *given[1]),
    "argument": lambda holder, key, given: given[0][key] if key < len(given[0]) else MISSING,
    "keyword": lambda holder, key, given: given[1].get(key, MISSING),
    "constant": _constant,
    "module": lambda holder, key, given: sys.modules.get(key, MISSING),
    "global": _global,
    "closure": _closure,
    "cell": _cell,
    "attribute": lambda holder, key, given: lookup(holder, key)[1],
    "field": lambda holder, key, given: field(holder, key),
    "asked": _asked,
    "cached": _cached,
    "default": _default,
    "super": lambda holder, key, given: superior(key[0], holder, key[1], key[2]),
    "item": lambda holder, key, given: item(holder, key),
    "self": lambda holder, key, given: getattr(holder, "__self__", MISSING),
    "class": lambda holder, key, given: type(holder),
}


#: Steps of a path that a text shows.
_LONGEST = 40


class Source:
    """Where an object was first reached.

    Parameters
    ----------
    kind : str
    parent : Source or None
        Of the object that it was reached from.
    key : object
        What tells it from others there: a name, a number, a key.
    name : str
        How a person would write it, where that does not follow from the rest.

    Attributes
    ----------
    number : int
        Among the sources of the call; a parent's is smaller.
    leads_there : bool
        Whether it leads to what the next call meets, and not only to what this one has met somehow.
    """

    __slots__ = ("key", "kind", "leads_there", "name", "number", "parent", "step")

    def __init__(self, kind: str, parent: Source | None, key: Any, name: str = ""):
        self.kind = kind
        self.parent = parent
        self.key = key
        self.name = name
        self.step = _STEPS[kind]
        self.number = -1
        self.leads_there = kind != "constant"

    def get(self, args: tuple, kwargs: dict) -> Any:
        """What lies there now; MISSING for nothing. No code of the user's runs."""
        path, source, thing = [], self, None
        while source is not None:  # of thousands of steps, perhaps
            path.append(source)
            source = source.parent
        for source in reversed(path):
            thing = source.step(thing, source.key, (args, kwargs))
            if thing is MISSING:
                break
        return thing

    def root(self) -> Source:
        """Where the path begins."""
        source = self
        while source.parent is not None:
            source = source.parent
        return source

    @property
    def is_cache(self) -> bool:
        """Whether it leads to a cache of a module of a library, or to that of a logger's levels: it
        tells nothing that the call has not computed from what is compared."""
        if type(self.key) is not str or "_cache" not in self.key or self.parent is None:
            return False
        holder = self.parent.get((), {})
        kind = holder if isinstance(holder, types.ModuleType) else type(holder)
        return (kind is logging.Logger or kind is holder) and is_library(kind)

    def bind(self, thing) -> None:
        """Let it be a source of this very thing."""
        self.kind, self.key, self.parent = "constant", hold(thing), None
        self.step, self.leads_there = _STEPS["constant"], True

    def __str__(self) -> str:
        return self._text(_LONGEST)

    def _text(self, left: int) -> str:
        """The path, of at most so many steps from its end."""
        kind, key = self.kind, self.key
        if self.name:
            return self.name
        if kind in ("global", "module"):
            return key
        if kind == "given":
            return "the number of arguments"
        if self.parent is None:
            return f"{kind} {key!r:.40}"
        path = self.parent._text(left - 1) if left else "..."
        if kind in ("attribute", "field", "asked"):
            return f"{path}.{key}"
        if kind == "cached":
            return f"{path}({', '.join(map('{!r:.40}'.format, key[0]))})"
        if kind == "item":
            return f"{path}[{key!r:.40}]"
        if kind == "super":
            return f"super({key[0].__name__}, {path}).{key[2]}"
        if kind == "class":
            return f"type({path})"
        if kind == "self":
            return f"{path}.__self__"
        return f"{kind} {key!r:.40}"

    def __repr__(self) -> str:
        return f"<Source {self}>"
