"""``F.forget`` in a traced call: its function is recorded as if it stood there itself.

Chainer runs the function twice, the second time in the backward, and lets that backward write the
gradients of the parameters inside. Recorded are the functions of the first run; a backward program
has them once more. That is the same only if the second run is like the first, and if nobody else
has to do with what is inside. Where it is not, the call is traced anew with ``F.forget`` as one
Python op.
"""

from __future__ import annotations

import functools
import sys

from sdbr.base.reasons import Reason, Remedy
from sdbr.trace.nodes import has_own_backward
from sdbr.trace.values import ALIAS, ARGUMENT, CONSTANT, RESULT, Value, handed_out, keeps_history

import chainer
import numpy as np

#: Entries of ``chainer.config`` that differ between the two runs.
_MODES = ("enable_backprop", "in_recomputing", "_will_recompute")
#: Modules that ask for them and make the same numbers either way.
_INDIFFERENT = (
    "chainer.function",
    "chainer.function_node",
    "chainer.functions.array.cast",
    "chainer.variable",
)

_FROZEN = "the function of F.forget uses what the call has computed without being given it"


class Mode:
    """A false value of an entry of ``chainer.config`` that tells who asks for it.

    Parameters
    ----------
    group : Forgotten
    told : bool
        What it stands for in the first run.
    """

    def __init__(self, group: Forgotten, told: bool):
        self.group = group
        self.told = told

    def __bool__(self) -> bool:
        name = sys._getframe(1).f_globals.get("__name__", "")
        if name not in _INDIFFERENT and name.partition(".")[0] != "sdbr":
            self.group.fail("code inside asks whether it runs for the first time")
        return self.told


class Forgotten:
    """One ``F.forget`` of a traced call.

    Attributes
    ----------
    inputs, outputs : list of Value
    params : list of Value
        The parameters that its functions use.
    nodes : set of int
        Ids of the traced nodes.
    captures : str
        Where something else that the call has computed is used inside; empty without.
    shaped : bool
        Whether shapes inside depend on values.
    nested : bool
        Whether it is inside of another one.
    live : bool
        Whether gradients may be asked for.
    """

    def __init__(self, recorder, inputs: list[Value], live: bool):
        self.recorder = recorder
        self.inputs = inputs
        self.outputs: list[Value] = []
        self.params: list[Value] = []
        self.nodes: set[int] = set()
        self.captures = ""
        self.shaped = False
        self.nested = recorder.nodes.forgotten is not None
        self.live = live
        trace = recorder.trace
        self.first = len(trace.values)
        self._around = recorder.nodes.forgotten
        self._first_node = len(trace.nodes)
        self._before = self._seen_from_outside()
        self._returned: list = []  # values of what the function returned
        self._variables: dict[int, object] = {}  # id -> node of a Variable of the function's own

    def fail(self, reason: str) -> None:
        """The call has to be traced anew."""
        self.recorder.nodes.not_forgotten = self.recorder.nodes.not_forgotten or reason

    def let_go(self) -> None:
        """The call is over: keep nothing of it alive."""
        self.recorder = self._around = None
        self._variables.clear()

    def own(self, variable) -> None:
        """Note a Variable that the function has been given or has made."""
        self._variables[id(variable._node)] = variable._node

    def backprop(self, now) -> bool:
        """What ``enable_backprop`` is in the second run where it is `now` in the first."""
        return self.live and (isinstance(now, Mode) or bool(now))

    def applied(self, node, function, inputs, outputs) -> None:
        """Note a function that has been applied inside."""
        for x, value in zip(inputs, node.inputs, strict=True):
            if not isinstance(x, chainer.Variable) or id(x._node) in self._variables:
                continue
            if isinstance(x, chainer.Parameter):
                if x.requires_grad and value not in self.params:
                    self.params.append(value)
            elif x.requires_grad and not (
                value.kind in (ALIAS, CONSTANT) and value.index >= self.first
            ):
                self.fail("a Variable of the code around it is used inside")
                self.captures = self.captures or node.line
        if has_own_backward(function) or keeps_history(node):
            self.fail(f"{node.label} is applied inside")
        if any("running_" in r.name for r in node.rebind):
            self.fail(f"{node.label} inside may move running statistics")
        node.config = {k: thing for k, thing in node.config.items() if k not in _MODES}
        node.applied, node.forgotten = False, True
        self.nodes.add(id(node))
        wants = node.backprop and any(x.requires_grad for x in node.inputs)
        for y, value in zip(outputs, node.outputs, strict=False):
            value.requires_grad = wants
            self.own(y)

    def run(self, function, user, *xs):
        """Run what the user gave to `function`, and record the functions inside."""
        recorder = self.recorder
        for x, value in zip(xs, self.inputs, strict=True):
            recorder.values.know_variable(x, value)
            self.own(x)
        recorder.nodes.forgotten, function.func = self, user
        recorder.depth -= 1
        recorder.go_on()
        try:
            # Not the modes of Chainer: who asks for them does not do the same twice.
            with (
                chainer.using_config("enable_backprop", Mode(self, False)),
                chainer.using_config("in_recomputing", Mode(self, False)),
                chainer.using_config("_will_recompute", Mode(self, True)),
            ):
                result = user(*xs)
            for y in result if isinstance(result, tuple) else (result,):
                is_variable = isinstance(y, chainer.Variable)
                self._returned.append(recorder.values.of_variable(y) if is_variable else None)
        finally:
            recorder.pause()
            recorder.depth += 1
            recorder.nodes.forgotten = self._around
        return result

    def finish(self, outputs: tuple) -> None:
        """The node has been applied: was the function a closed unit, and what are its outputs?"""
        recorder, trace, around = self.recorder, self.recorder.trace, self._around
        nodes = trace.nodes[self._first_node :]
        self._compare()
        for node in nodes:
            if node.draws or node.effect or (node.function is not None and not node.forgotten):
                self.fail(f"{node.label} inside is no plain function")
            self.nodes.add(id(node))
        made = {y.index for node in nodes for y in node.outputs}
        self.look_around(nodes, made)
        for y, value in zip(outputs, self._returned, strict=True):
            self.outputs.append(self._output(y, value, made))
            if around is not None:
                around.own(y)
        if around is not None:  # which runs this again, too
            around.nodes |= self.nodes
            around.params += [p for p in self.params if p not in around.params]
        recorder.nodes.groups.append(self)
        if around is None and self.live:
            trace.forgotten.append(self)

    def _seen_from_outside(self) -> tuple:
        """What a second run would do once more to what lies around the function."""
        recorder = self.recorder
        return _generator(), len(recorder.trace.reports), set(recorder.attributes.written)

    def _compare(self) -> None:
        """Note what the first run has changed around the function."""
        (drawn, reports, written), now = self._before, self._seen_from_outside()
        if now[0] != drawn:
            self.fail("something inside draws")
        if now[1] != reports:
            self.fail("something inside is reported")
        if now[2] != written:
            self.fail("an attribute is written inside")

    def _output(self, y, value: Value | None, made: set[int]) -> Value:
        """The value of an output, which the function must have made itself."""
        recorder = self.recorder
        known = value is not None and value.kind == RESULT and value.index in made
        if not known or value.unchained or value.requires_grad != self.live:
            self.fail("its function hands on what it was given, or cuts what it has made")
            return recorder.values.of_variable(y)
        value.shown = y.requires_grad
        recorder.values.know_variable(y, value)
        return value

    def look_around(self, nodes: list, made: set[int]) -> None:
        """Note what was there before and is no argument: a Python op would keep it as it is now."""
        given = {_base(x).index for x in self.inputs} | made
        for node in nodes:
            for x in [*node.inputs, *[x for r in node.rebind for x in r.values]]:
                base = _base(x)
                if base.kind in (ARGUMENT, RESULT) and base.index not in given:
                    self.captures = self.captures or node.line


