"""What a call may write, as it is at one moment, and putting it back."""

from __future__ import annotations

import collections
import random
from collections.abc import Iterable
from typing import Any, NamedTuple

from sdbr.audit._budget import checksum, same_bytes
from sdbr.trace.code.moving import moves_on
from sdbr.trace.code.reading import place_key

import chainer
import numpy as np

MISSING = type("Missing", (), {"__repr__": lambda self: "nothing", "__slots__": ()})()
#: Attributes of links and optimizers that are sdbr's own affair.
OWN = frozenset({"schedule_manager", "static_schedule"})
#: Largest array that is copied though nothing says that the call writes to it, in bytes.
MOST_COPIED = 1 << 22
#: How many objects are looked at, and how deep they may lie.
MOST_THINGS, MOST_DEPTH = 20_000, 8
_PLAIN = (int, float, complex, str, bytes, bool, type(None), type)
_CONTAINERS = (list, dict, set, collections.deque)


class Named(NamedTuple):
    """Where something was found: an object that can change, and what to call it."""

    name: str
    thing: Any


class Roots:
    """The objects that a call may change, found once for an audit.

    Parameters
    ----------
    links : iterable of chainer.Link
        With all links below them.
    arguments : object
        Of the call: arrays, Variables, containers.
    parameters : iterable of chainer.Parameter
        Those that the call reads, wherever they are.
    optimizer : chainer.GradientMethod, optional
        Whose update is part of the call: parameters are kept whole, with their states.
    gradients : bool
        Whether gradients are kept whole.
    whole : bool
        Whether parameters are kept whole without an optimizer, too.
    reached : iterable of Reached
        Places outside of links.
    written : iterable
        What the call is known to write: arrays and containers, dictionaries with the name there.

    Attributes
    ----------
    dicts : list of Named
        Dictionaries of objects.
    containers : list of Named
    arrays : list of (Named, bool)
        And whether the contents are copied; else only a checksum is taken.
    parameters, variables : list of Named
        `variables` are all of them, parameters included.
    generators : list of Named
        Random generators of the user's own, whose state is put back as well.
    moves_on : bool
        Whether there is something among it that gives another thing each time it is asked, and
        cannot be put back.
    """

    def __init__(
        self,
        links: Iterable[chainer.Link],
        arguments,
        parameters: Iterable[chainer.Parameter] = (),
        optimizer=None,
        gradients: bool = False,
        whole: bool = False,
        reached: Iterable = (),
        written: Iterable = (),
    ):
        self.dicts: list[Named] = []
        self.containers: list[Named] = []
        self.arrays: list[tuple[Named, bool]] = []
        self.parameters: list[Named] = []
        self.variables: list[Named] = []
        self.generators: list[Named] = []
        self.moves_on = False
        self._seen: set[int] = set()
        self.written = {
            place_key(*thing) if isinstance(thing, tuple) else id(thing) for thing in written
        }
        self._whole = whole or optimizer is not None
        self._gradients = gradients
        self._in_rule = False
        self._rules = optimizer is not None
        for link in links:
            for path, child in link.namedlinks():
                self._link(child, "" if path == "/" else path)
        for parameter in parameters:
            if id(parameter) not in self._seen:
                self._parameter(parameter, f"parameter {parameter.name}")
        if optimizer is not None:
            for path, parameter in optimizer.target.namedparams():
                if id(parameter) not in self._seen:
                    self._parameter(parameter, path)
        self._look(arguments, "the arguments", 0)
        for entry in reached:
            if place_key(entry.holder, entry.name) in self.written:
                self.written.add((id(entry), entry.name))
            self.dicts.append(Named("", entry))
            self._look(entry.get(entry.name), entry.name, 0)
        if optimizer is not None:
            self._object(optimizer, "the optimizer", 0)
        for name, config in (
            ("chainer.global_config", chainer.global_config),
            ("chainer.config", chainer.config._local),
        ):
            self._seen.add(id(config.__dict__))
            self.dicts.append(Named(name, config.__dict__))

    def _link(self, link: chainer.Link, path: str) -> None:
        if id(link) in self._seen:
            return
        self._seen.add(id(link))
        name = f"{type(link).__name__}{path}"
        self.dicts.append(Named(name, link.__dict__))
        for attribute, thing in list(link.__dict__.items()):
            if not _is_own(attribute) and not isinstance(thing, chainer.Link):
                self._look(thing, f"{name}.{attribute}", 0)

    def _look(self, thing, name: str, depth: int) -> None:
        if isinstance(thing, _PLAIN) or id(thing) in self._seen:
            return
        is_written = id(thing) in self.written
        if not is_written and (depth > MOST_DEPTH or len(self._seen) > MOST_THINGS):
            return
        if isinstance(thing, tuple):
            for i, item in enumerate(thing):
                self._look(item, f"{name}[{i}]", depth + 1)
            return
        if isinstance(thing, np.ndarray):
            copied = self._in_rule or thing.nbytes <= MOST_COPIED or is_written
            self._array(thing, name, copied)
        elif isinstance(thing, chainer.Parameter):
            self._parameter(thing, name)
        elif isinstance(thing, chainer.Variable):
            self._seen.add(id(thing))
            self.variables.append(Named(name, thing))
            self.dicts.append(Named(name, thing.__dict__))
            self._look(thing.__dict__.get("_data"), name, depth)
        elif isinstance(thing, _CONTAINERS):
            self._seen.add(id(thing))
            if len(thing) <= MOST_THINGS or is_written:
                self.containers.append(Named(name, thing))
            if isinstance(thing, set) or len(thing) > MOST_THINGS:
                return
            items = thing.items() if isinstance(thing, dict) else enumerate(thing)
            for key, item in list(items):
                if not isinstance(item, _PLAIN):
                    self._look(item, f"{name}[{key!r:.40}]", depth + 1)
        elif isinstance(thing, chainer.Link):
            for path, child in thing.namedlinks():
                self._link(child, f" {name}{'' if path == '/' else path}")
        elif isinstance(thing, (random.Random, np.random.RandomState, np.random.Generator)):
            self._seen.add(id(thing))
            if isinstance(thing, random.SystemRandom):  # has no state
                self.moves_on = True
            else:
                self.generators.append(Named(name, thing))
        elif moves_on(thing) is not None:
            self.moves_on = True
        elif _is_users(thing):
            self._object(thing, name, depth)

    def _object(self, thing, name: str, depth: int) -> None:
        self._seen.add(id(thing))
        attributes = getattr(thing, "__dict__", None)
        if type(attributes) is not dict:
            return
        self.dicts.append(Named(name, attributes))
        for attribute, part in list(attributes.items()):
            if not _is_own(attribute) and not isinstance(part, chainer.Link):
                if _is_rule(part) and id(part) not in self._seen:
                    self._object(part, f"{name}.{attribute}", depth + 1)
                elif not _is_rule(part):
                    self._look(part, f"{name}.{attribute}", depth + 1)

    def _parameter(self, parameter: chainer.Parameter, name: str) -> None:
        self._seen.add(id(parameter))
        self.dicts.append(Named(name, parameter.__dict__))
        self.parameters.append(Named(name, parameter))
        self.variables.append(Named(name, parameter))
        data = parameter.__dict__.get("_data")
        if type(data) is list and id(data) not in self._seen:
            self._seen.add(id(data))
            self.containers.append(Named(name, data))
            if isinstance(data[0], np.ndarray):
                self._array(data[0], name, self._whole)
        gradient = parameter.__dict__.get("_grad")
        if isinstance(gradient, np.ndarray):
            self._array(gradient, f"the gradient of {name}", self._gradients)
        if self._rules and parameter.update_rule is not None:
            self._in_rule = True  # its states are written by every step
            self._object(parameter.update_rule, f"the update rule of {name}", 0)
            self._in_rule = False

    def _array(self, array: np.ndarray, name: str, is_copied: bool) -> None:
        if id(array) not in self._seen and array.dtype.kind in "biufcmMSUV":
            self._seen.add(id(array))
            self.arrays.append((Named(name, array), is_copied))


