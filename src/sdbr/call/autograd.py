"""A replayed call in Chainer's graph."""

from __future__ import annotations

import functools
import inspect
import sys
import time
import weakref

from sdbr.audit._budget import Clock
from sdbr.base.audit_share import share_now
from sdbr.base.errors import MissingGradientError, Retrace, SdbrError, StaleGraphError
from sdbr.base.reasons import Reason, Remedy
from sdbr.call.second import CallGradients
from sdbr.compat.graph._variables import variables_of
from sdbr.program._memory import claim_backward
from sdbr.schedule.parts import Pattern
from sdbr.trace.values import ARGUMENT, ATTRIBUTE, PARAMETER

import chainer
from chainer import _backprop, function_node
from chainer.variable import VariableNode

_BACKWARD = inspect.unwrap(_backprop._backprop_to_all).__code__
_GRADIENT = function_node._backprop.__code__


class StaticCall(chainer.FunctionNode):
    """A replayed call in the graph: arguments, captured state and parameters in, outputs out."""

    reference = None  # of a call that is audited
    snapshot = None  # of a call whose second derivative may be asked for

    @property
    def label(self) -> str:
        return "static_graph"

    def forward(self, inputs):
        raise SdbrError("a replayed call cannot be applied")

    def backward(self, target_input_indexes, grad_outputs):
        return self.run(self, 0, target_input_indexes, grad_outputs)

    def run(self, node, part: int, target_input_indexes, grad_outputs) -> tuple:
        """The gradients of the inputs of a part of the call; `node` stands for it in the graph."""
        with self.instance.lock:
            given = tuple(i for i, g in enumerate(grad_outputs) if g is not None)
            if not given:
                raise self.missing_gradient()
            found = self.instance.plan.parts[part]
            if found.is_anchored and not found.own:
                return (None,)
            if not claim_backward(self.instance, self.generation):
                raise self.stale()
            everything = found.own and _is_whole_backward()
            targets = () if found.is_anchored else tuple(target_input_indexes)
            pattern = Pattern(given, targets, part, everything)
            gys = [grad_outputs[i].array for i in given]
            plan = self.instance.plan.backward(pattern) if found.own else None
            if plan is not None and plan.forgets and chainer.config.enable_backprop:
                raise RuntimeError("double backpropagation in functions.forget is not allowed.")
            clock, share = self.clock()
            start = time.perf_counter() if clock is None else clock.begin()
            grads = self._replayed(node, pattern, gys)
            if plan is not None and plan.hidden:
                n = len(targets)
                _give(plan.hidden, grads[n:])
                grads = grads[:n]
            if found.is_anchored:
                return (None,)
            if everything:
                grads = self._settled(found, targets, grads)
            if clock is None:
                took = time.perf_counter() - start
                self.manager.audits.count_backward(took, share, self.reference)
            else:
                clock.end(start, share)
            if chainer.config.enable_backprop:
                return self._with_history(node, pattern, grads, [grad_outputs[i] for i in given])
            return variables_of(grads)

    def clock(self) -> tuple[Clock | None, float]:
        """What counts the time of a backward, None: as it passes; what audits may take of it."""
        share, due = share_now(), self.instance.schedule.due
        counts = share and due is not None and self.reference is None
        return (due.backwards if counts else None), share

    def missing_gradient(self) -> MissingGradientError:
        """The error for a backward that got no gradient."""
        return MissingGradientError(
            f"a backward through {self.manager.name} got no gradient of any output: "
            "set y.grad before y.backward(), for y is no scalar"
        )

    def stale(self) -> StaleGraphError:
        """The error for activations that another call has."""
        instance = self.instance
        return StaleGraphError(
            f"the activations of call {self.call_number} of {self.manager.name} (traced at "
            f"{instance.schedule.line}) were given back by end_forward(), and taken by call "
            f"{instance.call_number} before this backward; end_forward() is not needed"
        )

    def _replayed(self, node, pattern: Pattern, gys: list) -> list:
        """What the backward program of a pattern gives, beside define-by-run in an audited call."""
        instance = self.instance
        run = functools.partial(
            instance.backwards.run,
            pattern, gys, self.sources, self.results, self.manager.statistics,
        )  # fmt: skip
        try:
            if self.reference is None or pattern.part or _writes_gradients(instance.schedule.trace):
                grads = run()
            else:
                grads = self.reference.backward(
                    run,
                    instance.plan,
                    pattern,
                    gys,
                    [x.get_variable() for x in node.inputs],
                    _is_whole_backward(),
                )
        except Retrace as e:
            raise self.misfit(*e.args) from None
        finally:
            instance.running = False
        return grads

    def misfit(self, value, now) -> SdbrError:
        """The error for an array that got another shape or dtype after the forward."""
        if value.kind in (ARGUMENT, ATTRIBUTE, PARAMETER):
            name = f"{value.kind} {getattr(value.source, 'name', None) or value.source}"
        else:
            name = f"output {self.instance.plan.place(value)}"
        got = "no array" if now is None else f"{now.dtype.name}{list(now.shape)}"
        return SdbrError(
            f"{name} of {self.manager.name} was "
            f"{value.dtype.name}{list(value.shape)} in the forward (traced at "
            f"{self.instance.schedule.line}) and is {got} in the backward: another shape or dtype"
        )

    def _with_history(self, node, pattern: Pattern, grads: list, given_grads: list) -> tuple:
        """Gradients that can be differentiated in turn, or that say that they cannot."""
        inputs = [x.get_variable() for x in node.inputs]
        if self.snapshot is None:
            gxs = [None if g is None else chainer.Variable(g) for g in grads]
            loss = self.manager.name if self.manager.is_outside else None
            return tuple(_without_second_derivative(gxs, [*inputs, *given_grads], loss))
        if any(x.array is None for x in inputs):
            raise SdbrError(
                f"a second derivative through a part of a call of {self.manager.name} "
                "needs what the call does not hand out; return all that the gradients "
                "meet in, or take the gradient inside the call"
            )
        return tuple(CallGradients(self, pattern).of(grads, inputs, given_grads))

    def _settled(self, part, targets: tuple, grads: list) -> list:
        """`grads` with what functions of the call have added to the same parameters themselves.

        Chainer holds the gradient of a parameter that it has come across, and overwrites in the
        end what others add to it meanwhile; what they added before counts.
        """
        settled = list(grads)
        for k, i in enumerate(targets):
            value = part.inputs[i]
            if value.kind != PARAMETER or value.source.grad is None:
                continue
            first = grads[k] is None or self.instance.plan.order(value)
            if first is None:
                reason = (
                    f"parameter {value.source.name} is used by a function whose backward writes "
                    "gradients itself, and beside it"
                )
                self.manager.warn(
                    "settled",
                    f"{self.manager.name}: {reason}: which of its gradients Chainer keeps depends "
                    "on the order of the functions; this backward kept the one that it gives "
                    "itself. It runs define-by-run from now on.",
                )
                schedule = self.instance.schedule
                schedule.dynamic = Reason(reason, Remedy.BACKWARD_OUTSIDE, schedule.line)
            elif first:
                added, value.source.grad = value.source.grad, None
                settled[k] = added if grads[k] is None else grads[k] + added
        return settled


