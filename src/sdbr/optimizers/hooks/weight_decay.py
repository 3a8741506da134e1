"""Decay of weights: a part of the parameter is added to its gradient."""

from __future__ import annotations

from sdbr.optimizers.rows import HookRow

import chainer
from chainer import optimizer_hooks

ROW = HookRow(
    hooks=(optimizer_hooks.WeightDecay, chainer.optimizer.WeightDecay),
    op="weight_decay",
    attributes=("rate",),
    for_each_param=True,
    times_loss_scale=True,
)
