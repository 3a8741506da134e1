"""What a call has read from outside, and whether that still holds."""

from __future__ import annotations

import types
import zlib
from collections.abc import Callable
from typing import Any

from sdbr.devices.arrays import ARRAYS, on_host
from sdbr.trace.code._library import stands_in
from sdbr.trace.watch._looks import ATOMS, MISSING, field, is_a, is_atom, item, lookup
from sdbr.trace.watch.fingerprints import (
    LOOSE,
    MOST,
    VARIABLES,
    Opaque,
    Same,
    deep,
    elements_of,
    inside,
    keys_of,
    numbers_in,
    plain_kind,
    shallow,
    state_of,
    values_of,
)
from sdbr.trace.watch.plan._checks import Checks
from sdbr.trace.watch.plan._states import environment
from sdbr.trace.watch.sources import Source

import chainer
import numpy as np

#: What is compared of a number that each replay reads anew, by its class.
KIND_ALONE: dict[type, tuple] = {float: (float,), int: (int,)}

#: Of an array whose numbers are kept to be compared.
_MOST_BYTES = 1 << 16


def _contents(thing, key):
    try:
        return deep(thing)
    except Opaque as error:
        return "opaque", str(error)


def contents(thing) -> Any:
    """All that is in `thing`, arrays and their numbers included, as what ``==`` compares."""
    try:
        return _whole(thing, {})
    except Opaque:
        return Same(thing)


def _whole(thing, memo: dict[int, tuple]) -> Any:
    kind = type(thing)
    if kind in ATOMS:
        return shallow(thing)
    if id(thing) in memo:
        return "again", memo[id(thing)][0]
    if len(memo) > MOST:
        raise Opaque("too large")
    memo[id(thing)] = len(memo), thing
    if kind is types.FunctionType or is_a(thing, (type,)):
        return Same(thing)
    if is_a(thing, (chainer.Link,)):  # of numbers and arrays there other conditions tell
        fields = [(name, x) for name, x in list(thing.__dict__.items()) if name not in _OF_LINKS]
        found = [(name, _whole(x, memo)) for name, x in fields if not is_a(x, (*ATOMS, *LOOSE))]
        return Same(thing), *found
    if is_a(thing, ARRAYS):  # no method of its class is asked
        numbers = np.ndarray.tobytes(thing) if is_a(thing, (np.ndarray,)) else None
        return *shallow(thing), Same(thing), numbers
    return inside(thing, lambda x: _whole(x, memo))


_OF_LINKS = frozenset({"_device", "_within_init_scope", "schedule_manager", "static_schedule"})


def _numbers(array, key):
    """Those of an array, or what stands for very many."""
    if is_a(array, (np.generic,)):
        return array.tobytes()
    if not is_a(array, ARRAYS):  # by now
        return type(array)
    array = on_host(array)
    if array.nbytes <= _MOST_BYTES:
        return array.tobytes()
    flat = array if array.flags.c_contiguous else np.ascontiguousarray(array)
    return zlib.crc32(flat.reshape(-1).view("u1"))


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


def _definition(function, key):
    parts = [function.__code__, function.__defaults__]
    if function.__kwdefaults__:  # a dict, which may be changed in place
        parts += (x for pair in function.__kwdefaults__.items() for x in pair)
    return tuple(x if x is None else Same(x) for x in parts)


#: What can be learnt of an object besides its parts -> (how that is asked, how a person says it).
FACTS = {
    "there": (lambda thing, key: thing is not MISSING, "{}"),
    "length": (lambda thing, key: len(thing), "len({})"),
    "keys": (lambda thing, key: keys_of(thing), "the keys of {}, in order"),
    "elements": (lambda thing, key: tuple(map(shallow, elements_of(thing))), "the elements of {}"),
    "names": (_names, "the names in {}"),
    "values": (lambda thing, key: values_of(thing, deep), "what is in {}"),
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
    "numbers": (_numbers, "the numbers in {}"),
    "some": (lambda thing, key: _numbers(thing[key] if is_a(thing, ARRAYS) else thing, None),
             "some numbers in {}"),
    "state": (lambda thing, key: state_of(thing), "the state of {}"),
    "contents": (_contents, "what is in {}"),
    "definition": (_definition, "the code and defaults of {}"),
    "result": (_again, "what {} gives"),
    "environment": (environment, "numpy.errstate or the filters of warnings"),
}  # fmt: skip


