"""Formulas of normalization."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Array = np.ndarray


def _channels(v: Array) -> Array:
    return v[:, None]


def _x_hat(x: Array, mean: Array, var: Array, eps: float) -> Array:
    return (x - _channels(mean)) / np.sqrt(_channels(var) + eps)


def fixed_batch_norm(x, gamma, beta, mean, var, *more, activation: int, eps: float) -> Array:
    """Scaled by given statistics."""
    y = (x - _channels(mean)) * np.sqrt(1 / (_channels(var) + eps)) * _channels(gamma)
    y = y + _channels(beta)
    y = y + more[0] if more else y
    return np.maximum(y, 0) if activation & 1 else y


def batch_norm(x: Array, gamma: Array, beta: Array, *more: Array, activation: int, eps: float):
    """Scaled by the statistics of the batch, which come back, too."""
    # In float64: the mean may be far larger than the deviation.
    mean, var = (f((0, 2), dtype="d").astype(x.dtype) for f in (x.mean, x.var))
    y = fixed_batch_norm(x, gamma, beta, mean, var, *more, activation=activation, eps=eps)
    return y, mean, var


def batch_norm_sums(x: Array, mean: Array, var: Array, gy: Array, eps: float):
    """Gradients of gamma and beta."""
    return (gy * _x_hat(x, mean, var, eps)).sum((0, 2)), gy.sum((0, 2))


def batch_norm_grad(x, gamma, mean, var, gy, *y, eps: float):
    """All three gradients; through a relu that has given `y`."""
    g = gy * (y[0] > 0) if y else gy
    ggamma, gbeta = batch_norm_sums(x, mean, var, g, eps)
    inner = _x_hat(x, mean, var, eps) * _channels(ggamma) + _channels(gbeta)
    scale = _channels(gamma) / np.sqrt(_channels(var) + eps)
    return scale * (g - inner / (x.size // gamma.size)), ggamma, gbeta


def batch_norm_relu_grad(x, gamma, beta, mean, var, gy, eps: float):
    """All three gradients, where the relu behind has let something through."""
    y = fixed_batch_norm(x, gamma, beta, mean, var, activation=0, eps=eps)
    return batch_norm_grad(x, gamma, mean, var, gy, y, eps=eps)


def update_statistics(mean, var, running_mean, running_var, count: int, decay: float):
    """Running averages; the variance is that of a sample."""
    adjust = count / max(count - 1, 1)
    return (
        running_mean * decay + (1 - decay) * mean,
        running_var * decay + (1 - decay) * adjust * var,
    )


def _runs(v: Array, x: Array) -> Array:
    """A number per run for each element of a group."""
    length = x.shape[1] * x.shape[2] // v.size
    return np.repeat(v, length).reshape(1, *x.shape[1:])


def group_norm(x: Array, gamma: Array, beta: Array, eps: float):
    """Each group of each sample by itself."""
    mean, var = (f(2, dtype="d").astype(x.dtype) for f in (x.mean, x.var))
    inv_std = 1 / np.sqrt(var + eps)
    x_hat = (x - mean[:, :, None]) * inv_std[:, :, None]
    return x_hat * _runs(gamma, x) + _runs(beta, x), mean, inv_std


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


def _across(v: Array, half: int) -> Array:
    """Sums over the channels around each."""
    total = v.copy()
    for i in range(1, min(half, v.shape[1] - 1) + 1):
        total[:, i:] += v[:, :-i]
        total[:, :-i] += v[:, i:]
    return total


def local_response(x: Array, half: int, k: float, alpha: float, beta: float) -> Array:
    """Divided by a power of the squares around."""
    return x * (k + alpha * _across(x * x, half)) ** -beta


def local_response_grad(x, gy, half: int, k: float, alpha: float, beta: float) -> Array:
    """Its gradient."""
    s = k + alpha * _across(x * x, half)
    share = _across(x * gy * s**-beta / s, half)
    return gy * s**-beta - 2 * alpha * beta * x * share


#: Op name -> formula.
FORMULAS: dict[str, Callable] = {
    "batch_norm": batch_norm,
    "batch_norm_grad": batch_norm_grad,
    "batch_norm_relu_grad": batch_norm_relu_grad,
    "batch_norm_sums": batch_norm_sums,
    "fixed_batch_norm": fixed_batch_norm,
    "update_statistics": update_statistics,
    "group_norm": group_norm,
    "group_norm_grad": group_norm_grad,
    "local_response": local_response,
    "local_response_grad": local_response_grad,
}