def _is_own(attribute: str) -> bool:
    return attribute in OWN or attribute.startswith("_sdbr_")


def _is_rule(thing) -> bool:
    """What belongs to an optimizer and holds numbers of its own."""
    return isinstance(
        thing, (chainer.optimizer.Hyperparameter, chainer.UpdateRule, chainer.Optimizer)
    )


def _is_users(thing) -> bool:
    """Whether `thing` is an object of a class of the user's that holds data."""
    root = type(thing).__module__.partition(".")[0]
    if root in ("builtins", "chainer", "numpy", "sdbr", "cupy", "scipy", "functools"):
        return False
    return type(getattr(thing, "__dict__", None)) is dict


class Changes:
    """What is other than in a `Snapshot`.

    Attributes
    ----------
    entries : list of (Named, str, object)
        Entries of dictionaries, `MISSING` for those that went.
    contents : list of (Named, container)
    arrays : list of (Named, ndarray or None)
        None where the new contents were not kept.
    random : dict
        Names of generators whose state is another -> the state, and what sets it.
    inner : list of (Snapshot, Changes)
        What single function nodes have changed, in order, of what `Roots` may not lead to.
    """

    def __init__(self):
        self.entries: list[tuple[Named, str, Any]] = []
        self.contents: list[tuple[Named, Any]] = []
        self.arrays: list[tuple[Named, np.ndarray | None]] = []
        self.random: dict[str, Any] = {}
        self.inner: list[tuple[Snapshot, Changes]] = []

    def put(self) -> None:
        """Make everything as it was when the changes were noted."""
        for _, changes in self.inner:
            changes.put()
        for place, name, value in self.entries:
            if value is MISSING:
                place.thing.pop(name, None)
            else:
                place.thing[name] = value
        for place, contents in self.contents:
            _refill(place.thing, contents)
        for place, contents in self.arrays:
            if contents is not None:
                _rewrite(place.thing, contents)
        for state, put in self.random.values():
            put(state)


