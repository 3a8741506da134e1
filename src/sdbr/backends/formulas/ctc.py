"""Formulas of connectionist temporal classification."""

from __future__ import annotations

from collections.abc import Callable

from sdbr.backends.formulas.basic import check_labels

import numpy as np

Array = np.ndarray

#: The logarithm of no probability at all.
NEVER = -1e10


def _logsumexp(x: Array, axis: int) -> Array:
    top = x.max(axis=axis, keepdims=True)
    return np.squeeze(top + np.log(np.exp(x - top).sum(axis=axis, keepdims=True)), axis)


def _path(t: Array, blank: int) -> Array:
    """The labels of one sample with a blank before, between and behind them."""
    path = np.full(2 * t.size + 1, blank, np.int64)
    path[1::2] = t
    return path


def _advance(before: Array, path: Array, length: int) -> Array:
    """Log-probabilities one step later: stay, go on, or leave out a blank between two labels."""
    ways = np.full((3, before.size), NEVER, before.dtype)
    ways[0] = before
    ways[1, 1:] = before[:-1]
    ways[2, 2:] = np.where(path[:-2] == path[2:], NEVER, before[:-2])
    after = _logsumexp(ways, 0)
    after[np.arange(path.size) >= length] = NEVER
    return after


def _walk(log_y: Array, paths: Array, path: Array, length: int, times: Array, places: Array):
    """Add to `paths` what leads to each place at each time, in this order of times and places."""
    at = np.full(path.size, NEVER, log_y.dtype)
    at[0] = 0
    for s in times:
        at = _advance(at, path[places], length)
        paths[s, places] += at
        at = at + log_y[s, path[places]]


def _reverse(n: int, length: int) -> Array:
    """The first `length` positions backwards, then the others, the last of them first."""
    return (n - 1 - np.arange(n) + length) % n


def ctc(ins, outs, attributes) -> None:
    """Forward and backward over the paths of each sample, in the logarithm."""
    x, n, m, t = ins
    loss, y, paths, _ = outs
    check_labels(t, x.shape[2])
    e = np.exp(x - x.max(axis=2, keepdims=True))
    y[...] = e / e.sum(axis=2, keepdims=True)
    log = np.log(y)
    log_y = np.where(np.isfinite(log), log, NEVER).astype(x.dtype)
    for b in range(x.shape[1]):
        path = _path(t[b], attributes["blank"])
        length = 2 * int(m[b]) + 1
        paths[:, b] = log_y[:, b, path]
        ahead = np.arange(len(x)), np.arange(path.size)
        back = _reverse(len(x), int(n[b])), _reverse(path.size, length)
        for times, places in (ahead, back):
            _walk(log_y[:, b], paths[:, b], path, length, times, places)
    loss[...] = -_logsumexp(paths[0], 1)


def ctc_grad(ins, outs, attributes) -> None:
    """Probabilities less the share of the paths, times the gradient, within the sequence."""
    y, paths, n, m, t, gloss = ins
    check_labels(t, y.shape[2])
    shares = np.exp(paths - _logsumexp(paths[0], 1)[:, None])
    gx = y.copy()
    for b in range(y.shape[1]):
        path = _path(t[b], attributes["blank"])[: 2 * int(m[b]) + 1]
        for k, label in enumerate(path):
            gx[:, b, label] -= shares[:, b, k]
        gx[:, b] *= gloss[b]
        gx[:, b] *= (np.arange(len(y)) < n[b])[:, None]
    outs[0][...] = gx


FORMULAS: dict[str, Callable] = {}
DIRECT: dict[str, Callable] = {"ctc": ctc, "ctc_grad": ctc_grad}