def is_ours(thing) -> bool:
    """Whether we have put it there while a call is traced."""
    if thing is MISSING:
        return False
    kind = type(thing)
    if kind is property or kind is types.MethodType or kind is classmethod:
        thing = thing.fget if kind is property else thing.__func__
    return plain_kind(kind) is not kind or stands_in(thing)


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

    __slots__ = ("is_ours", "key", "kind", "source", "want")

    def __init__(self, source: Source, kind: str, key: Any, want: Any, is_ours: bool = False):
        self.is_ours = is_ours
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
                same = thing is not None and want() is thing
            else:
                alone = want is KIND_ALONE.get(want[0])
                same = type(thing) is want[0] if alone else shallow(thing) == want
            return same or self._settles(thing)
        if self.kind == "is":
            return (thing is values[self.key.number]) == self.want
        return FACTS[self.kind][0](thing, self.key) == self.want

    def now(self, values: list) -> Any:
        """What is so now; as `found`, where it holds."""
        thing = values[self.source.number]
        if self.kind == "value":
            return shallow(thing)
        if self.kind == "is":
            return thing is values[self.key.number]
        try:
            return FACTS[self.kind][0](thing, self.key)
        except Exception as error:
            return type(error)

    def found(self) -> Any:
        """What the call has learnt."""
        is_identity = self.kind == "value" and type(self.want) is not tuple
        return shallow(self.want()) if is_identity else self.want

    def _settles(self, thing) -> bool:
        """Whether something of ours lies there while a call is traced, or lay there in this one."""
        ours = is_ours(thing)
        if not self.is_ours:
            return ours
        self.want, self.is_ours = value_print(thing), ours
        return True

    def __str__(self) -> str:
        if self.kind == "value":
            return str(self.source)
        if self.kind == "is":
            return f"{self.source} is {self.key}"
        return FACTS[self.kind][1].format(self.source, self.key)

    def __repr__(self) -> str:
        return f"<Guard {self}>"


#: Kinds of sources and facts that are about one and the same place.
PLACES = {
    "asked": "attribute", "field": "attribute", "super": "attribute",
    "global": "attribute", "hasattr": "attribute",
}  # fmt: skip