class SeveralParts(StaticCall):
    """A replayed call whose results have functions between them.

    A plain backward goes through it as one node: what it gives is the same as if every Variable
    that was handed out were in its place in the graph, but for gradients that lie on these
    Variables from before; `outputs` hides those which define-by-run would leave alone. Before
    anything else that looks between the results, `sdbr_split` puts the parts in its place (see
    `sdbr.compat.splitting`).
    """

    @property
    def outputs(self):
        refs = self.__dict__.get("every_output")
        for ref in refs or ():
            node = ref()
            if node is not None and _has_gradient(node):
                return self._without_leftovers(sys._getframe(1))
        return refs

    @outputs.setter
    def outputs(self, refs):
        self.every_output = refs

    def _without_leftovers(self, frame) -> tuple:
        """The outputs without those whose old gradients Chainer would take, but not of its parts.

        A backward through a function takes the gradient that lies on an output which no function
        that it has been through reads.
        """
        refs = self.every_output
        if frame.f_code is not _BACKWARD:
            return refs  # ``chainer.grad`` takes none
        grads = frame.f_locals["grads"].grads
        plan = self.instance.plan
        places = {value.index: i for i, value in enumerate(plan.graph_outputs)}
        carrying = {
            value.index
            for value, ref in zip(plan.graph_outputs, refs, strict=True)
            if grads.get(ref())
        }
        read: set[int] = set()
        shown = set()
        for part in reversed(plan.parts[1:]):
            outputs = {y.index for y in part.outputs}
            if outputs & carrying:
                shown |= outputs - read - carrying
                read |= {x.index for x in part.inputs}
                carrying |= {x.index for x in part.inputs}
        shown = {places[index] for index in shown if index in places}

        def is_left_over(i: int, node) -> bool:
            return node is not None and i not in shown and node not in grads and _has_gradient(node)

        return tuple(_nothing if is_left_over(i, ref()) else ref for i, ref in enumerate(refs))

    def unchain(self):
        for ref in self.every_output:
            node = ref()
            if node is not None:
                node._creator_node = None
        self.inputs = self.every_output = None

    def sdbr_covers(self, nodes: set) -> bool:
        """Whether going back from some of its outputs, by id, leads through every part."""
        return not self.instance.plan.behind(self._places(nodes)).left

    def sdbr_cut(self, nodes: set) -> list[VariableNode]:
        """Take away the parts behind some of its outputs, by id, and the node of the call.

        Returns
        -------
        list of VariableNode
            The inputs of the call that history leads to.
        """
        with self.instance.lock:
            behind = self.instance.plan.behind(self._places(nodes))
            inputs = [self.inputs[i] for i in behind.inputs]
            if not behind.left:
                self.unchain()
            else:
                self.is_split = True
                self._split(behind)
            return inputs

    def _places(self, nodes: set) -> tuple[int, ...]:
        return tuple([i for i, ref in enumerate(self.every_output) if id(ref()) in nodes])

    def sdbr_split(self) -> None:
        """Put a node for every part in the place of this one."""
        with self.instance.lock:
            if self.every_output is not None and not self.__dict__.get("is_split"):
                self.is_split = True
                self._split(self.instance.plan.behind(()))

    def _split(self, behind) -> None:
        """Take the call apart; what is `behind` is gone."""
        plan = self.instance.plan
        nodes: dict[int, VariableNode] = {}
        if not plan.parts[0].is_anchored:
            nodes.update(zip(plan.input_indices, self.inputs, strict=True))
        for index, ref in zip(plan.output_indices, self.every_output, strict=True):
            node = ref()
            if node is not None:
                nodes[index] = node
        for index in behind.outputs:
            if index in nodes:
                nodes[index]._creator_node = None
        for part in behind.left:
            self._show(part, nodes)

    def _show(self, part, nodes: dict[int, VariableNode]) -> None:
        """Put the node of one part in its place; `nodes` of values gains those that nobody has."""
        function = PartOfCall(self, part)
        for x in part.inputs:
            if x.index not in nodes:  # nobody holds it, and what has made it is gone
                nodes[x.index] = _hidden_node(x)
        function.inputs = tuple([nodes[x.index] for x in part.inputs])
        if part.is_anchored:
            function.inputs = (anchor(),)
        for y in part.outputs:
            node = nodes.get(y.index)
            if node is None:
                node = nodes[y.index] = _hidden_node(y)
                node._creator_node = self
            if node._creator_node is self:
                node._creator_node = function
                node._rank = function.rank + 1
        function.outputs = tuple([weakref.ref(nodes[y.index]) for y in part.outputs])
        function._input_layouts = (None,) * len(function.inputs)
        function._output_layouts = (None,) * len(function.outputs)
        function._output_count = len(function.outputs)


