"""Function rows for chainer.functions.noise, and F.rrelu."""

from __future__ import annotations

from sdbr.devices.arrays import ARRAYS
from sdbr.functions.common import number_reason
from sdbr.functions.matmul import product
from sdbr.functions.registry import FunctionRow, float_reason, function

import numpy as np

BASE = "chainer.functions.noise."


def given_reason(node, name: str) -> str | None:
    """Why an array that the caller gave instead of a draw cannot be used, or None."""
    given = getattr(node.function, name)
    if given is not None and (given.dtype, given.shape) != (node.in_dtypes[0], node.in_shapes[0]):
        return f"a {name} of dtype {given.dtype.name} and shape {given.shape}"
    return None


@function(BASE + "dropout.Dropout")
class Dropout(FunctionRow):
    """Scaled random mask, drawn in NumPy's order; or the mask that the caller gave."""

    diagonal = True
    draws = draws_once = half = True

    arrays = states = ("mask",)
    scalars = ("dropout_ratio",)

    def reason(node):
        return float_reason(node) or given_reason(node, "mask")

    def forward(b, node, xs):
        x = xs[0]
        if node.function.mask is not None:
            mask = node.array(b, "mask", x.dtype)
            y = b.elementwise("multiply", x, mask)
        else:
            y, mask = b.new(x.shape, x.dtype), b.new(x.shape, x.dtype)
            b.emit("dropout", [b.contiguous(x)], [y, mask], floats=(node.scalar("dropout_ratio"),))
            rounded = node.rounded(b, mask)
            if rounded is not mask:
                y, mask = b.elementwise("multiply", x, rounded), rounded
        node.state["mask"] = mask
        return [y]

    def backward(b, node, xs, ys, gys, wanted):
        return [b.elementwise("multiply", gys[0], node.state["mask"])]


class NormalDraw:
    """Standard normal numbers, drawn by NumPy: its generator keeps a spare one of its own."""

    label = "Gaussian"

    def __call__(self, memory, ins, outs) -> None:
        outs[0][...] = np.random.standard_normal(outs[0].shape)


@function(BASE + "gaussian.Gaussian")
class Gaussian(FunctionRow):
    """mean + exp(ln_var / 2) * eps; NumPy draws eps in a Python op, or the caller gave it."""

    draws = True

    arrays = states = ("eps",)

    def reason(node):
        return float_reason(node) or given_reason(node, "eps")

    def forward(b, node, xs):
        mean, ln_var = xs
        if node.function.eps is not None:
            eps = node.array(b, "eps", mean.dtype)
        else:
            eps = b.new(ln_var.shape, mean.dtype)
            b.emit("python", [], [eps], ints=(0, 0), obj=NormalDraw())
            node.python = "the normal draw is NumPy's; all else is native"
        half = b.elementwise("mul_constant", ln_var, floats=(0.5,))
        noise = b.elementwise("multiply", b.elementwise("exp", half), eps)
        node.state.update(eps=eps, noise=noise)
        return [b.elementwise("add", mean, noise)]

    def backward(b, node, xs, ys, gys, wanted):
        grads = [gys[0], None]
        if 1 in wanted:
            noise, eps = node.state["noise"], node.state["eps"]
            if node.may_change(b, xs[1], eps):  # Chainer computes the noise again
                half = b.elementwise("mul_constant", xs[1], floats=(0.5,))
                noise = b.elementwise("multiply", b.elementwise("exp", half), eps)
            g = b.elementwise("multiply", gys[0], noise)
            grads[1] = b.elementwise("mul_constant", g, floats=(0.5,))
        return grads


@function(BASE + "zoneout.Zoneout")
class Zoneout(FunctionRow):
    """h where a uniform number is below the ratio, else x: a mask, drawn in NumPy's order."""

    draws = True
    scalars = ("zoneout_ratio",)

    def reason(node):
        if len(set(node.in_shapes)) > 1:
            return "inputs of different shapes"
        return number_reason(node, "zoneout_ratio")

    def forward(b, node, xs):
        x = xs[1]
        mask = node.state["mask"] = b.new(x.shape, x.dtype)
        b.emit("keep_mask", [], [mask], floats=(node.scalar("zoneout_ratio"),))
        parts = [
            b.elementwise("multiply", part, flag)
            for part, flag in zip(xs, Zoneout.flags(b, mask), strict=True)
        ]
        return [b.elementwise("add", *parts)]

    def backward(b, node, xs, ys, gys, wanted):
        flags = Zoneout.flags(b, node.state["mask"])
        return [
            b.elementwise("multiply", gys[0], flag) if i in wanted else None
            for i, flag in enumerate(flags)
        ]

    def flags(b, mask):
        """Factors of h and of x."""
        return b.elementwise("rsub_constant", mask, floats=(1.0,)), mask


