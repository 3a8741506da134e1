"""Each element of a gradient into bounds."""

from __future__ import annotations

from sdbr.optimizers.rows import HookRow

import chainer
from chainer import optimizer_hooks

ROW = HookRow(
    hooks=(optimizer_hooks.GradientHardClipping, chainer.optimizer.GradientHardClipping),
    op="hard_clip",
    attributes=("lower_bound", "upper_bound"),
    for_each_param=True,
)
