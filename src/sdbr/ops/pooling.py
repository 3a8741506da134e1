"""Pooling over windows of up to three axes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sdbr.ops.array import check_labels
from sdbr.ops.op import Layout, Ops

import numpy as np

Array = np.ndarray
define = Ops()

# x[n, d, h, w] with images and channels as one axis n; y[n, od, oh, ow] has one element per window:
# window (a, b, c) covers x[:, a * sd - pd : a * sd - pd + kd, ...], as far as there is x.
_WINDOW = "kd>=1 kh>=1 kw>=1 sd>=1 sh>=1 sw>=1 pd>=0 ph>=0 pw>=0"


#: Sizes, steps, padding and dilation of windows, and the places of one, are less: sums and products
#: of two of them fit in 64 bits, and the places in the 32 of an index.
MOST = 1 << 31


def windows_problem(
    x: Sequence[int], y: Sequence[int], kernel, stride, pad, dilate=(1, 1, 1)
) -> str:
    """What is wrong with windows over axes of so many elements.

    As many as Chainer has with ``cover_all`` are the most: the last one begins where something
    may be left, and reaches beyond the padding by less than a step.
    """
    for name, n, count, k, s, p, d in zip("dhw", x, y, kernel, stride, pad, dilate, strict=True):
        if max(k, s, p, d) >= MOST:
            return (
                f"window {k}, stride {s}, padding {p}, dilation {d} along {name}, not below 2 ** 31"
            )
        most = max(0, (n + 2 * p - (k - 1) * d - 2 + s) // s + 1)
        if count > most:
            return (
                f"{count} windows along {name}, expected at most {most}: {k} wide, {s} apart and "
                f"dilated by {d}, over {n} with padding {p}"
            )
    places = math.prod(kernel)
    return "" if places < MOST else f"{places} places in a window, not below 2 ** 31"


def _window(
    ins: Sequence[Layout], outs: Sequence[Layout], ints: Sequence[int], floats: Sequence
) -> str:
    """Windows of x that fit y."""
    return windows_problem(ins[0][1][1:], outs[0][1][1:], ints[:3], ints[3:6], ints[6:9])


def _window_grad(
    ins: Sequence[Layout], outs: Sequence[Layout], ints: Sequence[int], floats: Sequence
) -> str:
    """The same from gy to gx."""
    return _window(outs, ins, ints, floats)


def _numbers(a: dict) -> tuple[list[int], list[int], list[int]]:
    """Size, stride and padding of the window."""
    return tuple([a[letter + axis] for axis in "dhw"] for letter in "ksp")


def _padded(x: Array, shape, a: dict, value: float) -> Array:
    """`x` within a border wide enough for all windows."""
    k, s, p = _numbers(a)
    need = [(n - 1) * t + w for n, t, w in zip(shape[1:], s, k, strict=True)]
    big = np.full(
        (x.shape[0], *(max(m, n + q) for m, n, q in zip(need, x.shape[1:], p, strict=True))),
        value,
        x.dtype,
    )
    big[(slice(None), *(slice(q, q + n) for q, n in zip(p, x.shape[1:], strict=True)))] = x
    return big


def _windows(big: Array, shape, a: dict) -> Array:
    """A writeable view [n, od, oh, ow, kd, kh, kw] of a padded array."""
    k, s, _ = _numbers(a)
    steps = big.strides
    strides = (steps[0], *(t * n for t, n in zip(steps[1:], s, strict=True)), *steps[1:])
    return np.lib.stride_tricks.as_strided(big, (*shape, *k), strides)


def _flat(x: Array, shape, a: dict, value: float) -> Array:
    """Windows as rows: [n, od, oh, ow, kd * kh * kw]."""
    size = math.prod(_numbers(a)[0])
    return _windows(_padded(x, shape, a, value), shape, a).reshape(*shape, size)


def _inside(big: Array, shape, a: dict) -> Array:
    """What of a padded array is not border."""
    p = _numbers(a)[2]
    return big[(slice(None), *(slice(q, q + n) for q, n in zip(p, shape[1:], strict=True)))]


def _summed(parts: Array, x: Array, a: dict) -> Array:
    """The sum over all windows that cover an element; parts[n, od, oh, ow, kd * kh * kw]."""
    sizes, steps, _ = _numbers(a)
    shape = parts.shape[:4]
    big = _padded(np.zeros_like(x), shape, a, 0)
    for i, place in enumerate(np.ndindex(*sizes)):
        ends = [p + (n - 1) * s + 1 for p, n, s in zip(place, shape[1:], steps, strict=True)]
        at = tuple(slice(p, e, s) for p, e, s in zip(place, ends, steps, strict=True))
        big[(slice(None), *at)] += parts[..., i]
    return _inside(big, x.shape, a)


def _divisors(x: Array, shape, a: dict) -> Array:
    """What the sum of each window is divided by."""
    sizes, steps, pads = _numbers(a)
    if a["divide"] < 2:
        return np.full(shape[1:], math.prod(sizes) if a["divide"] else 1, x.dtype)
    # As Chainer counts: a window that lies beyond the border has less than nothing within.
    counts = np.ones((1, 1, 1), x.dtype)
    for axis, (n, k, s, p) in enumerate(zip(x.shape[1:], sizes, steps, pads, strict=True)):
        starts = np.arange(shape[axis + 1]) * s - p
        within = np.minimum(starts + k, n) - np.maximum(starts, 0)
        counts = counts * np.moveaxis(within.reshape(-1, 1, 1), 0, axis)
    return counts.astype(x.dtype)


@define(
    "max_pooling",
    "x:T[n,d,h,w]",
    "y:T[n,od,oh,ow]",
    "y = the largest of each window, -inf beyond the border; NaN if there is one; x[n, d, h, "
    "w], y[n, od, oh, ow]",
    ints=_WINDOW,
    direct=True,
    cut="outer",
    rule=_window,
)
def max_pooling(ins, outs, a) -> None:
    """The largest of each window."""
    outs[0][...] = _flat(ins[0], outs[0].shape, a, -np.inf).max(axis=-1)


@define(
    "max_pooling_index",
    "x:T[n,d,h,w]",
    "y:T[n,od,oh,ow] k:I[n,od,oh,ow]",
    "y = max_pooling(x); k = the place of the first largest (or the first NaN) in its window "
    "of kd * kh * kw; uint8 or int32",
    ints=_WINDOW,
    direct=True,
    cut="outer",
    rule=_window,
)
def max_pooling_index(ins, outs, a) -> None:
    """The largest of each window, and where it is."""
    flat = _flat(ins[0], outs[0].shape, a, -np.inf)
    outs[0][...] = flat.max(axis=-1)
    outs[1][...] = flat.argmax(axis=-1)


@define(
    "max_pooling_grad",
    "gy:T[n,od,oh,ow] k:I[n,od,oh,ow]",
    "gx:T[n,d,h,w]",
    "gx = 0; gx[place k of the window] += gy, where that is within x; IndexError for k "
    "outside [-kd * kh * kw, kd * kh * kw) unless known, which says that max_pooling_index "
    "made k",
    ints=f"{_WINDOW} known<2",
    direct=True,
    cut="outer",
    rule=_window_grad,
)
def max_pooling_grad(ins, outs, a) -> None:
    """Each gradient at the place of its window."""
    gy, k = ins
    size = math.prod(_numbers(a)[0])
    check_labels(k, size)
    places = np.where(k < 0, k.astype(np.intp) + size, k)
    parts = np.zeros((*gy.shape, size), gy.dtype)
    np.put_along_axis(parts, places.astype(np.intp)[..., None], gy[..., None], axis=-1)
    outs[0][...] = _summed(parts, outs[0], a)


@define(
    "max_pooling_pick",
    "x:T[n,d,h,w] k:I[n,od,oh,ow]",
    "y:T[n,od,oh,ow]",
    "y = x[place k of the window], beyond the border 0 where zero, else -inf; IndexError as above",
    ints=f"{_WINDOW} zero<2",
    direct=True,
    rule=_window,
)
def max_pooling_pick(ins, outs, a) -> None:
    """One element of each window."""
    x, k = ins
    size = math.prod(_numbers(a)[0])
    check_labels(k, size)
    flat = _flat(x, outs[0].shape, a, 0 if a["zero"] else -np.inf)
    places = np.where(k < 0, k.astype(np.intp) + size, k).astype(np.intp)
    outs[0][...] = np.take_along_axis(flat, places[..., None], axis=-1)[..., 0]


@define(
    "average_pooling",
    "x:T[n,d,h,w]",
    "y:T[n,od,oh,ow]",
    "y = the sum of each window / (1, kd * kh * kw, the elements within x)[divide]",
    ints=f"{_WINDOW} divide<3",
    direct=True,
    cut="outer",
    rule=_window,
)
def average_pooling(ins, outs, a) -> None:
    """The mean (or the sum) of each window."""
    shape = outs[0].shape
    outs[0][...] = _flat(ins[0], shape, a, 0).sum(axis=-1) / _divisors(ins[0], shape, a)


@define(
    "average_pooling_grad",
    "gy:T[n,od,oh,ow]",
    "gx:T[n,d,h,w]",
    "gx = the sum of gy / (1, kd * kh * kw, the elements within x)[divide] over the windows "
    "that cover an element",
    ints=f"{_WINDOW} divide<3",
    direct=True,
    cut="outer",
    rule=_window_grad,
)
def average_pooling_grad(ins, outs, a) -> None:
    """Each gradient spread over its window."""
    gy = ins[0] / _divisors(outs[0], ins[0].shape, a)
    size = math.prod(_numbers(a)[0])
    outs[0][...] = _summed(np.repeat(gy[..., None], size, axis=-1), outs[0], a)


OPS = define.ops
