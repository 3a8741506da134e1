"""What must still hold of all that a traced call read, compared before each replay."""

from __future__ import annotations

import copy
import operator
from typing import Any

from sdbr.compat import LINK_VERSION
from sdbr.devices.arrays import ARRAYS
from sdbr.trace._node_copies import inner_function
from sdbr.trace.arrays._scalars import ScalarArgument, lies_outside, written_by
from sdbr.trace.code._library import is_library, stands_in
from sdbr.trace.code.reading import behind
from sdbr.trace.guards._definitions import Definitions
from sdbr.trace.guards._held import (
    MISSING,
    Conditions,
    Given,
    is_array_like,
    is_equal,
    is_met,
    is_same,
    is_variable_like,
)
from sdbr.trace.guards._versions import Dicts
from sdbr.trace.guards.layouts import layout_conditions
from sdbr.trace.guards.link_hooks import hooks_of
from sdbr.trace.guards.seen import Change, Seen, is_constant
from sdbr.trace.nodes import METHODS
from sdbr.trace.values import ABSENT, Trace
from sdbr.trace.watch.fingerprints import CONTAINERS, shallow
from sdbr.trace.watch.reads import contents

import chainer
import numpy as np


class Guards:
    """The conditions under which a schedule may be replayed.

    *Volatile* conditions (captured Variables and arrays, None, containers)
    are checked at every call: a replay itself changes them. *Stable* ones
    (numbers, strings, identity of parameters and child links) are checked
    only when some link was written to since the last time.
    """

    def __init__(self, trace: Trace, seen: Seen | None = None):
        self.volatile = Conditions()
        self.stable = Conditions()
        self.version: int | None = None  # what the traced call wrote has to be looked at, too
        # Whoever writes to the dictionary of a link itself is not counted by that version.
        self.dicts: Dicts | None = None
        self._busy = {id(write.link.__dict__) for write in trace.writes}
        self.seen: Seen | None = None
        self.failed = ""
        self._broken: tuple | None = None
        # What the traced call reads and has changed itself, by place.
        self.changed: dict[Any, Change] = {}
        self.definitions = Definitions(_methods_of(trace), [], [])
        self.on_floats: list = []
        self.comparisons = {repr(condition) for condition in trace.conditions}
        self._written = {(id(write.link), write.name) for write in trace.writes}
        self._watch_floats(trace)
        places = set() if seen is None else seen.places
        for read in trace.reads:
            self._watch_read(read, trace, places)
        if trace.classes:
            self.stable.add(Given(trace.classes), "__class__", _have_classes, None)
        for place, thing, itself in trace.places:
            if itself:
                self.volatile.add(place, place.label, is_same, thing)
            else:
                self.volatile.add(place, place.label, is_variable_like, _kind_of(thing))
        for sources in trace.aliases:
            self.volatile.add(Given(sources), sources[1][1], _are_one, None)
        for condition in layout_conditions(trace):
            self.volatile.add(*condition)

    def _watch_read(self, read, trace: Trace, places: set) -> None:
        """The condition on one attribute that the call has read; `places`: see `Seen`."""
        value, d, name = read.value, read.link.__dict__, read.name
        if value is ABSENT:
            self.stable.add(d, name, _is_absent, None)
        elif value is None:
            # Whoever writes an attribute past the link, as a replay does, counts up when the
            # kind of its value changes.
            self.stable.add(d, name, _is_none, None)
        elif name == "_n_local_link_hooks":
            self._watch_hooks(read)
        elif name in _COUNTED_LISTS and isinstance(value, list):
            self.stable.add(d, name, _is_same_list, list(value))
        elif isinstance(value, (chainer.Parameter, chainer.Link)):
            self.stable.add(d, name, is_same, value)
        elif isinstance(value, chainer.Variable):
            self.volatile.add(d, name, is_variable_like, _kind_of(value))
        elif isinstance(value, ARRAYS):
            self.volatile.add(d, name, is_array_like, (value.shape, value.dtype))
        elif name in _COUNTED_SETS and isinstance(value, (set, frozenset)):
            self.stable.add(d, name, _is_same_set, set(value))
        elif _may_change(trace.followed.get((id(read.link), name))):
            if (id(read.link), name) in self._written:  # each replay writes it
                self.volatile.add(d, name, _is_of_type, type(value))
            else:
                self.stable.add(d, name, _is_of_type, type(value))
        elif isinstance(value, (int, float, str, bool)):
            changed = (id(read.link), name) in self._written and not is_equal(d.get(name), value)
            if changed and trace.dynamic is not None:
                return  # it will be another in the next call, which is no less dynamic
            self.stable.add(d, name, is_equal, value)
            if changed:
                change = Change(name, shallow(value), shallow(d.get(name)), True)
                self.changed[id(d), name] = change
        elif is_constant(value):
            self.stable.add(d, name, _is_alike, shallow(value))
        elif (id(read.link), name) in trace.grown:
            self.stable.add(d, name, _is_of_type, trace.grown[id(read.link), name])
        elif is_library(type(value)) and not isinstance(value, CONTAINERS):
            self.stable.add(d, name, is_same, value)
        elif (id(d), name) not in places:  # nobody has seen what was read of it
            self.volatile.add(d, name, _holds, contents(value))

    def _watch_hooks(self, read) -> None:
        """The hooks of a link are the same, and so are the numbers that they hold."""
        hooks = hooks_of(read.link)
        self.stable.add(read.link.__dict__, "_local_link_hooks", _has_hooks, hooks)
        for hook in hooks:
            numbers = _numbers(hook.__dict__)
            self.volatile.add(Given(hook), read.name, _has_fields, numbers)

    def watch_seen(self, seen: Seen | None) -> None:
        """Look at what the call was seen to read."""
        self.seen = seen
        self.changed.update({} if seen is None else seen.changed)
        for change in self.changed.values():
            if not change.may_return:
                self.volatile.add(Given(None), change.name, _is_never_so, None)

    def again(self) -> Guards:
        """The same for another schedule of the same code."""
        other = copy.copy(self)
        other.version = other.dicts = other._broken = None
        other.failed = ""
        return other

    def forget_changes(self) -> None:
        """Let what the call has changed itself be as it is: the call is not replayed anyhow."""
        self.volatile, self.stable = self.volatile.met(), self.stable.met()
        if self.seen is not None:
            self.seen.forget_changes()

    def watch_contents(self, array: np.ndarray) -> None:
        """Let the conditions fail when `array` no longer has its present contents."""
        self.volatile.add(Given(array), "array", _has_contents, array.tobytes())

    def _watch_floats(self, trace: Trace) -> None:
        """Conditions on floats that are not looked up by name: arguments, comparisons."""
        self.floats = []
        self._used_at: dict[str, str] = {}  # the numbers that have to stay: where that is so
        for i, x in enumerate(trace.floats):
            scalar = trace.followed.get(i)
            name = trace.float_names[i] if scalar is None else scalar.name
            self.floats.append((None if _may_change(scalar) else repr(x), name))
            if scalar in trace.left_at:
                self._used_at[name] = trace.left_at[scalar]
        for condition in trace.conditions:
            if any(type(r) is ScalarArgument for s in condition.scalars for r in s.roots):
                self.on_floats.append(condition)
            elif lies_outside(condition) or written_by(condition, self._written):
                self.volatile.add(Given(condition), repr(condition), _comes_out, None)
            else:
                self.stable.add(Given(condition), repr(condition), _comes_out, None)

    def accept(self, floats) -> bool:
        """Whether the floats among the arguments may be these."""
        # Of a call that was dynamic before it began, none has been noted.
        for x, (want, name) in zip(floats, self.floats, strict=bool(self.floats)):
            if want is not None and repr(x) != want:
                self.failed = f"{name}: {want} -> {x!r}"
                return False
        for condition in self.on_floats:
            if not condition.holds(floats):
                self.failed = repr(condition)
                return False
        return True

    def failure(self) -> tuple:
        """What no longer held when they were last compared, and roughly what is there now."""
        if self._broken is None or self._broken[-1] != self.failed:
            return (self.failed,)
        holder, name, *_ = self._broken
        return self.failed, _shown(holder.get(name))

    @property
    def failed_comparison(self) -> bool:
        """Whether what no longer held was a comparison of numbers."""
        return self.failed in self.comparisons

    def describe_failure(self) -> str:
        """What no longer held when they were last compared."""
        if self.failed.startswith("argument "):
            line = self._used_at.get(self.failed.partition(":")[0])
            return f"{self.failed} (used as it is at {line})" if line else self.failed
        if self.failed_comparison:
            return f"comparison {self.failed}, which came out differently"
        return f"{self.failed!r}, an attribute or a variable that the call reads"

    def hold(self) -> bool:
        """Whether every condition holds now, apart from those on arguments."""
        if self._broken is not None:  # what did not hold the last time, most likely still
            if not is_met(self._broken):
                self.failed = self._broken[-1]
                return False
            self._broken = None
        if (failed := self.definitions.failed()) is not None:
            self.failed = failed
            return False
        if (broken := self.volatile.failed()) is not None:
            self.note(broken)
            return False
        version = LINK_VERSION[0]
        if version != self.version or self.dicts is None or self.dicts.moved():
            looked_up = [(d, name) for d, name, *_ in self.stable.given if type(d) is dict]
            dicts = Dicts(looked_up, self._busy)
            if (broken := self.stable.failed()) is not None:
                self.note(broken)
                return False
            self.version, self.dicts = version, dicts
        return self.seen_holds()

    def seen_holds(self) -> bool:
        """Whether what the call was seen to read is as it was."""
        failed = None if self.seen is None else self.seen.failed()
        if failed is not None:
            self.failed, self._broken = str(failed), None
        return failed is None

    def moved(self, known: set[str]) -> set[str]:
        """Where numbers lie that are others by now: see `Seen.moved`; names of those of links."""
        found = set() if self.seen is None else self.seen.moved(known)
        for d, name, check, want, *_ in self.stable.given:
            if check is is_equal and type(want) is type(d.get(name)) is int and d[name] != want:
                found.add(name)
        return found

    def note(self, condition: tuple) -> None:
        """`condition`, with the name of its place at the end, does not hold."""
        self.failed, self._broken = condition[-1], condition


