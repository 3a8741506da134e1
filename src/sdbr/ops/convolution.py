"""Convolutions; their sizes, for lowering (which sets memory aside) and for the kernels."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence

from sdbr.base import limits
from sdbr.ops.op import Layout, Rows

import numpy as np

Array = np.ndarray
row = Rows()

#: Bytes that a block of outputs (or of the columns of a gradient) may take: a part of a
#: second-level cache.
BLOCK_BYTES = 1 << 19

#: Multiply-adds that are worth a thread, and the memory that it works in: about 60 microseconds.
LEAST_WORK = 1 << 22


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
        if self.groups < 1 or self.w[0] % self.groups or self.x[1] != self.w[1] * self.groups:
            return f"{self.x[1]} and {self.w[0]} channels in {self.groups} groups"
        if self.y[:2] != (self.x[0], self.w[0]):
            return f"an output of {self.y[:2]} for {self.x[0]} images and {self.w[0]} channels"
        if min(self.stride) < 1 or min(self.dilate) < 1 or min(self.pad) < 0:
            return f"stride {self.stride}, dilation {self.dilate}, padding {self.pad}"
        if min(self.w[2:]) < 1 and 0 not in self.w[:2]:
            return "an empty kernel"
        return None

    @property
    def pixels(self) -> int:
        """Output pixels of all images."""
        return self.y[0] * math.prod(self.y[2:])

    def rows(self, op: str) -> int:
        """Rows of the panels that the kernel of an op makes, in one group."""
        return max(1, (self.x[1] if op == "convolution_grad_x" else self.w[0]) // self.groups)

    @property
    def by_columns(self) -> bool:
        """Whether the gradient for x is made of columns, one for each channel and tap.

        Else each pixel of x sums up the taps that read it: less is written, but zeros take part
        where taps lie outside of y.
        """
        taps, summed = math.prod(self.w[2:]), 1
        for size, kernel, stride, pad, dilate in zip(
            self.x[2:], self.w[2:], self.stride, self.pad, self.dilate, strict=True
        ):
            phases = [(pad - tap * dilate) % stride for tap in range(kernel)]
            summed *= sum(-(-(size - (-p) % stride) // stride) for p in phases)
        few = self.rows("convolution_grad_x") < 8 <= taps
        return few or summed > 1.4 * taps * math.prod(self.y[2:])

    @property
    def depthwise(self) -> bool:
        """Whether planes are worked on one by one: groups of one channel, few outputs of each."""
        each = self.w[0] // self.groups
        return (
            self.groups > 1
            and self.w[1] == 1
            and 0 < each <= 4
            and each * math.prod(self.w[2:]) <= limits.CONV_ROWS
            and self.stride[2] in (1, 2, 4)
            and 0 not in (*self.x, *self.y)
        )

    def way(self, op: str) -> str:
        """Which of our own kernels of an op runs: what is added to its name."""
        if self.depthwise:
            return "_depthwise"
        return "_columns" if op == "convolution_grad_x" and self.by_columns else ""

    def planes(self, op: str) -> int:
        """Elements of the padded planes that a depthwise kernel works in."""
        behind = limits.CONV_WIDTH * self.stride[2]
        reach = [(k - 1) * d for k, d in zip(self.w[2:], self.dilate, strict=True)]
        if op == "convolution_grad_x":
            extent = math.prod(n + r for n, r in zip(self.x[2:], reach, strict=True))
            return (extent + behind) * (self.w[0] // self.groups)
        lengths = zip(self.y[2:], self.stride, reach, strict=True)
        padded = math.prod((n - 1) * s + r + 1 for n, s, r in lengths) + behind
        if op == "convolution_grad_w":
            padded += math.prod(self.y[2:4]) * (self.y[4] + limits.CONV_WIDTH)
        return padded

    def block(self, op: str, itemsize: int) -> int:
        """Pixels that the kernel of an op works on at once; a multiple of ``limits.CONV_WIDTH``."""
        rows, pixels = self.rows(op), self.pixels
        if op == "convolution_grad_x":
            if self.by_columns:
                rows = self.rows("convolution") + limits.CONV_ROWS
            else:
                pixels = self.x[0] * math.prod(self.x[2:])
        most = min(BLOCK_BYTES // (rows * itemsize), 1024) // limits.CONV_WIDTH
        return limits.CONV_WIDTH * max(1, min(most, -(-pixels // limits.CONV_WIDTH)))

    def slot(self, op: str, itemsize: int) -> int:
        """Elements of the memory that one thread works in."""
        if self.depthwise:
            size = self.planes(op)
        elif op == "convolution_grad_w":
            size = self.rows(op) * limits.CONV_DEPTH + limits.CONV_PATCHES * limits.CONV_PATCH_STEP
        elif op == "convolution_grad_x" and self.by_columns:
            size = (self.rows("convolution") + limits.CONV_ROWS) * self.block(op, itemsize)
        else:
            size = limits.CONV_STRIP * limits.CONV_DEPTH * limits.CONV_STEP + self.rows(
                op
            ) * self.block(op, itemsize)
        return -(-size // limits.CONV_WIDTH) * limits.CONV_WIDTH

    def scratch(self, op: str, itemsize: int, threads: int = 1) -> int:
        """Elements of the memory that the kernel of an op works in, on so many threads."""
        work = self.pixels * math.prod(self.w[1:]) * self.w[0]
        shares = max(1, min(threads, work // LEAST_WORK))
        return self.turned(op) + shares * self.slot(op, itemsize)

    def turned(self, op: str) -> int:
        """Elements of `w` with its first two axes exchanged, where the kernel wants them so."""
        if op != "convolution_grad_x" or self.way(op) or math.prod(self.w[2:]) != 1:
            return 0
        return (
            self.x[1]
            * -(-max(1, self.w[0] // self.groups) // limits.CONV_WIDTH)
            * limits.CONV_WIDTH
        )

    def shares(self, op: str, itemsize: int, scratch: int) -> int:
        """Threads for which there is scratch memory; 0 where there is not enough for one."""
        return (scratch - self.turned(op)) // self.slot(op, itemsize)

    @property
    def flat(self) -> Sizes:
        """The same with images of one row, where every pixel is its own patch."""
        if math.prod(self.w[2:]) != 1 or max(self.stride) > 1 or max(self.pad) > 0:
            return self
        x, y = ((*s[:2], 1, 1, math.prod(s[2:])) for s in (self.x, self.y))
        return self if x[2:] != y[2:] else dataclasses.replace(self, x=x, y=y)


def sizes_of(shapes: Sequence[Sequence[int]], numbers: Sequence[int]) -> Sizes:
    """The sizes of ``x``, ``w``, ``y`` and ten numbers: stride, padding, dilation, groups."""
    x, w, y = (tuple(shape) for shape in shapes)
    return Sizes(x, w, y, tuple(numbers[:3]), tuple(numbers[3:6]), tuple(numbers[6:9]), numbers[9])


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


_NUMBERS = "sd sh sw pd ph pw dd dh dw groups"


def _problem(x: Layout, w: Layout, y: Layout, ints: Sequence[int]) -> str:
    return sizes_of((x[1], w[1], y[1]), ints).problem or ""


@row(
    "convolution",
    "x:T[n,c,d,h,w] w:T[o,share,kd,kh,kw] b:T[o]?",
    "y:T[n,o,od,oh,ow] scratch:T[work]",
    "y[i, o, p] = act(sum over c, k of w[o, c, k] * x[i, group(o) + c, p * stride - pad + k * "
    "dilation] + b[o]), a read outside of x is 0; x[n, c, d, h, w], w[o, c / groups, kd, kh, "
    "kw], optional b[o], y[n, o, od, oh, ow] of any size, all C-contiguous; activation 0 "
    "none, 1 relu",
    ints=f"{_NUMBERS} activation",
    direct=True,
    divides=True,
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


@row(
    "convolution_grad_x",
    "gy:T[n,o,od,oh,ow] w:T[o,share,kd,kh,kw] b:T[c]?",
    "gx:T[n,c,d,h,w] scratch:T[work]",
    "gx = act(the gradient of convolution for x + b[c]): what each output pixel read gets w * "
    "gy; also the forward of a deconvolution",
    ints=f"{_NUMBERS} activation",
    direct=True,
    divides=True,
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


@row(
    "convolution_grad_w",
    "x:T[n,c,d,h,w] gy:T[n,o,od,oh,ow]",
    "gw:T[o,share,kd,kh,kw] scratch:T[work]",
    "gw = the gradient of convolution for w + (gw if accumulate else 0)",
    ints=f"{_NUMBERS} accumulate",
    direct=True,
    divides=True,
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


ROWS = row.rows
