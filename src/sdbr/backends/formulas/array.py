"""Formulas of ops on array elements: by index, by condition, along an axis, between images."""

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


# --- along an axis -------------------------------------------------------------------------------
def cumsum(x: Array, reverse: int) -> Array:
    """Running sums, from the end where `reverse`."""
    return x[:, ::-1].cumsum(axis=1)[:, ::-1] if reverse else x.cumsum(axis=1)


def cumprod_grad(x: Array, y: Array, gy: Array) -> Array:
    """What all the later products give for one factor."""
    z = gy.copy()
    for i in range(x.shape[1] - 2, -1, -1):
        z[:, i] += x[:, i + 1] * z[:, i + 1]
    z[:, 1:] *= y[:, :-1]
    return z


def prod_grad(x: Array, gy: Array) -> Array:
    """Products of all but one."""
    before, after = np.ones_like(x), np.ones_like(x)
    before[:, 1:] = x[:, :-1].cumprod(axis=1)
    after[:, :-1] = x[:, :0:-1].cumprod(axis=1)[:, ::-1]
    return before * after * gy[:, None]


# --- images --------------------------------------------------------------------------------------
def _neighbours(n: int, out: int, mode: int) -> tuple[Array, Array, Array]:
    """First and second neighbour of each pixel along an axis, and the share of the second."""
    i = np.arange(out)
    at = (
        np.linspace(0, n - 1, out),
        np.maximum((i + 0.5) * (n / out) - 0.5, 0),
        np.minimum(np.floor(i * (n / out)), n - 1),
    )[mode]
    share, first = np.modf(at)
    first = first.astype(np.intp)
    return first, np.minimum(first + 1, n - 1), share


def _corners(x_shape, y_shape, dtype, mode: int):
    """The four neighbours of each pixel: rows, columns and shares."""
    (v0, v1, vw), (u0, u1, uw) = (
        _neighbours(n, out, mode) for n, out in zip(x_shape[1:], y_shape[1:], strict=True)
    )
    for v, p in ((v0, 1 - vw), (v1, vw)):
        for u, q in ((u0, 1 - uw), (u1, uw)):
            yield v[:, None], u[None, :], (p[:, None] * q).astype(dtype)


def resize(ins, outs, attributes) -> None:
    """Linear interpolation."""
    x, y = ins[0], outs[0]
    corners = _corners(x.shape, y.shape, x.dtype, attributes["mode"])
    y[...] = sum(x[:, v, u] * share for v, u, share in corners)


def resize_grad(ins, outs, attributes) -> None:
    """Each gradient to the four neighbours."""
    gy, gx = ins[0], outs[0]
    gx[...] = 0
    for v, u, share in _corners(gx.shape, gy.shape, gy.dtype, attributes["mode"]):
        np.add.at(gx, (slice(None), v, u), gy * share)


FORMULAS: dict[str, Callable] = {
    "take": take,
    "cumsum": cumsum,
    "cumprod": lambda x: x.cumprod(axis=1),
    "cumprod_grad": cumprod_grad,
    "prod": lambda x: x.prod(axis=1),
    "prod_grad": prod_grad,
    "where": lambda c, x, y: np.where(c, x, y),
}

DIRECT: dict[str, Callable] = {
    "put": put,
    "scatter_add": scatter_add,
    "resize": resize,
    "resize_grad": resize_grad,
}
