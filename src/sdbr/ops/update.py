"""Updates of parameters."""

from __future__ import annotations

from sdbr.ops.op import Ops

import numpy as np

Array = np.ndarray
define = Ops()


define(
    "sgd",
    "g:T[s...] p:T[s...]",
    "p_out:T[s...]",
    "p -= lr * g",
    lambda g, p, lr: p - lr * g,
    floats="lr",
    inplace=(1,),
    effect=True,
    updates=True,
    cut="elements",
)


@define(
    "momentum_sgd",
    "g:T[s...] p:T[s...] v:T[s...]",
    "p_out:T[s...] v_out:T[s...]",
    "v = momentum * v - lr * g; p += v",
    floats="lr momentum",
    effect=True,
    updates=True,
    cut="elements",
)
def momentum_sgd(g, p, v, lr, momentum):
    """Momentum, then the step."""
    v = momentum * v - lr * g
    return p + v, v


@define(
    "adam",
    "g:T[s...] p:T[s...] m:T[s...] v:T[s...] vhat:T[s...]?",
    "p_out:T[s...] m_out:T[s...] v_out:T[s...] vhat_out:T[s...]*",
    "m += one_minus_beta1 * (g - m); v += one_minus_beta2 * (g * g - v); s = maximum(vhat, v) "
    "-> vhat when given, else v; step = alpha_t / (sqrt(s) + eps), clipped to [lower, upper]; "
    "p = decay * p - eta * step * m",
    floats="alpha_t one_minus_beta1 one_minus_beta2 eps eta decay lower upper",
    rule=lambda ins, outs, ints, floats: (
        "" if (len(ins), len(outs)) in ((4, 3), (5, 4)) else "vhat and vhat_out come together"
    ),
    effect=True,
    updates=True,
    cut="elements",
)
def adam(
    g, p, m, v, *vhat, alpha_t, one_minus_beta1, one_minus_beta2, eps, eta, decay, lower, upper
):  # fmt: skip
    """Adam with the options of AdamW, AMSGrad and AdaBound."""
    m = m + one_minus_beta1 * (g - m)
    v = v + one_minus_beta2 * (g * g - v)
    s = np.maximum(vhat[0], v) if vhat else v
    step = np.clip(alpha_t / (np.sqrt(s) + eps), lower, upper)
    p = decay * p - eta * step * m
    return (p, m, v, s) if vhat else (p, m, v)


@define(
    "rmsprop",
    "g:T[s...] p:T[s...] ms:T[s...]",
    "p_out:T[s...] ms_out:T[s...]",
    "ms = alpha * ms + one_minus_alpha * g * g; p -= lr * g / (sqrt(ms + eps_inside) + eps_outside)",
    floats="lr alpha one_minus_alpha eps_inside eps_outside",
    effect=True,
    updates=True,
    cut="elements",
)
def rmsprop(g, p, ms, lr, alpha, one_minus_alpha, eps_inside, eps_outside):
    """One of the two eps is 0: that of the place which Chainer's option does not choose."""
    ms = ms * alpha + one_minus_alpha * g * g
    return p - lr * g / (np.sqrt(ms + eps_inside) + eps_outside), ms


define(
    "weight_decay",
    "g:T[s...] p:T[s...]",
    "g_out:T[s...]",
    "g += rate * p",
    lambda g, p, rate: g + rate * p,
    floats="rate",
    inplace=(0,),
    effect=True,
    updates=True,
    cut="elements",
)

define(
    "lasso",
    "g:T[s...] p:T[s...]",
    "g_out:T[s...]",
    "g += rate * sign(p)",
    lambda g, p, rate: g + rate * np.sign(p),
    floats="rate",
    inplace=(0,),
    effect=True,
    updates=True,
    cut="elements",
)


@define(
    "clip_norm",
    "g:T*",
    "norm:D[]",
    "rate = threshold / sqrt(sum of (g * g).sum() over all g); unless rate >= 1: g *= rate in "
    "place, for each g; norm scalar float64 receives the norm",
    floats="threshold",
    direct=True,
    effect=True,
    updates=True,
)
def clip_norm(ins, outs, attributes) -> None:
    """Scale all inputs in place when their joint norm is above the threshold."""
    norm = np.sqrt(np.float64(sum(float((g * g).sum()) for g in ins)))
    rate = float(attributes["threshold"] / norm)
    if not rate >= 1:  # NaN as well: that is what the hook of Chainer does
        for g in ins:
            g *= rate
    outs[0][...] = norm


OPS = define.ops
