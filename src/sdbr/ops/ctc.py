"""Connectionist temporal classification."""

from __future__ import annotations

from collections.abc import Sequence

from sdbr.ops.array import check_labels
from sdbr.ops.op import Layout, Ops

import numpy as np

Array = np.ndarray
define = Ops()


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


def _lengths(
    ins: Sequence[Layout], outs: Sequence[Layout], ints: Sequence[int], floats: Sequence
) -> str:
    """As many places as labels with blanks between them, and a blank that is a label."""
    forward = len(outs) > 1
    x, t, paths = (ins[0], ins[3], outs[2]) if forward else (ins[0], ins[4], ins[1])
    places = 2 * t[1][1] + 1
    if paths[1][2] != places:
        return f"{paths[1][2]} places, not {places}"
    if len(outs) > 3 and outs[3][1] != (4 * (places + 2),):
        return f"scratch memory of {outs[3][1]}, not {4 * (places + 2)}"
    return "" if 0 <= ints[0] < x[1][2] and x[1][0] > 0 else f"blank {ints[0]}, or no times"


@define(
    "ctc",
    "x:T[s,b,v] n:I[b] m:I[b] t:I[b,l]",
    "loss:T[b] y:T[s,b,v] paths:T[s,b,places] scratch:T[work]?",
    "y = softmax(x) over v; loss[b] = -logsumexp(paths[0, b]); paths[s, b, k]: "
    "log-probability of all paths that are at place k of the labels, with blanks between "
    "them, at time s; x[s, b, v], labels t[b, l] int32, lengths n[b] and m[b] int32, paths[s, "
    "b, 2 l + 1], scratch[4 (2 l + 3)]; IndexError for labels outside [-v, v)",
    ints="blank",
    direct=True,
    rule=_lengths,
)
def ctc(ins, outs, attributes) -> None:
    """Forward and backward over the paths of each sample, in the logarithm."""
    x, n, m, t = ins
    loss, y, paths = outs[:3]
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


@define(
    "ctc_grad",
    "y:T[s,b,v] paths:T[s,b,places] n:I[b] m:I[b] t:I[b,l] gloss:T[b]",
    "gx:T[s,b,v]",
    "gx[s, b] = gloss[b] * (s < n[b]) * (y[s, b] - the share of the paths that are at each "
    "label at time s)",
    ints="blank",
    direct=True,
    rule=_lengths,
)
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


OPS = define.ops
