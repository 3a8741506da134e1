"""AdaGrad: steps in units of the root of the sum of squares (Duchi et al. 2011)."""

from __future__ import annotations

from sdbr.optimizers.rows import RuleRow

from chainer.optimizers.ada_grad import AdaGradRule


def scalars(values: tuple, t: int, dtype, extra) -> tuple[float, ...]:
    """``lr, eps``."""
    return values


ROW = RuleRow(
    rule=AdaGradRule,
    op="ada_grad",
    hyperparameters=("lr", "eps"),
    scalars=scalars,
    n_scalars=2,
    state=lambda options: ("h",),
)