class PartOfCall(chainer.FunctionNode):
    """Some functions of a replayed call in the graph.

    Parameters
    ----------
    call : SeveralParts
    part : Part
    """

    def __init__(self, call: SeveralParts, part):
        self.call = call
        self.part = part
        self.rank = call.rank + part.depth
        self.lazy_grad_sum = call.lazy_grad_sum

    @property
    def label(self) -> str:
        return "part of static_graph"

    def forward(self, inputs):
        raise SdbrError("a replayed call cannot be applied")

    def backward(self, target_input_indexes, grad_outputs):
        if not any(g is not None for g in grad_outputs):
            return (None,) * len(target_input_indexes)
        return self.call.run(self, self.part.index, target_input_indexes, grad_outputs)


def _writes_gradients(trace) -> bool:
    """Whether a function of the call may add to gradients itself, which two runs would do twice."""
    return bool(trace.forgotten) or any(node.accumulates for node in trace.nodes)


def _give(params: list, grads: list) -> None:
    """Add gradients to parameters, as a backward inside of another one does."""
    for value, g in zip(params, grads, strict=True):
        if g is not None:
            parameter = value.source
            before = parameter.grad
            parameter._set_grad_var_without_check(
                chainer.Variable(g if before is None else before + g)
            )
            parameter._loss_scale = None


def call_class(plan) -> type[StaticCall]:
    """The class of the nodes of replayed calls of a plan."""
    return SeveralParts if plan.comes_apart else StaticCall


def _hidden_node(value) -> VariableNode:
    """A place in the graph for what nobody holds."""
    node = VariableNode(chainer.Variable(requires_grad=True), None)
    node.dtype, node.shape = value.dtype, value.shape
    return node


def anchor() -> VariableNode:
    """A place in the graph that wants a gradient, and gets none."""
    node = VariableNode(chainer.Variable(requires_grad=True), None)
    node.dtype = node.shape = None
    return node


def _is_whole_backward() -> bool:
    """Whether the backward that runs now is one of all functions, not that of ``chainer.grad``."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code is not _BACKWARD:
        if frame.f_code is _GRADIENT:
            return False
        frame = frame.f_back
    return frame is not None


def _nothing() -> None:
    """As a weak reference whose object is gone."""


def _has_gradient(node) -> bool:
    variable = node._variable()
    return variable is not None and not (variable._grad is None and variable._grad_var is None)


class _NoSecondDerivative(chainer.FunctionNode):
    """Passes gradients on; its own backward is the error that names the switch."""

    def forward(self, inputs):
        return tuple(inputs[: self.n])

    def backward(self, target_input_indexes, grad_outputs):
        if self.loss is not None:  # of Chainer's, which nobody has decorated: its kind of error
            raise RuntimeError(
                f"a second derivative was asked through F.{self.loss}, which was called without "
                "enable_double_backprop=True"
            )
        raise SdbrError(
            "a second derivative was asked through a static chain; decorate it with "
            "sdbr.static_graph(enable_double_backprop=True)"
        )


def _without_second_derivative(gxs, inputs, loss: str | None):
    present = [g for g in gxs if g is not None]
    if not present:
        return gxs
    node = _NoSecondDerivative()
    node.n, node.loss = len(present), loss
    outs = iter(node.apply([*present, *[x for x in inputs if x.array is not None]]))
    return [None if g is None else next(outs) for g in gxs]