_SCALARS = (int, float, str, bool)
# Children of chain lists: their methods count up when they change.
_COUNTED_LISTS = ("_children", "_layers")
# Names of parameters and children: registering one is an attribute write.
_COUNTED_SETS = ("_params", "_children")


def _methods_of(trace: Trace) -> list[tuple[dict, str, Any]]:
    """Where the methods of the function nodes of a trace are found, which are not watched."""
    nodes = [node.function for node in trace.nodes if node.function is not None]
    classes = {type(inner_function(node) or node): None for node in nodes}
    bases = {base: behind(base.__dict__) for cls in classes for base in cls.__mro__[:-1]}
    return [
        (members, name, members.get(name))
        for members in bases.values()
        for name in METHODS
        if not stands_in(members.get(name))
    ]


def _shown(thing):
    """What tells numbers and shapes apart; of other things only their types are compared."""
    if isinstance(thing, _SCALARS):
        return repr(thing)
    array = thing._data[0] if isinstance(thing, chainer.Variable) else thing
    # Not `getattr`: code of a user's class would run, and may raise anything.
    return type(thing), array.shape if isinstance(array, ARRAYS) else None


def _is_never_so(thing, want) -> bool:
    return False


def _may_change(scalar) -> bool:
    return scalar is not None and not scalar.keyed


