"""Makes a plan of what a call has read: which test tells of which source and guard."""

from __future__ import annotations

import builtins
import collections
import sys
import threading
import types
import weakref
from collections.abc import Callable

from sdbr.trace.watch._looks import MISSING, class_attribute, is_a, is_atom, item
from sdbr.trace.watch.fingerprints import elements_of, numbers_in
from sdbr.trace.watch.plan._parts import How, Node, Op, What
from sdbr.trace.watch.plan._plan import Plan, fields_of
from sdbr.trace.watch.plan._states import Usual
from sdbr.trace.watch.plan.contents import Contents, defined, how_known
from sdbr.trace.watch.plan.places import IDENTITIES, Tests, Unplanned, has, how_compared
from sdbr.trace.watch.sources import Source

import chainer

_LOCAL, _DEVICES = threading.local, chainer.device_resident.DeviceResident
#: Properties of libraries whose value is that of an attribute.
_PLAIN = {"device": (_DEVICES.__dict__["device"], "_device")}
_XP, _CPU = _DEVICES.__dict__["xp"], chainer.backend.CpuDevice
#: What gives the array of a Variable, and what it asks of the Variable.
_ARRAY = {name: chainer.Variable.__dict__[name] for name in ("array", "_get_array", "raw_array")}
_REQUIRES = chainer.Variable.__dict__["requires_grad"]
_USUAL = {"_layout": None, "_has_chainerx_array": False}
#: What follows of an array from its shape and dtype.
_OF_ARRAYS = frozenset({"shape", "dtype", "ndim", "size", "itemsize"})
_BOUND = (types.MethodType, types.BuiltinFunctionType)


