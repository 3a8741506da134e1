"""Normalization by moments."""

from __future__ import annotations

from collections.abc import Sequence

from sdbr.ops.op import Layout, Ops

import numpy as np

Array = np.ndarray
define = Ops()


def _whole_runs(
    ins: Sequence[Layout], outs: Sequence[Layout], ints: Sequence[int], floats: Sequence
) -> str:
    """Parameters go for runs of equal length, within or over groups."""
    (_, groups, length), (numbers,) = ins[0][1], ins[1][1]
    whole = numbers and not numbers % groups and not groups * length % numbers
    return "" if whole or 0 in ins[0][1] else f"{numbers} parameters for {groups} of {length}"


def _channels(v: Array) -> Array:
    return v[:, None]


def _x_hat(x: Array, mean: Array, var: Array, eps: float) -> Array:
    return (x - _channels(mean)) / np.sqrt(_channels(var) + eps)


def _runs(v: Array, x: Array) -> Array:
    """A number per run for each element of a group."""
    length = x.shape[1] * x.shape[2] // v.size
    return np.repeat(v, length).reshape(1, *x.shape[1:])


def _across(v: Array, half: int) -> Array:
    """Sums over the channels around each."""
    total = v.copy()
    for i in range(1, min(half, v.shape[1] - 1) + 1):
        total[:, i:] += v[:, :-i]
        total[:, :-i] += v[:, i:]
    return total


# --- batches: x[outer, c, inner] C-contiguous, statistics per c ----------------------------------
@define(
    "batch_norm",
    "x:T[outer,c,inner] gamma:T[c] beta:T[c] more:T[outer,c,inner]?",
    "y:T[outer,c,inner] mean:T[c] var:T[c]",
    "mean = x.mean((0, 2)); var = x.var((0, 2)); y = gamma * (x - mean) / sqrt(var + eps) + "
    "beta (+ more), and maximum(y, 0) when activation is 1",
    ints="activation<2",
    floats="eps",
    inplace=(0,),
    cut="channels",
)
def batch_norm(x: Array, gamma: Array, beta: Array, *more: Array, activation: int, eps: float):
    """Scaled by the statistics of the batch, which come back, too."""
    # In float64: the mean may be far larger than the deviation.
    mean, var = (f((0, 2), dtype="d").astype(x.dtype) for f in (x.mean, x.var))
    y = fixed_batch_norm(x, gamma, beta, mean, var, *more, activation=activation, eps=eps)
    return y, mean, var


