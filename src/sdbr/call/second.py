"""Second derivatives through a replayed call.

The gradients of a replayed call are one function node, too: `CallGradients`. Its own backward
applies copies of the recorded functions to the inputs of the call once more, differentiates that
graph, and differentiates the result: `Derivative`. So derivatives of any order are those of
Chainer's code. Where nothing is drawn, that is a static call of its own: it is traced, and
replayed the next time.
"""

from __future__ import annotations

import itertools

from sdbr.devices.arrays import Array
from sdbr.functions import registry
from sdbr.lowering.python_op import fill_holes, kept_arrays, rebind, set_scalars
from sdbr.schedule.parts import Pattern
from sdbr.trace import values as v
from sdbr.trace._node_copies import copy_node
from sdbr.trace.arrays.telling import record
from sdbr.trace.effects.side_effects import EFFECTS
from sdbr.trace.gradients import GradientNode
from sdbr.trace.nodes import configured
from sdbr.trace.whole import LinkCall

import chainer
import numpy as np
from chainer import functions as F


class CallSnapshot:
    """What a call saw and may be something else when its second derivative is taken.

    Parameters
    ----------
    plan : ForwardPlan
    sources : list
        Per leaf of the plan the Variable or array that the call sees.
    """

    __slots__ = ("arrays", "random", "updates")

    def __init__(self, plan, sources: list):
        self.random = None if is_repeatable(plan) else np.random.get_state()
        self.arrays = {}
        self.updates = {
            id(x): x.update_rule.t
            for x in sources
            if isinstance(x, chainer.Parameter) and x.update_rule is not None
        }
        written = _maybe_written(plan)
        for (value, _), source in zip(plan.leaves, sources, strict=True):
            if value.index in written:
                self.arrays[value.index] = source.copy()

    def precedes_update(self, inputs) -> bool:
        """Whether an optimizer has updated one of the parameters since."""
        return any(
            id(x) in self.updates
            and getattr(x, "update_rule", None) is not None
            and x.update_rule.t > self.updates[id(x)]
            for x in inputs
        )


def _maybe_written(plan) -> set[int]:
    """What functions hold as attributes or ``static_code`` gets, and what NumPy calls write.

    On a GPU what lies on the host as well: Chainer's graph holds copies of it.
    """
    if plan.maybe_written is None:
        nodes = plan.schedule.trace.nodes
        values = [x for node in nodes for r in node.rebind for x in r.values]
        values += [x for node in nodes if node.effect for x in node.inputs]
        values += plan.schedule.trace.lasting
        values += [value for value, _ in plan.leaves if value.host]
        plan.maybe_written = {
            _behind(value).index
            for value in values
            if _behind(value).kind in (v.ATTRIBUTE, v.ARGUMENT) and not _behind(value).is_variable
        }
    return plan.maybe_written


def _behind(value):
    return value.source if value.kind == v.ALIAS else value


