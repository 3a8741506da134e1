"""Every update rule and hook with native code, with every option: name -> what makes it."""

from __future__ import annotations

import math
from collections.abc import Callable

import sdbr

import numpy as np
from chainer import optimizer_hooks, optimizers


@sdbr.update_rule
def Own(param, grad, t, m, v, alpha=0.01, beta1=0.8, beta2=0.98, eps=1e-8, amsgrad=False):
    """A rule that is made of its arithmetic."""
    m = m + (1 - beta1) * (grad - m)
    v = np.maximum(v, 0.9 * v + 0.1 * grad**2) if amsgrad else v + (1 - beta2) * (grad * grad - v)
    rate = alpha * math.sqrt(1 - beta2**t) / (1 - beta1**t)
    return param - rate * m / (np.sqrt(v) + eps), m, v


RULES: dict[str, Callable] = {
    "sgd": lambda: optimizers.SGD(lr=0.05),
    "momentum_sgd": lambda: optimizers.MomentumSGD(lr=0.05, momentum=0.8),
    "adam": lambda: optimizers.Adam(alpha=0.01, beta1=0.8, beta2=0.98),
    "adam_eps": lambda: optimizers.Adam(eps=0.1, eta=0.7),
    "adamw": lambda: optimizers.AdamW(weight_decay_rate=0.05, eta=0.5),
    "amsgrad": lambda: optimizers.AMSGrad(alpha=0.01),
    "adabound": lambda: optimizers.AdaBound(alpha=0.01, final_lr=0.2, gamma=0.05),
    "amsbound": lambda: optimizers.AMSBound(alpha=0.01, gamma=0.5),
    "everything": lambda: optimizers.Adam(
        amsgrad=True, adabound=True, weight_decay_rate=0.1, eta=0.3, gamma=0.1
    ),
    "rmsprop": lambda: optimizers.RMSprop(lr=0.02, alpha=0.9),
    "corrected_momentum_sgd": lambda: optimizers.CorrectedMomentumSGD(lr=0.05, momentum=0.8),
    "nesterov_ag": lambda: optimizers.NesterovAG(lr=0.05, momentum=0.8),
    "ada_grad": lambda: optimizers.AdaGrad(lr=0.05, eps=1e-6),
    "ada_delta": lambda: optimizers.AdaDelta(rho=0.9, eps=1e-4),
    "rmsprop_graves": lambda: optimizers.RMSpropGraves(lr=0.01, alpha=0.9, momentum=0.8),
    "smorms3": lambda: optimizers.SMORMS3(lr=0.02),
    "msvag": lambda: optimizers.MSVAG(lr=0.05, beta=0.8, eta=0.7, weight_decay_rate=0.02),
    "own": Own,
    "rmsprop_inside": lambda: optimizers.RMSprop(lr=0.02, eps=0.01, eps_inside_sqrt=True),
}
HOOKS: dict[str, Callable] = {
    "decay": lambda: optimizer_hooks.WeightDecay(0.1),
    "clip": lambda: optimizer_hooks.GradientClipping(3.0),
    "lasso": lambda: optimizer_hooks.Lasso(0.05),
    "hard_clip": lambda: optimizer_hooks.GradientHardClipping(-0.2, 0.1),
    "lars": lambda: optimizer_hooks.GradientLARS(0.01, weight_decay=0.05),
    "noise": lambda: optimizer_hooks.GradientNoise(0.3),
    "clip_far": lambda: optimizer_hooks.GradientClipping(1e6),
}


#: Gradients as long as their parameters shrink these until rounding is all that is left: together
#: with others they are left as they are.
TOGETHER = {**HOOKS, "lars": lambda: optimizer_hooks.GradientLARS(1e6, weight_decay=0.05)}


def add_all_hooks(optimizer) -> None:
    """Every hook, to the optimizer.

    Under our names: Chainer's own is that of the class, which two of them share.
    """
    for name, make in TOGETHER.items():
        optimizer.add_hook(make(), name)
