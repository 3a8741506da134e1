"""M-SVAG, with weight decay (Balles & Hennig 2018, arXiv:1705.07774v4)."""

from __future__ import annotations

from sdbr.optimizers.rows import RuleRow

from chainer.optimizers.msvag import MSVAGRule


def scalars(values: tuple, t: int, dtype, extra) -> tuple[float, ...]:
    """``lr, one_minus_beta, eta, decay, one_minus_power, rho, one_minus_rho``."""
    lr, beta, eta, decay = values
    rho = (((1.0 - beta) ** 2) * (1.0 - extra**2)) / (((1.0 - extra) ** 2) * (1.0 - beta**2))
    rho = min(rho, 0.9999)
    return (lr, 1 - beta, eta, decay, 1 - extra, rho, 1 - rho)


def carry(values: tuple, extra):
    """The power of beta that the next step takes."""
    return extra * values[1]


ROW = RuleRow(
    rule=MSVAGRule,
    op="msvag",
    hyperparameters=("lr", "beta", "eta", "weight_decay_rate"),
    scalars=scalars,
    n_scalars=7,
    state=lambda options: ("m", "v"),
    attribute="beta_power",
    carry=carry,
    rounding=True,  # the first step divides by a variance that is zero but for rounding
)
