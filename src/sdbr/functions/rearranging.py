"""Function rows for chainer.functions.array: elements repeated, framed or arranged otherwise."""

from __future__ import annotations

import math

from sdbr.functions.array import MovesData
from sdbr.functions.common import is_moved
from sdbr.functions.registry import FLOATS, FunctionRow, float_reason, function
from sdbr.program.buffers import Row
from sdbr.program.builder import Builder

import numpy as np

BASE = "chainer.functions.array."


class _Linear(MovesData):
    """What moves elements; the gradient of its gradient is itself."""

    adds = True

    linear = True


@function(BASE + "copy.Copy")
class Copy(_Linear):
    """The same elements on the same device."""

    views = True

    def reason(node):
        if node.function.out_device.xp is not np:
            return f"a copy to {node.function.out_device}"
        return MovesData.reason(node)

    def forward(b, node, xs):
        return [xs[0]]

    def backward(b, node, xs, ys, gys, wanted):
        return [gys[0]]


# --- repeated -------------------------------------------------------------------------------------
@function(BASE + "tile.Tile")
class Tile(_Linear):
    """The whole array, several times along each axis."""

    def layout(node):
        """Lengths with the repetitions before each, and the axes of these."""
        shape, reps = node.in_shapes[0], node.function.reps
        n = max(len(shape), len(reps))
        shape, reps = (1,) * (n - len(shape)) + shape, (1,) * (n - len(reps)) + tuple(reps)
        both = [k for pair in zip(reps, shape, strict=True) for k in pair]
        return shape, both, [2 * i for i in range(n) if reps[i] != 1]

    def forward(b, node, xs):
        shape, both, _ = Tile.layout(node)
        x = b.reshape(xs[0], [k for n in shape for k in (1, n)])
        return [b.reshape(b.broadcast(x, both), node.out_shapes[0])]

    def backward(b, node, xs, ys, gys, wanted):
        _, both, axes = Tile.layout(node)
        return [b.reshape(b.reduce("sum", b.reshape(gys[0], both), axes), xs[0].shape)]


@function(BASE + "repeat.Repeat")
class Repeat(_Linear):
    """Each element, or each part along an axis, several times in a row."""

    def layout(node):
        """``[outer, n, inner]`` and the number of times, one or one for each of n."""
        f, shape = node.function, node.in_shapes[0]
        if f.axis is None:
            return (1, math.prod(shape), 1), f.repeats
        axis = f.axis % len(shape)
        return (math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])), f.repeats

    def forward(b, node, xs):
        (outer, n, inner), times = Repeat.layout(node)
        if len(times) == 1:
            x = b.reshape(xs[0], (outer, n, 1, inner))
            x = b.broadcast(x, (outer, n, int(times[0]), inner))
            return [b.reshape(x, node.out_shapes[0])]
        t = node.state["t"] = b.constant(np.repeat(np.arange(n), times))
        y = b.new((outer, t.size, inner), xs[0].dtype)
        b.emit("take", [b.reshape(xs[0], (outer, n, inner)), t], [y], (0, 0))
        return [b.reshape(y, node.out_shapes[0])]

    def backward(b, node, xs, ys, gys, wanted):
        (outer, n, inner), times = Repeat.layout(node)
        if len(times) == 1:
            gy = b.reshape(gys[0], (outer, n, int(times[0]), inner))
            return [b.reshape(b.reduce("sum", gy, (2,)), xs[0].shape)]
        gx, t = b.new((outer, n, inner), xs[0].dtype), node.state["t"]
        gy = b.reshape(gys[0], (outer, t.size, inner))
        b.emit("scatter_add", [gy, t], [gx], (0, 0, 0))
        return [b.reshape(gx, xs[0].shape)]


