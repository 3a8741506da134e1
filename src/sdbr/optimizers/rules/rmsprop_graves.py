"""RMSprop with momentum and a mean of the gradient (Graves 2013, arXiv:1308.0850)."""

from __future__ import annotations

from sdbr.optimizers.rows import RuleRow

from chainer.optimizers.rmsprop_graves import RMSpropGravesRule


def scalars(values: tuple, t: int, dtype, extra) -> tuple[float, ...]:
    """``lr, alpha, one_minus_alpha, momentum, eps``."""
    lr, alpha, momentum, eps = values
    return (lr, alpha, 1 - alpha, momentum, eps)


ROW = RuleRow(
    rule=RMSpropGravesRule,
    op="rmsprop_graves",
    hyperparameters=("lr", "alpha", "momentum", "eps"),
    scalars=scalars,
    n_scalars=5,
    state=lambda options: ("n", "g", "delta"),
)
