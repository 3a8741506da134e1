"""Lists, dicts and deques of links to which a call adds, and which it does not read.

Code that names such an attribute and at once calls a method of `METHODS` on it, or assigns to a
key, gets a `Growing` in its place, which does the same and notes it. Replays do it again with what
they have computed. Whoever gets hold of the container in another way has read it: what it holds
is then compared, and a call that changes that is dynamic.
"""

from __future__ import annotations

import collections
import functools

from sdbr.base.reasons import Remedy
from sdbr.devices.arrays import ARRAYS
from sdbr.trace.arrays.stripping import holds_traced, is_traced
from sdbr.trace.arrays.traced_float import FOLLOWED
from sdbr.trace.code.frames import line_of, written_into
from sdbr.trace.effects.sinks import Sink
from sdbr.trace.guards.seen import is_constant
from sdbr.trace.structure import holds_itself
from sdbr.trace.values import RESULT, Store

import chainer

_KINDS = (list, dict, collections.deque, collections.OrderedDict, collections.defaultdict)
#: What adds to a container, or empties it, whatever is there, and returns nothing.
_METHODS = {
    list: ("append", "extend", "__setitem__", "clear"),
    dict: ("__setitem__", "update", "clear"),
    collections.deque: ("append", "appendleft", "extend", "extendleft", "clear"),
}
_KEYS = (str, int, bool, type(None))


class Growing:
    """What code gets that adds to a container of a link at once."""

    __slots__ = ("_add",)

    def __init__(self, add):
        self._add = add

    def __getattr__(self, name: str):
        def method(*args, **kwargs):
            return self._add(name, args, kwargs)

        return method

    def __setitem__(self, key, thing) -> None:
        self._add("__setitem__", (key, thing), {})


class GrowthSink(Sink):
    """One addition to what an attribute of a link holds, whichever container that is by then."""

    __slots__ = ("method",)
    is_of_object = False

    def __init__(self, fields: dict, name: str, method: str, n: int):
        super().__init__(fields, name)
        self.method = method
        self.key = (id(fields), name, n)

    def put(self, thing, target=None) -> None:
        """Add; `thing` are the arguments of the method."""
        getattr(self.holder[self.name], self.method)(*thing)

    @property
    def container(self):
        """What lies there now."""
        return self.holder.get(self.name)


class _Grown:
    """A container that the call adds to."""

    def __init__(self, link, name: str, thing):
        self.link, self.name, self.thing = link, name, thing
        self.before = thing.copy()
        self.additions: list[tuple] = []  # method, arguments, line
        self.is_read = False

    def is_explained(self) -> bool:
        """Whether the container holds what the additions have put there, and no more.

        To be asked once: nothing is kept for it any longer.
        """
        then, self.before = self.before, None
        for method, args, _ in self.additions:
            getattr(then, method)(*args)
        now = self.thing
        if isinstance(now, dict):
            same = list(now) == list(then) and all(now[k] is then[k] for k in now)
        else:
            same = len(now) == len(then) and all(x is y for x, y in zip(now, then, strict=True))
        return same


