"""Every update rule with native code, with every option: name -> a maker of the optimizer."""

from __future__ import annotations

from collections.abc import Callable

from chainer import optimizers

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
    "rmsprop_inside": lambda: optimizers.RMSprop(lr=0.02, eps=0.01, eps_inside_sqrt=True),
}
