"""Fixes for losses whose backward changes what their forward left, or the gradient it was given."""

from __future__ import annotations

from types import ModuleType

from sdbr.compat.fix import FunctionFix, wrap


def _leave_alone(attribute: str):
    """A backward that works on copies of the gradients and of an attribute of its function."""

    def make(backward):
        def on_copies(self, inputs, grad_outputs):
            kept = getattr(self, attribute)
            setattr(self, attribute, kept.copy())
            try:
                gys = tuple(None if gy is None else gy.copy() for gy in grad_outputs)
                return backward(self, inputs, gys)
            finally:
                setattr(self, attribute, kept)

        return on_copies

    return make


def _fix_hinge(module: ModuleType) -> None:
    for name in ("backward_cpu", "backward_gpu"):
        wrap(module.Hinge, name, _leave_alone("bottom_diff"))


HINGE = FunctionFix(
    name="hinge-backward",
    module="chainer.functions.loss.hinge",
    reason="backward divides the gradient that others get, too, and a second one has another sign "
    "(an error of 7.8.1)",
    stacks="all",
    needed=lambda stack: True,
    apply=_fix_hinge,
)


def _fix_ctc(module: ModuleType) -> None:
    wrap(module.ConnectionistTemporalClassification, "backward", _leave_alone("yseq"))


CTC = FunctionFix(
    name="ctc-backward",
    module="chainer.functions.loss.ctc",
    reason="a second backward starts from what the first one left (an error of 7.8.1)",
    stacks="all",
    needed=lambda stack: True,
    apply=_fix_ctc,
)

FIXES = (HINGE, CTC)
