"""Every update rule and hook with native code, with every option: name -> what makes it."""

from __future__ import annotations

from collections.abc import Callable

from chainer import optimizer_hooks, optimizers

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
HOOKS: dict[str, Callable] = {
    "decay": lambda: optimizer_hooks.WeightDecay(0.1),
    "clip": lambda: optimizer_hooks.GradientClipping(3.0),
    "lasso": lambda: optimizer_hooks.Lasso(0.05),
    "clip_far": lambda: optimizer_hooks.GradientClipping(1e6),
}


def add_all_hooks(optimizer) -> None:
    """Every hook, to the optimizer.

    Under our names: Chainer's own is that of the class, which two of them share.
    """
    for name, make in HOOKS.items():
        optimizer.add_hook(make(), name)
