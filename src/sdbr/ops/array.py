"""Elements chosen by indices or a condition, sums along an axis, images of another size."""

from __future__ import annotations

from collections.abc import Sequence

from sdbr.ops.op import Layout, Ops

import numpy as np

Array = np.ndarray
define = Ops()


def check_labels(t: Array, n: int, valid: Array | bool = True) -> None:
    """Raise `IndexError` for the first label outside ``[-n, n)``, in C order.

    Negative labels count from the end, as in NumPy's indexing.
    """
    wrong = ((t < -n) | (t >= n)) & valid
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        bad = t.reshape(-1)[at]
        raise IndexError(f"index {bad} at position {at} is out of range for {n} entries")


def _indexed(x: Layout, rows: Layout, t: Sequence[Layout]) -> str:
    """x[outer, n0, n1, ..., inner] and what indices pick of it, [outer, m, inner]."""
    if not t or len(x[1]) != len(t) + 2 or rows[1] != (x[1][0], *t[0][1], x[1][-1]):
        return "x[outer, n0, n1, ..., inner] has as many axes between as there are indices"
    return "" if rows[0] == x[0] else "one dtype but for the indices"


def _picked(
    ins: Sequence[Layout], outs: Sequence[Layout], ints: Sequence[int], floats: Sequence
) -> str:
    return _indexed(ins[0], outs[0], ins[1:])


def _placed(
    ins: Sequence[Layout], outs: Sequence[Layout], ints: Sequence[int], floats: Sequence
) -> str:
    return _indexed(outs[0], ins[0], ins[1:])


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


def _neighbours(n: int, out: int, mode: int) -> tuple[Array, Array, Array]:
    """First and second neighbour of each pixel along an axis, and the share of the second."""
    i = np.arange(out)
    at = (
        np.linspace(0, n - 1, out),
        np.maximum((i + 0.5) * (n / max(out, 1)) - 0.5, 0),
        np.minimum(np.floor(i * (n / max(out, 1))), n - 1),
    )[mode]
    share, first = np.modf(at)
    first = first.astype(np.intp)
    return first, np.minimum(first + 1, n - 1), share


def _some_pixels(x: Layout, y: Layout) -> str:
    """Something to look at where there is a pixel to compute."""
    return "an image of nothing" if 0 in x[1][1:] and 0 not in y[1] else ""


def _corners(x_shape, y_shape, dtype, mode: int):
    """The four neighbours of each pixel: rows, columns and shares."""
    (v0, v1, vw), (u0, u1, uw) = (
        _neighbours(n, out, mode) for n, out in zip(x_shape[1:], y_shape[1:], strict=True)
    )
    for v, p in ((v0, 1 - vw), (v1, vw)):
        for u, q in ((u0, 1 - uw), (u1, uw)):
            yield v[:, None], u[None, :], (p[:, None] * q).astype(dtype)


# --- by index: t0, t1, ... are 1-D, of one length m and any integer dtype; negative ones wrap ----
@define(
    "take",
    "x:S t:I[m]*",
    "y:S",
    "y[o, j, i] = x[o, t0[j], t1[j], ..., i]; 0 where has_ignore and t0[j] == ignore_label; "
    "x[outer, n0, n1, ..., inner] with any strides; IndexError outside [-n, n)",
    ints="has_ignore<2 ignore_label",
    rule=_picked,
)
def take(x: Array, *t: Array, **attributes) -> Array:
    """``x[:, t0, t1, ...]``, 0 where ignored."""
    places, valid = _places(t, x.shape[1:-1], attributes)
    if not valid.any():
        return np.zeros((x.shape[0], t[0].size, x.shape[-1]), x.dtype)
    return np.where(valid[:, None], x[(slice(None), *places)], x.dtype.type(0))


@define(
    "put",
    "x:S t:I[m]*",
    "y:S",
    "y[o, t0[j], t1[j], ..., i] = x[o, j, i]; the rest of y stays",
    ints="has_ignore<2 ignore_label",
    direct=True,
    rule=_placed,
)
def put(ins, outs, attributes) -> None:
    """``y[:, t0, t1, ...] = x``."""
    x, *t = ins
    places, valid = _places(t, outs[0].shape[1:-1], attributes)
    outs[0][(slice(None), *(k[valid] for k in places))] = x[:, valid]


