"""Updates of parameters."""

from __future__ import annotations

from collections.abc import Sequence

from sdbr.ops.op import Layout, Ops

import numpy as np

Array = np.ndarray
define = Ops()


def _some(
    ins: Sequence[Layout], outs: Sequence[Layout], ints: Sequence[int], floats: Sequence
) -> str:
    """At least one gradient."""
    return "" if ins else "no gradients"


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
    "corrected_momentum_sgd",
    "g:T[s...] p:T[s...] v:T[s...]",
    "p_out:T[s...] v_out:T[s...]",
    "v = momentum * v - g; p += lr * v",
    floats="lr momentum",
    effect=True,
    updates=True,
    cut="elements",
)
def corrected_momentum_sgd(g, p, v, lr, momentum):
    """Momentum of the gradients alone: a rate that changes applies to all of it."""
    v = momentum * v - g
    return p + lr * v, v


@define(
    "nesterov_ag",
    "g:T[s...] p:T[s...] v:T[s...]",
    "p_out:T[s...] v_out:T[s...]",
    "v = momentum * v - lr * g; p = p + momentum_squared * v - ahead * g",
    floats="lr momentum momentum_squared ahead",
    effect=True,
    updates=True,
    cut="elements",
)
def nesterov_ag(g, p, v, lr, momentum, momentum_squared, ahead):
    """Momentum, then the step that looks ahead; `ahead` is ``(1 + momentum) * lr``."""
    v = momentum * v - lr * g
    return p + momentum_squared * v - ahead * g, v


@define(
    "ada_grad",
    "g:T[s...] p:T[s...] h:T[s...]",
    "p_out:T[s...] h_out:T[s...]",
    "h += g * g; p -= lr * g / (sqrt(h) + eps)",
    floats="lr eps",
    effect=True,
    updates=True,
    cut="elements",
)
def ada_grad(g, p, h, lr, eps):
    """Steps in units of the root of the sum of all squares so far."""
    h = h + g * g
    return p - lr * g / (np.sqrt(h) + eps), h


@define(
    "ada_delta",
    "g:T[s...] p:T[s...] msg:T[s...] msdx:T[s...]",
    "p_out:T[s...] msg_out:T[s...] msdx_out:T[s...]",
    "msg = rho * msg + one_minus_rho * g * g; dx = sqrt((msdx + eps) / (msg + eps)) * g; "
    "msdx = rho * msdx + one_minus_rho * dx * dx; p -= dx",
    floats="rho one_minus_rho eps",
    effect=True,
    updates=True,
    cut="elements",
)
def ada_delta(g, p, msg, msdx, rho, one_minus_rho, eps):
    """Steps as large as those before, in units of the gradient."""
    msg = msg * rho + one_minus_rho * g * g
    dx = np.sqrt((msdx + eps) / (msg + eps)) * g
    return p - dx, msg, msdx * rho + one_minus_rho * dx * dx


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
    p = decay * p - eta * (step * m)
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


@define(
    "rmsprop_graves",
    "g:T[s...] p:T[s...] n:T[s...] mean:T[s...] delta:T[s...]",
    "p_out:T[s...] n_out:T[s...] mean_out:T[s...] delta_out:T[s...]",
    "n = alpha * n + one_minus_alpha * g * g; mean = alpha * mean + one_minus_alpha * g; "
    "delta = momentum * delta - lr * g / sqrt(n - mean * mean + eps); p += delta",
    floats="lr alpha one_minus_alpha momentum eps",
    effect=True,
    updates=True,
    cut="elements",
)
def rmsprop_graves(g, p, n, mean, delta, lr, alpha, one_minus_alpha, momentum, eps):
    """Steps in units of the standard deviation of the gradient, with momentum."""
    n = n * alpha + one_minus_alpha * g * g
    mean = mean * alpha + one_minus_alpha * g
    delta = delta * momentum - lr * g / np.sqrt(n - mean * mean + eps)
    return p + delta, n, mean, delta


