"""Tests that nothing has moved of all that is in an object."""

from __future__ import annotations

import collections
import functools
import types
import weakref

from sdbr.trace.watch._following import is_library_class
from sdbr.trace.watch._looks import ATOMS, MISSING, class_attribute, is_a, is_atom, lookup
from sdbr.trace.watch.fingerprints import (
    C_BOUND,
    CONTAINERS,
    METHOD,
    OWNERLESS,
    VARIABLES,
    elements_of,
    is_closed,
    is_open,
    members_of,
    slots_of,
)
from sdbr.trace.watch.plan._parts import How, Node, Op, Test, What
from sdbr.trace.watch.plan._plan import fields_of
from sdbr.trace.watch.plan._states import Like
from sdbr.trace.watch.plan.places import IDENTITIES, Tests, Unplanned, identity, is_static

import chainer
import numpy as np

_BOUND = (METHOD, *C_BOUND)
_OTHERS = (chainer.Link, *VARIABLES, np.ndarray, functools.partial)
#: Whose fingerprints may change while they lie where they were.
_CHANGING = (*VARIABLES, np.ndarray, weakref.ref, METHOD)


class Contents:
    """Goes through what `fingerprints.deep` compares, and lays a test of each place.

    Parameters
    ----------
    tests : Tests
        Gets them.
    """

    def __init__(self, tests: Tests):
        self.tests = tests
        self.seen: dict[int, object] = {}

    def of(self, node: Node) -> None:
        """Test what is in the object at a node, which the tests before tell from others.

        Raises
        ------
        Unplanned
            No test tells of some of it.
        """
        thing = node.value
        kind = type(thing)
        if kind in ATOMS or id(thing) in self.seen:
            return
        self.seen[id(thing)] = thing
        if node.how == How.ARRAY:
            return
        if (kind in _BOUND and not is_a(thing.__self__, OWNERLESS)) or is_a(thing, _OTHERS):
            raise Unplanned
        group = self.tests.class_of(node)
        if kind is types.FunctionType:
            self.definition(node)
        elif not is_closed(thing):
            if not is_open(thing):
                raise Unplanned
            self.container(node)
            self.attributes(node, group)
        elif node.how not in IDENTITIES:
            raise Unplanned
        if not is_library_class(kind) and id(kind) not in self.seen:
            self.seen[id(kind)] = kind
            self.class_values(kind, group)

    def definition(self, node: Node) -> None:
        """The code and the defaults of a function."""
        if node.value.__dict__:
            raise Unplanned
        defined(self.tests, node)
        defaults = (node.value.__defaults__ or (), (node.value.__kwdefaults__ or {}).values())
        if not is_atom((*defaults[0], *defaults[1])):
            raise Unplanned
        group, _ = self.tests.own(node, None, "", None)
        if group is not None:
            group.pairs.append((0, What.SIZE))

    def container(self, node: Node) -> None:
        """What a container holds."""
        thing = node.value
        if is_a(thing, (dict,)):
            keys = tuple(elements_of(thing))
            if not is_atom(keys) or (keys and is_a(thing, (collections.OrderedDict,))):
                raise Unplanned  # where the order of an OrderedDict is, no version tells
            group = self.tests.items(node)
            group.pairs.append((keys, What.KEYS))
            for key in keys:
                self.lies(group, key, dict.__getitem__(thing, key))
        elif is_a(thing, (list, tuple)):
            group = self.tests.elements(node)
            elements = elements_of(thing)
            group.pairs.append((len(elements), What.SIZE))
            for i, x in enumerate(elements):
                self.lies(group, i, x)

    def attributes(self, node: Node, of_class: Test | None) -> None:
        """What is in the dictionary of an object, and in its slots."""
        thing = node.value
        group, _ = self.tests.own(node, of_class, "", None)
        names = tuple(fields_of(thing) or ())
        if not is_atom(names):
            raise Unplanned
        if group is not None:
            group.pairs.append((names, What.KEYS) if names else (0, What.SIZE))
            for name in names:
                self.lies(group, name, fields_of(thing)[name])
        for name, slot in slots_of(type(thing)):
            value = lookup(thing, name)[1]
            how = () if value is MISSING else how_known(value)
            child = self.tests.slot(node, of_class, name, slot, value, *(how or (How.ANY, None)))
            if value is not MISSING:
                self.of(child)

    def class_values(self, kind: type, group: Test | None) -> None:
        """What the user's classes hold: the containers among it with all that is in them."""
        if group is None or group.number == 0:
            raise Unplanned
        group.pairs.append(("", What.FIXED))
        for name, x in members_of(kind):
            if is_a(x, CONTAINERS) and not is_atom(x):
                if class_attribute(kind, name) is not x:
                    raise Unplanned
                self.lies(group, name, x)
            elif is_a(x, _CHANGING):
                raise Unplanned

    def lies(self, group: Test, key, value) -> None:
        """At a place lies a value, of which all counts that is in it."""
        vouched = group.op not in (Op.LIST, Op.TUPLE)  # of which no version tells
        self.of(self.tests.lay(group, key, value, *how_known(value), vouched))


def defined(tests: Tests, node: Node) -> None:
    """Test the code and the defaults of a function: which objects they are."""
    function = node.value
    named = function.__kwdefaults__
    tests.test(
        Op.DEFINITION,
        node,
        thing=(weakref.ref(function.__code__), function.__defaults__, named),
    )
    if named is not None:  # a dict, which may be changed in place
        group = tests.items(tests.node(named, How.SAME, named))
        group.pairs.append((tuple(named), What.KEYS) if named else (0, What.SIZE))
        for name, x in named.items():
            tests.lay(group, name, x, *how_known(x))


def how_known(thing) -> tuple:
    """How a thing is told from others, for what is in it to have tests of its own."""
    kind = type(thing)
    if kind is np.ndarray and thing.dtype != object:
        return How.ARRAY, Like(thing)
    if kind in (list, dict, tuple, collections.OrderedDict) and not is_atom(thing):
        return How.KIND, kind
    how, keep = identity(thing)
    if how != How.UNKNOWN:
        return how, keep
    # Its fingerprint keeps it as well.
    if is_closed(thing) or class_attribute(kind, "__hash__") is object.__hash__:
        return How.SAME, thing
    if is_a(thing, (dict, list, tuple)) or not is_open(thing):
        return How.KIND, kind
    return (How.SAME, thing) if is_static(kind) else (How.KIND, kind)
