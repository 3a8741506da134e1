"""What a call leaves outside its links: in modules, classes, functions, plain objects, Variables.

The places that the user's code may reach are looked at before the call and after it. A result of
the call in one of them is written there by replays as well; so is a number or text. Whatever
else holds a result after the call is found by the references to it.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable

from sdbr.base.reasons import Remedy
from sdbr.devices.arrays import ARRAYS
from sdbr.trace.arrays.stripping import PURE, TRACED, holds_traced, strip
from sdbr.trace.arrays.traced_float import FOLLOWED, TracedFloat, plain_float
from sdbr.trace.code.named import reads_by_name
from sdbr.trace.code.outside import Outside
from sdbr.trace.code.reading import get, place_key, used_names
from sdbr.trace.effects._reads import extras_of
from sdbr.trace.effects.attributes import INTERNAL, may_be_computed
from sdbr.trace.effects.escapes import References
from sdbr.trace.effects.other_threads import changed_elsewhere
from sdbr.trace.effects.sinks import Enclosed, VariableSink, describe, fields_of, sink_of
from sdbr.trace.guards.seen import is_constant
from sdbr.trace.nodes import config_entries
from sdbr.trace.structure import holds_itself
from sdbr.trace.values import ABSENT, CONSTANT, OF_VARIABLES, Store, handed_out

import chainer


class Stores:
    """The places that a call may write, as they are before it.

    Parameters
    ----------
    around : Outside or None
        What the code of the call names; None: nothing is looked at.
    """

    def __init__(self, around: Outside | None = None):
        self.functions = [] if around is None else around.functions
        self._before = [(owner, dict(fields_of(owner))) for owner in _owners(around)]
        loaded: set = set()
        stored: set = set()
        for function in self.functions:
            names = used_names(function.__code__)
            loaded |= names[0]
            stored.update(names[1])
        self._loaded = loaded
        self.stored = frozenset(stored)  # names of places to which the code assigns
        # Draws and type tests are noticed by what stands in their place during the call.
        self._replaced = set()
        if around is not None:
            self._replaced = {place_key(holder, name) for holder, name, _ in around.draws}
            self._replaced |= {place_key(holder, name) for holder, name in around.askers}
        self.changed: dict = {}

    def loads(self, name: str) -> bool:
        """Whether the code may read what lies under `name` anywhere."""
        return name in self._loaded or not self._loaded.isdisjoint({"vars", "__dict__", "globals"})

    def loads_any(self, word: str) -> bool:
        """Whether `word` stands in the code."""
        return word in self._loaded

    def replaces(self, place) -> bool:
        """Whether we have put something there ourselves."""
        return place.key in self._replaced

    def changes(self):
        """``(owner, name, old, new)`` of every place that holds something else by now."""
        for owner, before in self._before:
            now = fields_of(owner)
            for name in {**before, **now}:
                old, new = before.get(name, ABSENT), now.get(name, ABSENT)
                if new is not old and strip(new) is not old and _counts(name):
                    yield owner, name, old, new

    def now(self) -> list:
        """What lies in the places, to be given to `forgive`."""
        return [dict(fields_of(owner)) for owner, _ in self._before]

    def forgive(self, then: list) -> None:
        """What has changed since `then` was changed by code that runs in every replay."""
        for (owner, before), old in zip(self._before, then, strict=True):
            now = fields_of(owner)
            for name in {**old, **now}:
                if now.get(name, ABSENT) is not old.get(name, ABSENT):
                    if name in now:
                        before[name] = now[name]
                    else:
                        before.pop(name, None)

    def line_of(self, name: str) -> str | None:
        """Where the code stores under `name`."""
        for function in self.functions:
            code = function.__code__
            line = used_names(code)[1].get(name)
            if line is not None:
                return f"{code.co_filename}:{line} in {code.co_name}"
        return None


def _is_named(thing) -> bool:
    """Whether it is a function, class or module that can be found by its name, made by no call."""
    if isinstance(thing, types.ModuleType):
        return sys.modules.get(thing.__name__) is thing
    if not isinstance(thing, (type, types.FunctionType, types.BuiltinFunctionType)):
        return False
    found = sys.modules.get(thing.__module__ or "")
    for name in thing.__qualname__.split("."):
        found = get(found, name)
    return found is thing


def _owners(around: Outside | None) -> list:
    if around is None:
        return []
    functions = around.functions
    cells = {
        id(cell): Enclosed(cell, name)
        for f in functions
        for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True)
        if name != "__class__"
    }
    return [
        *around.modules.values(),
        *around.classes,
        *cells.values(),
        *[f.__dict__ for f in functions],
        *around.objects,
    ]


def _counts(name: str) -> bool:
    return not (name[:2] == "__" == name[-2:]) and name not in INTERNAL and name[:5] != "_sdbr"


class StoreRecording:
    """The part of the recorder that finds what the call has left outside."""

    def __init__(self):
        super().__init__()
        self.stores = Stores()
        self.changed_elsewhere: str | None = None  # what another thread has changed meanwhile
        self._extras: dict[int, tuple] = {}  # id -> (Variable, what lay on it, its name)
        self._references = References()

    def note_extras(self, variable) -> None:
        """Note what the user has put on a Variable, when it is first met."""
        if id(variable) not in self._extras:
            self._extras[id(variable)] = (variable._node, extras_of(variable, OF_VARIABLES))

    def count_given(self, given: list) -> None:
        """Note how many references there are to the arguments, and to what stands for globals."""
        # One list and no more: whatever else held them here, and not later, would hide a holder.
        every = list({id(thing): thing for thing in [*given, *self.live_views()]}.values())
        self._references.count(every)

    def collect_stores(self, leaves: list, containers: dict, settle: Callable) -> list:
        """Make stores of what the call has left outside; anything else makes it dynamic.

        Parameters
        ----------
        leaves : list
            The Variables and arrays in what the call returned.
        containers : dict
            Lists, tuples and dicts there, by identity.
        settle : callable
            Called when all that replays leave somewhere is known.

        Returns
        -------
        list of (Variable or ndarray)
            In whose place later calls may find another.
        """
        kept = self._changed_places()
        self.collect_growth()
        self._extras_of_variables()
        settle()
        for name in _changed_config(self._config):
            self.mark_dynamic(
                f"chainer.config.{name} was set during the call",
                Remedy.SET_OUTSIDE,
                line=self.stores.line_of(name),
            )
        self._escaped(leaves, containers)
        self._references = References()  # nothing is kept alive any longer
        return kept

    def _changed_places(self) -> list:
        handled = {(id(w.link), w.name) for w in self.trace.writes}
        kept: list = []
        for owner, name, old, new in list(self.stores.changes()):
            if (id(owner), name) not in handled:
                place = sink_of(owner, name)
                if self.stores.replaces(place):
                    continue  # ours
                if changed_elsewhere(self.stores, owner, name, new):
                    self.changed_elsewhere = describe(owner, name)
                else:
                    self._changed(place, describe(owner, name), old, new, kept)
        return kept

    def _changed(self, place, what: str, old, new, kept: list, target=None) -> None:
        loads = target is None and self.stores.loads(place.name)
        line = self.stores.line_of(place.name)
        if new is ABSENT:
            self.mark_dynamic(f"{what} was deleted during the call", Remedy.RETURN_IT, line=line)
        elif holds_itself(new):
            self.mark_dynamic(
                f"{what} was set to a {type(new).__name__} that holds itself",
                Remedy.RETURN_IT,
                line=line,
            )
        elif _is_tree(new) and self._is_result(new, loads):
            if not self._may_be_another(old, new, loads, kept):
                self.mark_dynamic(
                    f"{what} is read and written by the call", Remedy.RETURN_IT, line=line
                )
                return
            self._references.held(new)
            self.hold_more([new], line)
            value = self.template_of(new, self._value_of)
            self.settle_later(place.put, new)
            self.trace.stores.append(Store(place, value, target))
        elif type(new) in FOLLOWED or is_constant(new):
            if type(new) in FOLLOWED:
                new = self._number(new)
                place.put(new, None)
            self.trace.unconfirmed = self.trace.unconfirmed or may_be_computed(new)
            self.trace.stores.append(Store(place, new, target))
        elif _is_named(new):
            self.trace.stores.append(Store(place, new, target))
        elif loads or (place.is_compared and self._is_read(place)):
            # Another one in every call, which no replay would leave there.
            if holds_traced(new):
                self.settle_later(place.put, new)
            if place.holder is not None:
                self.stores.changed[place.key] = place
        else:
            self.mark_dynamic(
                f"{what} was set to {type(new).__name__} {new!r:.60} during the call",
                Remedy.PASS_NUMBERS,
                line=line,
            )

    def _is_read(self, place) -> bool:
        """Whether an attribute of a plain object is among what the code of the call may read."""
        if self.names_read is None or not reads_by_name(type(place.owner)):
            return True
        return place.name in self.names_read

    def _value_of(self, thing):
        if isinstance(thing, chainer.Variable):
            return self.of_variable(thing)
        if isinstance(thing, ARRAYS):
            return self.of_array(thing)
        return self._number(thing)

    def _number(self, thing):
        """A number of the call as it is; it has to be the same in replays, or be computed there."""
        if self.is_left(thing):
            return thing.origin.value
        if self.shows_scalar(thing):
            thing.origin.must_stay()
        return plain_float(thing)

    def _is_result(self, thing, loads: bool) -> bool:
        """Whether there is something in `thing` that each call makes anew.

        What is made from nothing, and is looked for first, is made only once.
        """
        if self.is_left(thing):
            return True
        if isinstance(thing, dict):
            thing = thing.values()
        if not isinstance(thing, (chainer.Variable, *ARRAYS)):
            return any(self._is_result(x, loads) for x in thing) if _is_iterable(thing) else False
        if not loads:
            return True
        if type(thing) in TRACED:
            return thing.origin is not PURE and getattr(thing.origin, "kind", None) != CONSTANT
        if isinstance(thing, ARRAYS):
            return False
        _, value = self._nodes.get(id(thing._node), (None, None))
        return value is not None and value.kind != CONSTANT

    def _may_be_another(self, old, new, loads: bool, kept: list) -> bool:
        """Whether a later call may find something else of the kind of `old`, which goes to `kept`.

        Not where this call has looked at what it holds, unless it is captured state.
        """
        if isinstance(old, chainer.Variable):
            node, array = id(old._node), old._data[0]
            if node in self._nodes and self.lies_where(old, new):
                kept.append(old)
                return True
            if node in self._nodes or node in self.looked_at or isinstance(old, chainer.Parameter):
                return False
            kept.append(old)
            return self.find_array(array) is None
        if isinstance(old, ARRAYS):
            if loads:
                return False  # NumPy may have read it out of our sight
            kept.append(old)
            return True
        if isinstance(old, dict):
            old = old.values()
        return not _is_iterable(old) or all(self._may_be_another(x, None, loads, kept) for x in old)

    def _extras_of_variables(self) -> None:
        """What the call has put on Variables that it was given or hands out, names included."""
        done: set = set()
        while True:
            every = {x.index for x in handed_out(self.trace)}
            todo = [
                (variable, value)
                for variable, value in self._variables()
                if id(variable) not in done
                and (id(variable) in self._extras or value.index in every)
            ]
            found_more = False  # what is written there may be handed out by it
            for variable, value in todo:
                done.add(id(variable))
                before = self._extras.get(id(variable), (None, {}))[1]
                now = extras_of(variable, OF_VARIABLES)
                if not before and not now:
                    continue
                if value is not None and value.index in every and not self._was_there(value):
                    before = {}
                for name in {**before, **now}:
                    old, new = before.get(name, ABSENT), now.get(name, ABSENT)
                    if new is not old:
                        place = VariableSink(variable, name)
                        what = f"attribute {name!r} of a Variable"
                        self._changed(place, what, old, new, [], value)
                        found_more = True
            if not found_more:
                return

    def _variables(self) -> list:
        """The Variables of the call that are alive, each with its value; None of a Parameter."""
        found = []
        for node, value in list(self._nodes.values()):
            variable = node.get_variable_or_none()
            if variable is not None:
                found.append((variable, value))
        for node, _ in list(self._extras.values()):
            variable = node.get_variable_or_none()
            if isinstance(variable, chainer.Parameter):
                found.append((variable, None))
        return found

    def _was_there(self, value) -> bool:
        return value.kind in ("argument", "attribute")

    def _escaped(self, leaves: list, containers: dict) -> None:
        """Results of the call that are held by what was not looked at."""
        references = self._references
        made = [
            variable
            for variable, value in self._variables()
            if value is not None and not self._was_there(value)
        ]
        made += [x for x in self.live_views() if x.origin is not PURE and not references.counted(x)]
        for what, thing in references.unknown(made, leaves, containers, self):
            value = self._value_of(thing)
            line = getattr(value.source[0], "line", "") if value.kind == "result" else ""
            kind = "an argument" if references.counted(thing) else "a result"
            self.mark_dynamic(
                f"{kind} of the call is kept by {what}, which outlives it",
                Remedy.RETURN_IT,
                line=line or None,
            )


def _is_iterable(thing) -> bool:
    return isinstance(thing, (list, tuple, dict, type({}.values())))


def _is_tree(thing) -> bool:
    if isinstance(thing, (list, tuple)):
        return all(map(_is_tree, thing))
    if isinstance(thing, dict):
        return all(map(_is_tree, thing.values()))
    if isinstance(thing, chainer.Parameter):
        return False
    return is_constant(thing) or isinstance(thing, (chainer.Variable, *ARRAYS, TracedFloat))


def _changed_config(before: dict) -> list:
    now = config_entries()
    return [k for k in {**before, **now} if before.get(k, ABSENT) is not now.get(k, ABSENT)]
