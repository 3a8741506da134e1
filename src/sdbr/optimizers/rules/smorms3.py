"""SMORMS3: means over a memory of its own length for each element (Funk 2015)."""

from __future__ import annotations

from sdbr.optimizers.rows import RuleRow

from chainer.optimizers.smorms3 import SMORMS3Rule


def scalars(values: tuple, t: int, dtype, extra) -> tuple[float, ...]:
    """``lr, eps``."""
    return values


ROW = RuleRow(
    rule=SMORMS3Rule,
    op="smorms3",
    hyperparameters=("lr", "eps"),
    scalars=scalars,
    n_scalars=2,
    state=lambda options: ("mem", "g", "g2"),
)