class Reads:
    """What a call has read from outside.

    Not here is what the values of arrays have decided, what was drawn (`draws`), and what code that
    is not followed reads on its own beyond `environment`: the files, the clock. Objects are held
    weakly. Held are what cannot be: lists, dicts and the like that were reached without a path,
    dictionaries of globals that are no module's, keys, and classes of what was read; and numbers
    and texts, and what the thread that checks has of a `threading.local`.

    Attributes
    ----------
    sources : list of Source
        Parents come before what was reached through them.
    guards : list of Guard
        In the order in which things were learnt.
    dynamic : list of (str, str)
        Why the call cannot be static, and where: ``file:line``.
    unseen : str or None
        Why nothing was seen.
    writes : list of str
        What it has written to outside.
    written : list of (Source, str, object, Source or None)
        The same: the object, what of it, and the key; what lies there afterwards, where that came
        from outside.
    changed : list of (Source, object)
        Containers from outside that hold something else after the call, and may after each.
    draws : list of str
        Methods of NumPy's generators that it has called: what they give no guard compares.
    """

    def __init__(self):
        self.sources: list[Source] = []
        self.guards: list[Guard] = []
        self.dynamic: list[tuple[str, str]] = []
        self.unseen: str | None = None
        self.writes: list[str] = []
        self.written: list[tuple[Source, str, Any, Source | None]] = []
        self.changed: list[tuple[Source, Any]] = []
        self.draws: list[str] = []
        #: Code of the user's that ran, and what it has called: until the call is settled.
        self.ran: list = []
        #: Attributes of links that code writes which runs in each replay, by ids and names.
        self.beside: set[tuple[int, str]] = set()
        #: Whether the code has asked if two arrays are one.
        self.compares_arrays = False
        #: What it has heard when it asked whether two things from outside are one.
        self.compared: list[Guard] = []
        #: Numbers of sources of containers of which compiled code has computed.
        self.computed: set[int] = set()
        self._by_source: list[list[Guard]] = []
        self._checks: Checks | None = None

    def add_source(self, source: Source) -> Source:
        """Take up a source; it gets its number."""
        source.number = len(self.sources)
        self.sources.append(source)
        is_root = source.kind == "constant"
        self._by_source.append([Guard(source, "there", None, True)] if is_root else [])
        self._checks = None
        return source

    def add(self, source: Source, kind: str, key: Any, want: Any, is_ours: bool = False) -> None:
        """Take up a guard of a source that is known."""
        for numbers in numbers_in(want):
            numbers.freeze()
        guard = Guard(source, kind, key, want, is_ours)
        self.guards.append(guard)
        last = source if kind != "is" or key.number < source.number else key
        self._by_source[last.number].append(guard)
        self._checks = None

    def let_move(self, which: Callable[[int], bool]) -> None:
        """The numbers of arrays, those with these ids, may be others: replays read them anew."""
        for guard in self.guards:
            if guard.kind == "contents" and guard.source.number in self.computed:
                continue
            for numbers in numbers_in(guard.want):
                if any(map(which, numbers.at)):
                    numbers.let_move()

    def bind(self, source: Source, thing) -> None:
        """Let it be a source of this very thing, wherever that came from."""
        source.bind(thing)
        self._by_source[source.number].append(Guard(source, "there", None, True))
        self._checks = None

    @property
    def bound(self) -> list[Source]:
        """Where arrays and Variables lie, which a replay fetches anew."""
        return [
            guard.source
            for guard in self.guards
            if guard.kind == "value" and type(guard.want) is tuple
            and type(guard.want[0]) is type and issubclass(guard.want[0], LOOSE)
        ]  # fmt: skip

    def things(self, args: tuple, kwargs: dict) -> list:
        """What lies at each source now, for a call with these arguments."""
        found: list[Any] = []
        for source in self.sources:
            holder = None if source.parent is None else found[source.parent.number]
            lies = MISSING if holder is MISSING else source.step(holder, source.key, (args, kwargs))
            found.append(lies)
        return found

    def settle(self, args: tuple, kwargs: dict) -> None:
        """The call is over: what it has given an array keeps that."""
        self._checks = None
        for guard in self.guards:
            if guard.kind == "state":
                guard.want = state_of(guard.source.get(args, kwargs))
            elif guard.want == _NONE and guard.source.parent is not None:
                thing = guard.source.get(args, kwargs)
                if is_a(thing, ARRAYS) and is_a(guard.source.parent.get(args, kwargs), VARIABLES):
                    guard.want = value_print(thing)

    def check(self, args: tuple, kwargs: dict) -> Guard | None:
        """The first guard that does not hold for a call with these arguments; None if all do."""
        if self._checks is None:
            self._checks = self.without(lambda guard: False)
        return self._checks.check(args, kwargs)

    def without(self, leaves_out: Callable[[Guard], bool], waits: int = 0) -> Checks:
        """A check of those guards alone that are not left out, and of the sources that they need.

        Parameters
        ----------
        leaves_out : callable
            Whether a guard is left out.
        waits : int
            Checks before a plan is made, which takes as long as some of them.
        """
        guards = [[g for g in guards if not leaves_out(g)] for guards in self._by_source]
        is_needed = [False] * len(self.sources)
        for source in reversed(self.sources):
            for guard in guards[source.number]:
                is_needed[guard.source.number] = is_needed[source.number] = True
                if guard.kind == "is":
                    is_needed[guard.key.number] = True
            if is_needed[source.number] and source.parent is not None:
                is_needed[source.parent.number] = True
        steps = [(source, guards[source.number]) for source in self.sources
                 if is_needed[source.number]]  # fmt: skip
        return Checks(steps, len(self.sources), waits)


#: What is compared of None.
_NONE = (type(None), None)


def value_print(thing) -> Any:
    """What is compared of a thing that was read: a fingerprint, or a function that gives it."""
    want = shallow(thing)
    if want[0] == "is" and len(want) == 2:
        return want[1].thing
    return want


def contents_of(thing) -> list:
    """All that lies in a container, keys included; no code of the user's runs."""
    if is_a(thing, (dict,)):
        return [*dict.keys(thing), *dict.values(thing)]
    return elements_of(thing)


def is_alike(now, before) -> bool:
    """Whether what lies somewhere is what lay there, or an equal number or text."""
    return now is before or (is_atom(now) and shallow(now) == shallow(before))
