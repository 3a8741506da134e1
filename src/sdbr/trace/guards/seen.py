"""What a call was seen to read, as a condition of its schedule."""

from __future__ import annotations

from typing import Any

from sdbr.base.failures import is_of_ours
from sdbr.base.reasons import Remedy
from sdbr.trace.values import OF_VARIABLES, Trace
from sdbr.trace.watch._following import is_library_class
from sdbr.trace.watch.reads import Guard, Reads
from sdbr.trace.watch.sources import MISSING

import chainer

#: Sources of what the key of a call tells of.
_GIVEN = ("given", "argument", "keyword")


class Seen:
    """What a call was seen to read, apart from what it has written and what is read anew.

    Parameters
    ----------
    reads : Reads
        Of the call, which is over.
    trace : Trace
    given : tuple
        ``(args, kwargs)`` of the caller.
    callables : list of (str, object)
        Those among the arguments: the key tells which they are, and not what they read.
    compared : set of int
        Ids of arrays that other conditions compare.
    """

    def __init__(self, reads: Reads, trace: Trace, given: tuple, callables: list, compared: set):
        reads.settle(*given)
        known = _known(reads, given, callables)
        values = _values(reads, given)
        # Not those that are read anew, as arrays: they may change in place.
        compared = compared - {id(x.source) for x in trace.values}
        live = {(id(s.holder), s.attribute) for s in trace.scalars if hasattr(s, "holder")}
        settings = _settings()
        noted = {(id(read.link), read.name) for read in trace.reads}
        live |= {
            (id(read.link.__dict__), read.name)
            for read in trace.reads
            if (id(read.link), read.name) in trace.followed
        }

        def is_left_out(guard: Guard) -> bool:
            return (
                guard.kind == "environment"
                or known[guard.source.number]
                or (guard.kind == "is" and known[guard.key.number])
                or reads.has_written(guard)
                or (guard.kind == "numbers" and id(values[guard.source.number]) in compared)
                or _is_live(guard, values, live)
                or _is_setting(guard, values, settings)
                or _is_of_links(guard, values, noted)
            )

        self.checks = reads.without(is_left_out, waits=3)

    def failed(self) -> Guard | None:
        """The first that does not hold; None if all do."""
        return self.checks.check((), {})


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
    if reads is None:
        return None
    if reads.unseen is not None:
        trace.unwatched.append(f"what the call reads ({reads.unseen})")
    if reads.unseen is not None or trace.dynamic is not None:
        return None
    for text, line in reads.dynamic:
        recorder.mark_dynamic(f"the call {text}", Remedy.DO_OUTSIDE, line=line)
    try:
        seen = Seen(reads, trace, given, callables, recorder.arrays_compared)
        failed = seen.failed()
    except Exception as failure:
        if not is_of_ours(failure):  # of a signal
            raise
        text = f"what the call reads cannot be compared: {type(failure).__name__}: {failure}"
        recorder.mark_dynamic(text, Remedy.DO_OUTSIDE, line="")
        return None
    if failed is not None:
        text = f"{failed}, which the call reads, is changed by it"
        recorder.mark_dynamic(text, Remedy.DO_OUTSIDE, line="")
    return seen


def _known(reads: Reads, given: tuple, callables: list) -> list[bool]:
    """Whether each source is an argument, or was reached from one, that the key tells of."""
    known: list[bool] = []
    for source in reads.sources:
        if source.kind not in _GIVEN:
            known.append(source.parent is not None and known[source.parent.number])
            continue
        thing = None if source.kind == "given" else source.get(*given)
        known.append(not any(thing is x for _, x in callables))
        if not known[-1]:
            reads.bind(source, thing)
    return known


def _values(reads: Reads, given: tuple) -> list:
    """What lies at each source now."""
    values: list[Any] = []
    for source in reads.sources:
        holder = None if source.parent is None else values[source.parent.number]
        values.append(MISSING if holder is MISSING else source.step(holder, source.key, given))
    return values


def _is_live(guard: Guard, values: list, live: set) -> bool:
    """Whether what the guard is of is a number that each replay reads anew."""
    source = guard.source
    if source.parent is None or type(source.key) is not str:
        return False
    holder = values[source.parent.number]
    fields = holder if type(holder) is dict else getattr(holder, "__dict__", None)
    return (id(fields), source.key) in live


def _is_setting(guard: Guard, values: list, settings: frozenset) -> bool:
    """Whether the guard is of an entry of the configuration, all of which are part of the key."""
    source = guard.source
    parent = source.parent
    return id(values[source.number]) in settings or (
        parent is not None and id(values[parent.number]) in settings
    )


def _is_of_links(guard: Guard, values: list, noted: set) -> bool:
    """Whether other conditions tell of it: parameters, what is read of links, their own methods."""
    source = guard.source
    thing = values[source.number]
    if isinstance(thing, chainer.Parameter) and guard.kind != "value":
        return guard.kind not in _OF_ONE_NAME or guard.key in _OF_PARAMETERS
    if source.parent is None:
        return False
    holder = values[source.parent.number]
    if isinstance(holder, chainer.Parameter):
        return source.key in _OF_PARAMETERS
    if not isinstance(holder, chainer.Link) or source.kind != "attribute":
        return False
    return (id(holder), source.key) in noted or is_library_class(type(holder))


#: Facts about one attribute.
_OF_ONE_NAME = frozenset({"attribute", "hasattr", "field"})
#: What a parameter of Chainer's has, but for what only people read.
_OF_PARAMETERS = OF_VARIABLES.union(*map(vars, chainer.Parameter.__mro__)) - {"name"}


def _settings() -> frozenset:
    local = chainer.config._local
    return frozenset(map(id, (chainer.config, chainer.global_config, local, local.__dict__)))