@function(BASE + "simplified_dropconnect.SimplifiedDropconnect")
class SimplifiedDropconnect(FunctionRow):
    """A linear function whose weights are dropped, for each sample or for all alike."""

    draws = True
    arrays = ("mask",)

    def reason(node):
        f, (x, w) = node.function, node.in_shapes[:2]
        if f.mask is not None:
            shape = (x[0], *w) if f.use_batchwise_mask else w
            if not isinstance(f.mask, ARRAYS):
                return f"a mask of type {type(f.mask).__name__}"
            if f.mask.shape != shape or f.mask.dtype not in (node.in_dtypes[0], np.bool_):
                return f"a mask of dtype {f.mask.dtype.name} and shape {f.mask.shape}"
        return number_reason(node, "ratio")

    def forward(b, node, xs):
        f, (x, w) = node.function, xs[:2]
        n, m = x.shape[0], w.shape[0]
        if f.mask is not None:
            mask = node.array(b, "mask", w.dtype)
        else:
            mask = b.new((n, *w.shape) if f.use_batchwise_mask else w.shape, w.dtype)
            b.emit("keep_mask", [], [mask], floats=(float(f.ratio),))
        scaled = b.elementwise("mul_constant", w, floats=(SimplifiedDropconnect.scale(node),))
        weights = b.elementwise("multiply", scaled, mask)
        node.state.update(mask=mask, weights=weights)
        flat = SimplifiedDropconnect.flat(b, x)
        if weights.ndim == 3:
            y = b.reshape(product(b, weights, 0, b.reshape(flat, (n, w.shape[1], 1)), 0), (n, m))
        else:
            y = product(b, flat, 0, weights, 1)
        return [y if len(xs) == 2 else b.elementwise("add", y, xs[2])]

    def backward(b, node, xs, ys, gys, wanted):
        (x, w), gy = xs[:2], b.contiguous(gys[0])
        mask, weights = node.state["mask"], node.state["weights"]
        if node.may_change(b, w, mask):  # Chainer computes the weights again
            scaled = b.elementwise("mul_constant", w, floats=(SimplifiedDropconnect.scale(node),))
            weights = b.elementwise("multiply", scaled, mask)
        flat = SimplifiedDropconnect.flat(b, x)
        (n, m), k = gy.shape, w.shape[1]
        grads = [None] * len(xs)
        if 0 in wanted:
            if weights.ndim == 3:
                gx = product(b, b.reshape(gy, (n, 1, m)), 0, weights, 0)
            else:
                gx = product(b, gy, 0, weights, 0)
            grads[0] = b.reshape(gx, x.shape)
        if 1 in wanted:
            if weights.ndim == 3:
                outer = b.elementwise(
                    "multiply", b.reshape(gy, (n, m, 1)), b.reshape(flat, (n, 1, k))
                )
                gw = b.reduce("sum", b.elementwise("multiply", outer, mask), (0,))
            else:
                gw = b.elementwise("multiply", product(b, gy, 1, flat, 0), mask)
            scale = SimplifiedDropconnect.scale(node)
            grads[1] = b.elementwise("mul_constant", gw, floats=(scale,))
        if 2 in wanted:
            grads[2] = b.reduce("sum", gy, (0,))
        return grads

    def scale(node):
        return 1.0 / (1 - float(node.function.ratio))

    def flat(b, x):
        """One row per sample."""
        return b.reshape(x, (x.shape[0], int(np.prod(x.shape[1:]))))


@function("chainer.functions.activation.rrelu.RReLU")
class RReLU(FunctionRow):
    """x, or r * x where x < 0: r drawn in NumPy's order, given, or the middle when testing."""

    diagonal = True
    draws = True
    arrays = states = ("r",)

    def reason(node):
        return number_reason(node, "lower", "upper") or given_reason(node, "r")

    def forward(b, node, xs):
        f, x = node.function, xs[0]
        if not node.train:
            r = b.fill(x.shape, x.dtype, (float(f.lower) + float(f.upper)) / 2)
        elif f.r is not None:
            r = node.array(b, "r", x.dtype)
        else:
            r = b.new(x.shape, x.dtype)
            b.emit("uniform", [], [r], floats=(float(f.lower), float(f.upper)))
        node.state["r"] = r
        return [b.elementwise("rrelu", x, r)]

    def backward(b, node, xs, ys, gys, wanted):
        return [b.elementwise("rrelu_grad", ys[0], node.state["r"], gys[0])]


@function("chainer.functions.activation.rrelu._RReLUGrad")
class RReLUGrad(FunctionRow):
    """gx = gy, or r * gy where the output is below 0."""

    arrays = ("y", "r")

    def reason(node):
        return float_reason(node) or given_reason(node, "y") or given_reason(node, "r")

    def forward(b, node, xs):
        y, r = (node.array(b, name, xs[0].dtype) for name in ("y", "r"))
        return [b.elementwise("rrelu_grad", y, r, xs[0])]

    def backward(b, node, xs, ys, gys, wanted):
        return RReLUGrad.forward(b, node, gys)
