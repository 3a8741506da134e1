"""Formulas of the losses that are not in :mod:`~sdbr.backends.formulas.basic`."""

from __future__ import annotations

from collections.abc import Callable

from sdbr.backends.formulas.basic import check_labels

import numpy as np

Array = np.ndarray


def bernoulli_log_prob(logit: Array, x: Array, check: float) -> Array:
    """Log-probability of `x`; with `check`, minus infinity where it is neither 0 nor 1."""
    y = logit * (x - 1) - np.log(np.exp(-logit) + 1)
    y = np.where(logit == np.inf, np.log(x), y)
    y = np.where(logit == -np.inf, np.log(1 - x), y)
    return np.where((x != 0) & (x != 1), -np.inf, y) if check else y


def bernoulli_log_prob_grad(logit: Array, x: Array, gy: Array, check: float) -> Array:
    """Gradient for the logit; NaN where it is infinite, or where `check` finds fault with `x`."""
    undefined = np.isinf(logit)
    if check:
        undefined |= (x != 0) & (x != 1)
    return gy * np.where(undefined, np.nan, x - 1 / (1 + np.exp(-logit)))


def negate_item(x: Array, t: Array) -> Array:
    """One element of each row with the other sign."""
    check_labels(t, x.shape[1])
    y = x.copy()
    y[np.arange(len(y)), t] *= -1
    return y


FORMULAS: dict[str, Callable] = {
    "bernoulli_log_prob": bernoulli_log_prob,
    "bernoulli_log_prob_grad": bernoulli_log_prob_grad,
    "negate_item": negate_item,
    "rrelu": lambda x, r: np.where(x >= 0, x, x * r),
    "rrelu_grad": lambda y, r, gy: np.where(y >= 0, gy, gy * r),
}
