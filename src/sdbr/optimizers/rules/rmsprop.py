"""RMSprop: steps in units of the root of a running mean of squares (Tieleman & Hinton 2012)."""

from __future__ import annotations

from sdbr.optimizers.rows import Declined, RuleRow, vanishes

from chainer.optimizers.rmsprop import RMSpropRule


def scalars(values: tuple, t: int, dtype, extra) -> tuple[float, ...]:
    """``lr, alpha, one_minus_alpha, eps_inside, eps_outside``."""
    lr, alpha, eps, eps_inside_sqrt = values
    if vanishes(eps, dtype):
        raise Declined("eps of RMSprop is too small for float32")
    return (lr, alpha, 1 - alpha, *((eps, 0.0) if eps_inside_sqrt else (0.0, eps)))


ROW = RuleRow(
    rule=RMSpropRule,
    op="rmsprop",
    hyperparameters=("lr", "alpha", "eps", "eps_inside_sqrt"),
    scalars=scalars,
    n_scalars=5,
    state=lambda options: ("ms",),
)
