"""What the attributes of links hold: the part of the recorder that looks into it."""

from __future__ import annotations

from sdbr.base.reasons import Remedy
from sdbr.devices.arrays import ARRAYS, PLAIN, may_be_read_in_place
from sdbr.trace.arrays.stripping import PURE, TRACED, is_traced, strip
from sdbr.trace.code.frames import line_of_use
from sdbr.trace.code.moving import GENERATORS, moves_on
from sdbr.trace.code.places import Place
from sdbr.trace.code.reading import get
from sdbr.trace.guards.prints import (
    LIKE,
    MOST_DEPTH,
    SAME,
    ArrayPrint,
    FieldsPrint,
    ItemsPrint,
    Print,
    VariablePrint,
    is_constant,
    same,
    settle,
    taken,
)
from sdbr.trace.values import ATTRIBUTE, CONSTANT, AttributeWrite, values_in

import chainer

_MOST_CAPTURED = 64


class PrintRecording:
    """The part of the recorder that looks into what attributes hold."""

    def __init__(self):
        super().__init__()
        self._prints: dict[tuple, tuple] = {}  # (id(link), name) -> (thing, its print)
        self._children: set[tuple] = set()  # (id(link), name) of links that were looked at
        self._captured: list = []  # (array or Variable, Value)
        self.looked_at: set[int] = set()  # ids of nodes of strange Variables whose array was read
        self.names_read: frozenset | None = None  # attributes of plain objects; None: any
        self._large: list[Print] = []
        self.variables_read: list = []  # which live till the end of the trace
        self.arrays_compared: set[int] = set()  # ids

    def look_into(self, link, name: str, thing) -> None:
        """Note what an attribute holds, when it is first read."""
        if (id(link), name) in self._prints or is_constant(thing):
            return
        if isinstance(thing, chainer.Link):
            if (id(link), name) in self._children:
                return
            self._children.add((id(link), name))
        label = f"{type(link).__name__}.{name}"
        self.know_places(link.__dict__, name, thing, label)
        print_ = taken(thing, self, name)
        if isinstance(print_, Print):
            self._prints[id(link), name] = (thing, print_)
            found = list(_inside(thing, ()))
            if len(found) <= _MOST_CAPTURED:
                for path, leaf in found:
                    self._capture(Place(link.__dict__, name, path, label), leaf)

    def note_moving(self, name: str, thing) -> None:
        """The call may ask `thing`, which gives something else each time."""
        if isinstance(thing, GENERATORS):
            self.generators.watch(thing, f"{name!r}, a random generator of its own,")
        else:
            reason = moves_on(thing)
            self.mark_dynamic(f"{name!r} {reason.text}", reason.remedy)

    def note_beyond(self, name: str, places: list[str], large: list[Print]) -> None:
        """Parts of what the call may read are too much to be compared before each replay."""
        self._large += large
        more = f" and {len(places) - 1} more parts" if len(places) > 1 else ""
        self.trace.unwatched.append(f"{name}{places[0]}{more}")

    def settle_prints(self) -> None:
        """The call is over, and its guards are there: what is large is no longer looked through."""
        settle(self._large)
        self._large = []

    def _capture(self, place: Place, leaf) -> None:
        """A Variable or array in a container: what lies in its place is read in every call."""
        source = (place, place.label)
        if isinstance(leaf, chainer.Variable):
            if leaf._data[0] is None or id(leaf._node) in self._nodes:
                self.note_alias(leaf, source)
                return
            value = self.value(ATTRIBUTE, leaf._data[0], leaf.requires_grad, source, True)
            self.know_variable(leaf, value)
        else:
            if self.find_array(leaf) is not None:
                return
            value = self.value(ATTRIBUTE, leaf, False, source, False)
            self.know_array(leaf, value)
        self._captured.append((leaf, value))

    def unchanged_prints(self) -> list:
        """Keys of what is as it was when it was first read."""
        return [k for k, (thing, print_) in self._prints.items() if same(thing, print_, {})]

    def forgive_prints(self, keys: list) -> None:
        """What has changed of these since was changed by ``static_code``: no replay compares it."""
        for key in keys:
            thing, print_ = self._prints[key]
            if not same(thing, print_, {}):
                self._prints[key] = (thing, taken(thing))
                self.effect_containers.append(thing)

    def write_fields(self) -> list:
        """After the call: results in plain objects; any other change makes it dynamic.

        Returns
        -------
        list of (Variable or ndarray)
            In whose place later calls may find another.
        """
        kept: list = []
        for (_, name), (thing, print_) in self._prints.items():
            fields = changed_fields(thing, print_)
            if fields is None or not all(self._write_field(*field, kept) for field in fields):
                self.mark_dynamic(
                    f"what attribute {name!r} holds changed during the call",
                    Remedy.PASS_NUMBERS,
                    line=line_of_use(self.stores.functions, name) or None,
                )
        return kept

    def finish_prints(self, kept: list) -> None:
        """What has to be compared later, and what of it may be another then."""
        trace = self.trace
        forgiven = {id(thing) for thing in self.effect_containers}
        trace.prints = {
            key: None if id(thing) in forgiven else print_
            for key, (thing, print_) in self._prints.items()
        }
        used = {x.index for node in trace.nodes for x in node.inputs}
        used.update(x.index for node in trace.nodes for r in node.rebind for x in r.values)
        used.update(x.index for x in values_in([trace.result, [w.value for w in trace.writes]]))
        used.update(x.index for x in values_in([r.items for r in trace.reports]))
        used.update(x.index for x in values_in([s.value for s in trace.stores]))
        used.update(x.source.index for x in trace.values if x.kind == "alias" and x.index in used)
        trace.live = {}
        for x in trace.values:
            thing = x.source if x.kind == CONSTANT and may_be_read_in_place(x.source) else None
            while isinstance(thing, ARRAYS):  # a view is read where its base lies
                trace.live[id(thing)] = SAME
                thing = thing.base
        trace.live.update((id(thing), LIKE) for thing in kept)
        for thing, value in self._captured:
            if value.is_variable or value.index in used:
                trace.live[id(thing)] = LIKE
        trace.live.update((id(thing), LIKE) for thing in self.finish_places(kept))

    def _write_field(self, owner, name: str, old, kept: list) -> bool:
        """A result that the call gave to an attribute of a plain object: replays do so, too.

        What was there before goes to `kept` where the call has not looked at it: later calls may
        find another in its place.
        """
        new = get(owner, "__dict__", {}).get(name)
        if new is None:
            return False  # in a slot
        if is_traced(new):
            if new.ndim == 0 or new.origin is PURE:
                return False
            value, owner.__dict__[name] = self.of_array(new), strip(new)
        elif isinstance(new, chainer.Parameter) or id(new._node) not in self._nodes:
            return False
        else:
            value = self.of_variable(new)
        if isinstance(old, VariablePrint):
            array = old.variable._data[0]
            node = id(old.variable._node)
            if node in self._nodes:
                if not self.lies_where(old.variable, new):
                    return False
            elif node in self.looked_at or self.find_array(array) is not None:
                return False
            kept.append(old.variable)
        elif isinstance(old, ArrayPrint):
            return False  # NumPy may have read it out of our sight
        self.trace.writes.append(AttributeWrite(owner, name, value))
        return True


