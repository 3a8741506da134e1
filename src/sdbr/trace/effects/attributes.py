"""What a traced call reads from the attributes of links, and what it writes to them."""

from __future__ import annotations

import functools
import sys
import weakref

from sdbr.base.reasons import Remedy
from sdbr.devices.arrays import ARRAYS
from sdbr.trace.arrays._scalars import KINDS
from sdbr.trace.arrays.stripping import is_traced, shown, strip
from sdbr.trace.arrays.traced_float import FOLLOWED, plain_float
from sdbr.trace.arrays.wrapping import wrap
from sdbr.trace.code.foreign import is_users
from sdbr.trace.code.frames import called_by_machinery
from sdbr.trace.code.moving import moves_on
from sdbr.trace.effects._reads import INTERNAL, SeenReads, containers_of
from sdbr.trace.guards.link_hooks import unknown_hook
from sdbr.trace.guards.seen import is_constant
from sdbr.trace.structure import holds_itself
from sdbr.trace.values import ABSENT, ARGUMENT, ATTRIBUTE, AttributeWrite, Read, Value

import chainer
import numpy as np

_MISSING = object()
_MEMBERS = ("_params", "_children")
_SCALARS = (int, float, bool, str, type(None))
# Link -> names of attributes to which a traced call has assigned a NumPy scalar that it computed.
# Another NumPy scalar is a number that the user has set: the call may branch on it.
_SCALAR_STATE: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


