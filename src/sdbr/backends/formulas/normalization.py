"""Formulas of normalization."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Array = np.ndarray


def _channels(v: Array) -> Array:
    return v[:, None]


def _x_hat(x: Array, mean: Array, var: Array, eps: float) -> Array:
    return (x - _channels(mean)) / np.sqrt(_channels(var) + eps)


def fixed_batch_norm(x, gamma, beta, mean, var, activation: int, eps: float) -> Array:
    """Scaled by given statistics."""
    y = _x_hat(x, mean, var, eps) * _channels(gamma) + _channels(beta)
    return np.maximum(y, 0) if activation else y


def batch_norm(x: Array, gamma: Array, beta: Array, activation: int, eps: float):
    """Scaled by the statistics of the batch, which come back, too."""
    # In float64: the mean may be far larger than the deviation.
    mean, var = (f((0, 2), dtype="d").astype(x.dtype) for f in (x.mean, x.var))
    return fixed_batch_norm(x, gamma, beta, mean, var, activation, eps), mean, var


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


def update_statistics(mean, var, running_mean, running_var, count: int, decay: float):
    """Running averages; the variance is that of a sample."""
    adjust = count / max(count - 1, 1)
    return (
        running_mean * decay + (1 - decay) * mean,
        running_var * decay + (1 - decay) * adjust * var,
    )


#: Op name -> formula.
FORMULAS: dict[str, Callable] = {
    "batch_norm": batch_norm,
    "batch_norm_grad": batch_norm_grad,
    "batch_norm_sums": batch_norm_sums,
    "fixed_batch_norm": fixed_batch_norm,
    "update_statistics": update_statistics,
}
