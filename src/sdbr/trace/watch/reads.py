"""What a call has read from outside, and whether that still holds."""

from __future__ import annotations

import warnings
from typing import Any

from sdbr.trace.code._library import stands_in
from sdbr.trace.watch._looks import MISSING, field, is_a, item, lookup
from sdbr.trace.watch.fingerprints import (
    LOOSE,
    Opaque,
    Same,
    deep,
    elements_of,
    keys_of,
    shallow,
    state_of,
)
from sdbr.trace.watch.sources import Source

import numpy as np


def _contents(thing, key):
    try:
        return deep(thing)
    except Opaque as error:
        return "opaque", str(error)


def _again(function, key):
    """What a function of a library gives, whose state nobody sees."""
    try:
        return _contents(function(*key[0], **dict(key[1])), None)
    except Exception as error:
        return type(error)


def _instance(thing, kinds):
    try:
        return isinstance(thing, kinds)
    except TypeError as error:
        return str(error)


def _subclass(thing, kinds):
    try:
        return issubclass(thing, kinds)
    except TypeError as error:
        return str(error)


def _names(thing, key):
    """Names in the dictionary of an object, class or module."""
    return tuple(dict(object.__getattribute__(thing, "__dict__")
                      if not is_a(thing, (type,)) else thing.__dict__))  # fmt: skip


def _values(thing, key):
    """Names and values in a class and those above it, or in a module."""
    spaces = thing.__mro__ if is_a(thing, (type,)) else (thing,)
    return tuple(
        (name, shallow(x))
        for space in spaces
        if space is not object
        for name, x in list(space.__dict__.items())
        if name not in _MOVING
    )


#: What Python itself writes to classes and modules.
_MOVING = frozenset({
    "__builtins__", "__warningregistry__", "__slotnames__", "__abstractmethods__", "_abc_impl",
})  # fmt: skip


def _definition(function, key):
    parts = (function.__code__, function.__defaults__, function.__kwdefaults__)
    return tuple(x if x is None else Same(x) for x in parts)


def environment(thing=None, key=None) -> tuple:
    """What libraries read on their own wherever they are called."""
    return tuple(sorted(np.geterr().items())), tuple(warnings.filters)


#: What can be learnt of an object besides its parts -> (how that is asked, how a person says it).
FACTS = {
    "length": (lambda thing, key: len(thing), "len({})"),
    "keys": (lambda thing, key: keys_of(thing), "the keys of {}, in order"),
    "elements": (lambda thing, key: tuple(map(shallow, elements_of(thing))), "the elements of {}"),
    "names": (_names, "the names in {}"),
    "values": (_values, "what is in {}"),
    "dir": (lambda thing, key: tuple(dir(thing)), "dir({})"),
    "item": (lambda thing, key: item(thing, key) is not MISSING, "{1!r} in {0}"),
    "attribute": (lambda thing, key: lookup(thing, key)[1] is not MISSING, "hasattr({0}, {1!r})"),
    "hasattr": (hasattr, "hasattr({0}, {1!r})"),
    "field": (lambda thing, key: field(thing, key) is not MISSING, "{1!r} in vars({0})"),
    "isinstance": (_instance, "isinstance({0}, {1.__name__})"),
    "issubclass": (_subclass, "issubclass({0}, {1.__name__})"),
    "subclasses": (lambda thing, key: tuple(map(Same, type.__subclasses__(thing))),
                   "the subclasses of {}"),
    "bases": (lambda thing, key: tuple(map(Same, thing.__mro__)), "the bases of {}"),
    "identity": (lambda thing, key: Same(thing), "id({})"),
    "state": (lambda thing, key: state_of(thing), "the state of {}"),
    "contents": (_contents, "what is in {}"),
    "definition": (_definition, "the code and defaults of {}"),
    "result": (_again, "what {} gives"),
    "environment": (environment, "numpy.errstate or the filters of warnings"),
}  # fmt: skip


