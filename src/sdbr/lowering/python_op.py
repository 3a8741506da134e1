"""Python ops: small define-by-run islands inside a program.

Each run takes a copy of the node as it was before its first forward, applies
it to fresh Variables and, for gradients, goes backward through Chainer's own
code. What is the user's own (arguments, parameters, attributes) is handed
over itself, as define-by-run does. Arrays of the program are copied on the
way in: Chainer may keep them after the program has reused their memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from sdbr.base.errors import NotStaticError
from sdbr.base.reasons import Reason, Remedy
from sdbr.compat.splitting import count_backwards
from sdbr.devices.arrays import is_on_device, is_writeable, on_host
from sdbr.program._memory import view_of
from sdbr.program.buffers import BOUND, CONSTANT, Row
from sdbr.trace._node_copies import copy_node, inner_function
from sdbr.trace.code.foreign import is_users
from sdbr.trace.effects.sides import EXITS, side
from sdbr.trace.nodes import configured
from sdbr.trace.values import Hole, VariableHole

import chainer
import numpy as np


class UserArray:
    """An array of the user among the operands, or a view of one.

    Parameters
    ----------
    row : Row
    """

    def __init__(self, row: Row):
        self.slot = row.root.slot.index
        self.view = None
        self.shape = row.shape
        if row is not row.root:
            self.view = (row.shape, row.dtype, row.offset, row.strides)

    def now(self, memory):
        """The array that is bound now."""
        array = memory.array(self.slot)
        if self.view is None:
            # What is handed out reshaped is bound in that shape.
            return array if array.shape == self.shape else array.reshape(self.shape)
        shape, dtype, offset, strides = self.view
        return view_of(array, shape, strides, offset, True, dtype)


def user_array(row: Row, *kinds) -> UserArray | None:
    """Where a row is the user's own memory: nobody else writes there."""
    slot = row.root.slot
    if slot is None:
        return None
    if slot.kind in (kinds or (BOUND,)) or (slot.kind == CONSTANT and row is row.root):
        return UserArray(row)
    return None


#: In the state of a memory, with the index of a value: the array that a function node passed on.
PASSED = "passed"


class PythonForward:
    """The forward of one function node as an object slot.

    Parameters
    ----------
    node : TracedNode
    keep_graph : bool
        Whether a backward may follow.
    rebind : list of Rebinding
        Attributes that hold arrays; these follow the inputs as operands.
    slots : list of (UserArray or None)
        Per operand.
    scalars : list of (str, bool, int)
        Floats on the node with their place in the control block; see `set_scalars`.

    Attributes
    ----------
    beside : bool
        Whether it is code of the user's, which may do more than compute.
    """

    def __init__(self, node, keep_graph: bool, rebind: list, slots: list, scalars: list):
        self.scalars = scalars
        self.template = node.template
        self.label = node.label
        self.requires_grad = tuple(v.requires_grad for v in node.inputs)
        self.keep_graph = keep_graph and node.backprop and any(self.requires_grad)
        self.rebind = rebind
        self.slots = slots
        self.n_inputs = len(node.inputs)
        self.passes = [
            (i, node.inputs[i].index, j, node.outputs[j].index) for i, j in node.passes.items()
        ]
        for i in node.passes:
            self.slots[i] = None
        self.states = node.states
        self.config = {**node.config, "enable_backprop": self.keep_graph}
        self.beside = is_users(kind_behind(node.template).__module__)

    def __call__(self, memory, ins, outs) -> None:
        arrays = [
            x.copy() if slot is None else slot.now(memory)
            for x, slot in zip(ins, self.slots, strict=True)
        ]
        for i, given, _, _ in self.passes:
            arrays[i] = memory.state.get((PASSED, given), arrays[i])
        node = copy_node(self.template)
        set_scalars(node, self.scalars, memory.get_control)
        rebind(node, self.rebind, arrays[self.n_inputs :])
        xs = [
            chainer.Variable(x, requires_grad=r)
            for x, r in zip(arrays[: self.n_inputs], self.requires_grad, strict=True)
        ]
        with configured(self.config):
            ys = apply_beside(node, xs, memory.state) if self.beside else node.apply(xs)
        for _, _, j, handed_on in self.passes:
            memory.state[PASSED, handed_on] = ys[j].array
        results = [y.array for y in ys] + kept_arrays(node, self.states)
        for i, (array, out) in enumerate(zip(results, outs, strict=True)):
            if array.shape != out.shape or array.dtype != out.dtype:
                text = (
                    f"output {i} of {self.label} was {out.dtype.name}{list(out.shape)} while "
                    f"tracing and is {array.dtype.name}{list(array.shape)} now: its "
                    f"shape depends on values"
                )
                raise NotStaticError(text)
            out[...] = array
        memory.state[id(self)] = (xs, ys) if self.keep_graph else None


