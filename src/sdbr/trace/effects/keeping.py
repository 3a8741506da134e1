"""Lists and dicts that a call leaves in places: one that it puts into two stays one.

Each gets one template, whichever places it lies in, so that replays make it once. What the traced
call itself leaves behind are its own containers, with plain arrays and numbers in them.
"""

from __future__ import annotations

import collections
import gc
import sys
from collections.abc import Callable

from sdbr.base.reasons import Remedy
from sdbr.trace.code.rebuilding import can_be_rebuilt, rebuild
from sdbr.trace.structure import plain_key
from sdbr.trace.values import Trace

_MUTABLE = (list, dict)


class Kept:
    """The part of the recorder that knows which containers the call leaves where."""

    def __init__(self, recorder):
        self.recorder = recorder
        self.trace = recorder.trace
        self._originals: dict[int, object] = {}  # by id: containers that the call leaves somewhere
        self._templates: dict[int, object] = {}  # by the same id: what replays make them of
        self._holders: collections.Counter = collections.Counter()  # of these: places, by id
        self._lines: dict[int, str] = {}
        self._to_settle: list[tuple] = []

    def template_of(self, thing, change: Callable):
        """`thing` with `change` applied to what is no container: one template for each container.

        To be called once for each place that holds `thing`.
        """
        if not isinstance(thing, (list, tuple, dict)):
            return change(thing)
        key = id(thing)
        self._holders[key] += 1
        if key not in self._templates:
            items = (
                {plain_key(k): self.template_of(x, change) for k, x in thing.items()}
                if isinstance(thing, dict)
                else [self.template_of(x, change) for x in thing]
            )
            self._originals[key] = thing
            if can_be_rebuilt(thing):
                self._templates[key] = rebuild(thing, items)
            else:
                self._templates[key] = items
                text = f"a {type(thing).__qualname__} that the call returns or assigns is more than"
                self.recorder.mark_dynamic(f"{text} its items", Remedy.RETURN_OTHER)
        return self._templates[key]

    def hold_more(self, things: list, line: str) -> None:
        """Each of `things` lies in one more place that is known, and was put there in `line`."""
        for x in things:
            if isinstance(x, _MUTABLE):
                self._holders[id(x)] += 1
                self._lines.setdefault(id(x), line)

    def settle_later(self, put: Callable, thing) -> None:
        """Let a place hold plain things when all places have been looked at.

        Parameters
        ----------
        put : callable
            Takes what is to lie in the place.
        thing : object
            What lies there now.
        """
        self._to_settle.append((put, thing))
        self._holders[id(thing)] += 1

    def settle(self, plain: Callable) -> None:
        """Put what define-by-run has into all places; `plain` gives that of a thing."""
        for put, thing in self._to_settle:
            found = plain(thing)
            if found is not thing:
                put(found)
        self._to_settle = []

    def check_holders(self, containers: dict, given: dict) -> None:
        """A container that somebody else holds as well makes the call dynamic.

        Replays would put another one into the places of the call. It was there before the call, or
        the call has given it to somebody whom nobody watches.

        Parameters
        ----------
        containers : dict
            Those in the result, by id, which it holds.
        given : dict
            What the call was given as arguments, by id.
        """
        if self._kept_elsewhere(containers):
            gc.collect()  # inner functions that name each other hold each other until then
        for key in self._kept_elsewhere(containers):
            what = f"a {type(self._originals[key]).__name__} that the call returns or assigns"
            where = "is one of its arguments" if key in given else "is kept elsewhere as well"
            line = self._lines.get(key) or None
            self.recorder.mark_dynamic(f"{what} {where}", Remedy.KEEP_A_COPY, line=line)
        self._originals, self._templates = {}, {}
        self.trace.shared = sharing(self.trace)

    def _kept_elsewhere(self, containers: dict) -> list[int]:
        """Containers with more references than those of the places that are known."""
        things = [x for x in self._originals.values() if isinstance(x, _MUTABLE)]
        things.append([])
        *counts, of_one = [sys.getrefcount(x) for x in things]
        return [
            id(x)
            for x, n in zip(things, counts, strict=False)
            # The originals hold each as well.
            if n - of_one - 1 > self._holders[id(x)] + (id(x) in containers)
        ]


def sharing(trace: Trace) -> frozenset[frozenset[tuple]]:
    """The places, by name and path, of each list or dict that a call leaves in more than one."""
    places: dict[int, set] = {}

    def walk(thing, path: tuple) -> None:
        if not isinstance(thing, (list, tuple, dict)):
            return
        if not isinstance(thing, tuple):
            known = places.setdefault(id(thing), set())
            known.add(path)
            if len(known) > 1:
                return
        for key, x in thing.items() if isinstance(thing, dict) else enumerate(thing):
            walk(x, (*path, key))

    walk(trace.result, ("result",))
    for write in trace.writes:
        walk(write.value, (id(write.link), write.name))
    for n, store in enumerate(trace.stores):
        # Another Variable, and another key, in each trace.
        walk(store.value, store.sink.key if store.target is None else (n, store.sink.name))
    return frozenset(frozenset(paths) for paths in places.values() if len(paths) > 1)