# --- framed ---------------------------------------------------------------------------------------
@function(BASE + "pad.Pad")
class Pad(FunctionRow):
    """A border of constants."""

    structural = ("pad_bw", "pad_width")

    def widths(node) -> np.ndarray:
        return np.broadcast_to(np.asarray(node.function.pad_width), (len(node.in_shapes[0]), 2))

    def reason(node):
        f = node.function
        if f.mode != "constant":
            return f"mode {f.mode!r}"
        if set(f.keywords) - {"constant_values"}:
            return f"options {sorted(f.keywords)}"
        own = np.asarray(f.pad_bw)
        own = np.tile(own, (len(node.in_shapes[0]), 1)) if own.ndim == 1 else own
        try:
            same = own.dtype.kind in "iu" and np.array_equal(own, Pad.widths(node))
        except ValueError:
            same = False
        if not same:
            return f"a width of {f.pad_width!r}"
        return float_reason(node)

    def forward(b, node, xs):
        x, values = xs[0], np.asarray(node.function.keywords.get("constant_values", 0))
        if values.size and (values == values.flat[0]).all():
            y = b.fill(node.out_shapes[0], x.dtype, float(values.flat[0]))
        else:  # NumPy knows which of them lies in the corners
            f = node.function
            frame = np.pad(np.zeros(x.shape, x.dtype), f.pad_width, f.mode, **f.keywords)
            y = b.copy(b.constant(frame))
        b.copy_to(x, Pad.inside(b, node, y))
        return [y]

    def pushed(b, node, xs):
        y = b.fill(node.out_shapes[0], xs[0].dtype, 0.0)
        b.copy_to(xs[0], Pad.inside(b, node, y))
        return [y]

    def inside(b: Builder, node, y: Row) -> Row:
        pairs = zip(Pad.widths(node).tolist(), node.in_shapes[0], strict=True)
        return b.slice(y, tuple(slice(low, low + n) for (low, _), n in pairs))

    def backward(b, node, xs, ys, gys, wanted):
        return [Pad.inside(b, node, gys[0])]


@function(BASE + "pad_sequence.PadSequence")
class PadSequence(MovesData):
    """Sequences under each other, filled up to one length."""

    adds = True

    scalars = ("padding",)

    def reason(node):
        dtype, padding = node.in_dtypes[0], node.function.padding
        if dtype not in FLOATS and is_moved(dtype) and dtype.type(padding) != padding:
            return f"a padding of {padding} in {dtype.name}"
        return MovesData.reason(node)

    def filled(b: Builder, node, xs, padding) -> Row:
        y = b.new(node.out_shapes[0], node.out_dtypes[0])
        for i, x in enumerate(xs):
            n, length = x.shape[0], y.shape[1]
            b.copy_to(x, b.slice(y, (i, slice(0, n))))
            if n < length:
                b.emit("fill", [], [b.slice(y, (i, slice(n, None)))], floats=(padding,))
        return y

    def forward(b, node, xs):
        return [PadSequence.filled(b, node, xs, node.scalar("padding"))]

    def pushed(b, node, xs):
        return [PadSequence.filled(b, node, xs, 0.0)]

    def backward(b, node, xs, ys, gys, wanted):
        return [
            b.slice(gys[0], (i, slice(0, x.shape[0]))) if i in wanted else None
            for i, x in enumerate(xs)
        ]