class Guard:
    """One thing that a call has learnt, and that has to be so for a replay.

    Parameters
    ----------
    source : Source
        Of the object that it was learnt of.
    kind : str
        ``"value"`` for the object itself, ``"is"`` for whether it is another, or one of `FACTS`.
    key : object
        What was asked, where that has to be told; of ``"is"`` the other's source.
    want : object
        What it was: a fingerprint.
    """

    __slots__ = ("key", "kind", "source", "want")

    def __init__(self, source: Source, kind: str, key: Any, want: Any):
        self.source = source
        self.kind = kind
        self.key = key
        self.want = want

    def holds(self, values: list) -> bool:
        """Whether it is so, where `values` are what lies at the sources now, by their numbers."""
        thing = values[self.source.number]
        if self.kind == "value":
            want = self.want
            if type(want) is not tuple:
                return thing is not None and want() is thing
            return shallow(thing) == want
        if self.kind == "is":
            return (thing is values[self.key.number]) == self.want
        return FACTS[self.kind][0](thing, self.key) == self.want

    def __str__(self) -> str:
        if self.kind == "value":
            return str(self.source)
        if self.kind == "is":
            return f"{self.source} is {self.key}"
        return FACTS[self.kind][1].format(self.source, self.key)

    def __repr__(self) -> str:
        return f"<Guard {self}>"


class Reads:
    """What a call has read from outside.

    Not here is what the values of arrays have decided, what was drawn (`draws`), and what code that
    is not followed reads on its own beyond `environment`: the files, the clock. Objects are held
    weakly. Held are what cannot be: lists, dicts and the like that were reached without a path,
    dictionaries of globals that are no module's, keys, and classes of what was read.

    Attributes
    ----------
    sources : list of Source
        Parents come before what was reached through them.
    guards : list of Guard
        In the order in which things were learnt.
    dynamic : list of (str, str)
        Why the call cannot be static, and where: ``file:line``.
    writes : list of str
        What it has written to outside.
    draws : list of str
        Methods of NumPy's generators that it has called: what they give no guard compares.
    """

    def __init__(self):
        self.sources: list[Source] = []
        self.guards: list[Guard] = []
        self.dynamic: list[tuple[str, str]] = []
        self.writes: list[str] = []
        self.draws: list[str] = []
        self._by_source: list[list[Guard]] = []

    def add_source(self, source: Source) -> Source:
        """Take up a source; it gets its number."""
        source.number = len(self.sources)
        self.sources.append(source)
        self._by_source.append([])
        return source

    def add(self, source: Source, kind: str, key: Any, want: Any) -> None:
        """Take up a guard of a source that is known."""
        guard = Guard(source, kind, key, want)
        self.guards.append(guard)
        last = source if kind != "is" or key.number < source.number else key
        self._by_source[last.number].append(guard)

    @property
    def bound(self) -> list[Source]:
        """Where arrays and Variables lie, which a replay fetches anew."""
        return [
            guard.source
            for guard in self.guards
            if guard.kind == "value" and type(guard.want) is tuple
            and type(guard.want[0]) is type and issubclass(guard.want[0], LOOSE)
        ]  # fmt: skip

    def settle(self, args: tuple, kwargs: dict) -> None:
        """The call is over: where something of ours stood in for another, that counts."""
        for guard in self.guards:
            if guard.kind == "value" and type(guard.want) is not tuple:
                thing = guard.want()
                if stands_in(getattr(thing, "fget", None) or thing):
                    guard.want = value_print(guard.source.get(args, kwargs))

    def check(self, args: tuple, kwargs: dict) -> Guard | None:
        """The first guard that does not hold for a call with these arguments; None if all do."""
        given = (args, kwargs)
        values: list = []
        for source, guards in zip(self.sources, self._by_source, strict=True):
            holder = None if source.parent is None else values[source.parent.number]
            value = source.step(holder, source.key, given)
            values.append(value)
            if value is MISSING and source.kind == "constant":
                return Guard(source, "value", None, MISSING)
            for guard in guards:
                if not guard.holds(values):
                    return guard
        return None


def value_print(thing) -> Any:
    """What is compared of a thing that was read: a fingerprint, or a function that gives it."""
    want = shallow(thing)
    if want[0] == "is" and len(want) == 2:
        return want[1].thing
    return want


__all__ = ("FACTS", "Guard", "Reads", "value_print")
