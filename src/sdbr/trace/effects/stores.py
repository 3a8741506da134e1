"""What a call leaves outside its links: in modules, classes, functions, plain objects, Variables.

What lies in a place is noted just before the call writes there. A result of the call that it leaves
there is written by replays as well; so is a number or text. Whatever else holds a result after the
call is found by the references to it.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable

from sdbr.base.reasons import Remedy
from sdbr.devices.arrays import ARRAYS
from sdbr.trace.arrays.stripping import PURE, TRACED, holds_traced, strip
from sdbr.trace.arrays.traced_float import FOLLOWED, TracedFloat, plain_float
from sdbr.trace.code._library import is_library
from sdbr.trace.code.frames import user_line
from sdbr.trace.code.reading import plain_fields
from sdbr.trace.effects._reads import extras_of
from sdbr.trace.effects.attributes import INTERNAL
from sdbr.trace.effects.escapes import References
from sdbr.trace.effects.sinks import Enclosed, VariableSink, describe, fields_of, sink_of
from sdbr.trace.guards.seen import is_constant
from sdbr.trace.nodes import config_entries
from sdbr.trace.structure import holds_itself
from sdbr.trace.values import ABSENT, ARGUMENT, CONSTANT, OF_VARIABLES, Store, handed_out

import chainer

_PUT = dict.__setitem__
_SETS = (object.__setattr__, types.SimpleNamespace.__setattr__)
#: What is written to them is seen elsewhere.
_CLOSED = (
    chainer.Link, chainer.LinkHook, chainer.Variable, chainer.variable.VariableNode,
    chainer.FunctionNode, chainer.Function, chainer.UpdateRule, *ARRAYS,
)  # fmt: skip


class Written:
    """A place that a call has written.

    Attributes
    ----------
    place : Sink
    old : object
        What lay there before.
    was_read : bool
        Whether the call had asked for that.
    source : Source
        By which path the call has come to whose place it is.
    home : Source or None
        By which path the call has come to what it has left there, if that is from outside.
    is_own : bool
        Whether the call has made what it has left there.
    """

    __slots__ = ("home", "is_own", "old", "place", "source", "was_read")

    def __init__(self, place, old, was_read: bool, source):
        self.place, self.old, self.was_read, self.source = place, old, was_read, source
        self.home, self.is_own = None, False

    @property
    def same(self) -> list:
        """Whose place it is, where there may be another one later, with its path."""
        return [(self.source, self.place.owner)] if self.place.is_of_object else []


class Stores:
    """What a call has written to outside of links, as it was before that."""

    def __init__(self):
        self._before: dict[tuple, tuple] = {}
        self._lines: dict = {}

    def note(self, source, thing, kind: str, name, was_read: bool) -> Written | None:
        """The call is about to write to `thing` for the first time under this name.

        Parameters
        ----------
        source : Source
            By which path the call has come to it.
        thing : object
            An object, class or module, a dictionary of globals or the cell of a variable.
        kind : str
            See `Reads.written`.
        name : object
            Of an attribute or variable; a key; None for all that is there.
        was_read : bool
            Whether the call has asked for what lies there.
        """
        is_named = isinstance(name, str)
        self._lines.setdefault(name if is_named else last_word(str(source)), user_line())
        if not is_named:
            return None
        owner = _owner_of(thing, kind, name)
        if owner is None or not _counts(name):
            return None
        has_copies = kind == "item" or isinstance(thing, chainer.Variable)
        if has_copies and source.root().kind in ("argument", "keyword"):
            return None
        place = sink_of(owner, name)
        return self._before.setdefault(
            place.key, Written(place, fields_of(owner).get(name, ABSENT), was_read, source)
        )

    def changes(self):
        """Every place that holds something else by now, and what that is."""
        for written in self._before.values():
            place = written.place
            new = fields_of(place.owner).get(place.name, ABSENT)
            # An argument that was there is another in the next call, and still goes there.
            is_given = type(new) in TRACED and getattr(new.origin, "kind", None) == ARGUMENT
            if is_given or strip(new) is not written.old:
                yield written, new
            elif new is not written.old:  # ``thing.x += y`` has put back what was there
                place.put(written.old)

    def line_of(self, name: str) -> str | None:
        """Where the call has written under `name`, or to what is called so."""
        return self._lines.get(name)


def last_word(path: str) -> str:
    """The last name in a path."""
    return re.findall(r"\w+", path)[-1]


def _owner_of(thing, kind: str, name):
    """Whose place is written to; None where that is no affair of stores."""
    if kind == "cell":
        return Enclosed(thing, name)
    if kind == "item":
        put = type(thing).__setitem__ if isinstance(thing, dict) else None
        return thing if put is _PUT or (put is not None and is_library(type(thing))) else None
    if isinstance(thing, (types.ModuleType, types.FunctionType, type)):
        if isinstance(thing, type):
            thing = vars(thing).get("_sdbr_base", thing)  # the class that we have made writes there
        return None if is_library(thing) else thing
    if type(thing) is dict and kind == "attribute":  # globals of no module
        return thing
    if isinstance(thing, chainer.Variable):
        return None if isinstance(thing, chainer.Parameter) or name in OF_VARIABLES else thing
    closed = isinstance(thing, _CLOSED) or plain_fields(thing) is None
    if is_library(type(thing)):  # whose attributes may be anything but the user's own
        closed = closed or hasattr(type(thing), name) or type(thing).__setattr__ not in _SETS
    return None if closed else thing


def _counts(name: str) -> bool:
    return not (name[:2] == "__" == name[-2:]) and name not in INTERNAL and name[:5] != "_sdbr"


class Outside:
    """The part of the recorder that finds what the call has left outside."""

    def __init__(self, recorder):
        self.recorder = recorder
        self.trace = recorder.trace
        self.values = recorder.values
        self.floats = recorder.floats
        self.stores = Stores()
        self.changed_elsewhere: str | None = None  # what another thread has changed meanwhile
        self._extras: dict[int, tuple] = {}  # id -> (Variable, what lay on it, its name)
        self.references = References()

    def note_extras(self, variable) -> None:
        """Note what the user has put on a Variable, when it is first met."""
        if id(variable) not in self._extras:
            self._extras[id(variable)] = (variable._node, extras_of(variable, OF_VARIABLES))

    def count_given(self, given: list) -> None:
        """Note how many references there are to the arguments, and to what stands for globals."""
        # One list and no more: whatever else held them here, and not later, would hide a holder.
        every = list(
            {id(thing): thing for thing in [*given, *self.recorder.views.live_views()]}.values()
        )
        self.references.count(every)

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
        self.recorder.growth.collect_growth()
        self._extras_of_variables()
        settle()
        for name in _changed_config(self.recorder.nodes.config_before):
            self.recorder.mark_dynamic(
                f"chainer.config.{name} was set during the call",
                Remedy.SET_OUTSIDE,
                line=self.stores.line_of(name),
            )
        self._escaped(leaves, containers)
        self.references = References()  # nothing is kept alive any longer
        return kept

    def _changed_places(self) -> list:
        handled = {(id(w.link), w.name) for w in self.trace.writes}
        kept: list = []
        for written, new in list(self.stores.changes()):
            place = written.place
            if (id(place.owner), place.name) not in handled and not self._is_met(place.owner):
                what = describe(place.owner, place.name)
                self._changed(place, what, written.old, new, kept, written=written)
        return kept

    def _is_met(self, owner) -> bool:
        """Whether it is a Variable of the call, whose attributes are looked at as a whole."""
        return isinstance(owner, chainer.Variable) and id(owner._node) in self.values.variables

    def _changed(
        self, place, what: str, old, new, kept: list, target=None, written: Written | None = None
    ) -> None:
        loads = written is not None and written.was_read
        same = [] if written is None else written.same
        line = self.stores.line_of(place.name)
        if new is ABSENT and written is not None:
            return  # it has to be absent before a replay: see `Seen`
        if new is ABSENT:
            self.recorder.mark_dynamic(
                f"{what} was deleted during the call", Remedy.RETURN_IT, line=line
            )
        elif holds_itself(new):
            self.recorder.mark_dynamic(
                f"{what} was set to a {type(new).__name__} that holds itself",
                Remedy.RETURN_IT,
                line=line,
            )
        elif written is not None and self._is_from_outside(new, written.home):
            new = strip(new)
            place.put(new)
            self.trace.stores.append(Store(place, new, None, [*same, (written.home, new)]))
        elif _is_tree(new) and self._is_result(new, loads):
            if not self._may_be_another(old, new, loads, kept):
                self.recorder.mark_dynamic(
                    f"{what} is read and written by the call", Remedy.RETURN_IT, line=line
                )
                return
            self.references.held(new)
            self.recorder.kept.hold_more([new], line)
            value = self.recorder.kept.template_of(new, self.value_of)
            self.recorder.kept.settle_later(place.put, new)
            self.trace.stores.append(Store(place, value, target, same))
        elif type(new) in FOLLOWED or is_constant(new):
            if type(new) in FOLLOWED:
                place.put(plain_float(new), None)
                new = self._number(new)
            elif type(new) is tuple:
                self.recorder.kept.settle_later(place.put, new)
                new = self.recorder.kept.template_of(new, self.value_of)
            self.trace.stores.append(Store(place, new, target, same))
        elif written is not None and written.home is not None and not _is_iterable(new):
            self.trace.stores.append(Store(place, new, None, [*same, (written.home, new)]))
        elif written is not None and written.is_own and _is_tree(new):
            value = self.recorder.kept.template_of(new, self.value_of)
            self.trace.stores.append(Store(place, value, None, same))
        elif written is not None:  # another one in each call, which no replay leaves: see `Seen`
            if holds_traced(new):
                self.recorder.kept.settle_later(place.put, new)
        else:
            self.recorder.mark_dynamic(
                f"{what} was set to {type(new).__name__} {new!r:.60} during the call",
                Remedy.PASS_NUMBERS,
                line=line,
            )

    def _is_from_outside(self, thing, home) -> bool:
        """Whether it is an array that was there before the call, and no argument."""
        if home is None or not isinstance(thing, ARRAYS):
            return False
        value = thing.origin if type(thing) in TRACED else self.values.find_array(thing)
        known = value is None or getattr(value, "kind", None) == CONSTANT
        return known and home.root().kind not in ("argument", "keyword")

    def value_of(self, thing):
        if isinstance(thing, (chainer.Variable, *ARRAYS)):
            return self.recorder.calls.handed_out(thing)
        return self._number(thing)

    def _number(self, thing):
        """What a number of the call is in replays, which look it up or compute it anew."""
        if self.floats.is_left(thing):
            return thing.origin.value
        return thing.origin if self.floats.follows(thing) else plain_float(thing)

    def _is_result(self, thing, loads: bool) -> bool:
        """Whether there is something in `thing` that each call makes anew.

        What is made from nothing, and is looked for first, is made only once.
        """
        if self.floats.is_left(thing):
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
        _, value = self.values.variables.get(id(thing._node), (None, None))
        return value is not None and value.kind != CONSTANT

    def _may_be_another(self, old, new, loads: bool, kept: list) -> bool:
        """Whether a later call may find something else of the kind of `old`, which goes to `kept`.

        Not where this call has looked at what it holds, unless it is captured state.
        """
        if isinstance(old, chainer.Variable):
            node, array = id(old._node), old._data[0]
            if node in self.values.variables and self.recorder.captured.lies_where(old, new):
                kept.append(old)
                return True
            if (
                node in self.values.variables
                or node in self.recorder.contents.looked_at
                or isinstance(old, chainer.Parameter)
            ):
                return False
            kept.append(old)
            return self.values.find_array(array) is None
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
        for node, value in list(self.values.variables.values()):
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
        references = self.references
        made = [
            variable
            for variable, value in self._variables()
            if value is not None and not self._was_there(value)
        ]
        made += [
            x
            for x in self.recorder.views.live_views()
            if x.origin is not PURE and not references.counted(x)
        ]
        for what, thing in references.unknown(made, leaves, containers, self.recorder):
            value = self.value_of(thing)
            line = getattr(value.source[0], "line", "") if value.kind == "result" else ""
            kind = "an argument" if references.counted(thing) else "a result"
            self.recorder.mark_dynamic(
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