@define(
    "batch_norm_grad",
    "x:T[outer,c,inner] gamma:T[c] mean:T[c] var:T[c] gy:T[outer,c,inner] y:T[outer,c,inner]?",
    "gx:T[outer,c,inner] ggamma:T[c] gbeta:T[c]",
    "g = gy, or gy * (y > 0) when there is a y; x_hat = (x - mean) / sqrt(var + eps); gbeta = "
    "g.sum((0, 2)); ggamma = (g * x_hat).sum((0, 2)); gx = gamma / sqrt(var + eps) * (g - "
    "(x_hat * ggamma + gbeta) / (outer * inner))",
    floats="eps",
    inplace=(0, 4),
    cut="channels",
)
def batch_norm_grad(x, gamma, mean, var, gy, *y, eps: float):
    """All three gradients; through a relu that has given `y`."""
    g = gy * (y[0] > 0) if y else gy
    ggamma, gbeta = batch_norm_sums(x, mean, var, g, eps)
    inner = _x_hat(x, mean, var, eps) * _channels(ggamma) + _channels(gbeta)
    scale = _channels(gamma) / np.sqrt(_channels(var) + eps)
    return scale * (g - inner / (x.size // gamma.size)), ggamma, gbeta


@define(
    "batch_norm_relu_grad",
    "x:T[outer,c,inner] gamma:T[c] beta:T[c] mean:T[c] var:T[c] gy:T[outer,c,inner]",
    "gx:T[outer,c,inner] ggamma:T[c] gbeta:T[c]",
    "batch_norm_grad with y = gamma * (x - mean) / sqrt(var + eps) + beta, as batch_norm has "
    "rounded it",
    floats="eps",
    inplace=(0, 5),
    cut="channels",
)
def batch_norm_relu_grad(x, gamma, beta, mean, var, gy, eps: float):
    """All three gradients, where the relu behind has let something through."""
    y = fixed_batch_norm(x, gamma, beta, mean, var, activation=0, eps=eps)
    return batch_norm_grad(x, gamma, mean, var, gy, y, eps=eps)


@define(
    "batch_norm_sums",
    "x:T[outer,c,inner] mean:T[c] var:T[c] gy:T[outer,c,inner]",
    "ggamma:T[c] gbeta:T[c]",
    "gbeta = gy.sum((0, 2)); ggamma = (gy * (x - mean) / sqrt(var + eps)).sum((0, 2))",
    floats="eps",
    cut="channels",
)
def batch_norm_sums(x: Array, mean: Array, var: Array, gy: Array, eps: float):
    """Gradients of gamma and beta."""
    return (gy * _x_hat(x, mean, var, eps)).sum((0, 2)), gy.sum((0, 2))


@define(
    "fixed_batch_norm",
    "x:T[outer,c,inner] gamma:T[c] beta:T[c] mean:T[c] var:T[c] more:T[outer,c,inner]?",
    "y:T[outer,c,inner]",
    "y = gamma * (x - mean) / sqrt(var + eps) + beta (+ more), and maximum(y, 0) when "
    "activation is odd; 2 more: the factor is rounded as by batch_norm, whose result this is "
    "again",
    ints="activation<4",
    floats="eps",
    inplace=(0,),
    again="cheap",
    cut="channels",
)
def fixed_batch_norm(x, gamma, beta, mean, var, *more, activation: int, eps: float) -> Array:
    """Scaled by given statistics."""
    y = (x - _channels(mean)) * np.sqrt(1 / (_channels(var) + eps)) * _channels(gamma)
    y = y + _channels(beta)
    y = y + more[0] if more else y
    return np.maximum(y, 0) if activation & 1 else y


@define(
    "update_statistics",
    "mean:T[c] var:T[c] running_mean:T[c] running_var:T[c]",
    "running_mean_out:T[c] running_var_out:T[c]",
    "running_mean = decay * running_mean + (1 - decay) * mean; running_var = decay * "
    "running_var + (1 - decay) * var * count / max(count - 1, 1)",
    ints="count>=0",
    floats="decay",
    effect=True,
)
def update_statistics(mean, var, running_mean, running_var, count: int, decay: float):
    """Running averages; the variance is that of a sample."""
    adjust = count / max(count - 1, 1)
    return (
        running_mean * decay + (1 - decay) * mean,
        running_var * decay + (1 - decay) * adjust * var,
    )


# --- groups: x[n, groups, length] C-contiguous, statistics per n and group -----------------------
@define(
    "group_norm",
    "x:T[n,groups,length] gamma:T[numbers] beta:T[numbers]",
    "y:T[n,groups,length] mean:T[n,groups] inv_std:T[n,groups]",
    "mean = x.mean(2); inv_std = 1 / sqrt(x.var(2) + eps); y = gamma * (x - mean) * inv_std + "
    "beta; each number of gamma and beta goes for a run of as many elements",
    floats="eps",
    inplace=(0,),
    cut="samples",
    rule=_whole_runs,
)
def group_norm(x: Array, gamma: Array, beta: Array, eps: float):
    """Each group of each sample by itself."""
    mean, var = (f(2, dtype="d").astype(x.dtype) for f in (x.mean, x.var))
    inv_std = 1 / np.sqrt(var + eps)
    x_hat = (x - mean[:, :, None]) * inv_std[:, :, None]
    return x_hat * _runs(gamma, x) + _runs(beta, x), mean, inv_std


@define(
    "group_norm_grad",
    "x:T[n,groups,length] gamma:T[numbers] mean:T[n,groups] inv_std:T[n,groups] gy:T[n,groups,length]",
    "gx:T[n,groups,length] ggamma:T[numbers] gbeta:T[numbers]",
    "x_hat = (x - mean) * inv_std; g = gamma * gy; gx = inv_std * (g - (g.sum(2) + x_hat * (g "
    "* x_hat).sum(2)) / length), NaN with `layer` where the last sum is infinite; gbeta and "
    "ggamma: the sums of gy and of gy * x_hat over n and each run",
    ints="layer<2",
    inplace=(0, 4),
    rule=_whole_runs,
)
def group_norm_grad(x, gamma, mean, inv_std, gy, layer: int):
    """All three gradients."""
    x_hat = (x - mean[:, :, None]) * inv_std[:, :, None]
    g = gy * _runs(gamma, x)
    slope = (g * x_hat).mean(2, keepdims=True)
    if layer:
        slope = np.where(np.isfinite(slope), slope, np.nan)
    inner = g.mean(2, keepdims=True) + x_hat * slope
    runs = (len(x), gamma.size, -1)
    ggamma, gbeta = ((v).reshape(runs).sum((0, 2)) for v in (gy * x_hat, gy))
    return inv_std[:, :, None] * (g - inner), ggamma, gbeta


# --- neighbours: x[outer, c, inner] C-contiguous, along c ----------------------------------------
@define(
    "local_response",
    "x:T[outer,c,inner]",
    "y:T[outer,c,inner]",
    "s = k + alpha * (sum of x ** 2 over channels i - half to i + half); y = x * s ** -beta",
    ints="half",
    floats="k alpha beta",
    cut="samples",
)
def local_response(x: Array, half: int, k: float, alpha: float, beta: float) -> Array:
    """Divided by a power of the squares around."""
    return x * (k + alpha * _across(x * x, half)) ** -beta


@define(
    "local_response_grad",
    "x:T[outer,c,inner] gy:T[outer,c,inner]",
    "gx:T[outer,c,inner]",
    "s as in local_response; gx = gy * s ** -beta - 2 * alpha * beta * x * (sum of x * gy * s "
    "** (-beta - 1) over channels i - half to i + half); half at most 15",
    ints="half",
    floats="k alpha beta",
    inplace=(1,),
    cut="samples",
)
def local_response_grad(x, gy, half: int, k: float, alpha: float, beta: float) -> Array:
    """Its gradient."""
    s = k + alpha * _across(x * x, half)
    share = _across(x * gy * s**-beta / s, half)
    return gy * s**-beta - 2 * alpha * beta * x * share


@define(
    "local_response_kept_grad",
    "kept:T[outer,c,inner] x:T[outer,c,inner] y:T[outer,c,inner] gy:T[outer,c,inner]",
    "gx:T[outer,c,inner]",
    "s as in local_response, of kept; gx = gy * s ** -beta - 2 * alpha * beta * x * (sum of y * gy "
    "/ s over channels i - half to i + half); half at most 15",
    ints="half",
    floats="k alpha beta",
    inplace=(3,),
    cut="samples",
)
def local_response_kept_grad(kept, x, y, gy, half: int, k: float, alpha: float, beta: float):
    """The same where input and output may have been written to since."""
    s = k + alpha * _across(kept * kept, half)
    return gy * s**-beta - 2 * alpha * beta * x * _across(y * gy / s, half)


OPS = define.ops
