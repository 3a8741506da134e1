"""Gradients that a traced call takes itself, with ``chainer.grad``.

Chainer goes from function to function; each step becomes one node of the trace: the gradient of a
function that was recorded before (`GradientNode`). A replay computes it as it computes the
backward of that function. Where the call wants to differentiate the gradient again, functions
whose backward is nothing but functions of Variables are not recorded as a step: the functions that
their backward applies are. Which these are is a column of the function table (`transparent`), which
the recorder is given as a predicate. Everything else keeps Chainer's own graph in replays.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
import weakref
from collections.abc import Callable

from sdbr.base.reasons import Remedy
from sdbr.trace.code.frames import called_by_machinery, user_line
from sdbr.trace.current import current
from sdbr.trace.values import RESULT, TracedNode, keeps_history

import chainer
from chainer import _backprop, _backprop_utils


@dataclasses.dataclass(eq=False)
class GradientNode(TracedNode):
    """Gradients of a function node that was recorded before, as a node of the trace.

    Its inputs are the gradients given, then the inputs of that node.

    Attributes
    ----------
    of : TracedNode
    given : tuple of int
        Outputs of `of` that carry a gradient.
    targets : tuple of int
        Inputs of `of` whose gradients are the outputs.
    """

    of: TracedNode | None = None
    given: tuple = ()
    targets: tuple = ()


class Backward:
    """Stands for the function of a `GradientNode`."""


class Gradients:
    """The part of the recorder that follows gradients.

    Attributes
    ----------
    transparent : callable
        Whether a class of function nodes hides nothing when its gradient is differentiated.
    """

    transparent: Callable[[type], bool]

    def __init__(self, recorder):
        self.recorder = recorder
        self.values = recorder.values
        self._functions: dict[int, tuple] = {}  # id(function) -> (weakref, node)

    def know_function(self, function, node: TracedNode) -> None:
        self._functions[id(function)] = (weakref.ref(function), node)

    def cut(self, node) -> None:
        """Note that no gradient flows back beyond a variable node from here on."""
        known = self.values.variables.get(id(node))
        if known is not None and known[1].kind == RESULT:
            known[1].unchained = True
        elif node._creator_node is not None and not self.recorder.depth:
            self.recorder.mark_dynamic(
                "the history of an argument or of captured state was cut during the call (unchain, "
                "unchain_backward)",
                Remedy.CUT_OUTSIDE,
            )

    def backprop_step(self, original, func, targets, gys, grad_inputs, is_debug):
        """Go back through one function, and record that."""
        known = self._functions.get(id(func))
        if known is None or known[0]() is not func:
            return self.unseen(
                f"a gradient was taken through {func.label}, which ran before the call or where "
                "sdbr cannot see it",
                Remedy.GRADIENT_OF_RESULT,
                original, func, targets, gys, grad_inputs, is_debug,
            )  # fmt: skip
        if type(func).backward_accumulate is not chainer.FunctionNode.backward_accumulate:
            return self.unseen(
                f"a gradient was taken through {func.label}, which has a backward_accumulate of "
                "its own",
                Remedy.GRADIENT_OF_RESULT,
                original, func, targets, gys, grad_inputs, is_debug,
            )  # fmt: skip
        node = known[1]
        if chainer.config.enable_backprop and keeps_history(node):
            return self.unseen(
                f"a gradient that is differentiated in turn was taken through {func.label}, which "
                "keeps a Variable",
                Remedy.GRADIENT_OF_RESULT,
                original, func, targets, gys, grad_inputs, is_debug,
            )  # fmt: skip
        for g in gys:
            if g is not None:
                self.values.of_variable(g)
        # A number that changes from call to call would be a constant of what its backward applies.
        if (
            chainer.config.enable_backprop
            and not node.scalars
            and self.recorder.transparent(type(func))
        ):
            return original(func, targets, gys, grad_inputs, is_debug)
        plain, own = func.backward, func.__dict__.get("backward")

        def backward(indexes, grad_outputs):
            self.recorder.depth += 1
            try:
                gxs = plain(indexes, grad_outputs)
            finally:
                self.recorder.depth -= 1
            self._gradients(node, indexes, grad_outputs, gxs)
            return gxs

        func.__dict__["backward"] = backward
        try:
            return original(func, targets, gys, grad_inputs, is_debug)
        finally:
            del func.__dict__["backward"]
            if own is not None:
                func.backward = own

    def unseen(self, text: str, remedy: Remedy, original, *args):
        self.recorder.mark_dynamic(text, remedy)
        self.recorder.depth += 1
        try:
            return original(*args)
        finally:
            self.recorder.depth -= 1

    def _gradients(self, of: TracedNode, indexes, gys, gxs) -> None:
        if len(gxs) == len(of.inputs):
            gxs = [gxs[i] for i in indexes]
        # A Variable that is known already needs no node: an addition passes its gradient on.
        made = {}
        for i, g in zip(indexes, gxs, strict=True):
            if (
                g is not None
                and g._data[0] is not None
                and id(g._node) not in self.values.variables
            ):
                made.setdefault(id(g), (i, g))
        if not made:
            return
        given = tuple(i for i, g in enumerate(gys) if g is not None)
        inputs = [self.values.of_variable(gys[i]) for i in given] + of.inputs
        node = GradientNode(
            None, Backward(), None, inputs, [], chainer.config.enable_backprop, [],
            f"{of.label} backward", user_line(), of=of, given=given,
            targets=tuple(i for i, _ in made.values()),
        )  # fmt: skip
        self.recorder.nodes.add_node(node, [g for _, g in made.values()])


# --- what is patched while a call is traced -----------------------------------------------------


def _wrap_backprop_step(original):
    @functools.wraps(original)
    def backprop_step(*args):
        recorder = current()
        if recorder is None or recorder.depth:
            return original(*args)
        return recorder.gradients.backprop_step(original, *args)

    return backprop_step


def _wrap_backward(original):
    @functools.wraps(original)
    def backprop_to_all(*args, **kwargs):
        recorder = current()
        if recorder is None or recorder.depth:
            return original(*args, **kwargs)
        return recorder.gradients.unseen(
            "backward() inside the call writes gradients into Variables and parameters, which no "
            "replay does",
            Remedy.BACKWARD_OUTSIDE,
            functools.partial(original, *args, **kwargs),
        )

    return backprop_to_all


def _wrap_gradient(original):
    getter, setter = original.fget, original.fset

    def noted(access: str):
        recorder = current()
        if recorder is None or recorder.depth:
            return
        frame = sys._getframe(2)
        # ``chainer.grad`` with set_grad or retain_grad, ``x.cleargrad()``: these are asked for.
        asked = frame.f_code.co_name in ("grad", "_backprop", "cleargrad") and access == "written"
        if asked or not called_by_machinery(frame):
            recorder.mark_dynamic(
                f"the gradient of a Variable was {access} during the call (x.grad, x.grad_var)",
                Remedy.GRADIENTS_OF_GRAD,
            )

    def read(self):
        noted("read")
        return getter(self)

    def write(self, gradient):
        noted("written")
        setter(self, gradient)

    return property(read, write, original.fdel, original.__doc__)


def register(patches) -> None:
    """Add the patches to the set that is in place while any call is traced."""
    patches.register(_backprop_utils, "backprop_step", _wrap_backprop_step)
    patches.register(_backprop, "_backprop_to_all", _wrap_backward)
    patches.register(chainer.Variable, "grad", _wrap_gradient)
    patches.register(chainer.Variable, "grad_var", _wrap_gradient)