_MISSING = object()


def changed_fields(thing, want) -> list | None:
    """Attributes of plain objects in `thing` that now hold another Variable or traced array.

    Returns
    -------
    list of (object, str, object) or None
        The object, the attribute, and the print of what it was; None when anything else changed.
    """
    if same(thing, want, {}):
        return []
    if isinstance(want, ItemsPrint) and type(thing) is want.kind:
        items = list(thing)
        if len(items) != len(want.items):
            return None
        parts = [changed_fields(a, b) for a, b in zip(items, want.items, strict=True)]
    elif isinstance(want, FieldsPrint) and want.whole:
        now = want.now(thing)
        if now is None or not want.items.keys() <= now.keys():
            return None
        if want.owner is None and list(now) != list(want.items):  # others, or in another order
            return None
        parts = []
        for name, x in now.items():
            old = want.items.get(name, _MISSING)
            is_new = want.owner is not None and (type(x) is chainer.Variable or type(x) in TRACED)
            if is_new and not same(x, old, {}):
                parts.append([(want.owner, name, old)])
            else:
                parts.append(None if old is _MISSING else changed_fields(x, old))
    else:
        return None
    return None if any(part is None for part in parts) else [f for part in parts for f in part]


def _inside(thing, path: tuple):
    """Variables and arrays in containers, each with its path of keys."""
    if isinstance(thing, chainer.Variable):
        if path and not isinstance(thing, chainer.Parameter):
            yield path, thing
    elif type(thing) in PLAIN:
        if path:
            yield path, thing
    elif len(path) < MOST_DEPTH:
        if type(thing) in (list, tuple):
            for i, x in enumerate(thing[: _MOST_CAPTURED + 1]):
                yield from _inside(x, (*path, i))
        elif isinstance(thing, dict):
            for key, x in list(thing.items())[: _MOST_CAPTURED + 1]:
                yield from _inside(x, (*path, key))
