"""ADADELTA (Zeiler 2012, arXiv:1212.5701)."""

from __future__ import annotations

from sdbr.optimizers.rows import RuleRow

from chainer.optimizers.ada_delta import AdaDeltaRule


def scalars(values: tuple, t: int, dtype, extra) -> tuple[float, ...]:
    """``rho, one_minus_rho, eps``."""
    rho, eps = values
    return (rho, 1 - rho, eps)


ROW = RuleRow(
    rule=AdaDeltaRule,
    op="ada_delta",
    hyperparameters=("rho", "eps"),
    scalars=scalars,
    n_scalars=3,
    state=lambda options: ("msg", "msdx"),
)
