"""Variables and arrays that a call reads from outside of links: captured state, wherever it lies.

Arrays are seen as traced ones while a call is traced: NumPy does not tell when a plain array is
indexed by a traced one, or has a method called with one; ``TABLE[labels]`` would be an array from
nowhere.
"""

from __future__ import annotations

from typing import Any

from sdbr.base.reasons import Remedy
from sdbr.devices.arrays import PLAIN
from sdbr.trace.arrays.wrapping import wrap
from sdbr.trace.code.places import Place, things_in
from sdbr.trace.code.reading import Field, place_key
from sdbr.trace.guards.layouts import layout_of
from sdbr.trace.guards.seen import fields_in
from sdbr.trace.values import ARGUMENT, ATTRIBUTE, CONSTANT, PARAMETER, RESULT, Value
from sdbr.trace.watch.sources import MISSING, Source

import chainer


class Way(Field):
    """What lies where the watch has met something, read like a dictionary whatever the key.

    Parameters
    ----------
    source : Source
    given : list
        ``[args, kwargs]`` while the call is traced, later those of none.
    """

    __slots__ = ("given", "source")

    def __init__(self, source: Source, given: list):
        self.source = source
        self.given = given
        holder = None if source.parent is None else source.parent.get(*given)
        self.key = id(fields_in(holder))

    def get(self, name: Any, default: Any = None) -> Any:
        found = self.source.get(*self.given)
        return default if found is MISSING else found


class CapturedState:
    """The part of the recorder that knows where things outside of links lie.

    What was there before the call is found again at each call by its place; a Variable without a
    known place makes the call dynamic.
    """

    def __init__(self, recorder):
        self.recorder = recorder
        self.trace = recorder.trace
        self.values = recorder.values
        self._places: dict[int, tuple] = {}  # id of what is `_kept` -> (that, [Place])
        self._noted: set[int] = set()
        self.made_here: set[int] = set()  # ids of variable nodes that the call has made
        self._outside: list = []  # (Variable, Value)
        self.given: list = [(), {}]  # the arguments, while the call is under way
        self.callables: set[int] = set()  # ids of those that are called, of which the key tells

    def know_met(self, thing, source: Source) -> None:
        """The watch has met a Variable or a link, or all that is in a container.

        What is part of an argument is no captured state, unless the key of calls tells of it only
        which object it is.
        """
        root = source.root()
        told = root.kind in ("given", "argument", "keyword") and not self._leads_through(source)
        if root.leads_there and not told:
            self.know_places(Way(source, self.given), source.key, thing, str(source))

    def compares(self, place: Source, argument: Source, is_one: bool) -> None:
        """The code has asked whether what lies somewhere is an argument."""
        self.trace.compared.append((Way(place, self.given), str(place)))
        if is_one:  # which later calls cannot be told
            text = f"the code compares objects (is): {str(place)!r} is the argument {argument}"
            self.recorder.mark_dynamic(text, Remedy.LOOK_AT_VALUES)

    def _leads_through(self, source: Source | None) -> bool:
        """Whether one of `callables` lies on the way."""
        while source is not None and source.kind != "given":
            if id(source.get(*self.given)) in self.callables:
                return True
            source = source.parent
        return False

    def know_places(self, holder, name: Any, thing, label: str) -> None:
        """Note where Variables, parameters and links lie in ``holder.get(name)``."""
        for path, found in things_in(thing):
            place = Place(holder, name, path, label)
            kept = _kept(found)
            _, places = self._places.setdefault(id(kept), (kept, []))
            places.append(place)

    def was_there(self, variable) -> bool:
        """Whether a Variable is older than the call."""
        return id(variable._node) not in self.made_here

    def value_of(self, variable) -> Value | None:
        """The value of a Variable from outside of links; None for one that the call has made."""
        if variable._data[0] is None or not self.was_there(variable):
            return None
        known = self._places.get(id(variable._node))
        if known is None:
            text = (
                "a Variable that was there before the call lies where no later call can look for "
                "it; pass it as an argument, or keep it in an attribute of the chain"
            )
            self.recorder.mark_dynamic(text, Remedy.PASS_NUMBERS)
            return None
        place = known[1][0]
        array = variable._data[0]
        value = self.values.value(
            ATTRIBUTE, array, variable.requires_grad, (place, place.label), True
        )
        self.values.know_variable(variable, value)
        self._outside.append((variable, value))
        return value

    def note_place(self, thing) -> None:
        """A parameter or link is used: later calls look whether it is still where it was."""
        known = self._places.get(id(_kept(thing)))
        if known is not None and id(thing) not in self._noted:
            self._noted.add(id(thing))
            # At the end of no path it is compared by name already.
            if isinstance(thing, chainer.Link):
                self.trace.roots.append((known[1][0].label, thing))
            self.trace.places += [(place, thing, True) for place in known[1] if place.path]

    def lies_where(self, variable, new) -> bool:
        """Whether `variable` was read from the place where `new` lies now."""
        _, value = self.values.variables[id(variable._node)]
        if value.kind != ATTRIBUTE or not isinstance(value.source[0], Place):
            return False
        return value.source[0].get() is new

    def finish_places(self, kept: list) -> None:
        """After the call: Variables whose place later calls look at, whatever lies there.

        `kept` are those in whose place every replay puts another.
        """
        written = set(map(id, kept))
        for variable, value in self._outside:
            place, _ = value.source
            # One that the call itself replaced would be another before each later call.
            stays = place.get() is variable or id(variable) in written
            self.trace.places.append((place, variable, not stays))
        for node, places in self._places.values():
            _, value = self.values.variables.get(id(node), (None, None))
            if value is None:
                continue
            if value.kind == ARGUMENT:
                # Which of both is meant where cannot be told.
                self.recorder.mark_dynamic(
                    f"{places[0].label!r}, which the call may read, holds a Variable that is an "
                    "argument as well",
                    Remedy.USE_FUNCTIONS,
                )
            elif value.kind == ATTRIBUTE:
                self._note_places(value, places)

    def _note_places(self, value: Value, places: list) -> None:
        """One Variable in several places: one value for all while it is the same in all."""
        holder, name = value.source
        own = holder.key if isinstance(holder, Place) else (*place_key(holder.__dict__, name), ())
        for place in places:
            if place.key != own:
                self.trace.aliases.append((value.source, (place, place.label)))


