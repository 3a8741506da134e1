"""Variables that a call reads from outside of links: captured state, wherever it lies."""

from __future__ import annotations

from sdbr.base.reasons import Remedy
from sdbr.trace.code.places import Place, place_key, things_in
from sdbr.trace.values import ARGUMENT, ATTRIBUTE, Value

import chainer


class CapturedRecording:
    """The part of the recorder that knows where things outside of links lie.

    What was there before the call is found again at each call by its place; a Variable without a
    known place makes the call dynamic.
    """

    def __init__(self):
        super().__init__()
        self._places: dict[int, tuple] = {}  # see `_id` -> (thing, [Place])
        self._noted: set[int] = set()
        self._made_here: set[int] = set()  # ids of variable nodes that the call has made
        self._outside: list = []  # (Variable, Value)

    def know_outside(self, entries: list) -> None:
        """Note where Variables, parameters and links lie before the call.

        Parameters
        ----------
        entries : list of (holder, str, object)
            What :class:`~sdbr.trace.code.outside.Outside` has found.
        """
        for holder, name, thing in entries:
            self.know_places(holder, name, thing)

    def know_places(self, holder, name: str, thing, label: str = "") -> None:
        """Note where Variables, parameters and links lie in ``holder.get(name)``."""
        for path, found in things_in(thing):
            place = Place(holder, name, path, label)
            _, places = self._places.setdefault(_id(found), (found, []))
            places.append(place)

    def was_there(self, variable) -> bool:
        """Whether a Variable is older than the call."""
        return id(variable._node) not in self._made_here

    def captured(self, variable) -> Value | None:
        """The value of a Variable from outside of links; None for one that the call has made."""
        if variable._data[0] is None or not self.was_there(variable):
            return None
        if not captures():
            return None
        known = self._places.get(id(variable._node))
        if known is None:
            self.mark_dynamic(
                "a Variable that was there before the call lies where no later call can look for "
                "it; pass it as an argument, or keep it in an attribute of the chain",
                Remedy.PASS_NUMBERS,
            )
            return None
        place = known[1][0]
        array = variable._data[0]
        value = self.value(ATTRIBUTE, array, variable.requires_grad, (place, place.label), True)
        self.know_variable(variable, value)
        self._outside.append((variable, value))
        return value

    def note_place(self, thing) -> None:
        """A parameter or link is used: later calls look whether it is still where it was."""
        known = self._places.get(_id(thing))
        if known is not None and id(thing) not in self._noted:
            self._noted.add(id(thing))
            # At the end of no path it is compared by name already.
            if isinstance(thing, chainer.Link):
                self.trace.roots.append((known[1][0].label, thing))
            self.trace.places += [(place, thing, True) for place in known[1] if place.path]

    def lies_where(self, variable, new) -> bool:
        """Whether `variable` was read from the place where `new` lies now."""
        _, value = self._nodes[id(variable._node)]
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
        for variable, places in self._places.values():
            if not isinstance(variable, chainer.Variable):
                continue
            _, value = self._nodes.get(id(variable._node), (None, None))
            if value is None:
                continue
            if value.kind == ARGUMENT:
                # Which of both is meant where cannot be told.
                self.mark_dynamic(
                    f"{places[0].label!r}, which the call may read, holds a Variable that is an "
                    "argument as well",
                    Remedy.USE_FUNCTIONS,
                )
            elif value.kind == ATTRIBUTE:
                self._note_places(value, places)

    def _note_places(self, value: Value, places: list) -> None:
        """One Variable in several places: one value for all while it is the same in all."""
        holder, name = value.source
        own = holder.key if isinstance(holder, Place) else place_key(holder.__dict__, name)
        for place in places:
            if place.key != own:
                self.trace.aliases.append((value.source, (place, place.label)))


def captures() -> bool:
    """Whether Variables from outside of links are captured state."""
    return True


def _id(thing) -> int:
    return id(thing._node) if isinstance(thing, chainer.Variable) else id(thing)