def apply_beside(node, xs, state):
    """Apply a user's node, which may do more than compute.

    In an audit it may have told the world something in the other run. `state` is that of the
    memory.
    """
    exits, present, inner = state.get(EXITS), side(), inner_function(node) or node
    if exits is not None:
        before = dict(inner.__dict__)
        exits.begins()
    try:
        if present is None:
            ys = node.apply(xs)
        else:
            ys = present.apply(lambda node, xs: node.apply(xs), node, xs)
    except Exception as error:
        if exits is not None:
            exits.fails(error, type(inner), node.label)
        raise
    if exits is not None:
        exits.ends(type(inner), node.label, node, before, xs, ys)
    return ys


def kind_behind(node) -> type:
    """The class of a node, or of the old-style ``Function`` behind it."""
    return type(inner_function(node) or node)


def kept_arrays(node, states: list) -> list:
    """Arrays that the forward has left on the node and the call hands out."""
    return [getattr(inner_function(node) if inner else node, name) for name, inner in states]


def set_scalars(node, scalars: list, value) -> None:
    """Put the present numbers where the traced node held those of its call.

    Parameters
    ----------
    node : FunctionNode
    scalars : list of (str, bool, object)
        Attribute, whether it is one of the old-style ``Function``, and what `value` takes.
    value : callable
    """
    for name, inner, place in scalars:
        fields = (inner_function(node) if inner else node).__dict__
        fields[name] = type(fields[name])(value(place))


def rebind(node, rebindings: list, arrays: list) -> None:
    """Put the present arrays where the traced node held those of its call."""
    start = 0
    for r in rebindings:
        stop = start + len(r.values)
        owner = inner_function(node) if r.inner else node
        setattr(owner, r.name, fill_holes(r.structure, arrays[start:stop]))
        start = stop


#: In the state of a memory: a backward found that a planned gradient is None, not zeros. `AGAIN`
#: if it is to run once more, `LATER` if that would do twice what it does beside giving gradients.
NO_GRADIENT = "no gradient"
AGAIN, LATER = "again", "later"

#: In the state of a memory: what raised is part of the backward of a whole step.
RAISED = "raised"

#: In the state of a memory: the schedule whose forward, backward and update are one program.
WHOLE_STEP = "whole step"


class PythonBackward:
    """The gradients of one function node, through the graph that its forward left.

    Parameters
    ----------
    forward : PythonForward
    wanted : tuple of int
        Inputs whose gradient is wanted.
    given : tuple of int
        Outputs that carry a gradient, in the order of the operands.
    keep_graph : bool
        Whether these gradients are differentiated in turn: as a `forward` whose inputs are the
        gradients given, then the inputs of its own `forward`.
    silent : set, optional
        Where inputs are noted that get None in spite of `wanted`, beside the mark `NO_GRADIENT`
        in the state of the memory.
    own : TracedNode, optional
        The node, where its backward may do more than give gradients.
    written, read : list of (UserArray or None)
        Per output and per input where user code may have written to it.

    Attributes
    ----------
    of_the_loss : bool
        Whether this is part of the backward of a whole step, not of a gradient inside of the call.
    """

    of_the_loss = False

    def __init__(
        self,
        forward: PythonForward | PythonBackward,
        wanted,
        given,
        keep_graph: bool = False,
        silent: set | None = None,
        own=None,
        written: Sequence = (),
        read: Sequence = (),
    ):
        self.forward = forward
        self.wanted = tuple(wanted)
        self.given = tuple(given)
        self.label = forward.label
        self.keep_graph = keep_graph
        self.silent = silent
        self.own = own
        self.written = written
        self.read = read
        self.slots = [*([None] * len(self.given)), *forward.slots]

    def __call__(self, memory, ins, outs) -> None:
        try:
            self._run(memory, ins, outs)
        except BaseException:
            if self.of_the_loss:
                memory.state[RAISED] = True
            raise

    def _run(self, memory, ins, outs) -> None:
        xs, ys = memory.state[id(self.forward)]
        for x, slot in zip(xs, self.forward.slots, strict=False):
            now = x.array if slot is None else slot.now(memory)
            if now is not x.array:
                x.array = now  # replaced since the forward
        for x, slot, place in zip(xs, self.forward.slots, self.read, strict=False):
            if slot is None and place is not None:
                x.array[...] = place.now(memory)
        for y, place in zip(ys, self.written, strict=False):
            if y is not None and place is not None and _is_own(y.array, xs):
                y.array[...] = place.now(memory)
        gys = [chainer.Variable(g.copy()) for g in ins]
        pairs = [(ys[i], g) for i, g in zip(self.given, gys, strict=True) if ys[i] is not None]
        before = count_backwards()
        grads = chainer.grad(
            [y for y, _ in pairs],
            [xs[i] for i in self.wanted],
            [g for _, g in pairs],
            enable_double_backprop=self.keep_graph,
        )
        if self.own is not None and not self.own.accumulates and count_backwards() != before:
            self._accumulates(memory)
        if self.own is not None and memory.state.get(WHOLE_STEP) is not None:
            self._changes_update(memory)
        if self.keep_graph:
            memory.state[id(self)] = ([*gys, *xs], grads)
        for i, g, out in zip(self.wanted, grads, outs, strict=True):
            if g is not None:
                out[...] = g.array
                continue
            out[...] = 0
            if self.silent is not None:
                self.silent.add(i)
                kind = AGAIN if self.own is None else LATER
                if memory.state.get(NO_GRADIENT) != LATER:
                    memory.state[NO_GRADIENT] = kind

    def _accumulates(self, memory) -> None:
        """The backward ran a backward in turn, and had not before."""
        self.own.accumulates = True
        if memory.state.get(WHOLE_STEP) is not None:
            reason = f"the backward of {self.label} runs a backward of its own now and then"
            self._too_late(memory, reason, "what it adds to gradients")

    def _changes_update(self, memory) -> None:
        """What code of the user's may have made of the optimizer counts for this very step."""
        exits = memory.state.get(EXITS)
        if exits is not None and not exits.update_fits():
            reason = f"the backward of {self.label} changes the optimizer now and then"
            self._too_late(memory, reason, "that")

    def _too_late(self, memory, reason: str, what: str) -> None:
        memory.state[WHOLE_STEP].dynamic = Reason(reason, Remedy.DO_OUTSIDE, self.own.line)
        raise NotStaticError(
            f"{reason}, which it had not while it was traced: {what} came too late for this step, "
            "which has updated nothing; the next ones run define-by-run"
        )