class LinkAttributes:
    """The part of the recorder that watches links."""

    def __init__(self, recorder):
        self.recorder = recorder
        self.trace = recorder.trace
        self.values = recorder.values
        self.floats = recorder.floats
        self.known: dict[tuple[int, str], Value] = {}
        self.links: dict[int, tuple] = {}  # id(link) -> (link, attributes before the call)
        self.containers: dict[tuple[int, str], tuple] = {}
        self.noted: set = set()
        self.seen_reads = SeenReads()
        # (id(link), name): what static_code wrote; what the call wrote before static_code runs.
        self.effect_writes: set = set()
        self.pending_writes: set = set()
        self.written: set = set()  # (id(link), name): what the call has assigned
        self.opened = False  # whether user code may have read numbers past their links

    def watch(self, link) -> dict:
        known = self.links.get(id(link))
        if known is None:
            fields = object.__getattribute__(link, "__dict__")  # one that is patched calls this
            known = self.links[id(link)] = (link, dict(fields))
            self.recorder.captured.note_place(link)
            self.trace.classes.append((link, type(link)))
            for name, thing in containers_of(fields):
                self.containers[id(link), name] = (thing, _contents(thing))
        return known[1]

    def open_fields(self, link) -> None:
        """Somebody takes ``link.__dict__``, to read and write past the link."""
        self.watch(link)
        self.opened |= is_users(sys._getframe(1).f_globals.get("__name__", ""))

    def read_attribute(self, link, name: str, thing):
        """Note a read of ``link.name``; returns what user code gets."""
        if name in _MEMBERS:
            self._note_members(link, name, thing)
            return thing
        if name == "_n_local_link_hooks":
            self._note_read(link, name, thing)
            reason = unknown_hook(link) if thing else None
            if reason is not None:
                self.recorder.mark_dynamic(reason, Remedy.USE_FUNCTIONS, quiet=True)
            return thing
        if name == "name" and is_users(sys._getframe(1).f_globals.get("__name__", "")):
            return self._note_read(link, name, thing) or thing
        before = self.watch(link)
        if (id(link), name) in self.effect_writes:
            self.recorder.mark_dynamic(
                f"attribute {name!r}, which static_code wrote, was read outside it",
                Remedy.PASS_NUMBERS,
            )
        first = before.get(name, _MISSING)
        fields = object.__getattribute__(link, "__dict__")
        if first is _MISSING and name not in fields:
            self.note_absent(link, name)  # an attribute of the class, which the link may hide later
        self.seen_reads.note(link, name, thing, fields, before)
        if first is not thing or name in INTERNAL:
            return thing  # written by this call, or a class attribute
        if isinstance(thing, _SCALARS) and (id(link), name) in self.written:
            return thing  # written by this call, though the same was there before
        if isinstance(thing, chainer.Parameter):
            self._note_read(link, name, thing)
            self.recorder.outside.note_extras(thing)
            return thing
        if isinstance(thing, chainer.Variable):
            self._note_read(link, name, thing)
            if thing._data[0] is not None and id(thing._node) not in self.values.variables:
                value = self.value_of(link, name, thing._data[0], thing.requires_grad, True)
                self.values.know_variable(thing, value)
            else:
                self.note_alias(thing, (link, name))
            return thing
        if isinstance(thing, ARRAYS):
            self._note_read(link, name, thing)
            by_machinery = called_by_machinery(sys._getframe(1))
            return self._array_attribute(link, name, thing, by_machinery)
        if isinstance(thing, np.generic) and name in _SCALAR_STATE.get(link, ()):
            self._note_read(link, name, np.asarray(thing))
            value = self.value_of(link, name, np.asarray(thing), False, False)
            value.is_scalar = True
            return wrap(np.asarray(thing), value)
        was_read = (id(link), name) in self.noted
        self._note_read(link, name, thing)
        if type(thing) in KINDS:
            return self.floats.float_attribute(link, name, thing)
        if type(thing) is int:
            ints = self.recorder.ints
            return ints.int_attribute(link, name, thing, was_read) if ints.counts(name) else thing
        grown = self.recorder.growth.growing(link, name, thing, sys._getframe(1))
        return grown or self._looked_into(link, name, thing)

    def _array_attribute(self, link, name: str, array, by_machinery: bool):
        """What code gets of an array in an attribute."""
        value = self.recorder.lasting.held_array(link, name, array)
        self.values.know_array(array, value)
        return array if by_machinery else wrap(array, value)

    def _looked_into(self, link, name: str, thing):
        """What the call may find in `thing` is compared from now on, or makes it dynamic."""
        if (id(link), name) in self.recorder.growth.grown_by_now():
            text = f"attribute {name!r} is read after the call has put something into it"
            self.recorder.mark_dynamic(text, Remedy.PASS_NUMBERS)
        reason = moves_on(thing)
        if reason is not None:
            self.recorder.mark_dynamic(f"attribute {name!r} {reason.text}", reason.remedy)
        self.recorder.contents.look_into(link, name, thing)
        return thing

    def note_alias(self, variable, source: tuple) -> None:
        """Captured state that was captured from another place already: one value for both."""
        _, value = self.values.variables.get(id(variable._node), (None, None))
        if value is not None and value.kind == ATTRIBUTE and value.source != source:
            self.trace.aliases.append((value.source, source))
        elif value is not None and value.kind == ARGUMENT:
            # Which of both is meant where cannot be told.
            self.recorder.mark_dynamic(
                f"attribute {source[1]!r} holds a Variable that is an argument as well",
                Remedy.PASS_NUMBERS,
            )

    def note_absent(self, link, name) -> None:
        """Note that the call looked for ``link.name`` and the link itself had none."""
        if name not in INTERNAL and name not in self.watch(link):
            self._note_read(link, name, ABSENT)

    def came_to_be(self, link, names) -> None:
        """Count attributes that got their first value just now as having been there before."""
        seen = self.watch(link)
        for name in names:
            seen[name] = link.__dict__[name]
            self.noted.discard((id(link), name))
        self.seen_reads.forget(link, names)
        self.trace.reads = [
            read for read in self.trace.reads if read.link is not link or read.name not in names
        ]

    def _note_members(self, link, name, members) -> None:
        """Code goes over parameters or children: all of them are read, and the list itself."""
        if (id(link), name) in self.noted:
            return
        self._note_read(link, name, members if type(members) is list else set(members))
        for member in [] if type(members) is list else sorted(members):
            thing = link.__dict__.get(member)
            if isinstance(thing, (chainer.Link, chainer.Parameter)):
                self.read_attribute(link, member, thing)

    def value_of(self, link, name, array, requires_grad, is_variable) -> Value:
        value = self.known.get((id(link), name))
        if value is None:
            value = self.values.value(ATTRIBUTE, array, requires_grad, (link, name), is_variable)
            self.known[id(link), name] = value
        return value

    def _note_read(self, link, name, thing) -> None:
        if (id(link), name) not in self.noted:
            self.noted.add((id(link), name))
            self.trace.reads.append(Read(link, name, thing))

    def collect(self, leaves: list, containers: dict, settle) -> None:
        # No variable here may keep a result: references to them are counted.
        self._collect_attributes()
        self.recorder.captured.finish_places(
            self.recorder.outside.collect_stores(leaves, containers, settle)
        )
        for key, (thing, contents) in self.containers.items():
            name = key[1]
            if key not in self.trace.grown and not _same_contents(_contents(thing), contents):
                self.recorder.mark_dynamic(
                    f"the contents of attribute {name!r} changed during the call",
                    Remedy.PASS_NUMBERS,
                    line=self.recorder.outside.stores.line_of(name),
                )

    def written_so_far(self) -> set[tuple]:
        """What lies in the attributes that the call has written until now, by identity."""
        return {
            (id(link), name, id(thing))
            for link, before in list(self.links.values())
            for name, thing in list(link.__dict__.items())
            if thing is not before.get(name, _MISSING) or (id(link), name) in self.written
        }

    def _write(self, link, name, value, thing) -> None:
        """Note that the call has left `thing` in an attribute; `value` stands for it."""
        key = (id(link), name, id(thing))
        n = next(
            (i for i, seen in enumerate(self.recorder.reports.seen_at_reports) if key in seen), None
        )
        n_reports = len(self.trace.reports) if n is None else n
        self.trace.writes.append(AttributeWrite(link, name, value, n_reports))

    def _collect_attributes(self) -> None:
        written = {key for key, _ in self.written}
        for link, before in self.links.values():
            for name, thing in list(link.__dict__.items()):
                if (id(link), name) in self.recorder.reads.beside:
                    continue
                first = before.get(name, _MISSING)
                if thing is first or name in INTERNAL:
                    if id(link) not in written or name in INTERNAL:
                        continue
                    if (id(link), name) in self.written:
                        self._written_again(link, name, thing)
                    continue
                if isinstance(thing, (chainer.Parameter, chainer.Link)):
                    self.recorder.mark_dynamic(
                        f"a {type(thing).__name__} was assigned to attribute {name!r} during "
                        "the call",
                        Remedy.PASS_NUMBERS,
                    )
                elif (
                    is_traced(thing)
                    and shown(thing) is first
                    and self.recorder.lasting.is_held(first)
                ):
                    link.__dict__[name] = first  # ``self.x += y`` has put back what was there
                elif self.recorder.borrowed.holds(strip(thing)):
                    self.recorder.mark_dynamic(
                        f"attribute {name!r} was set to an array from outside, which others "
                        "may write to",
                        Remedy.PASS_NUMBERS,
                    )
                elif isinstance(thing, (chainer.Variable, *ARRAYS)) or is_traced(thing):
                    self._write(link, name, self._written(link, name, thing), thing)
                elif self.floats.is_left(thing):
                    link.__dict__[name] = plain_float(thing)
                    self._write(link, name, thing.origin.value, link.__dict__[name])
                elif self.floats.follows(thing):
                    self._write(link, name, thing.origin, thing)
                    link.__dict__[name] = plain_float(thing)
                elif thing is None:
                    self._write(link, name, None, thing)
                elif self._is_tree(thing):
                    self._write_tree(link, name, thing)
                elif is_constant(thing) and (id(link), name) in self.written:
                    self._write(link, name, thing, thing)
                elif first is _MISSING or type(thing) is not type(first) or not _same(thing, first):
                    self.recorder.mark_dynamic(
                        f"attribute {name!r} of {type(link).__name__} was set to {thing!r:.60} "
                        "during the call; code that must run every time belongs into "
                        "sdbr.static_code",
                        Remedy.PASS_NUMBERS,
                    )

    def _is_itself(self, link, name, thing) -> bool:
        """Whether the call has assigned to an attribute what it read from there."""
        value = self.known.get((id(link), name))
        if value is None:
            return False
        if isinstance(thing, chainer.Variable):
            return self.values.of_variable(thing) is value
        return isinstance(thing, ARRAYS) and self.values.of_array(thing) is value

    def _written_again(self, link, name, thing) -> None:
        """The call wrote what was there: the next time something else may be there."""
        scalar = self.floats.scalars.get((id(link), name))
        if thing is None or scalar is not None:
            self._write(link, name, thing, thing)
        elif isinstance(thing, (*_SCALARS, chainer.Parameter, chainer.Link)):
            self._note_read(link, name, thing)
            if scalar is not None:
                scalar.keyed = True
        elif isinstance(thing, (chainer.Variable, *ARRAYS)) and not self._is_itself(
            link, name, thing
        ):
            self._write(link, name, self._written(link, name, thing), thing)

    def _write_tree(self, link, name, thing) -> None:
        """A list, tuple or dict of results: each replay makes a new one."""

        def value(x):
            if self.floats.is_left(x):
                return x.origin.value
            if self.floats.follows(x):
                return x.origin
            # A number of a state that was read is compared before each replay.
            return x if is_constant(x) else self.recorder.calls.handed_out(x)

        template = self.recorder.kept.template_of(thing, value)
        self._write(link, name, template, thing)
        self.recorder.kept.settle_later(functools.partial(link.__dict__.__setitem__, name), thing)

    def _is_tree(self, thing) -> bool:
        """Whether `thing` consists of what replays make anew; numbers and texts may lie beside."""
        return not holds_itself(thing) and (
            self._consists(thing, False) or (self._consists(thing, True) and self._has_array(thing))
        )

    def _consists(self, thing, more: bool) -> bool:
        if isinstance(thing, (list, tuple)):
            return all(self._consists(x, more) for x in thing)
        if isinstance(thing, dict):
            return all(self._consists(x, more) for x in list(thing.values()))
        made = isinstance(shown(thing), (chainer.Variable, *ARRAYS)) or self.floats.is_left(thing)
        # What stands for a NumPy scalar is none of them.
        return made or thing is None or (more and is_constant(thing) and not is_traced(thing))

    def _has_array(self, thing) -> bool:
        if isinstance(thing, (list, tuple)):
            return any(map(self._has_array, thing))
        if isinstance(thing, dict):
            return any(map(self._has_array, thing.values()))
        made = isinstance(thing, (chainer.Variable, *ARRAYS)) or is_traced(thing)
        return made or type(thing) in FOLLOWED

    def _written(self, link, name, thing) -> Value:
        if is_traced(thing):
            link.__dict__[name] = plain = shown(thing)
            if isinstance(plain, np.generic):
                _SCALAR_STATE.setdefault(link, set()).add(name)
        return self.recorder.calls.handed_out(thing)


def _contents(thing):
    if isinstance(thing, dict):
        return list(thing.keys()) + list(thing.values())
    return list(thing)


def _same_contents(a, b) -> bool:
    return len(a) == len(b) and all(
        x is y or (isinstance(x, _SCALARS) and type(x) is type(y) and x == y)
        for x, y in zip(a, b, strict=True)
    )


def _same(a, b) -> bool:
    try:
        return bool(a == b) or repr(a) == repr(b)
    except Exception:
        return False
