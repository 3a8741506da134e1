"""L1 regularization: the sign of the parameter is added to its gradient."""

from __future__ import annotations

from sdbr.optimizers.rows import HookRow

import chainer
from chainer import optimizer_hooks

ROW = HookRow(
    hooks=(optimizer_hooks.Lasso, chainer.optimizer.Lasso),
    op="lasso",
    attributes=("rate",),
    for_each_param=True,
)