def _is_own(array, xs) -> bool:
    """Whether an output is no view of an input: that is the user's."""
    if is_on_device(array):
        return not any(x.array.data.mem is array.data.mem for x in xs)
    return is_writeable(array) and not any(np.may_share_memory(array, x.array) for x in xs)


class Sum:
    """Two gradients of a dtype without native kernels, added up."""

    label = "gradient sum"

    def __call__(self, memory, ins, outs) -> None:
        np.add(ins[0], ins[1], out=outs[0])


class NumpyCall:
    """A call of NumPy or CuPy in user code on known arrays."""

    def __init__(self, node):
        self.call, self.args, self.kwargs = node.call
        self.label = node.label
        self.traced = node
        # NumPy takes the numbers of a call on a GPU from there, CuPy those of the host as such.
        to_host = any(y.host for y in node.outputs)
        scalars = [i for i, x in enumerate(node.inputs) if x.is_scalar]
        self.moved = [i for i in scalars if node.inputs[i].host != to_host]
        self.numbers = [i for i in scalars if node.inputs[i].host == to_host]

    def __call__(self, memory, ins, outs) -> None:
        for i in self.moved:
            ins[i] = on_host(ins[i])[()]
        for i in self.numbers:
            ins[i] = ins[i] if is_on_device(ins[i]) else ins[i][()]
        result = self.call(*fill_holes(self.args, ins), **fill_holes(self.kwargs, ins))
        parts = result if isinstance(result, (tuple, list)) else (result,)
        if getattr(self.call, "gives_form", False) and parts[0] != self.call.form:
            outs[0][...] = parts[0]  # the question that comes next ends this
            return
        for part, out in zip(parts, outs, strict=True):
            if not is_on_device(part):  # a number, where the others are CuPy's
                part = np.asarray(part)
            if part.shape != out.shape or part.dtype != out.dtype:
                raise NotStaticError(
                    f"{self.label} gave {out.dtype.name}{list(out.shape)} while tracing and gives "
                    f"{part.dtype.name}{list(part.shape)} now: its shape or dtype depends on values"
                )
            out[...] = part if part.ndim or is_on_device(part) else part[()]


class Sent:
    """An array of the host, sent to the GPU that the call runs on."""

    label = "copy to the GPU"

    def __call__(self, memory, ins, outs) -> None:
        outs[0].set(np.ascontiguousarray(ins[0]).reshape(outs[0].shape))


class Copied:
    """A copy for the user of an array of the host."""

    label = "output"

    def __call__(self, memory, ins, outs) -> None:
        outs[0][...] = ins[0]


class Answer:
    """What is asked of a number on the host, as a question takes it."""

    label = "question"

    def __call__(self, memory, ins, outs) -> None:
        outs[0][...] = ins[0].astype(outs[0].dtype)


def fill_holes(thing, arrays):
    """`thing` with ``arrays[i]`` in the place of ``Hole(i)``."""
    kind = type(thing)
    if kind is Hole:
        return arrays[thing.index]
    if kind is VariableHole:
        x = arrays[thing.index]
        return x if isinstance(x, chainer.Variable) else chainer.Variable(x)
    if kind in (tuple, list):
        return kind([fill_holes(t, arrays) for t in thing])
    if kind is dict:
        return {k: fill_holes(v, arrays) for k, v in thing.items()}
    return thing