class Snapshot:
    """Everything among `Roots`, as it is now.

    Parameters
    ----------
    roots : Roots
    """

    def __init__(self, roots: Roots):
        self.roots = roots
        self.entries = [dict(place.thing) for place in roots.dicts]
        self.contents = [_copy_of(place.thing) for place in roots.containers]
        self.arrays: list[Any] = [
            place.thing.copy() if copied else checksum(place.thing)
            for place, copied in roots.arrays
        ]
        self.random = {name: get() for name, (get, _) in self._generators().items()}

    def changes(self, written: bool = False) -> Changes:
        """What is other now; with `written` also what the call writes, as it was or not."""
        known = self.roots.written if written else frozenset()
        found = Changes()
        for place, before in zip(self.roots.dicts, self.entries, strict=True):
            now = place.thing
            for name in [*before, *[name for name in now if name not in before]]:
                value, then = now.get(name, MISSING), before.get(name, MISSING)
                if (id(now), name) not in known and (value is then or _is_same(value, then)):
                    continue
                if not _is_own(name):
                    found.entries.append((place, name, value))
        for place, before in zip(self.roots.containers, self.contents, strict=True):
            if not _same_contents(place.thing, before) or id(place.thing) in known:
                found.contents.append((place, _copy_of(place.thing)))
        for (place, copied), before in zip(self.roots.arrays, self.arrays, strict=True):
            array = place.thing
            if copied:
                if not same_bytes(array, before) or id(array) in known:
                    found.arrays.append((place, array.copy()))
            elif checksum(array) != before:
                found.arrays.append((place, None))
        for name, (get, put) in self._generators().items():
            state = get()
            if not _same_state(state, self.random[name]):
                found.random[name] = (state, put)
        return found

    def _generators(self) -> dict[str, tuple]:
        own = {
            f"{place.name} ({i})": _access(place.thing)
            for i, place in enumerate(self.roots.generators)
        }
        return {**_GENERATORS, **own}

    def put_back(self, changes: Changes) -> list[str]:
        """Undo `changes`; the names of what cannot be undone, for its contents were not copied."""
        lost = []
        for snapshot, inside in reversed(changes.inner):
            snapshot.put_back(inside)
        index = {id(place.thing): i for i, place in enumerate(self.roots.dicts)}
        for place, name, _ in changes.entries:
            value = self.entries[index[id(place.thing)]].get(name, MISSING)
            if value is MISSING:
                place.thing.pop(name, None)
            else:
                place.thing[name] = value
        index = {id(place.thing): i for i, place in enumerate(self.roots.containers)}
        for place, _ in changes.contents:
            _refill(place.thing, self.contents[index[id(place.thing)]])
        index = {id(place.thing): i for i, (place, _) in enumerate(self.roots.arrays)}
        for place, _ in changes.arrays:
            before = self.arrays[index[id(place.thing)]]
            if not isinstance(before, np.ndarray) or not _rewrite(place.thing, before):
                lost.append(place.name)
        for name, (_, put) in changes.random.items():
            put(self.random[name])
        return lost


def _is_same(a, b) -> bool:
    """Whether nobody can tell: of a number, replays may write the very object that they wrote."""
    return a is b or (type(a) is type(b) is float and repr(a) == repr(b))


def _copy_of(container):
    if isinstance(container, dict):
        return dict(container)
    return set(container) if isinstance(container, set) else list(container)


def _same_contents(now, before) -> bool:
    if len(now) != len(before):
        return False
    if isinstance(now, set):
        return now == before
    if isinstance(now, dict):
        return all(a is b for a, b in zip(now, before, strict=True)) and all(
            map(_is, now.values(), before.values())
        )
    return all(map(_is, now, before))


def _is(a, b) -> bool:
    return a is b


def _refill(container, contents) -> None:
    container.clear()
    if isinstance(container, (dict, set)):
        container.update(contents)
    else:
        container.extend(contents)


def _rewrite(array: np.ndarray, contents: np.ndarray) -> bool:
    """Give `array` its former contents; False when it cannot be written or has another shape."""
    if array.shape != contents.shape or array.dtype != contents.dtype:
        return False
    if not array.flags.writeable:
        return same_bytes(array, contents)
    array[...] = contents
    return True


def _numpy_state() -> tuple:
    return np.random.get_state()


#: Generators whose state every audit looks at: how to get it and how to set it.
_GENERATORS = {
    "numpy.random": (_numpy_state, np.random.set_state),
    "random": (random.getstate, random.setstate),
}


def _access(generator) -> tuple:
    """How to get and to set the state of a generator."""
    if isinstance(generator, random.Random):
        return generator.getstate, generator.setstate
    if isinstance(generator, np.random.RandomState):
        return generator.get_state, generator.set_state
    bits = generator.bit_generator

    def put(state) -> None:
        bits.state = state[0]

    return (lambda: (bits.state,)), put


def _same_state(a: tuple, b: tuple) -> bool:
    return len(a) == len(b) and all(
        np.array_equal(x, y) if isinstance(x, np.ndarray) else _is_alike(x, y)
        for x, y in zip(a, b, strict=True)
    )


def _is_alike(x, y) -> bool:
    """What a generator keeps: the text of hundreds of numbers takes longer than they do."""
    return x == y if isinstance(x, tuple) else repr(x) == repr(y)
