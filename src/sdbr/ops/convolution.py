"""Convolutions and their gradients."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence

from sdbr.ops.op import Layout, Ops
from sdbr.ops.pooling import windows_problem

import numpy as np

Array = np.ndarray
define = Ops()


@dataclasses.dataclass(frozen=True)
class Sizes:
    """The sizes of one convolution with three spatial axes.

    Attributes
    ----------
    x, w, y : tuple of int
        Shapes ``[n, c, d, h, w]``, ``[o, c / groups, kd, kh, kw]``, ``[n, o, od, oh, ow]``.
    stride, pad, dilate : tuple of int
        Per spatial axis.
    groups : int
    """

    x: tuple[int, ...]
    w: tuple[int, ...]
    y: tuple[int, ...]
    stride: tuple[int, int, int]
    pad: tuple[int, int, int]
    dilate: tuple[int, int, int]
    groups: int

    @property
    def problem(self) -> str | None:
        """What is wrong with the shapes, or None."""
        if any(len(shape) != 5 for shape in (self.x, self.w, self.y)):
            return "operands have five axes"
        if self.w[0] % self.groups or self.x[1] != self.w[1] * self.groups:
            return f"{self.x[1]} and {self.w[0]} channels in {self.groups} groups"
        if self.y[:2] != (self.x[0], self.w[0]):
            return f"an output of {self.y[:2]} for {self.x[0]} images and {self.w[0]} channels"
        if min(self.w[2:]) < 1 and 0 not in self.w[:2]:
            return "an empty kernel"
        sizes = self.x[2:], self.y[2:], self.w[2:]
        return windows_problem(*sizes, self.stride, self.pad, self.dilate) or None


def sizes_of(shapes: Sequence[Sequence[int]], numbers: Sequence[int]) -> Sizes:
    """The sizes of ``x``, ``w``, ``y`` and ten numbers: stride, padding, dilation, groups."""
    x, w, y = (tuple(shape) for shape in shapes)
    return Sizes(x, w, y, tuple(numbers[:3]), tuple(numbers[3:6]), tuple(numbers[6:9]), numbers[9])


def _work(w: int, y: int):
    """The rule of the floating-point operations, with `w` and `y` among inputs and outputs."""

    def flops(ins: Sequence[Layout], outs: Sequence[Layout], ints: Sequence[int]) -> int:
        shapes = [shape for _, shape in (*ins[:2], outs[0])]
        return 2 * math.prod(shapes[y]) * math.prod(shapes[w][1:])

    return flops


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


_NUMBERS = "sd>=1 sh>=1 sw>=1 pd>=0 ph>=0 pw>=0 dd>=1 dh>=1 dw>=1 groups>=1"


def _problem(x: Layout, w: Layout, y: Layout, ints: Sequence[int]) -> str:
    return sizes_of((x[1], w[1], y[1]), ints).problem or ""


@define(
    "convolution",
    "x:T[n,c,d,h,w] w:T[o,share,kd,kh,kw] b:T[o]?",
    "y:T[n,o,od,oh,ow] scratch:T[work]?",
    "y[i, o, p] = act(sum over c, k of w[o, c, k] * x[i, group(o) + c, p * stride - pad + k * "
    "dilation] + b[o]), a read outside of x is 0; share = c / groups; windows at most as with cover_all; all "
    "C-contiguous; activation 0 none, 1 relu",
    ints=f"{_NUMBERS} activation<2",
    direct=True,
    divides=True,
    flops=_work(1, 2),
    rule=lambda ins, outs, ints, floats: _problem(ins[0], ins[1], outs[0], ints),
)
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


@define(
    "convolution_grad_x",
    "gy:T[n,o,od,oh,ow] w:T[o,share,kd,kh,kw] b:T[c]?",
    "gx:T[n,c,d,h,w] scratch:T[work]?",
    "gx = act(the gradient of convolution for x + b[c]): what each output pixel read gets w * "
    "gy; also the forward of a deconvolution",
    ints=f"{_NUMBERS} activation<2",
    direct=True,
    divides=True,
    flops=_work(1, 0),
    rule=lambda ins, outs, ints, floats: _problem(outs[0], ins[1], ins[0], ints),
)
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


@define(
    "convolution_grad_w",
    "x:T[n,c,d,h,w] gy:T[n,o,od,oh,ow]",
    "gw:T[o,share,kd,kh,kw] scratch:T[work]?",
    "gw = the gradient of convolution for w + (gw if accumulate else 0)",
    ints=f"{_NUMBERS} accumulate<2",
    direct=True,
    divides=True,
    flops=_work(2, 1),
    rule=lambda ins, outs, ints, floats: _problem(ins[0], outs[0], ins[1], ints),
)
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


OPS = define.ops
