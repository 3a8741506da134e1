"""Which value of the trace an array or a Variable shows."""

from __future__ import annotations

import weakref

from sdbr.base.reasons import Remedy
from sdbr.devices.arrays import PLAIN, Array, device_of
from sdbr.trace._node_copies import GRAPH, inner_function
from sdbr.trace.arrays._exports import new_fields
from sdbr.trace.arrays.stripping import PURE, is_traced, strip
from sdbr.trace.arrays.wrapping import wrap
from sdbr.trace.code.frames import in_backward
from sdbr.trace.values import ALIAS, ARGUMENT, CONSTANT, PARAMETER, RESULT, TracedNode, Value

import chainer
import numpy as np


class Values:
    """The part of the recorder that knows arrays by identity."""

    def __init__(self, recorder):
        self.recorder = recorder
        self.trace = recorder.trace
        self.met: int | None = None  # a GPU that an array of the call lies on
        # id -> (a NumPy scalar on a node, in the place of what the call has computed; its value)
        self.computed_numbers: dict[int, tuple] = {}
        self.given_to_nodes = False  # whether nodes hold arrays or numbers of the call
        self.variables: dict[int, tuple] = {}  # id(VariableNode) -> (VariableNode, Value)
        self._arrays: dict[int, tuple] = {}  # id(array) -> (weakref, Value)
        self._parameters: dict[int, Value] = {}
        self._aliases: dict[int, Value] = {}  # index of a value -> its array
        self._states: dict[int, tuple] = {}  # id(array) -> (weakref, node, where on the node)
        self._left: dict[int, tuple] = {}  # id(function) -> (weakref, what its forward left there)
        self.from_nothing: dict[
            int, tuple
        ] = {}  # id -> (array made from nothing, its contents then)
        self._own: dict[int, weakref.ref] = {}  # index of a value -> the first array that showed it
        self.copies: dict[tuple, Value] = {}  # (index of a value, id of a copy of it) -> its value
        self.constants: dict[int, tuple] = {}  # id(pure array) -> (array, Value)

    def value(self, kind, array, requires_grad, source, is_variable) -> Value:
        value = Value(
            len(self.trace.values),
            kind,
            array.shape,
            array.dtype,
            requires_grad,
            source,
            is_variable,
        )
        self.trace.values.append(value)
        if not isinstance(array, Array):
            value.host = self.recorder.on_device
        elif device_of(array) != self.recorder.gpu:
            self.met = device_of(array)
            place = "the host" if self.recorder.gpu is None else f"GPU {self.recorder.gpu}"
            text = f"an array lies on GPU {self.met}, and the call runs on {place}"
            self.recorder.mark_dynamic(text, Remedy.DO_OUTSIDE)
        else:
            self.met = self.recorder.gpu
        return value

    def know_array(self, array, value: Value) -> None:
        array = strip(array)
        known = weakref.ref(array)
        self._arrays[id(array)] = (known, value)
        self._own.setdefault(value.index, known)

    def is_own(self, value: Value, array) -> bool:
        """Whether `array` is what shows a value, and no copy; the first that asks, else."""
        return self._own.setdefault(value.index, weakref.ref(array))() is array

    def know_variable(self, variable, value: Value) -> None:
        node = variable._node
        self.variables[id(node)] = (node, value)
        self.recorder.outside.note_extras(variable)
        self.know_array(variable._data[0], value)

    def argument(self, leaf, index: int):
        """Register leaf `index` of the arguments; returns what the traced code gets."""
        if isinstance(leaf, chainer.Variable):
            value = self.value(ARGUMENT, leaf._data[0], leaf.requires_grad, index, True)
            self.know_variable(leaf, value)
            return leaf
        value = self.value(ARGUMENT, leaf, False, index, False)
        known = self._arrays.get(id(leaf))
        if known is not None and known[0]() is leaf and not known[1].is_variable:
            value = known[1]  # one array given twice is one array to the code
        self.know_array(leaf, value)
        return wrap(leaf, value, self.recorder)

    def find_array(self, array) -> Value | None:
        known = self._arrays.get(id(array))
        if known is not None and known[0]() is array:
            return known[1]
        if id(array) in self.from_nothing:
            return self.of_pure(array)
        return self._state_of_node(array)

    def known_view(self, array):
        """What shows where an array of the call comes from; None for others."""
        value = None if self.recorder.depth else self.find_array(array)
        return None if value is None or value.kind == CONSTANT else wrap(array, value)

    def know_state(self, node: TracedNode, function) -> None:
        """Note the arrays that the forward of `node` has left on its function."""
        for owner, before in (
            (function, node.template),
            (inner_function(function), inner_function(node.template)),
        ):
            if owner is None:
                continue
            for name, thing in new_fields(owner.__dict__, before.__dict__, _OF_ANY):
                if type(thing) in PLAIN:
                    place = (name, owner is not function)
                    self._states[id(thing)] = (weakref.ref(thing), node, place)
                else:
                    self._left.setdefault(id(owner), (weakref.ref(owner), set()))[1].add(name)

    def has_left(self, function) -> bool:
        """Whether the forward of `function` has left something on it that is no array."""
        return id(function) in self._left

    def read_left(self, function, name: str) -> None:
        """User code reads an attribute of a function node: it may be what its forward left there.

        An array is one more output of the node; what else it is, a replay does not give to anybody.
        """
        known = self._left.get(id(function))
        if known is not None and known[0]() is function and name in known[1]:
            self.recorder.mark_dynamic(
                f"a result of {function.label} was read from attribute {name!r} of it",
                Remedy.STAY_ARRAYS,
            )

    def _state_of_node(self, array) -> Value | None:
        """An array that a function has kept and the call hands out: one more output of its node."""
        known = self._states.get(id(array))
        if known is None or known[0]() is not array:
            return None
        _, node, place = known
        value = self.value(RESULT, array, False, (node, len(node.outputs)), False)
        self.know_array(array, value)
        node.outputs.append(value)
        node.states.append(place)
        return value

    def made(self, array):
        """Note an array that was made from nothing; returns what user code gets.

        Kernels of a GPU fill it with whatever they like, and tell nobody: hence the contents.
        """
        self.from_nothing[id(array)] = (array, array.tobytes() if self.recorder.on_device else None)
        return wrap(array, PURE, self.recorder)

    def was_filled(self, array) -> bool:
        """Whether an array made from nothing has got other contents unseen."""
        made = self.from_nothing.get(id(array))
        return made is None or (self.recorder.on_device and made[1] != array.tobytes())

    def of_variable(self, x) -> Value:
        """The value that Variable `x` shows."""
        known = self.variables.get(id(x._node))
        if known is not None:
            return known[1]
        if isinstance(x, chainer.Parameter):
            return self.of_parameter(x)
        captured = self.recorder.captured.value_of(x)
        if captured is not None:
            return captured
        # A Variable that the call made itself, from an array: no history.
        array = x._data[0]
        base = self.of_traced(array) if is_traced(array) else self.find_array(array)
        x._data[0] = strip(array)
        if base is None:
            value = self.of_unknown(array, x.requires_grad, True)
        else:
            value = self.alias(base, x.requires_grad, True)
        self.recorder.memory.note_own_variable(x, x._data[0])
        self.variables[id(x._node)] = (x._node, value)
        return value

    def moved(self, variable, array) -> None:
        """A Variable that the call has made has got another array, on another device."""
        value = self.alias(self.of_traced(array), variable.requires_grad, True)
        self.recorder.memory.note_own_variable(variable, strip(array))
        self.variables[id(variable._node)] = (variable._node, value)

    def of_array(self, array) -> Value:
        """The value that `array` shows, without history."""
        value = self.of_traced(array) if is_traced(array) else self.find_array(array)
        if value is None:
            return self.of_unknown(array)
        return (
            self.alias(value, False, False) if value.is_variable or value.requires_grad else value
        )

    def of_traced(self, array) -> Value:
        if array.origin is PURE:
            return self.of_pure(strip(array))
        origin = array.origin
        if origin is not None:
            values = self.trace.values
            if origin.index < len(values) and values[origin.index] is origin:
                return origin
            # Kept by user code since an earlier trace: an array like any other.
            plain = strip(array)
            return self.find_array(plain) or self.of_unknown(plain)
        self.recorder.mark_dynamic(
            "an array was derived from others in a way that cannot be followed",
            Remedy.HAND_OVER_WHOLE,
        )
        return self.of_unknown(strip(array))

    def of_pure(self, array) -> Value:
        """An array made from nothing, as a constant with its present contents."""
        contents = array.tobytes()
        known = self.constants.get(id(array))
        if known is not None:
            value = known[1]
            alike = (value.shape, value.dtype) == (array.shape, array.dtype)
            if alike and value.source.tobytes() == contents:
                return value
        if self.was_filled(array):
            self.computed_unseen()
        value = self.value(CONSTANT, array, False, array.copy(), False)
        self.trace.fixed.add(value.index)
        self.constants[id(array)] = (array, value)
        return value

    def alias(self, base: Value, requires_grad: bool, is_variable: bool) -> Value:
        """The array of `base` as a value of its own, cut off from the history of `base`."""
        if base.kind == ALIAS:
            base = base.source
        value = None if is_variable else self._aliases.get(base.index)
        if value is None:
            value = Value(
                len(self.trace.values),
                ALIAS,
                base.shape,
                base.dtype,
                requires_grad,
                base,
                is_variable,
            )
            value.host = base.host
            self.trace.values.append(value)
            if not is_variable:
                self._aliases[base.index] = value
        return value

    def of_parameter(self, parameter) -> Value:
        value = self._parameters.get(id(parameter))
        if value is None:
            value = self.value(
                PARAMETER, parameter._data[0], parameter.requires_grad, parameter, True
            )
            self._parameters[id(parameter)] = value
            if parameter.requires_grad is not parameter.node.requires_grad:
                # Chainer asks the one in forwards, the other in backwards.
                text = "requires_grad of a Parameter is another than that of its node"
                self.recorder.mark_dynamic(text, Remedy.SET_OUTSIDE)
            self.recorder.captured.note_place(parameter)
            self.recorder.outside.note_extras(parameter)
            self.recorder.lasting.held_parameter(parameter, value)
            self.know_array(parameter._data[0], value)
        return value

    def note_unknown(self) -> None:
        """Nobody saw the making of an array or number that a function takes.

        It is made of what is compared before replays; in a gradient, of what nodes were given.
        """
        if self.given_to_nodes and in_backward():
            text = "a gradient was computed with what Chainer made of an array of the call"
            self.recorder.mark_dynamic(text, Remedy.USE_FUNCTIONS)

    def arrays_known(self) -> dict[int, Value]:
        """The values of arrays that live, by their ids."""
        known = {i: x for i, (array, x) in self._arrays.items() if array() is not None}
        return known | {i: x for i, (_, x) in self.constants.items()}

    def number_of(self, thing) -> Value | None:
        """The value of a number that the call has computed and given to a node."""
        known = self.computed_numbers.get(id(thing))
        return None if known is None or known[0] is not thing else known[1]

    def of_unknown(self, array, requires_grad=False, is_variable=False) -> Value:
        self.note_unknown()
        if type(array) not in (*PLAIN, np.memmap):
            text = f"an array is a {type(array).__name__}, and replays give arrays of NumPy's own"
            self.recorder.mark_dynamic(text, Remedy.STAY_ARRAYS)
        value = self.value(CONSTANT, array, requires_grad, array, is_variable)
        self.know_array(array, value)
        if isinstance(array, Array) and array.data.mem.ptr in self.recorder.allocated:
            self.computed_unseen()
        return value

    def computed_unseen(self) -> None:
        """Kernels of a GPU may have computed what an array holds; they tell nobody."""
        if self.recorder.on_device:
            text = "an array was computed by code that cannot be seen into"
            self.recorder.mark_dynamic(text, Remedy.USE_FUNCTIONS)


#: Attributes of any function node, which tell of the graph.
_OF_ANY = frozenset({
    *GRAPH, *dir(chainer.FunctionNode), *dir(chainer.Function), "lazy_grad_sum", "_owned_node",
})  # fmt: skip
