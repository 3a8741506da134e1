"""Nesterov's accelerated gradient, as in Bengio et al. 2012 (arXiv:1212.0901)."""

from __future__ import annotations

from sdbr.optimizers.rows import RuleRow

from chainer.optimizers.nesterov_ag import NesterovAGRule


def scalars(values: tuple, t: int, dtype, extra) -> tuple[float, ...]:
    """``lr, momentum, momentum_squared, ahead``."""
    lr, momentum = values
    return (lr, momentum, momentum * momentum, (1 + momentum) * lr)


ROW = RuleRow(
    rule=NesterovAGRule,
    op="nesterov_ag",
    hyperparameters=("lr", "momentum"),
    scalars=scalars,
    n_scalars=4,
    state=lambda options: ("v",),
)
