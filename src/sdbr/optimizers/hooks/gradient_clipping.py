"""Gradients scaled down together where their norm exceeds a threshold."""

from __future__ import annotations

from sdbr.optimizers.rows import HookRow

import chainer
from chainer import optimizer_hooks

ROW = HookRow(
    hooks=(optimizer_hooks.GradientClipping, chainer.optimizer.GradientClipping),
    op="clip_norm",
    attributes=("threshold",),
    for_each_param=False,
)
