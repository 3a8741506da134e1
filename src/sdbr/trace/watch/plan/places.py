"""Places where a call has read something, and the tests that tell whether that is still there."""

from __future__ import annotations

import types
import weakref
from typing import Any

from sdbr.trace.watch._looks import MISSING, class_attribute, is_a, is_atom, item, lookup
from sdbr.trace.watch.plan._parts import How, Node, Op, Test, What
from sdbr.trace.watch.plan._plan import (
    class_tag,
    fields_of,
    fields_offset,
    has_safe_keys,
    slot_offset,
    wrapped_of,
)
from sdbr.trace.watch.plan._states import Like

import chainer
import numpy as np

IDENTITIES = (How.WEAK, How.SAME, How.ATOM)
UNSURE = (How.WRAPPED, How.UNKNOWN)
IN_PLACE = (How.ARRAY, How.VARIABLE)
#: Descriptors without code of the user's, or that are held where they are read anyway.
DESCRIPTORS = (
    property, types.GetSetDescriptorType, types.MemberDescriptorType,
    types.MethodDescriptorType, types.WrapperDescriptorType,
)  # fmt: skip
WRAPPERS = (staticmethod, classmethod)
FIELDS = (types.MemberDescriptorType, types.GetSetDescriptorType)
OF_CLASS = type.__dict__
HEAP, IMMUTABLE = 1 << 9, 1 << 8
_REQUIRES = chainer.Variable.__dict__["requires_grad"]


class Unplanned(Exception):
    """No test tells of it: it is asked each time."""


def is_static(kind: type) -> bool:
    """Whether nobody can write to a class and those above it."""
    return all(
        OF_CLASS["__flags__"].__get__(k) & (HEAP | IMMUTABLE) != HEAP
        for k in OF_CLASS["__mro__"].__get__(kind)
    )


def has(thing, *names: str) -> bool:
    """Whether the class of a thing has one of these attributes."""
    return any(class_attribute(type(thing), name) is not MISSING for name in names)


def identity(thing) -> tuple[int, Any]:
    """How a thing is known again that nobody keeps."""
    if is_atom(thing):
        return How.ATOM, thing
    if type(thing) in DESCRIPTORS:
        return How.SAME, thing
    try:
        if type(thing) in WRAPPERS and wrapped_of(thing) is thing.__func__:
            return How.WRAPPED, (type(thing), weakref.ref(thing.__func__))
        return How.WEAK, weakref.ref(thing)
    except TypeError:
        return How.UNKNOWN, None


def how_compared(want, thing) -> tuple[int, Any]:
    """How a guard that wants `want` compares a value, where that was `thing` and held."""
    if type(want) is not tuple:
        if type(want) is weakref.ref:
            return How.WEAK, want
        if type(want) is types.FunctionType:  # what cannot be let go of
            return How.SAME, thing
        raise Unplanned
    kind = type(thing)
    if len(want) == 1:
        return How.KIND, kind
    if is_atom(thing):
        return How.ATOM, thing
    owner = thing.__self__ if kind is types.BuiltinFunctionType else None
    if is_a(owner, (type,)) and is_static(owner):  # ``object.__new__``: it stays, there is one
        return How.SAME, thing
    if kind is np.ndarray:
        if not want[-1].moves:
            raise Unplanned
        return How.ARRAY, Like(thing)
    if kind is chainer.Variable:
        array = thing._data[0]
        usual = array is None or type(array) is np.ndarray
        if usual and type(thing._requires_grad) is bool:
            return How.VARIABLE, Like(array, kind, thing._requires_grad)
    raise Unplanned