def _kept(thing):
    """Of a Variable the node: references to Variables are counted."""
    return thing._node if isinstance(thing, chainer.Variable) else thing


#: Kinds of numbers that may decide about shapes: they have to be the same until they were not.
_CHOOSING = "biu"
#: Sources of places in which another array is rarely put.
_LASTING = ("global", "cell", "default")


def _is_anothers(value: Value) -> bool:
    """Whether a value is of what may hold another array in the next call."""
    if value.kind == ATTRIBUTE:
        return value.is_variable or isinstance(value.source[0], chainer.Link)
    return value.kind in (ARGUMENT, PARAMETER)


def _is_found_again(source: Source) -> bool:
    """Whether later calls find what lies there without their arguments."""
    root = source.root()
    return root.leads_there and root.kind not in ("argument", "keyword")


class Borrowed:
    """What user code gets of arrays from outside."""

    def __init__(self):
        self._known: dict[int, tuple[Any, Value]] = {}  # id -> an array, its value
        self._arrays: dict[int, Any] = {}  # index of a value -> its array
        self._numbers: dict[tuple, Place] = {}  # by what tells places apart
        self.are_compared = False  # whether there is one in no variable: by what code asks of it

    def shows(self, recorder, array, source: Source | None, is_used: bool) -> Any:
        """A traced view of an array of NumPy or CuPy; None where the code gets the array itself.

        That is so until the array is used, but where others would take it for what it is as well:
        an argument, or what a parameter holds. One from nowhere (`source` is None) is what it is.
        """
        if source is None:
            known = array.dtype.isnative and array.dtype.kind in "biufc"
            return wrap(array, recorder.values.of_array(array), recorder) if known else array
        if not _is_found_again(source):
            return None
        if not (type(array) in PLAIN and array.dtype.isnative and array.dtype.kind in "biufc"):
            return None
        moves = array.dtype.kind not in _CHOOSING or str(source) in recorder.moving
        if not moves and source.kind not in _LASTING:
            return None
        value = recorder.values.find_array(array)
        if value is None or (_is_anothers(value) and id(array) not in self._known):
            own = self._value(recorder, array, source, moves)
            self._known[id(array)] = array, own
            self._arrays[own.index] = array
            self.are_compared |= source.kind not in _LASTING
            if value is None:
                recorder.values.know_array(array, own)
        if value is not None and _is_anothers(value):
            value, is_used = self._known[id(array)][1], True
        value = recorder.values.find_array(array) if value is None else value
        if not (is_used or value.kind == RESULT):  # which the call has written by now
            return None
        shown = wrap(array, value, recorder)
        return None if shown is array else shown

    def moves(self, recorder, source: Source, number: float, is_followed: bool) -> Any:
        """What the code gets of a number that was another one in an earlier call.

        That of a link is followed from the first trace on; of others nobody knows which will be
        another, and one that never is stays a number of Python. None for the number itself, where
        nobody follows what the code does with it.
        """
        if not _is_found_again(source):
            return None
        place = Place(Way(source, recorder.captured.given), source.key, (), str(source))
        place = self._numbers.setdefault(place.key, place)
        follow = (
            recorder.ints.int_attribute if type(number) is int else recorder.floats.float_attribute
        )
        shown = follow(place, place.label, number)
        recorder.trace.moving[source.number] = shown.origin
        if not is_followed:
            recorder.floats.note_leaving(shown.origin)
        return shown if is_followed else None

    def array_of(self, value: Value) -> Any:
        """The array that a value shows, if that is one from outside."""
        return self._arrays.get(value.index)

    def arrays(self) -> list:
        """All of them."""
        return [array for array, _ in self._known.values()]

    def holds(self, array) -> bool:
        """Whether it is such an array."""
        return id(array) in self._known

    def _value(self, recorder, array, source: Source, moves: bool) -> Value:
        if not moves:
            return recorder.values.value(CONSTANT, array, False, array, False)
        if source.kind == "global" and source.parent.kind == "module":
            holder = source.parent.get(*recorder.captured.given).__dict__
        else:
            holder = Way(source, recorder.captured.given)
        place = Place(holder, source.key, (), str(source))
        value = recorder.values.value(ATTRIBUTE, array, False, (place, place.label), False)
        recorder.lasting.note_held(array, value, recorder.memory.memory_of(array))
        recorder.trace.borrowed.append((place, layout_of(array)))
        return value