class Growth:
    """The part of the recorder that watches what is added to containers of links."""

    def __init__(self, recorder):
        self.recorder = recorder
        self.trace = recorder.trace
        self.values = recorder.values
        self._grown: dict[tuple[int, str], _Grown] = {}

    def growing(self, link, name: str, thing, frame) -> Growing | None:
        """What `frame` gets for ``link.name``, where it only adds to it; None where it may read."""
        if type(thing) not in _KINDS:
            return None
        methods = next(m for kind, m in _METHODS.items() if isinstance(thing, kind))
        if written_into(frame, name) not in methods:
            return None
        key = (id(link), name)
        grown = self._grown.get(key)
        if grown is None:
            grown = self._grown[key] = _Grown(link, name, thing)

        line = line_of(frame)

        def add(method: str, args: tuple, kwargs: dict):
            if method in ("extend", "extendleft") and len(args) == 1:
                args = (list(args[0]),)  # a generator gives its items once
            getattr(thing, method)(*args, **kwargs)  # an error is the user's
            if kwargs or (method == "update" and not args):
                grown.is_read = True
            else:
                grown.additions.append((method, args, line))

        return Growing(add)

    def grown_by_now(self) -> set[tuple]:
        """The attributes, by link and name, to whose containers the call has added."""
        return {key for key, grown in self._grown.items() if grown.additions or grown.is_read}

    def collect_growth(self) -> None:
        """The call is over: what it has added is what replays add; else it is dynamic."""
        for key, grown in self._grown.items():
            reason = self._why_not_again(key, grown)
            for method, args, line in grown.additions:
                if reason is None and not self._adds(grown, method, args, line):
                    reason = f"something was added to attribute {grown.name!r} that is no result"
                if reason is not None:
                    self.recorder.mark_dynamic(reason, Remedy.PASS_NUMBERS, line=line)
                    break
            self._settle_grown(grown)
            if reason is None:
                self.trace.grown[key] = type(grown.thing)
        # Who holds a result is counted from here on.
        for grown in self._grown.values():
            grown.before = None
            grown.additions = []
            self.recorder.outside.references.held(grown.thing)

    def _why_not_again(self, key: tuple, grown: _Grown) -> str | None:
        found = f"what attribute {grown.name!r} holds changed during the call"
        if (
            self.recorder.attributes.opened
            or grown.is_read
            or key in self.recorder.contents.looked_into
            or key in self.recorder.attributes.written
        ):
            return found
        if grown.link.__dict__.get(grown.name) is not grown.thing or not grown.is_explained():
            return found
        return None

    def _adds(self, grown: _Grown, method: str, args: tuple, line: str) -> bool:
        """Note an addition for replays; False where they cannot make what is added."""
        parts = _parts(method, args)
        if parts is None or holds_itself(parts) or not all(map(self._may_be_made, parts)):
            return False
        value = self.recorder.kept.template_of(
            args,
            lambda x: (
                self.values.of_array(x) if is_traced(x) else self.recorder.outside.value_of(x)
            ),
        )
        self.recorder.kept.hold_more(_stored(method, args), line)
        sink = GrowthSink(grown.link.__dict__, grown.name, method, len(self.trace.stores))
        self.trace.stores.append(Store(sink, value))
        return True

    def _settle_grown(self, grown: _Grown) -> None:
        """Let plain numbers and arrays take the place of those that the trace has followed."""
        added = {id(x) for method, args, _ in grown.additions for x in _stored(method, args)}
        thing = grown.thing
        for place, x in list(thing.items() if isinstance(thing, dict) else enumerate(thing)):
            if id(x) in added and not holds_itself(x) and _is_followed(x):
                self.recorder.kept.settle_later(functools.partial(thing.__setitem__, place), x)

    def _may_be_made(self, thing) -> bool:
        """Whether replays may make it: a number, a result of the call, a tuple of these."""
        if type(thing) is tuple:
            return all(map(self._may_be_made, thing))
        if isinstance(thing, chainer.Variable):
            _, value = self.values.variables.get(id(thing._node), (None, None))
            return value is not None and value.kind == RESULT
        if isinstance(thing, ARRAYS) or is_traced(thing):
            return getattr(getattr(thing, "origin", None), "kind", None) == RESULT
        return is_constant(thing) or type(thing) in FOLLOWED


def _parts(method: str, args: tuple) -> list | None:
    """What is added, one by one; None where replays would not make the same of it."""
    if method == "clear":
        return []
    if method == "__setitem__" and not _is_key(args[0]):
        return None
    last = args[-1]
    if method in ("extend", "extendleft"):
        return last
    if method == "update" and type(last) is not dict:
        return None
    if type(last) not in (list, dict):
        return [last]
    if type(last) is list:
        return last
    return list(last.values()) if all(map(_is_key, last)) else None


def _is_key(thing) -> bool:
    return all(map(_is_key, thing)) if type(thing) is tuple else type(thing) in _KEYS


def _is_followed(thing) -> bool:
    """Whether there is something in `thing` that only traced calls make."""
    if isinstance(thing, dict):
        thing = list(thing.values())
    if isinstance(thing, (list, tuple)):
        return any(map(_is_followed, thing))
    return type(thing) in FOLLOWED or holds_traced(thing)


def _stored(method: str, args: tuple) -> list:
    """What lies in the container afterwards."""
    last = args[-1] if args else ()
    if method == "update" and type(last) is dict:
        return list(last.values())
    return last if method in ("extend", "extendleft") else [last]