class Tests:
    """Nodes and tests, as they are put together."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.tests: list[Test] = []
        self.groups: dict[Any, Test | None] = {}
        self.kept: list[Any] = []

    def test(self, op: int, *args, **kwargs) -> Test:
        """A new test, the last so far."""
        test = Test(op, *args, **kwargs)
        self.tests.append(test)
        return test

    def node(self, value, how: int = How.ANY, keep=None, vouched: bool = True) -> Node:
        """A new node; `vouched`: what lies there is not looked at unless something has moved."""
        node = Node(value, how, keep)
        self.nodes.append(node)
        self.settle(node, vouched)
        return node

    def settle(self, node: Node, vouched: bool = True) -> None:
        """Add what has to be asked of a node each time."""
        if node.how in IN_PLACE and vouched and ("again", id(node)) not in self.groups:
            self.groups["again", id(node)] = self.test(Op.AGAIN, node)
        if node.how == How.VARIABLE:
            group = self.class_of(node)
            self.lay(group, "requires_grad", _REQUIRES, How.SAME, _REQUIRES)
            for name in ("_data", "_requires_grad"):
                self.lay(group, name, MISSING)
        if node.how == How.KIND and not is_static(type(node.value)):
            self.typed(node)

    def lay(self, group: Test, key, value, how: int = How.ANY, keep=None, vouched=True):
        """What lies under a key is `value`; MISSING for nothing."""
        known = group.places.get((type(key), key))
        if value is MISSING:
            if isinstance(known, Node):
                raise Unplanned
            if known is None:
                group.add(key, What.NOTHING)
            return None
        if known is None:
            known = Node(value, how, keep)
            self.nodes.append(known)
            group.add(key, known)
        elif not isinstance(known, Node) or known.value is not value:
            raise Unplanned
        else:
            self.merge(known, how, keep)
        self.settle(known, vouched)
        return known

    def merge(self, node: Node, how: int, keep) -> None:
        """A node is compared in another way as well."""
        if how == How.KIND and not is_static(type(node.value)):
            self.typed(node)
        if how == How.ANY or how == node.how:
            return
        if node.how == How.ANY:
            node.becomes(how, keep)
        elif node.how in IN_PLACE or how in IN_PLACE:
            raise Unplanned
        elif node.how == How.KIND or (node.how in UNSURE and how in IDENTITIES):
            node.becomes(how, keep)

    def raw(self, group: Test | None, key, value) -> None:
        """What lies there has to stay the very same."""
        if group is not None:
            self.lay(group, key, value, *identity(value) if value is not MISSING else ())

    def typed(self, node: Node) -> None:
        """The class of what lies at a node."""
        key = "type", id(node)
        kind = type(node.value)
        if key in self.groups:
            return
        known = node.how in (*IDENTITIES, How.KIND)
        if known and is_static(kind) and kind is not types.ModuleType:  # which may get another
            self.groups[key] = None
            return
        self.groups[key] = self.test(Op.TYPE, node, thing=(kind, weakref.ref(kind)))

    def class_of(self, node: Node) -> Test | None:
        """What the class of what lies at a node has; None where that cannot change."""
        self.typed(node)
        return self.class_group(type(node.value))

    def class_group(self, kind: type, node: Node | None = None) -> Test | None:
        """What a class has that lies at a node, or is that of one."""
        key = "class", id(kind), None if node is None else id(node)
        if key not in self.groups:
            self.kept.append(kind)
            self.groups[key] = None if is_static(kind) else self.test(
                Op.CLASS, node, class_tag(kind), (kind, weakref.ref(kind))
            )  # fmt: skip
        return self.groups[key]

    def fields(self, node: Node) -> Test | None:
        """The dictionary of an object; None where it has none."""
        key = "fields", id(node)
        if key not in self.groups:
            self.class_of(node)
            own = fields_of(node.value)
            if own is not None and not has_safe_keys(own):
                raise Unplanned
            offset = fields_offset(node.value)
            if offset:
                kind = None
                if self.tests and self.tests[-1] is self.groups["type", id(node)]:
                    kind = self.tests.pop().thing  # both in one
                self.groups[key] = self.test(Op.FIELDS, node, offset, kind)
            elif own is not None or has(node.value, "__dict__"):
                self.groups[key] = self.test(Op.ROVING, node)
            else:
                self.groups[key] = None
        return self.groups[key]

    def items(self, node: Node) -> Test:
        """What is in a dict."""
        key = "items", id(node)
        if key not in self.groups:
            if not has_safe_keys(node.value):
                raise Unplanned
            self.class_of(node)  # not another one at its address, whose objects are no dicts
            self.groups[key] = self.test(Op.ITEMS, node)
        return self.groups[key]

    def elements(self, node: Node) -> Test:
        """What is in a list or a tuple."""
        key = "elements", id(node)
        if key not in self.groups:
            self.class_of(node)
            op = Op.LIST if is_a(node.value, (list,)) else Op.TUPLE
            self.groups[key] = self.test(op, node)
        return self.groups[key]

    # --- attributes -----------------------------------------------------------------------------
    def attribute(self, node: Node, name: str, how: int = How.ANY, keep=None) -> Node:
        """What ``lookup`` finds in the object at a node, see there."""
        thing = node.value
        kind = type(thing)
        value = lookup(thing, name)[1]
        found = class_attribute(kind, name)
        group = self.class_of(node)
        if found is not MISSING:
            self.described(group, name, found, "__get__", "__set__", "__delete__")
            if has(found, "__set__", "__delete__"):
                if type(found) in FIELDS:
                    return self.slot(node, group, name, found, value, how, keep)
                return self.reached(group, name, found, value, how, keep)
        if is_a(thing, (type,)):
            own = class_attribute(thing, name)
            mine = self.class_group(thing, node)
            if mine is None and node.how not in IDENTITIES:
                raise Unplanned
            if own is not MISSING:
                self.raw(group, name, found)
                self.described(mine, name, own, "__get__")
                return self.reached(mine, name, own, value, how, keep)
        else:
            mine, own = self.own(node, group, name, found)
            if own is not MISSING:
                self.raw(group, name, found)
                return self.reached(mine, name, own, value, how, keep)
        if mine is not None:
            self.lay(mine, name, MISSING)
        return self.reached(group, name, found, value, how, keep)

    def own(self, node: Node, group: Test | None, name: str, found) -> tuple[Test | None, Any]:
        """The dictionary of an object, and what lies there under a name."""
        thing = node.value
        place = class_attribute(type(thing), "__dict__")
        if place is not MISSING:
            if type(place) not in FIELDS:
                raise Unplanned
            self.raw(group, "__dict__", place)
        fields = fields_of(thing)
        if place is not MISSING and fields is not object.__getattribute__(thing, "__dict__"):
            raise Unplanned
        return self.fields(node), MISSING if fields is None else item(fields, name)

    def described(self, group: Test | None, name: str, found, *methods: str) -> None:
        """What the class of something that lies in a class says of how that is read."""
        if group is None or is_static(type(found)):
            return
        self.raw(group, name, found)
        of_found = self.class_of(group.places[str, name])
        for method in methods:
            self.raw(of_found, method, class_attribute(type(found), method))

    def reached(self, group: Test | None, name, raw, value, how: int, keep) -> Node:
        """The value that follows from what lies under a name."""
        if raw is value and value is not MISSING and group is not None:
            return self.lay(group, name, value, how, keep)
        self.raw(group, name, raw)
        return self.node(value, how, keep)

    def slot(self, node: Node, group, name: str, found, value, how: int, keep) -> Node:
        """What lies in a slot."""
        if not is_a(node.value, (found.__objclass__,)):
            raise Unplanned
        offset = slot_offset(found, node.value)
        if not offset:
            raise Unplanned
        self.raw(group, name, found)
        test = self.test(Op.MEMBER, node, offset)
        return self.lay(test, name, value, how, keep, vouched=False) or self.node(MISSING)


__all__ = ("IDENTITIES", "Tests", "Unplanned", "how_compared", "identity")
