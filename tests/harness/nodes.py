"""A function hook that takes notes, and a function that fails when it is told to."""

from __future__ import annotations

import sdbr  # noqa: F401

import chainer


class Names(chainer.FunctionHook):
    name = "names"

    def __init__(self):
        self.seen = []

    def forward_postprocess(self, function, in_data):
        self.seen.append(function.label)

    def backward_postprocess(self, function, in_data, out_grad):
        self.seen.append("gradient of " + function.label)


class Moody(chainer.FunctionNode):
    """Fails forward or backward when told to."""

    mood = "good"

    def forward(self, inputs):
        if Moody.mood == "forward":
            raise ZeroDivisionError("forward is moody")
        return (inputs[0] * 2,)

    def backward(self, indexes, grads):
        if Moody.mood == "backward":
            raise ZeroDivisionError("backward is moody")
        return (grads[0] * 2,)
