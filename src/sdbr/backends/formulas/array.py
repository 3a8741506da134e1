"""Formulas of ops on array elements: by index, by condition."""

from __future__ import annotations

from collections.abc import Callable

from sdbr.backends.formulas.basic import check_labels

import numpy as np

Array = np.ndarray


def _places(t, lengths, attributes) -> tuple[tuple, Array]:
    """Indices into the axes 1, 2, ..., 0 where ignored, and where they count."""
    valid = np.ones(t[0].shape, bool)
    if attributes["has_ignore"]:
        valid = t[0] != attributes["ignore_label"]
    for k, n in zip(t, lengths, strict=True):
        check_labels(k, n, valid)
    wrapped = (
        np.where(valid, np.where(k < 0, k.astype(np.intp) + n, k), 0).astype(np.intp)
        for k, n in zip(t, lengths, strict=True)
    )
    return tuple(wrapped), valid


def take(x: Array, *t: Array, **attributes) -> Array:
    """``x[:, t0, t1, ...]``, 0 where ignored."""
    places, valid = _places(t, x.shape[1:-1], attributes)
    if not valid.any():
        return np.zeros((x.shape[0], t[0].size, x.shape[-1]), x.dtype)
    return np.where(valid[:, None], x[(slice(None), *places)], x.dtype.type(0))


def put(ins, outs, attributes) -> None:
    """``y[:, t0, t1, ...] = x``."""
    x, *t = ins
    places, valid = _places(t, outs[0].shape[1:-1], attributes)
    outs[0][(slice(None), *(k[valid] for k in places))] = x[:, valid]


def scatter_add(ins, outs, attributes) -> None:
    """``gx[:, t0, t1, ...] += gy``, one after the other."""
    gy, *t = ins
    gx = outs[0]
    places, valid = _places(t, gx.shape[1:-1], attributes)
    if not attributes["accumulate"]:
        gx[...] = 0
    np.add.at(gx, (slice(None), *(k[valid] for k in places)), gy[:, valid])


FORMULAS: dict[str, Callable] = {
    "take": take,
    "where": lambda c, x, y: np.where(c, x, y),
}

DIRECT: dict[str, Callable] = {
    "put": put,
    "scatter_add": scatter_add,
}