class CallGradients(chainer.FunctionNode):
    """The gradients of a replayed call as a function of its inputs and of the gradients given.

    Parameters
    ----------
    call : StaticCall
    pattern : Pattern
    """

    def __init__(self, call, pattern: Pattern):
        plan = call.instance.plan
        self.plan = plan
        self.pattern = pattern
        self.manager = call.manager
        self.snapshot = call.snapshot
        inputs = {value.index for value in plan.parts[pattern.part].inputs}
        # Arrays, not Variables: those would hold their gradients, and these hold this node.
        self.others = {
            value.index: _array(source)
            for (value, _), source in zip(plan.leaves, call.sources, strict=True)
            if value.index not in inputs
        }
        memory = call.instance.memory
        self.effects = dict(memory.state.get(EFFECTS, {}))
        self.numbers = [memory.get_control(i) for i in range(len(plan.schedule.trace.scalars))]

    @property
    def label(self) -> str:
        return "static_graph backward"

    def of(self, grads: list, inputs: list, grad_outputs: list) -> list:
        """`grads` (arrays and None) as Variables that have this node as creator."""
        self.grads = tuple([g for g in grads if g is not None])
        self.places = [i for i, g in enumerate(grads) if g is not None]
        if not self.places:
            return list(grads)
        made = iter(self.apply([*inputs, *grad_outputs]))
        return [None if g is None else next(made) for g in grads]

    def forward(self, inputs):
        self.retain_inputs(tuple(range(len(inputs))))
        grads, self.grads = self.grads, None
        return grads

    def backward(self, target_input_indexes, grad_outputs):
        retained = self.get_retained_inputs()
        statistics = self.manager.statistics
        statistics.second_backwards += 1
        if self.snapshot.precedes_update(retained):
            self.manager.warn(
                "updated",
                f"{self.manager.name}: parameters were updated between the call and its second "
                "derivative, which is that of the call with the new ones; define-by-run mixes old "
                "activations and new parameters. Update after the last backward",
            )
        present = tuple(i for i, g in enumerate(grad_outputs) if g is not None)
        # Copies: what a function updates in place was updated by the call itself.
        others = [
            self.snapshot.arrays[i].copy() if i in self.snapshot.arrays else x
            for i, x in self.others.items()
        ]
        args = (*retained, *[grad_outputs[i] for i in present], *others, *self.numbers)
        derivative = Derivative(
            self.plan, self.pattern, [self.places[i] for i in present], target_input_indexes,
            list(self.others), self.effects,
        )  # fmt: skip
        manager = None
        if not self.effects and is_repeatable(self.plan):
            key = (self.pattern, present, target_input_indexes)
            manager = self.plan.seconds.get(key)
            if manager is None:
                made = self.manager.silent_child(derivative)
                manager = self.plan.seconds.setdefault(key, made)
        if manager is None:
            return tuple(self._in_define_by_run(derivative, args))
        before = manager.statistics.replays
        gradients = manager.serve(args, {})
        statistics.second_replays += manager.statistics.replays > before
        return tuple(gradients)

    def _in_define_by_run(self, derivative: Derivative, args: tuple) -> list:
        """With the draws of the call."""
        if self.snapshot.random is None:
            return derivative(*args)
        state = np.random.get_state()
        np.random.set_state(self.snapshot.random)
        try:
            return derivative(*args)
        finally:
            np.random.set_state(state)


class Derivative:
    """Gradients of the gradients of a call, by Chainer's own code.

    Parameters
    ----------
    plan : ForwardPlan
    pattern : Pattern
        Of the gradients.
    places : list of int
        Which of the inputs in `pattern` have a gradient that carries one in turn.
    targets : tuple of int
        Which of the inputs, and then of the gradients given, want a gradient.
    others : list
        Value indices of the leaves that are no inputs.
    effects : dict
        What ``static_code`` left, by the identity of its node.
    """

    def __init__(self, plan, pattern, places, targets, others, effects):
        self.plan = plan
        self.part = plan.parts[pattern.part]
        self.pattern = pattern
        self.places = places
        self.targets = targets
        self.others = others
        self.effects = effects

    def __call__(self, *args) -> list:
        """The gradients; None where none reaches.

        Parameters
        ----------
        *args : Variable, ndarray, float
            Inputs of the call, gradients given to its backward, gradients of what that gave;
            arrays of `others`; the scalars of the trace.
        """
        want_graph = chainer.config.enable_backprop
        rest = iter(args)
        xs, gys, ggs, others = (
            list(itertools.islice(rest, len(part)))
            for part in (self.part.inputs, self.pattern.given, self.places, self.others)
        )
        numbers = list(rest)
        with chainer.force_backprop_mode():
            xs = [F.identity(x) for x in xs]
            gys = [F.identity(g) for g in gys]
            ys = self._outputs(xs, others, numbers)
            given, wanted = self.pattern.given, self.pattern.wanted
            gxs = chainer.grad(
                [ys[i] for i in given], [xs[i] for i in wanted], gys, enable_double_backprop=True
            )
            # One Variable may be the gradient of several inputs: `chainer.grad` would keep only
            # the last of what comes in for it.
            gxs = [None if g is None else F.identity(g) for g in gxs]
        pairs = [
            (gxs[place], gg)
            for place, gg in zip(self.places, ggs, strict=True)
            if gxs[place] is not None
        ]
        inputs = [*xs, *gys]
        if not pairs:
            return [None] * len(self.targets)
        return chainer.grad(
            [g for g, _ in pairs],
            [inputs[i] for i in self.targets],
            [gg for _, gg in pairs],
            enable_double_backprop=want_graph,
        )

    def _outputs(self, xs: list, others: list, numbers: list) -> list:
        """The outputs of the call, computed from `xs` in define-by-run."""
        trace = self.plan.schedule.trace
        things: dict = dict(zip(self.others, others, strict=True))
        for value, x in zip(self.part.inputs, xs, strict=True):
            things[value.index] = x
        things.update(zip(trace.scalars, numbers, strict=True))
        for key, kept in self.effects.items():
            things[key, EFFECTS] = kept
        graph = _Graph(trace, things)
        graph.run()
        return [graph.thing(value) for value in self.part.outputs]