@define(
    "scatter_add",
    "gy:T t:I[m]*",
    "gx:T",
    "gx = (gx if accumulate else 0); gx[o, t0[j], t1[j], ..., i] += gy[o, j, i] in the order "
    "of j, but where has_ignore and t0[j] == ignore_label",
    ints="accumulate<2 has_ignore<2 ignore_label",
    direct=True,
    rule=_placed,
)
def scatter_add(ins, outs, attributes) -> None:
    """``gx[:, t0, t1, ...] += gy``, one after the other."""
    gy, *t = ins
    gx = outs[0]
    places, valid = _places(t, gx.shape[1:-1], attributes)
    if not attributes["accumulate"]:
        gx[...] = 0
    np.add.at(gx, (slice(None), *(k[valid] for k in places)), gy[:, valid])


define(
    "where",
    "c:B[s...] x:S[s...] y:S[s...]",
    "z:S[s...]",
    "z = np.where(c, x, y); c bool; any strides",
    lambda c, x, y: np.where(c, x, y),
)


# --- along n of x[outer, n, inner], C-contiguous -------------------------------------------------
@define(
    "cumsum",
    "x:T[outer,n,inner]",
    "y:T[outer,n,inner]",
    "y = x.cumsum(1), from the end where reverse",
    ints="reverse<2",
)
def cumsum(x: Array, reverse: int) -> Array:
    """Running sums, from the end where `reverse`."""
    return x[:, ::-1].cumsum(axis=1)[:, ::-1] if reverse else x.cumsum(axis=1)


define(
    "cumprod",
    "x:T[outer,n,inner]",
    "y:T[outer,n,inner]",
    "y = x.cumprod(1)",
    lambda x: x.cumprod(axis=1),
)


@define(
    "cumprod_grad",
    "x:T[outer,n,inner] y:T[outer,n,inner] gy:T[outer,n,inner]",
    "gx:T[outer,n,inner]",
    "gx[i] = y[i - 1] * z[i]; z[i] = gy[i] + x[i + 1] * z[i + 1]",
)
def cumprod_grad(x: Array, y: Array, gy: Array) -> Array:
    """What all the later products give for one factor."""
    z = gy.copy()
    for i in range(x.shape[1] - 2, -1, -1):
        z[:, i] += x[:, i + 1] * z[:, i + 1]
    z[:, 1:] *= y[:, :-1]
    return z


define(
    "prod",
    "x:T[outer,n,inner]",
    "y:T[outer,inner]",
    "y = x.prod(1)",
    lambda x: x.prod(axis=1),
)


@define(
    "prod_grad",
    "x:T[outer,n,inner] gy:T[outer,inner]",
    "gx:T[outer,n,inner]",
    "gx[i] = gy * the product of all x but x[i]",
)
def prod_grad(x: Array, gy: Array) -> Array:
    """Products of all but one."""
    before, after = np.ones_like(x), np.ones_like(x)
    before[:, 1:] = x[:, :-1].cumprod(axis=1)
    after[:, :-1] = x[:, :0:-1].cumprod(axis=1)[:, ::-1]
    return before * after * gy[:, None]


# --- images x[n, h, w] to y[n, out_h, out_w], C-contiguous ---------------------------------------
@define(
    "resize",
    "x:T[n,h,w]",
    "y:T[n,out_h,out_w]",
    "y = x interpolated between its four neighbours at (linspace(0, h - 1, out_h), "
    "maximum((arange(out_h) + 0.5) * h / out_h - 0.5, 0), minimum(floor(arange(out_h) * h / "
    "out_h), h - 1))[mode]",
    ints="mode<3",
    direct=True,
    rule=lambda ins, outs, ints, floats: _some_pixels(ins[0], outs[0]),
)
def resize(ins, outs, attributes) -> None:
    """Linear interpolation."""
    x, y = ins[0], outs[0]
    corners = _corners(x.shape, y.shape, x.dtype, attributes["mode"])
    y[...] = sum(x[:, v, u] * share for v, u, share in corners)


@define(
    "resize_grad",
    "gy:T[n,out_h,out_w]",
    "gx:T[n,h,w]",
    "gx = gy handed to the four neighbours",
    ints="mode<3",
    direct=True,
    rule=lambda ins, outs, ints, floats: _some_pixels(outs[0], ins[0]),
)
def resize_grad(ins, outs, attributes) -> None:
    """Each gradient to the four neighbours."""
    gy, gx = ins[0], outs[0]
    gx[...] = 0
    for v, u, share in _corners(gx.shape, gy.shape, gy.dtype, attributes["mode"]):
        np.add.at(gx, (slice(None), v, u), gy * share)


OPS = define.ops
