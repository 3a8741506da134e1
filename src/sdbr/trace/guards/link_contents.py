"""What containers in attributes of links hold: Variables and arrays that each call reads anew."""

from __future__ import annotations

from sdbr.devices.arrays import PLAIN
from sdbr.trace.code.places import Place
from sdbr.trace.guards.seen import is_constant
from sdbr.trace.values import ATTRIBUTE

import chainer

_MOST_CAPTURED = 64
_DEEPEST = 100


class LinkContents:
    """The part of the recorder that looks into what attributes hold."""

    def __init__(self, recorder):
        self.recorder = recorder
        self.values = recorder.values
        self.looked_into: set[tuple] = set()  # (id(link), name)
        self.looked_at: set[int] = set()  # ids of nodes of strange Variables whose array was read
        self._variables_read: list = []  # which live till the end of the trace

    def look_into(self, link, name: str, thing) -> None:
        """Note what an attribute holds, when it is first read."""
        if (id(link), name) in self.looked_into or is_constant(thing):
            return
        self.looked_into.add((id(link), name))
        label = f"{type(link).__name__}.{name}"
        self.recorder.captured.know_places(link.__dict__, name, thing, label)
        found = list(_inside(thing, ()))
        if len(found) <= _MOST_CAPTURED:
            for path, leaf in found:
                self._capture(Place(link.__dict__, name, path, label), leaf)

    def _capture(self, place: Place, leaf) -> None:
        """A Variable or array in a container: what lies in its place is read in every call."""
        source = (place, place.label)
        if isinstance(leaf, chainer.Variable):
            self._variables_read.append(leaf)
            if leaf._data[0] is None or id(leaf._node) in self.values.variables:
                self.recorder.attributes.note_alias(leaf, source)
            else:
                value = self.values.value(
                    ATTRIBUTE, leaf._data[0], leaf.requires_grad, source, True
                )
                self.values.know_variable(leaf, value)
        elif self.values.find_array(leaf) is None:
            self.values.know_array(leaf, self.values.value(ATTRIBUTE, leaf, False, source, False))


def _inside(thing, path: tuple):
    """Variables and arrays in containers, each with its path of keys."""
    if isinstance(thing, chainer.Variable):
        if path and not isinstance(thing, chainer.Parameter):
            yield path, thing
    elif type(thing) in PLAIN:
        if path:
            yield path, thing
    elif len(path) < _DEEPEST:
        if type(thing) in (list, tuple):
            for i, x in enumerate(thing[: _MOST_CAPTURED + 1]):
                yield from _inside(x, (*path, i))
        elif isinstance(thing, dict):
            for key, x in list(thing.items())[: _MOST_CAPTURED + 1]:
                yield from _inside(x, (*path, key))
