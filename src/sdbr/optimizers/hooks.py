"""Hooks of optimizers and update rules."""

from __future__ import annotations

from sdbr.optimizers.rows import HookRow

import chainer
from chainer import optimizer_hooks

WEIGHT_DECAY = HookRow(
    hooks=(optimizer_hooks.WeightDecay, chainer.optimizer.WeightDecay),
    op="weight_decay",
    attribute="rate",
    for_each_param=True,
    times_loss_scale=True,
)
LASSO = HookRow(
    hooks=(optimizer_hooks.Lasso, chainer.optimizer.Lasso),
    op="lasso",
    attribute="rate",
    for_each_param=True,
)
GRADIENT_CLIPPING = HookRow(
    hooks=(optimizer_hooks.GradientClipping, chainer.optimizer.GradientClipping),
    op="clip_norm",
    attribute="threshold",
    for_each_param=False,
)
