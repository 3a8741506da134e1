"""Gradients as long as their parameters (You et al. 2017, arXiv:1708.03888)."""

from __future__ import annotations

from sdbr.optimizers.rows import HookRow

from chainer import optimizer_hooks

ROW = HookRow(
    hooks=(optimizer_hooks.GradientLARS,),
    op="lars",
    attributes=("threshold", "weight_decay", "eps"),
    for_each_param=True,
)