class Planner(Tests):
    """Of what was found at sources while all guards held.

    Parameters
    ----------
    steps : list of (Source, list of Guard)
        As they are checked one by one.
    values : list
        What lies at the sources, by their numbers.
    args : tuple
    kwargs : dict
    """

    def __init__(self, steps: list, values: list, args: tuple, kwargs: dict):
        super().__init__()
        self.steps, self.values = steps, values
        self.args, self.kwargs = args, kwargs
        self.by_source: dict[int, Node] = {}
        self.left: dict[int, list] = {}
        self.usual: Usual | None = None

    def plan(self, rest_of: Callable) -> Plan | None:
        """The plan; None where it does not tell that all is as it was found.

        Parameters
        ----------
        rest_of : callable
            Makes what asks the guards that no test tells of.
        """
        for source, guards in self.steps:
            self.take(source, guards)
        fetched, steps = self.asked_each_time()
        numbers = [number for number, _ in fetched]
        rest = rest_of(steps, numbers, len(self.values)) if steps else None
        nodes = [node for _, node in fetched]
        plan = Plan(self.nodes, self.tests, nodes, rest, self.usual)
        return plan if plan.arm(self.args, self.kwargs) else None

    def take(self, source: Source, guards: list) -> None:
        """A source, and what is asked of it."""
        left = self.left[source.number] = []
        value = self.values[source.number]
        how: tuple = ()
        for guard in guards:
            if guard.kind == "value" and not how:
                try:
                    how = how_compared(guard.want, value)
                    continue
                except Unplanned:
                    pass
            if guard.kind == "value":
                left.append(guard)
        node = None
        try:
            node = self.find(source, value, *how)
        except Unplanned:
            left[:] = [guard for guard in guards if guard.kind == "value"]
        if node is not None:
            self.by_source[source.number] = node
        for guard in guards:
            if guard.kind != "value":
                try:
                    self.ask(guard)
                except Unplanned:
                    left.append(guard)

    def find(self, source: Source, value, how: int = How.ANY, keep=None) -> Node | None:
        """The node of a source."""
        find = getattr(self, f"find_{source.kind}", None)
        if find is None:
            raise Unplanned
        if source.parent is None:
            node = find(source, value, how, keep)
        else:
            node = find(self.at(source.parent), source.key, value, how, keep)
        if node.value is not value:
            raise Unplanned
        return node

    def at(self, source: Source) -> Node:
        """The node of a source that was found."""
        node = self.by_source.get(source.number)
        if node is None:
            raise Unplanned
        return node

    def asked_each_time(self) -> tuple[list, list]:
        """What to fetch of nodes, with its number, and what to do in steps with that."""
        needed: set[int] = set()
        for source, _ in self.steps:
            left = self.left[source.number]
            if left:
                needed.add(source.number)
            needed.update(guard.key.number for guard in left if guard.kind == "is")
            needed.update(guard.source.number for guard in left)
        for source, _ in reversed(self.steps):
            if source.number in needed and source.number not in self.by_source and source.parent:
                needed.add(source.parent.number)
        fetched, steps = [], []
        for source, _ in self.steps:
            if source.number in needed:
                node = self.by_source.get(source.number)
                if node is not None:
                    fetched.append((source.number, node))
                steps.append((source if node is None else None, self.left[source.number]))
        return fetched, [step for step in steps if step[0] is not None or step[1]]

    # --- sources --------------------------------------------------------------------------------
    def find_given(self, source, value, how, keep):
        """The number of arguments, and the names of those that have one."""
        test = self.test(Op.GIVEN, None, len(self.args))
        for name in self.kwargs:
            if type(name) is not str:
                raise Unplanned
            test.add(name, What.NOTHING)
        return self.node(value)

    def find_argument(self, source, value, how, keep):
        test = self.test(Op.ARGUMENT, None, source.key)
        return self.lay(test, source.key, value, how, keep, False) or self.nowhere()

    def find_keyword(self, source, value, how, keep):
        test = self.test(Op.KEYWORD)
        return self.lay(test, source.key, value, how, keep, False) or self.nowhere()

    def find_constant(self, source, value, how, keep):
        """What was reached without a path."""
        if how != How.ANY:
            raise Unplanned
        node = self.node(value)
        if type(source.key) is weakref.ref:
            self.test(Op.ALIVE, node, thing=source.key)
            node.becomes(How.WEAK, source.key)
        elif type(source.key) is types.FunctionType:
            node.becomes(How.SAME, value)
        else:
            raise Unplanned
        return node

    def find_module(self, source, value, how, keep):
        if ("modules",) not in self.groups:
            space = self.node(sys.__dict__, How.SAME, sys.__dict__)
            modules = self.lay(self.items(space), "modules", sys.modules, How.KIND, dict)
            if modules is None or type(sys.modules) is not dict:
                raise Unplanned
            self.groups["modules",] = self.items(modules)
        group = self.groups["modules",]
        return self.lay(group, source.key, value, how, keep) or self.nowhere()

    def find_global(self, holder, name, value, how, keep):
        """Among the globals of a module, or the builtins that it has."""
        fields = self.space(holder)
        found = item(self.space_of(holder), name)
        if found is not MISSING:
            return self.lay(fields, name, found, how, keep)
        self.lay(fields, name, MISSING)
        found = item(self.space_of(holder), "__builtins__")
        if found is MISSING:
            self.lay(fields, "__builtins__", MISSING)
            place = self.node(builtins, How.SAME, builtins)
        else:
            place = self.lay(fields, "__builtins__", found)
        group = self.space(place)
        return self.lay(group, name, value, how, keep) or self.nowhere()

    def space(self, node: Node):
        """What a module, or a dict of globals, has."""
        if type(node.value) is dict:
            return self.items(node)
        if type(node.value) is not types.ModuleType:
            raise Unplanned
        return self.fields(node)

    def space_of(self, node: Node) -> dict:
        return node.value if type(node.value) is dict else node.value.__dict__

    def find_closure(self, holder, number, value, how, keep):
        if type(holder.value) is not types.FunctionType:
            raise Unplanned
        self.typed(holder)
        return self.lay(self.test(Op.CLOSURE, holder, number), number, value, how, keep, False)

    def find_cell(self, holder, key, value, how, keep):
        if type(holder.value) is not types.CellType:
            raise Unplanned
        self.typed(holder)
        test = self.test(Op.CELL, holder)
        return self.lay(test, "cell", value, how, keep, False) or self.nowhere()

    def find_attribute(self, holder, name, value, how, keep):
        if holder.how == How.ARRAY and name in _OF_ARRAYS:
            return self.node(value)
        return self.attribute(holder, name, how, keep)

    def find_field(self, holder, name, value, how, keep):
        """In the dictionary of an object itself."""
        if is_a(holder.value, (type,)):
            raise Unplanned
        group, found = self.own(holder, self.class_of(holder), name, MISSING)
        if group is None:
            return self.node(MISSING)
        return self.lay(group, name, found, how, keep) or self.nowhere()

    def find_super(self, holder, key, value, how, keep):
        """In classes above one that was not written to."""
        node = self.node(key[1], How.SAME, key[1])
        group = self.class_group(key[1], node)
        if group is not None:
            if group.number == 0:
                raise Unplanned
            group.add(key[2], What.FIXED)
        return self.node(value, how, keep)

    def find_default(self, holder, key, value, how, keep):
        """Of a function, whose definition is asked for."""
        if type(key) is not int:
            raise Unplanned
        return self.node(value, how, keep)

    def find_item(self, holder, key, value, how, keep):
        thing = holder.value
        if not is_atom(key):
            raise Unplanned
        if is_a(thing, (dict,)):
            return self.lay(self.items(holder), key, value, how, keep) or self.nowhere()
        if is_a(thing, (list, tuple)) and type(key) is int and value is not MISSING:
            return self.lay(self.elements(holder), key, value, how, keep, False)
        raise Unplanned

    def find_self(self, holder, key, value, how, keep):
        if type(holder.value) not in _BOUND or value is MISSING or value is None:
            raise Unplanned
        self.typed(holder)
        return self.lay(self.test(Op.SELF, holder), "self", value, how, keep, False)

    def find_class(self, holder, key, value, how, keep):
        return self.lay(self.test(Op.KIND_OF, holder), "class", value, how, keep, False)

    def find_asked(self, holder, name, value, how, keep):
        """What code of libraries gives, where it is known what that does."""
        thing = holder.value
        if type(thing) is _LOCAL:
            return self.find_own(holder, name, value, how, keep)
        group = self.class_of(holder)
        if group is None:
            raise Unplanned
        if is_a(thing, (chainer.Variable,)) and name == "array":
            return self.find_array(holder, group, value, how, keep)
        if is_a(thing, (_DEVICES,)) and name in ("device", "xp"):
            return self.find_device(holder, group, name, value, how, keep)
        raise Unplanned

    def find_own(self, holder, name, value, how, keep):
        """What this thread has of a `threading.local`."""
        if ("own", id(holder)) not in self.groups:
            if holder.how not in (How.WEAK, How.SAME):
                # It has to be the very one; its attributes are looked up by Python anyway.
                self.test(Op.ALIVE, holder, thing=weakref.ref(holder.value))
            fields = holder.value.__dict__
            test = self.test(Op.OWN, holder)
            self.groups["own", id(holder)] = self.lay(test, "own", fields, How.KIND, dict, False)
        node = self.groups["own", id(holder)]
        if name == "__dict__":
            self.merge(node, how, keep)
            return node
        if has(holder.value, name):
            raise Unplanned
        return self.lay(self.items(node), name, value, how, keep) or self.nowhere()

    def data(self, holder: Node) -> Node:
        """The list that has the array of a Variable."""
        node = self.attribute(holder, "_data", How.KIND, list)
        if type(node.value) is not list or not node.value:
            raise Unplanned
        return node

    def find_array(self, holder, group, value, how, keep):
        """As ``Variable.array`` does."""
        for name, found in _ARRAY.items():
            self.same(group, holder, name, found)
        for name, usual in _USUAL.items():
            if self.attribute(holder, name, How.ATOM, usual).value is not usual:
                raise Unplanned
        elements = self.elements(self.data(holder))
        return self.lay(elements, 0, value, how, keep, False)

    def find_device(self, holder, group, name, value, how, keep):
        """As ``DeviceResident.device`` and ``xp`` do."""
        self.same(group, holder, "device", _PLAIN["device"][0])
        if name == "device":
            return self.attribute(holder, "_device", how, keep)
        self.same(group, holder, "xp", _XP)
        device = self.attribute(holder, "_device", How.KIND, _CPU)
        if type(device.value) is not _CPU:
            raise Unplanned
        return self.attribute(device, "xp", how, keep)

    def same(self, group, holder: Node, name: str, found) -> None:
        """A class has still what a library has put into it."""
        if class_attribute(type(holder.value), name) is not found:
            raise Unplanned
        self.raw(group, name, found)

    def nowhere(self) -> Node:
        """Where nothing lies."""
        return self.node(MISSING)

    # --- guards ---------------------------------------------------------------------------------
    def ask(self, guard) -> None:
        """Take up a test of a guard."""
        node = self.at(guard.source)
        if guard.kind == "is":
            self.test(Op.IS, node, int(guard.want), other=self.at(guard.key))
            return
        ask = getattr(self, f"ask_{guard.kind}", None)
        if ask is None or not all(numbers.moves for numbers in numbers_in(guard.want)):
            raise Unplanned
        ask(node, guard.key, guard.want)

    def ask_there(self, node, key, want):
        """Whether an object has not been let go of: a root has a test of that."""

    def ask_definition(self, node, key, want):
        """Code and defaults of a function."""
        if type(node.value) is not types.FunctionType:
            raise Unplanned
        defined(self, node)

    def ask_state(self, node, key, want):
        """Whether a parameter has an array and a gradient."""
        group = self.class_of(node)
        if group is None:
            raise Unplanned
        self.same(group, node, "requires_grad", _REQUIRES)
        if self.attribute(node, "_requires_grad", How.ATOM, want[1]).value is not want[1]:
            raise Unplanned
        self.test(Op.FIRST, self.data(node), int(want[0]))

    def ask_item(self, node, key, want):
        """Whether a dict has a key."""
        if not is_a(node.value, (dict,)) or not is_atom(key):
            raise Unplanned
        self.lay(self.items(node), key, item(node.value, key))

    def ask_attribute(self, node, key, want):
        """Whether an object has an attribute."""
        self.attribute(node, key)

    def ask_field(self, node, key, want):
        """Whether a name is in the dictionary of an object."""
        if is_a(node.value, (type,)):
            raise Unplanned
        group, found = self.own(node, self.class_of(node), key, MISSING)
        if group is not None:
            self.lay(group, key, found)

    def ask_names(self, node, key, want):
        """The names in the dictionary of an object."""
        if is_a(node.value, (type,)):
            raise Unplanned
        group, _ = self.own(node, self.class_of(node), "", MISSING)
        fields = fields_of(node.value)
        if group is None or type(fields) is not dict:
            raise Unplanned
        self.has_keys(group, tuple(fields))

    def ask_keys(self, node, key, want):
        """The keys of a dict, in their order."""
        thing = node.value
        if not is_a(thing, (dict,)) or (want and is_a(thing, (collections.OrderedDict,))):
            raise Unplanned  # where the order of an OrderedDict is, no version tells
        self.has_keys(self.items(node), tuple(elements_of(thing)))

    def has_keys(self, group, keys: tuple) -> None:
        if not is_atom(keys):
            raise Unplanned
        group.pairs.append((keys, What.KEYS))

    def ask_length(self, node, key, want):
        """The length of a list or the like."""
        kind = type(node.value)
        if kind is dict or kind is collections.OrderedDict:
            self.items(node).pairs.append((want, What.SIZE))
        elif kind is list or kind is tuple:
            self.elements(node).pairs.append((want, What.SIZE))
        else:
            raise Unplanned

    def ask_contents(self, node, key, want) -> None:
        """All that is in an object."""
        if node.how not in IDENTITIES:
            self.merge(node, *how_known(node.value))
        Contents(self).of(node)

    def ask_environment(self, node, key, want):
        """How NumPy treats errors, and which warnings are filtered."""
        self.usual = Usual(want)
        self.test(Op.ENVIRONMENT)