def _is_of_type(thing, want) -> bool:
    return type(thing) is want


def _comes_out(condition, want) -> bool:
    return condition.holds(())


def _is_absent(thing, want) -> bool:
    return thing is MISSING


def _is_alike(thing, want) -> bool:
    return shallow(thing) == want


def _holds(thing, want) -> bool:
    return contents(thing) == want


def _is_none(thing, want) -> bool:
    return thing is None


def _has_hooks(thing, want) -> bool:
    hooks = () if thing is MISSING or thing is None else tuple(thing.values())
    return len(hooks) == len(want) and all(map(operator.is_, hooks, want))


def _are_one(sources, want) -> bool:
    one, other = (holder.__dict__.get(name) for holder, name in sources)
    return one is other


def _have_classes(links, want) -> bool:
    return all(type(link) is cls for link, cls in links)


def _is_same_set(thing, want) -> bool:
    return isinstance(thing, (set, frozenset)) and thing == want


def _kind_of(variable) -> tuple | None:
    array = variable._data[0]
    return None if array is None else (array.shape, array.dtype, variable.requires_grad)


def _has_contents(thing, want) -> bool:
    return thing.tobytes() == want


def _is_same_list(thing, want) -> bool:
    return (
        isinstance(thing, list) and len(thing) == len(want) and all(map(operator.is_, thing, want))
    )


def _numbers(fields: dict) -> dict:
    return {k: x for k, x in list(fields.items()) if isinstance(x, _SCALARS)}


def _has_fields(thing, want) -> bool:
    fields = getattr(thing, "__dict__", None)
    if type(fields) is not dict:
        return False
    numbers = _numbers(fields)
    return numbers.keys() == want.keys() and all(is_equal(numbers[k], want[k]) for k in want)
