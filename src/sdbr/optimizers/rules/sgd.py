"""Vanilla stochastic gradient descent."""

from __future__ import annotations

from sdbr.optimizers.rows import RuleRow

from chainer.optimizers.sgd import SGDRule


def scalars(values: tuple, t: int, dtype, extra) -> tuple[float, ...]:
    """``lr``."""
    return values


ROW = RuleRow(rule=SGDRule, op="sgd", hyperparameters=("lr",), scalars=scalars, n_scalars=1)
