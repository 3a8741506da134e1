"""The objects that a call may change, found once for an audit."""

from __future__ import annotations

import collections
import random
import threading
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from sdbr.audit.reach import reached
from sdbr.devices.arrays import ARRAYS
from sdbr.trace.code.moving import moves_on
from sdbr.trace.code.reading import place_key
from sdbr.trace.effects.growing import GrowthSink
from sdbr.trace.effects.sinks import Entries
from sdbr.trace.values import ATTRIBUTE, PARAMETER

import chainer
import numpy as np

#: Attributes of links and optimizers that are sdbr's own affair.
OWN = frozenset({"schedule_manager", "static_schedule"})
#: How the name of an update rule begins.
RULE = "the update rule of"
#: Largest array that is copied though nothing says that the call writes to it, in bytes.
MOST_COPIED = 1 << 22
#: How many objects are looked at, and how deep they may lie.
MOST_THINGS, MOST_DEPTH = 20_000, 8
_PLAIN = (int, float, complex, str, bytes, bool, type(None), type)
_PLAIN_TYPES = frozenset(_PLAIN)
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
        self.states: set[int] = set()  # of update rules: which arrays are in them does not count
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
            if type(thing) in _PLAIN_TYPES or isinstance(thing, chainer.Link):
                continue
            if not is_own(attribute):
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
        if isinstance(thing, ARRAYS):
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
                if type(item) not in _PLAIN_TYPES:
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
            if type(part) in _PLAIN_TYPES or isinstance(part, chainer.Link):
                continue
            if not is_own(attribute):
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
            if isinstance(data[0], ARRAYS):
                self._array(data[0], name, self._whole)
        gradient = parameter.__dict__.get("_grad")
        if isinstance(gradient, ARRAYS):
            self._array(gradient, f"the gradient of {name}", self._gradients)
        if self._rules and parameter.update_rule is not None:
            self._in_rule = True  # its states are written by every step
            self.states.add(id(parameter.update_rule.state))
            self._object(parameter.update_rule, f"{RULE} {name}", 0)
            self._in_rule = False

    def _array(self, array: np.ndarray, name: str, is_copied: bool) -> None:
        if id(array) not in self._seen and array.dtype.kind in "biufcmMSUV":
            self._seen.add(id(array))
            self.arrays.append((Named(name, array), is_copied))


def roots_of(manager, schedule, arguments, optimizer=None, gradients: bool = False) -> Roots:
    """What a call that `schedule` was made of may write."""
    owner = None if manager.owner is None else manager.owner()
    trace = schedule.trace
    links = {} if owner is None else {id(owner): owner}
    things = [*trace.reads, *trace.writes]
    for link in [x.link for x in things]:
        if isinstance(link, chainer.Link):
            links.setdefault(id(link), link)
    parameters, captured = [], []
    for value in trace.values:
        if value.kind == PARAMETER:
            parameters.append(value.source)
        elif value.kind == ATTRIBUTE:
            holder, name = value.source
            if isinstance(holder, chainer.Link):
                links.setdefault(id(holder), holder)
            else:
                captured.append(holder.get(name))
    arguments = (arguments, captured)
    # Who may write to parameters: static_code, and functions that update an input in place.
    whole = any(node.effect for node in trace.nodes) or any(
        value.kind == PARAMETER and value.held for value in trace.values
    )
    near: Sequence = ()
    if threading.active_count() == 1:
        if schedule.reached is None:
            schedule.reached = reached(manager.function, owner, trace)
        near = schedule.reached
    held = [value.source for value in trace.lasting if value.kind == ATTRIBUTE]
    written = [link.__dict__.get(name) for link, name in held]
    written += [x.source._data[0] for x in trace.lasting if x.kind == PARAMETER]
    grown = [store.sink for store in trace.stores if isinstance(store.sink, GrowthSink)]
    written += [sink.container for sink in grown]
    written += [(x.sink.holder, x.sink.name) for x in trace.stores if x.sink not in grown]
    written += [(x.link.__dict__, x.name) for x in trace.writes]
    roots = Roots(
        list(links.values()), arguments, parameters, optimizer, gradients, whole, near, written
    )
    for store in trace.stores:
        # Else on a Variable that each call makes anew.
        if store.sink.holder is not None and store.sink not in grown:
            entries = Entries(store.sink)
            roots.dicts.append(Named(f"{store.sink.name!r} outside of links", entries))
            roots.written.add((id(entries), store.sink.name))
    return roots


def is_own(attribute: str) -> bool:
    """Whether an attribute of a link or an optimizer is sdbr's."""
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
