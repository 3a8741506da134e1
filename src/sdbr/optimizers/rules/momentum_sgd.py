"""Stochastic gradient descent with momentum."""

from __future__ import annotations

from sdbr.optimizers.rows import RuleRow

from chainer.optimizers.momentum_sgd import MomentumSGDRule


def scalars(values: tuple, t: int, dtype, extra) -> tuple[float, ...]:
    """``lr, momentum``."""
    return values


ROW = RuleRow(
    rule=MomentumSGDRule,
    op="momentum_sgd",
    hyperparameters=("lr", "momentum"),
    scalars=scalars,
    n_scalars=2,
    state=lambda options: ("v",),
)
