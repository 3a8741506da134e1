"""A replayed call in Chainer's graph."""

from __future__ import annotations

import weakref

from sdbr._memory import claim_backward
from sdbr.errors import SdbrError, StaleGraphError
from sdbr.instance import Instance, Retrace
from sdbr.second import CallGradients

import chainer


class StaticCall(chainer.FunctionNode):
    """A replayed call in the graph: arguments, captured state and parameters in, outputs out."""

    reference = None  # of a call that is validated
    snapshot = None  # of a call whose second derivative may be asked for

    def __init__(self, instance: Instance, sources: list, manager):
        self.instance = instance
        self.generation = instance.generation
        self.sources = sources
        self.manager = manager

    @property
    def label(self) -> str:
        return "static_graph"

    def forward(self, inputs):
        raise SdbrError("a replayed call cannot be applied")

    def connect(self, inputs: list, outputs: list) -> None:
        """Wire the node into the graph as ``apply`` would have done."""
        self._input_layouts = (None,) * len(inputs)
        self._output_layouts = (None,) * len(outputs)
        self._output_count = len(outputs)
        self.inputs = tuple([x.node for x in inputs])
        self.rank = max([x.rank for x in inputs], default=0)
        for y in outputs:
            y.creator_node = self
        self.outputs = tuple([weakref.ref(y.node) for y in outputs])
        self.lazy_grad_sum = chainer.config.lazy_grad_sum

    def backward(self, target_input_indexes, grad_outputs):
        with self.instance.lock:
            return self._backward(target_input_indexes, grad_outputs)

    def _backward(self, target_input_indexes, grad_outputs):
        given = tuple(i for i, g in enumerate(grad_outputs) if g is not None)
        if not given:
            raise SdbrError(
                f"a backward through {self.manager.name} got no gradient of any output: set y.grad "
                "before y.backward(), for y is no scalar"
            )
        instance = self.instance
        if not claim_backward(instance, self.generation):
            self.manager.keep_all_calls()
            raise StaleGraphError(
                f"the activations of call {self.call_line} of {self.manager.name} (traced at "
                f"{instance.schedule.line}) were taken by call {instance.call_line} before this "
                "backward; from now on this chain keeps one schedule per live call"
            )
        pattern = (given, tuple(target_input_indexes))
        try:
            grads = instance.run_backward(
                pattern, [grad_outputs[i].array for i in given], self.sources
            )
            self.manager.statistics.count_run(instance.backward_executables[pattern])
            instance.backward_done = True
        except Retrace as e:
            value, now = e.args
            name = getattr(value.source, "name", None) or value.source
            got = "no array" if now is None else f"{now.dtype.name}{list(now.shape)}"
            raise SdbrError(
                f"{value.kind} {name} of {self.manager.name} was "
                f"{value.dtype.name}{list(value.shape)} in the forward (traced at "
                f"{instance.schedule.line}) and is {got} in the backward: another shape or dtype"
            ) from None
        finally:
            instance.running = False
        if self.reference is not None:
            inputs = [x.get_variable() for x in self.inputs]
            given_grads = [grad_outputs[i].array for i in given]
            self.reference.check_gradients(instance.plan, pattern, given_grads, inputs, grads)
        if chainer.config.enable_backprop:
            inputs = [x.get_variable() for x in self.inputs]
            given_grads = [grad_outputs[i] for i in given]
            if self.snapshot is not None:
                return tuple(CallGradients(self, pattern).of(grads, inputs, given_grads))
            gxs = [None if g is None else chainer.Variable(g) for g in grads]
            return tuple(_without_second_derivative(gxs, [*inputs, *given_grads]))
        return tuple([None if g is None else chainer.Variable(g) for g in grads])


class _NoSecondDerivative(chainer.FunctionNode):
    """Passes gradients on; its own backward is the error that names the switch."""

    def forward(self, inputs):
        return tuple(inputs[: self.n])

    def backward(self, target_input_indexes, grad_outputs):
        raise SdbrError(
            "a second derivative was asked through a static chain; decorate it with "
            "sdbr.static_graph(enable_double_backprop=True)"
        )


def _without_second_derivative(gxs, inputs):
    present = [g for g in gxs if g is not None]
    if not present:
        return gxs
    node = _NoSecondDerivative()
    node.n = len(present)
    outs = iter(node.apply([*present, *[x for x in inputs if x.array is not None]]))
    return [None if g is None else next(outs) for g in gxs]
