"""Noise that is added to gradients (Neelakantan et al. 2015, arXiv:1511.06807)."""

from __future__ import annotations

import types
import weakref

from sdbr.optimizers.rows import HookRow

import chainer
from chainer import optimizer_hooks
from chainer.optimizer_hooks.gradient_noise import exponential_decay_noise


class NoiseDraw:
    """The noise of one parameter, drawn by the generator of its array's module."""

    label = "GradientNoise"

    def __init__(self, hook, rule, ahead: int, plan) -> None:
        self._hook, self._rule, self._ahead = hook, rule, ahead
        self._plan = None if plan is None else weakref.proxy(plan)

    def __call__(self, memory, ins, outs) -> None:
        y, hook = outs[0], self._hook
        t = self._rule.t + self._ahead
        if self._plan is not None:
            t -= self._plan.counted
        at = types.SimpleNamespace(t=t)  # all that it looks at
        y[...] = hook.noise_func(chainer.backend.get_array_module(y), y.shape, y.dtype, hook, at)


ROW = HookRow(
    hooks=(optimizer_hooks.GradientNoise, chainer.optimizer.GradientNoise),
    op="add_noise",
    attributes=(),
    for_each_param=True,
    fixed=(("noise_func", exponential_decay_noise),),
    draw=NoiseDraw,
)
