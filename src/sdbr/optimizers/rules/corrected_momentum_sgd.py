"""Momentum SGD with the correction of Goyal et al. 2017 (arXiv:1706.02677, section 3)."""

from __future__ import annotations

from sdbr.optimizers.rows import RuleRow

from chainer.optimizers.corrected_momentum_sgd import CorrectedMomentumSGDRule


def scalars(values: tuple, t: int, dtype, extra) -> tuple[float, ...]:
    """``lr, momentum``."""
    return values


ROW = RuleRow(
    rule=CorrectedMomentumSGDRule,
    op="corrected_momentum_sgd",
    hyperparameters=("lr", "momentum"),
    scalars=scalars,
    n_scalars=2,
    state=lambda options: ("v",),
)
