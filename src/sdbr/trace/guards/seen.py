"""What a call was seen to read, as a condition of its schedule."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sdbr.base.failures import is_of_ours
from sdbr.base.reasons import Remedy
from sdbr.devices.arrays import ARRAYS
from sdbr.trace.guards.moving import let_move, let_stay, may_move, moved
from sdbr.trace.guards.replayed import (
    arrays_read,
    fields_in,
    place_at,
    places_written,
    values_used,
)
from sdbr.trace.guards.untold import untold
from sdbr.trace.values import OF_VARIABLES, Trace
from sdbr.trace.watch._looks import is_a, is_atom
from sdbr.trace.watch.fingerprints import CONTAINERS, Same
from sdbr.trace.watch.reads import FACTS, Guard, Reads, is_ours, value_print
from sdbr.trace.watch.sources import MISSING, Source

import chainer
import numpy as np

_SCALARS = (int, float, str, bool, bytes, complex, type(None), np.generic)
#: What conditions by name tell of in attributes of links.
_TOLD = (int, float, str, chainer.Link, chainer.Variable, *ARRAYS)
#: What the call writes to them is looked at elsewhere.
_WATCHED = (chainer.Link, chainer.LinkHook, chainer.Variable, chainer.UpdateRule)
_LINKS, _HOOKS, _PARAMETERS = (chainer.Link,), (chainer.LinkHook,), (chainer.Parameter,)
#: Whose members are compared, in links.
_COUNTED = frozenset({"_params", "_children", "_layers"})
#: Sources of what the key of a call tells of.
_GIVEN = ("given", "argument", "keyword")


class Change:
    """Something that a call reads and has changed itself.

    Attributes
    ----------
    name : str
    found, left : object
        What was there before, and what is there now, as `==` compares them.
    may_return : bool
        Whether replays write it as well, so that what was there may come back.
    """

    __slots__ = ("found", "left", "may_return", "name")

    def __init__(self, name: str, found: Any, left: Any, may_return: bool):
        self.name, self.found, self.left, self.may_return = name, found, left, may_return

    def follows(self, other: Change) -> bool:
        """Whether the call found there what a call before it had left."""
        return self.found == other.left


class Seen:
    """What a call was seen to read, apart from what is read anew or told by other conditions.

    Parameters
    ----------
    reads : Reads
        Of the call, which is over.
    trace : Trace
    given : tuple
        ``(args, kwargs)`` of the caller.
    callables : list of (str, object)
        Those among the arguments: the key tells which they are, and not what they read.
    arrays : dict of int to Value
        The values of arrays, by their ids.

    Attributes
    ----------
    changed : dict of str to Change
        What the call reads and has changed itself, by its path.
    places : set of tuple
        Where what was read is compared: dictionaries by identity, and names.
    disturbed : str or None
        In whose place another thread, which traces a call as well, has put something meanwhile.
    compared : list of (Source, Source, bool)
        An array or Variable from outside, an argument, and whether they are one.
    lost : list of str
        What the call leaves in objects, or objects that it leaves, of which nobody knows where the
        next call gets them from.
    untold : list of str
        Attributes of arguments that it reads, and that the key does not tell of.
    """

    def __init__(self, reads: Reads, trace: Trace, given: tuple, callables: list, arrays: dict):
        reads.settle(*given)
        self._reads = reads
        self._left_out: set[int] = set()
        self.changed: dict[str, Change] = {}
        self.places: set[tuple] = set()
        self.disturbed: str | None = None
        self.lost: list[str] = []
        self.untold: list[str] = []
        known = _known(reads, given, callables)
        values = reads.things(*given)
        written, (frozen, copied) = places_written(trace), arrays_read(trace)
        places = [(id(fields_in(values[w[0].number])), w[2]) for w in reads.written]
        let_stay(trace.followed.values(), set(places) - written)
        let_move(reads.guards, trace.moving)
        self._leave_out(trace, known, values)
        self.compared = [
            (other, one, guard.want) if known[one.number] else (one, other, guard.want)
            for guard, one, other in ((g, g.source, g.key) for g in reads.compared)
            if known[one.number] != known[other.number] and _is_array(values[one.number])
        ]
        copied.update(i for i, value in arrays.items() if value.index in trace.fixed)
        used = values_used(trace)
        read_anew = frozen.union(i for i, value in arrays.items() if value.index in used)
        reads.let_move(read_anew.__contains__)
        for guard in reads.guards:
            if id(guard) not in self._left_out:
                self._settle(guard, values, written)
        for source in dict.fromkeys(g.source for g in reads.guards if g.kind == "value"):
            thing = values[source.number]
            if known[source.number]:
                continue
            if id(thing) in frozen:
                reads.add(source, "identity", None, Same(thing))
            if id(thing) in copied:
                reads.add(source, "numbers", None, FACTS["numbers"][0](thing, None))
        self._settle_stores(trace, values)
        for source, thing in reads.changed:
            if not (known[source.number] or id(thing) in written or source.is_cache):
                self._never(str(source))
        if trace.dynamic is None:
            self._keep_what_is_left(values, written, known)
            self.untold = untold(reads, known, values)
        self._make()

    def _leave_out(self, trace: Trace, known: list, values: list) -> None:
        """What is read anew, and what other conditions tell of."""
        live = {(id(s.holder), s.attribute) for s in trace.scalars if hasattr(s, "holder")}
        live |= {
            (id(read.link.__dict__), read.name)
            for read in trace.reads
            if (id(read.link), read.name) in trace.followed
        }
        is_told = [x or y for x, y in zip(known, self._settings_at(values), strict=True)]
        noted = {
            (id(r.link), r.name)
            for r in trace.reads
            if r.value is None or isinstance(r.value, _TOLD) or is_constant(r.value)
        }
        noted |= trace.grown.keys()
        noted |= {(id(r.link), r.name) for r in trace.reads if r.name in _COUNTED}
        noted |= {(i, "_local_link_hooks") for i, name in noted if name == "_n_local_link_hooks"}
        asked = set(map(id, self._reads.compared))
        for guard in self._reads.guards:
            if (
                guard.kind == "environment"
                or is_told[guard.source.number]
                or (guard.kind == "is" and known[guard.key.number])
                or (id(guard) not in asked and _is_of_links(guard, values, noted))
            ):
                self._left_out.add(id(guard))
            elif live or guard.kind == "value":
                place = place_at(guard.source, values)
                if place in live:
                    self._left_out.add(id(guard))
                elif guard.kind == "value":
                    self.places.add(place)

    def _settings_at(self, values: list) -> Iterator[bool]:
        """Whether at each source lies an entry of the configuration: these are part of the key."""
        settings = _settings()
        found = [id(x) in settings for x in values]
        for source in self._reads.sources:
            yield found[source.number] or (
                source.parent is not None and found[source.parent.number]
            )

    def _settle(self, guard: Guard, values: list, written: set) -> None:
        """The call is over: does it hold?"""
        thing = values[guard.source.number]
        if not _holds(guard, values):
            if guard.source.is_cache:
                self._left_out.add(id(guard))
                return
            places = {place_at(guard.source, values), (id(fields_in(thing)), guard.key)}
            if guard.kind == "is":
                places.add(place_at(guard.key, values))
            name, returns = str(guard), not written.isdisjoint(places)
            self.changed[name] = Change(name, guard.found(), guard.now(values), returns)
        if not is_ours(thing):
            guard.is_ours = False
        elif is_a(thing, ARRAYS):  # of another thread that traces a call
            self.disturbed = str(guard)

    def _settle_stores(self, trace: Trace, values: list) -> None:
        """Replays write to these very objects, and leave these very objects there."""
        for store in trace.stores:
            for source, thing in store.same:
                if not source.leads_there or values[source.number] is not thing:
                    self.lost.append(store.sink.name)
                else:
                    self._reads.add(source, "identity", None, Same(thing))

    def _keep_what_is_left(self, values: list, written: set, known: list) -> None:
        """Where the call has written, and no replay does, what it has left has to lie before one.

        It may have written what was there, or have put that back.
        """
        done, settings = set(), _settings()
        moved = {id(thing) for _, thing in self._reads.changed}
        for source, kind, key, home in list(self._reads.written):
            holder = values[source.number]
            if known[source.number] or id(holder) in moved:
                continue
            fields = fields_in(holder)
            if source.is_cache or not settings.isdisjoint(map(id, (holder, fields))):
                continue
            is_told = is_a(holder, _WATCHED)
            is_item = kind == "item" and is_a(holder, CONTAINERS)
            name = key if type(key) is str else None
            place = (id(holder), kind, key) if is_item and name is None else (id(fields), name)
            if place in done or place in written or id(holder) in written:
                continue
            done.add(place)
            if kind == "*" and is_a(holder, CONTAINERS):
                self._reads.add(source, "contents", None, FACTS["contents"][0](holder, None))
            elif is_item or name is not None or kind == "cell":
                kind = "asked" if is_a(holder, (chainer.Variable,)) else kind  # its name
                self._keep(Source(kind, source, key), home, values, is_told)

    def _keep(self, left: Source, home: Source | None, values: list, is_told: bool) -> None:
        """What the call has left there is what it will leave there the next time; `is_told`: where
        others look at it, unless it was there before."""
        thing = left.step(values[left.parent.number], left.key, ((), {}))
        is_plain = thing is MISSING or is_atom(thing)
        if is_told and not is_plain:
            return
        if not is_plain and (home is None or values[home.number] is not thing):
            self._never(str(left))  # made by the call, and another one in each
        elif is_plain or (home.parent, home.key) != (left.parent, left.key):
            self._reads.add_source(left)
            values.append(thing)
            self._reads.add(left, "value", None, value_print(thing))
            if not is_plain:  # whatever that will be
                self._reads.add(left, "is", home, True)

    def _never(self, name: str) -> None:
        self.changed[name] = Change(name, None, None, False)

    def _make(self) -> None:
        self.checks = self._reads.without(lambda guard: id(guard) in self._left_out, waits=2)

    def forget_changes(self) -> None:
        """Let what the call has changed itself be as it is: the call is not replayed anyhow."""
        self._left_out |= {id(guard) for guard in self._reads.guards if str(guard) in self.changed}
        self._make()

    def failed(self) -> Guard | None:
        """The first that does not hold; None if all do."""
        return self.checks.check((), {})

    def moved(self, known: set[str]) -> set[str]:
        """Where numbers lie that are others by now, if one of which that is not known has moved."""
        failed = self.failed()
        if failed is None or str(failed.source) in known or not may_move(failed):
            return set()
        left = [guard for guard in self._reads.guards if id(guard) not in self._left_out]
        return moved(left, self._reads.things((), {}), self.changed)

    def asked(self) -> list[tuple[Source, list[Guard]]]:
        """Where the call has looked, parents first, and what is compared there."""
        guards: dict[int, list] = {source.number: [] for source in self._reads.sources}
        for guard in self._reads.guards:
            if id(guard) not in self._left_out:
                guards[guard.source.number].append(guard)
        return [(source, guards[source.number]) for source in self._reads.sources]


def what_was_seen(recorder, given: tuple, callables: list) -> Seen | None:
    """What a call was seen to read; what nobody can compare makes it dynamic.

    Parameters
    ----------
    recorder : Recorder
        Of the call, which is over.
    given, callables :
        See `Seen`.
    """
    reads, trace = recorder.reads, recorder.trace
    for text, line in reads.dynamic:
        recorder.mark_dynamic(f"the call {text}", Remedy.DO_OUTSIDE, line=line)
    try:
        seen = Seen(reads, trace, given, callables, recorder.values.arrays_known())
    except Exception as failure:
        if not is_of_ours(failure):  # of a signal
            raise
        text = f"what the call reads cannot be compared: {type(failure).__name__}: {failure}"
        recorder.mark_dynamic(text, Remedy.DO_OUTSIDE, line="")
        return None
    for name in seen.lost:
        text = f"the call sets {name!r}, and what it sets there, or where, no later call can find"
        recorder.mark_dynamic(text, Remedy.RETURN_IT, line=recorder.outside.stores.line_of(name))
    for name in seen.untold:
        text = f"the call reads {name!r}, which its user has put on an argument"
        recorder.mark_dynamic(text, Remedy.COMPUTE_OUTSIDE, line="")
    for place, argument, is_one in seen.compared:
        recorder.captured.compares(place, argument, is_one)
    recorder.outside.changed_elsewhere = recorder.outside.changed_elsewhere or seen.disturbed
    return seen


def _is_array(thing) -> bool:
    return is_a(thing, (chainer.Variable, *ARRAYS))


def _holds(guard: Guard, values: list) -> bool:
    try:
        return guard.holds(values)
    except Exception as error:
        if not is_of_ours(error):  # of a signal
            raise
        return False


def _known(reads: Reads, given: tuple, callables: list) -> list[bool]:
    """Whether each source is an argument, or was reached from one, that the key tells of."""
    known: list[bool] = []
    for source in reads.sources:
        parent = source.parent
        if source.kind not in _GIVEN and (parent is None or not known[parent.number]):
            known.append(False)
            continue
        thing = None if source.kind == "given" else source.get(*given)
        known.append(not any(thing is x for _, x in callables))
        if not known[-1]:
            reads.bind(source, thing)
    return known


def is_constant(thing) -> bool:
    """Whether `thing` cannot change in place: a tuple of numbers, texts and the like."""
    if type(thing) is tuple:
        return all(map(is_constant, thing))
    return isinstance(thing, (*_SCALARS, type, np.dtype))


def _is_of_links(guard: Guard, values: list, noted: set) -> bool:
    """Whether other conditions tell of it: parameters, what is read of links, their own methods."""
    source = guard.source
    thing = values[source.number]
    if is_a(thing, _PARAMETERS) and guard.kind != "value":
        return guard.kind not in _OF_ONE_NAME or guard.key in _OF_PARAMETERS
    if source.parent is None:
        return False
    holder = values[source.parent.number]
    if is_a(holder, _PARAMETERS):
        return source.key in _OF_PARAMETERS
    if is_a(holder, _HOOKS):
        return True  # those that are known; the others make a call dynamic
    if not is_a(holder, _LINKS) or source.kind != "attribute":
        return False
    return (id(holder), source.key) in noted


#: Facts about one attribute.
_OF_ONE_NAME = frozenset({"attribute", "hasattr", "field"})
#: What a parameter of Chainer's has, but for what only people read.
_OF_PARAMETERS = OF_VARIABLES.union(*map(vars, chainer.Parameter.__mro__)) - {"name"}


def _settings() -> frozenset:
    local = chainer.config._local
    return frozenset(map(id, (chainer.config, chainer.global_config, local, local.__dict__)))