@define(
    "smorms3",
    "g:T[s...] p:T[s...] mem:T[s...] mean:T[s...] square:T[s...]",
    "p_out:T[s...] mem_out:T[s...] mean_out:T[s...] square_out:T[s...]",
    "r = 1 / (mem + 1); mean = (1 - r) * mean + r * g; square = (1 - r) * square + r * g * g; "
    "x = mean * mean / (square + eps); p -= g * minimum(x, lr) / (sqrt(square) + eps); "
    "mem = 1 + mem * (1 - x)",
    floats="lr eps",
    effect=True,
    updates=True,
    cut="elements",
)
def smorms3(g, p, mem, mean, square, lr, eps):
    """Means over a memory of its own length for each element."""
    r = 1 / (mem + 1)
    mean = (1 - r) * mean + r * g
    square = (1 - r) * square + r * g * g
    x = mean * mean / (square + eps)
    p = p - g * np.minimum(x, g.dtype.type(lr)) / (np.sqrt(square) + eps)
    return p, 1 + mem * (1 - x), mean, square


@define(
    "msvag",
    "g:T[s...] p:T[s...] m:T[s...] v:T[s...]",
    "p_out:T[s...] m_out:T[s...] v_out:T[s...]",
    "m += one_minus_beta * (g - m); v += one_minus_beta * (g * g - v); mean, square = m, v over "
    "one_minus_power; s = (square - mean**2) / one_minus_rho; factor = mean**2 / (mean**2 + rho * s), "
    "clipped to [0, 1], 0 where it is NaN; p -= eta * (lr * mean * factor + decay * p)",
    floats="lr one_minus_beta eta decay one_minus_power rho one_minus_rho",
    effect=True,
    updates=True,
    cut="elements",
)
def msvag(g, p, m, v, lr, one_minus_beta, eta, decay, one_minus_power, rho, one_minus_rho):
    """Momentum, weighed by an estimate of the variance of the gradient."""
    m = m + one_minus_beta * (g - m)
    v = v + one_minus_beta * (g * g - v)
    mean = m / one_minus_power
    squared = mean**2
    s = (v / one_minus_power - squared) / one_minus_rho
    factor = np.clip(squared / (squared + rho * s), 0, 1)
    factor = np.where(np.isnan(factor), factor.dtype.type(0), factor)
    return p - eta * (lr * mean * factor + decay * p), m, v


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
    "hard_clip",
    "g:T[s...] p:T[s...]",
    "g_out:T[s...]",
    "g = minimum(maximum(g, lower), upper)",
    floats="lower upper",
    inplace=(0,),
    effect=True,
    updates=True,
    cut="elements",
)
def hard_clip(g, p, lower, upper):
    """Into bounds, of which the upper one wins; a NaN stays one."""
    return np.minimum(np.maximum(g, g.dtype.type(lower)), g.dtype.type(upper))


define(
    "add_noise",
    "g:T[s...] noise:T[s...]",
    "g_out:T[s...]",
    "g += noise",
    lambda g, noise: g + noise,
    inplace=(0,),
    effect=True,
    updates=True,
    cut="elements",
)


@define(
    "lars",
    "g:T[s...] p:T[s...]",
    "g_out:T[s...]",
    "rate = norm(p) / (eps + norm(g) + decay * norm(p)) if norm(p) > threshold else 1; "
    "g = (g + decay * p) * rate",
    floats="threshold decay eps",
    effect=True,
    updates=True,
)
def lars(g, p, threshold, decay, eps):
    """A gradient as long as its parameter; norms are of single precision where arrays are."""
    of_p, of_g = (x.dtype.type(np.linalg.norm(x)) for x in (p, g))
    rate = of_p / (eps + of_g + decay * of_p) if of_p > g.dtype.type(threshold) else 1
    return (g + decay * p) * g.dtype.type(rate)


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
    writes=True,
    rule=_some,
)
def clip_norm(ins, outs, attributes) -> None:
    """Scale all inputs in place when their joint norm is above the threshold."""
    norm = np.sqrt(np.float64(sum(float((g * g).sum()) for g in ins)))
    rate = float(attributes["threshold"] / norm)
    if not rate >= 1:  # NaN as well: that is what the hook of Chainer does
        for g in ins:
            g *= rate
    outs[0][...] = norm


@define(
    "all_finite",
    "g:T*",
    "finite:D[]",
    "finite scalar float64 is 1 where all elements of all g are finite, else 0",
    direct=True,
    effect=True,
    updates=True,
    rule=_some,
)
def all_finite(ins, outs, attributes) -> None:
    """Whether a step may be made, where the loss scale is dynamic."""
    outs[0][...] = all(np.isfinite(g).all() for g in ins)


OPS = define.ops
