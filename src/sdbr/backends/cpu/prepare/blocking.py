"""How our kernels of a convolution go about it: which one, in what blocks, in what memory."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from sdbr.base import limits
from sdbr.ops.convolution import Sizes, sizes_of

#: Bytes that a block of outputs (or of the columns of a gradient) may take: a part of a
#: second-level cache.
BLOCK_BYTES = 1 << 19

#: Multiply-adds that are worth a thread, and the memory that it works in: about 60 microseconds.
LEAST_WORK = 1 << 22


class Blocking(Sizes):
    """The sizes of one convolution, with what the kernels make of them."""

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
    def flat(self) -> Blocking:
        """The same with images of one row, where every pixel is its own patch."""
        if math.prod(self.w[2:]) != 1 or max(self.stride) > 1 or max(self.pad) > 0:
            return self
        x, y = ((*s[:2], 1, 1, math.prod(s[2:])) for s in (self.x, self.y))
        return self if x[2:] != y[2:] else dataclasses.replace(self, x=x, y=y)


def blocking_of(shapes: Sequence[Sequence[int]], numbers: Sequence[int]) -> Blocking:
    """As :func:`sdbr.ops.convolution.sizes_of`."""
    sizes = sizes_of(shapes, numbers)
    return Blocking(*(getattr(sizes, field.name) for field in dataclasses.fields(sizes)))