# --- arranged -------------------------------------------------------------------------------------
class _Blocks(_Linear):
    """Between squares of r x r pixels and as many channels."""

    @staticmethod
    def spread(b: Builder, x: Row, r: int) -> Row:
        n, c, h, w = x.shape
        c //= r * r
        x = b.transpose(b.reshape(x, (n, r, r, c, h, w)), (0, 3, 4, 1, 5, 2))
        return b.reshape(x, (n, c, h * r, w * r))

    @staticmethod
    def gathered(b: Builder, x: Row, r: int) -> Row:
        n, c, h, w = x.shape
        x = b.transpose(b.reshape(x, (n, c, h // r, r, w // r, r)), (0, 3, 5, 1, 2, 4))
        return b.reshape(x, (n, r * r * c, h // r, w // r))


@function(BASE + "depth2space.Depth2Space")
class Depth2Space(_Blocks):
    """Channels to pixels."""

    def forward(b, node, xs):
        return [_Blocks.spread(b, xs[0], node.function.r)]

    def backward(b, node, xs, ys, gys, wanted):
        return [_Blocks.gathered(b, gys[0], node.function.r)]


@function(BASE + "space2depth.Space2Depth")
class Space2Depth(_Blocks):
    """Pixels to channels."""

    def forward(b, node, xs):
        return [_Blocks.gathered(b, xs[0], node.function.r)]

    def backward(b, node, xs, ys, gys, wanted):
        return [_Blocks.spread(b, gys[0], node.function.r)]


@function(BASE + "diagonal.Diagonal")
class Diagonal(_Linear):
    """A diagonal of two axes: a view."""

    adds = False
    views = True

    def view(b: Builder, node, x: Row) -> Row:
        f = node.function
        return b.view_like(x, lambda dummy: dummy.diagonal(f.offset, f.axis1, f.axis2))

    def forward(b, node, xs):
        return [Diagonal.view(b, node, xs[0])]

    def backward(b, node, xs, ys, gys, wanted):
        gx = b.fill(xs[0].shape, xs[0].dtype, 0.0)
        b.copy_to(gys[0], Diagonal.view(b, node, gx))
        return [gx]


@function(BASE + "im2col.Im2Col")
class Im2Col(_Linear):
    """The patches of an image as columns; the border is zero."""

    def places(node) -> tuple[np.ndarray, int]:
        """For each element of a column where it is in its plane; the number of pixels beyond it."""
        f = node.function
        h, w = node.in_shapes[0][2:]
        out_h, out_w = node.out_shapes[0][2:]
        axes = [(f.kh, out_h, f.sy, f.ph, f.dy, h), (f.kw, out_w, f.sx, f.pw, f.dx, w)]
        rows, columns = (
            np.arange(k)[:, None] * d + np.arange(n) * s - p for k, n, s, p, d, _ in axes
        )
        rows, columns = rows[:, None, :, None], columns[None, :, None, :]
        inside = (rows >= 0) & (rows < h) & (columns >= 0) & (columns < w)
        return np.where(inside, rows * w + columns, h * w).reshape(-1).astype(np.int32), h * w

    def patches(b: Builder, node, x: Row) -> Row:
        """A view of all patches, of a copy with a border where they need one."""
        f = node.function
        h, w = x.shape[2:]
        n, (out_h, out_w) = x.shape[0] * x.shape[1], node.out_shapes[0][2:]
        x = b.reshape(x, (n, h, w))
        # Patches may end before the border does, and beyond it where all pixels are covered.
        high = max(f.ph + h, (f.kh - 1) * f.dy + (out_h - 1) * f.sy + 1)
        wide = max(f.pw + w, (f.kw - 1) * f.dx + (out_w - 1) * f.sx + 1)
        if (high, wide) != (h, w):
            inner = x
            x = b.fill((n, high, wide), x.dtype, 0.0)
            b.copy_to(inner, b.slice(x, (..., slice(f.ph, f.ph + h), slice(f.pw, f.pw + w))))
        shape = (n, f.kh, f.kw, out_h, out_w)

        def look(dummy):
            along, down, right = dummy.strides
            strides = (along, f.dy * down, f.dx * right, f.sy * down, f.sx * right)
            return np.lib.stride_tricks.as_strided(dummy, shape, strides)

        return b.view_like(x, look)

    def forward(b, node, xs):
        y = b.copy(Im2Col.patches(b, node, xs[0]))
        return [b.reshape(y, node.out_shapes[0])]

    def backward(b, node, xs, ys, gys, wanted):
        n, c, h, w = xs[0].shape
        places, beyond = Im2Col.places(node)
        t, gx = b.constant(places), b.new(xs[0].shape, xs[0].dtype)
        gy = b.reshape(gys[0], (n * c, t.size, 1))
        b.emit("scatter_add", [gy, t], [b.reshape(gx, (n * c, h * w, 1))], (0, 1, beyond))
        return [gx]


#: Modes of `resize`.
_CORNERS, _BORDERS, _NEAREST = range(3)


@function(BASE + "resize_images.ResizeImages")
class ResizeImages(FunctionRow):
    """Another size, by linear interpolation or from the nearest pixel."""

    linear = True

    def mode(node) -> tuple[int]:
        f = node.function
        if f.mode == "nearest":
            return (_NEAREST,)
        return (_CORNERS if f.align_corners else _BORDERS,)

    def forward(b, node, xs):
        x, y = xs[0], b.new(node.out_shapes[0], xs[0].dtype)
        b.emit("resize", [_images(b, x)], [_images(b, y)], ResizeImages.mode(node))
        return [y]

    def backward(b, node, xs, ys, gys, wanted):
        gx = b.new(xs[0].shape, xs[0].dtype)
        b.emit("resize_grad", [_images(b, gys[0])], [_images(b, gx)], ResizeImages.mode(node))
        return [gx]


def _images(b: Builder, x: Row) -> Row:
    return b.reshape(x, (x.shape[0] * x.shape[1], *x.shape[2:]))
