"""Formulas of convolutions: sums over the elements of the kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

Array = np.ndarray


def _windows(w_shape, y_shape, a: dict) -> Iterator[tuple[tuple, tuple]]:
    """For each element of the kernel: its index, and the window of the padded x that it reads."""
    for tap in np.ndindex(*w_shape[2:]):
        window = []
        for axis, name in enumerate("dhw"):
            at, stride = tap[axis] * a[f"d{name}"], a[f"s{name}"]
            window.append(slice(at, at + max(0, (y_shape[2 + axis] - 1) * stride + 1), stride))
        yield (..., *tap), (..., *window)


def _padding(x_shape, w_shape, y_shape, a: dict) -> list[tuple[int, int]]:
    """Zeros before and after each axis of x."""
    padding = [(0, 0), (0, 0)]
    for axis, name in enumerate("dhw", 2):
        last = (y_shape[axis] - 1) * a[f"s{name}"] + (w_shape[axis] - 1) * a[f"d{name}"]
        before = a[f"p{name}"]
        padding.append((before, max(0, last + 1 - before - x_shape[axis])))
    return padding


def _grouped(x: Array, groups: int, axis: int) -> Array:
    """`x` with an axis of groups before the one of the channels."""
    shape = x.shape
    return x.reshape(*shape[:axis], groups, shape[axis] // groups, *shape[axis + 1 :])


def _end(y: Array, b: list, activation: int) -> Array:
    if b:
        y = y + b[0].reshape(-1, 1, 1, 1)
    return np.maximum(y, 0) if activation else y


def convolution(ins: list, outs: list, a: dict) -> None:
    """y = act(x * w + b)"""
    x, w, *b = ins
    y = outs[0]
    padded = _grouped(np.pad(x, _padding(x.shape, w.shape, y.shape, a)), a["groups"], 1)
    total = np.zeros(_grouped(y, a["groups"], 1).shape, y.dtype)
    for tap, window in _windows(w.shape, y.shape, a):
        weights = _grouped(w[tap], a["groups"], 0)
        total += np.einsum("ngcdhw,goc->ngodhw", padded[window], weights)
    y[...] = _end(total.reshape(y.shape), b, a["activation"])


def convolution_grad_x(ins: list, outs: list, a: dict) -> None:
    """gx = act(the transpose of a convolution with w, of gy, + b)"""
    gy, w, *b = ins
    gx = outs[0]
    padding = _padding(gx.shape, w.shape, gy.shape, a)
    padded = np.pad(np.zeros(gx.shape, gx.dtype), padding)
    given = _grouped(gy, a["groups"], 1)
    for tap, window in _windows(w.shape, gy.shape, a):
        weights = _grouped(w[tap], a["groups"], 0)
        part = np.einsum("ngodhw,goc->ngcdhw", given, weights)
        padded[window] += part.reshape(padded[window].shape)
    inside = tuple(
        slice(before, before + n) for (before, _), n in zip(padding, gx.shape, strict=True)
    )
    gx[...] = _end(padded[inside], b, a["activation"])


def convolution_grad_w(ins: list, outs: list, a: dict) -> None:
    """gw (+)= sum over all images and pixels of gy * patches of x"""
    x, gy = ins
    gw = outs[0]
    padded = _grouped(np.pad(x, _padding(x.shape, gw.shape, gy.shape, a)), a["groups"], 1)
    given = _grouped(gy, a["groups"], 1)
    total = gw.copy() if a["accumulate"] else np.zeros(gw.shape, gw.dtype)
    for tap, window in _windows(gw.shape, gy.shape, a):
        part = np.einsum("ngcdhw,ngodhw->goc", padded[window], given)
        total[tap] += part.reshape(total[tap].shape)
    gw[...] = total


FORMULAS: dict[str, Callable] = {}
#: The last output is memory that kernels work in.
DIRECT: dict[str, Callable] = {
    "convolution": convolution,
    "convolution_grad_x": convolution_grad_x,
    "convolution_grad_w": convolution_grad_w,
}