def trace_through(recorder, original, function, inputs) -> tuple | None:
    """Apply a `Forget` node and record the functions inside of it in its place."""
    values = [recorder.values.of_variable(x) for x in inputs]
    backprop = chainer.config.enable_backprop
    if isinstance(backprop, Mode):
        backprop = backprop.group.live
    group = Forgotten(recorder, values, bool(backprop) and any(v.requires_grad for v in values))
    user = function.func
    function.func = functools.partial(group.run, function, user)
    recorder.depth += 1
    try:
        outputs = original(function, inputs)
    except Exception:
        recorder.mark_dynamic(
            f"an error of {function.label} was raised during the call", Remedy.CATCH_OUTSIDE
        )
        raise
    finally:
        recorder.depth -= 1
        function.func = user
    group.finish(outputs)
    return outputs


def why_not_through(recorder) -> str | None:
    """Why a call that has been traced cannot be replayed like that, or None; to be asked once."""
    trace = recorder.trace
    for group in recorder.nodes.groups:
        group.let_go()
    if recorder.nodes.not_forgotten is not None or not recorder.nodes.groups:
        return recorder.nodes.not_forgotten
    writes = {(id(write.link), write.name) for write in trace.writes}
    if trace.stores or not writes <= recorder.attributes.written:
        return "the call leaves something outside, perhaps from inside of it, which does so twice"
    out = {value.index for value in handed_out(trace)}
    ends = {i for i in out if trace.values[i].kind == RESULT and trace.values[i].requires_grad}
    for group in recorder.nodes.groups:
        if not group.live:
            continue
        if len(group.outputs) > 1 and len(ends) > 1:
            return "there are several results of it, and of the call"
        shown = {y.index for y in group.outputs}
        inside = {
            y.index for node in trace.nodes if id(node) in group.nodes for y in node.outputs
        } - shown
        inside |= {p.index for p in group.params}
        if inside & out:
            return "what is inside is handed out"
        for node in trace.nodes:
            if id(node) in group.nodes or node.function is None:
                continue
            used = [*node.inputs, *[x for r in node.rebind for x in r.values]]
            if any(x.index in inside for x in used):
                return "a parameter or a Variable inside is used outside of it, too"
        for other in recorder.nodes.groups:
            beside = other is not group and not other.nodes <= group.nodes
            if beside and any(x.index in inside for x in other.inputs):
                return "a parameter or a Variable inside is used outside of it, too"
    return None


def frozen(recorder) -> Reason | None:
    """Why no Python op can stand for a function, or None.

    It uses what it is not given, or may give another shape each time.
    """
    if any(group.shaped for group in recorder.nodes.groups):
        return recorder.trace.dynamic
    places = [
        group.captures for group in recorder.nodes.groups if group.captures and not group.nested
    ]
    return Reason(_FROZEN, Remedy.GIVE_TO_FORGET, places[0]) if places else None


def _base(value: Value) -> Value:
    return value.source if value.kind == ALIAS else value


def _generator() -> tuple:
    """Where NumPy's global generator stands."""
    _, words, position, *rest = np.random.get_state(legacy=True)
    return (words.tobytes(), position, *rest)