def is_repeatable(plan) -> bool:
    """Whether the functions of a call give the same whenever they run, as far as is known.

    Where they do not, the draws of the call are made again.
    """
    if plan.repeatable is None:
        plan.repeatable = all(
            isinstance(node, GradientNode) or _repeats(node) for node in plan.schedule.trace.nodes
        )
    return plan.repeatable


def _repeats(node: v.TracedNode) -> bool:
    if node.function is None:
        return not (node.draws or node.effect)
    if v.keeps_history(node):
        return False
    return not registry.draws(type(registry.function_of(node.function)))


class _Graph:
    """The recorded functions, applied again.

    Parameters
    ----------
    trace : Trace
    things : dict
        Value index -> Variable or array, of the leaves; a scalar of the trace -> its number.
    """

    def __init__(self, trace: v.Trace, things: dict):
        self.trace = trace
        self.things = things
        self.on_device = any(isinstance(_array(thing), Array) for thing in things.values())
        self.functions: dict[int, chainer.FunctionNode] = {}
        self.given = {key for key in things if isinstance(key, int)}

    def thing(self, value: v.Value):
        """The Variable or array that stands for `value`."""
        found = self.things.get(value.index)
        if found is None:
            source = self.array(value.source) if value.kind == v.ALIAS else value.source
            found = source
        if value.is_variable and not isinstance(found, chainer.Variable):
            found = chainer.Variable(found, requires_grad=value.requires_grad)
        self.things[value.index] = found
        return found

    def array(self, value: v.Value):
        """The array of `value`, whatever stands for it."""
        return _array(self.thing(value))

    def run(self) -> None:
        """Apply every function in the order of the trace."""
        for node in self.trace.nodes:
            if node.effect:
                made = self._effect(node)
            elif node.function is None:
                call, args, kwargs = node.call
                given = [self.array(x) for x in node.inputs]
                # Told to who traces this in turn, whatever the call is made of.
                made = record(call, fill_holes(args, given), fill_holes(kwargs, given))
                made = made if isinstance(made, (tuple, list)) else (made,)
                if node.scalars:
                    made = (self.things[node.scalars[0][2]],)
                made = [
                    part if isinstance(part, Array) or (value.is_scalar and self.on_device)
                    else np.asarray(part)
                    for part, value in zip(made, node.outputs, strict=True)
                ]  # fmt: skip
            elif isinstance(node, GradientNode):
                made = self._gradients(node)
            else:
                made = self._apply(node)
            for value, y in zip(node.outputs, made, strict=True):
                if value.index not in self.given:
                    self.things[value.index] = y

    def _apply(self, node: v.TracedNode):
        function = self.functions[id(node)] = copy_node(node.template)
        set_scalars(function, node.scalars, self.things.__getitem__)
        # Copies: what a function updates in place was updated by the call itself. A Variable that
        # the node keeps has a history: its backward may differentiate through it.
        kept = [x for r in node.rebind for x in r.values]
        things = [self.thing(x) if x.is_variable else self.array(x).copy() for x in kept]
        rebind(function, node.rebind, things)
        config = {**node.config, "enable_backprop": node.backprop}
        if isinstance(function, LinkCall):
            config["in_recomputing"] = True  # no statistics move
        with configured(config):
            made = function.apply([self.thing(x) for x in node.inputs])
        for value, y in zip(node.outputs, made, strict=False):
            if value.unchained:
                y.unchain()
        return [*made, *kept_arrays(function, node.states)]

    def _effect(self, node: v.TracedNode) -> list:
        """What ``static_code`` wrote and returned: it does not run again."""
        made, written = self.things[id(node), EFFECTS]
        for i, contents in written.items():
            self.array(node.inputs[i])[...] = contents
        return made

    def _gradients(self, node: GradientNode) -> list:
        """Gradients that the call took itself."""
        function = self.functions[id(node.of)]
        gys: list = [None] * len(function.outputs)
        for i, value in zip(node.given, node.inputs, strict=False):
            gys[i] = self.thing(value)
        with configured({**node.config, "enable_backprop": node.backprop}):
            gxs = function.backward(node.targets, tuple(gys))
        return [gxs[i] for i in node.targets] if len(gxs) == len(function.inputs) else list(gxs)


def _array(thing):
    return thing.array if isinstance(thing, chainer.Variable) else thing
