"""Adam; the same rule is AdamW, AMSGrad, AdaBound and AMSBound, by its hyperparameters.

Formulas: Kingma & Ba 2014 (arXiv:1412.6980v8, the variant with bias correction in the step
size), Loshchilov & Hutter 2017 (arXiv:1711.05101), Reddi et al. 2018 (AMSGrad), Luo et al. 2019
(AdaBound), combined as in Chainer.
"""

from __future__ import annotations

import math

from sdbr.optimizers.rows import Declined, RuleRow, vanishes

from chainer.optimizers.adam import AdamRule

INFINITY = math.inf


def scalars(values: tuple, t: int, dtype, extra) -> tuple[float, ...]:
    """``alpha_t, one_minus_beta1, one_minus_beta2, eps, eta, decay, lower, upper``."""
    alpha, beta1, beta2, eps, eta, decay_rate, adabound, final_lr, gamma, _ = values
    if vanishes(eps, dtype):
        raise Declined("eps of Adam is too small for float32")
    # Domain errors and divisions by zero are left to Chainer, which meets the same.
    fix1 = 1.0 - math.pow(beta1, t)
    fix2 = 1.0 - math.pow(beta2, t)
    alpha_t = alpha * math.sqrt(fix2) / fix1
    lower, upper = -INFINITY, INFINITY
    if adabound:
        # Scaled so that a schedule on alpha moves the final rate, too.
        final = final_lr * alpha / extra
        lower = final * (1.0 - 1.0 / (gamma * t + 1))
        upper = final * (1.0 + 1.0 / (gamma * t))
    decay = 1.0 - eta * decay_rate
    return (alpha_t, 1.0 - beta1, 1.0 - beta2, eps, eta, decay, lower, upper)


ROW = RuleRow(
    rule=AdamRule,
    op="adam",
    hyperparameters=(
        "alpha",
        "beta1",
        "beta2",
        "eps",
        "eta",
        "weight_decay_rate",
        "adabound",
        "final_lr",
        "gamma",
        "amsgrad",
    ),
    scalars=scalars,
    n_scalars=8,
    options=("amsgrad",),
    state=lambda options: ("m", "v", "vhat") if options[0] else ("m", "v"),
    # Only a rule that was made with adabound has it; without, Chainer raises as this does.
    attribute="initial_alpha",
)
