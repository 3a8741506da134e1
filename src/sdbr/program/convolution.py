"""Sizes of convolutions, for lowering (which sets memory aside) and for the kernels."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

#: As in ``kernels/conv_shape.h``: columns of the widest panel, rows of a panel, rows of columns.
WIDTH, DEPTH, ROWS = 32, 256, 64

#: Bytes that a block of outputs (or of the columns of a gradient) may take: a part of a
#: second-level cache.
BLOCK_BYTES = 1 << 18


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

    def block(self, op: str, itemsize: int) -> int:
        """Output pixels that the kernel of an op works on at once; a multiple of `WIDTH`."""
        rows = max(1, self.w[0] // self.groups)
        bytes_a_pixel = rows * itemsize
        if op == "convolution_grad_x":
            bytes_a_pixel += ROWS * itemsize
        most = max(1, min(BLOCK_BYTES // bytes_a_pixel, 1024) // WIDTH)
        return WIDTH * max(1, min(most, -(-self.pixels // WIDTH)))

    def scratch(self, op: str, itemsize: int) -> int:
        """Elements of the memory that the kernel of an op works in."""
        rows = max(1, self.w[0] // self.groups)
        if op == "convolution":
            return rows * self.block(op, itemsize)
        if op == "convolution_grad_x":
            return (rows + ROWS) * self.block(op, itemsize)
        return (rows + WIDTH) * DEPTH


def sizes_of(shapes: Sequence[Sequence[int]], numbers: Sequence[int]) -> Sizes:
    """The sizes of ``x``, ``w``, ``y`` and ten numbers: stride, padding, dilation, groups."""
    x, w, y = (tuple(shape) for shape in shapes)
    return Sizes(x, w, y, tuple(numbers[:3]), tuple(numbers[3:6]), tuple(numbers[6:9]), numbers[9])
