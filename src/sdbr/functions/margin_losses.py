"""Function rows for the losses of chainer.functions.loss that look at margins."""

from __future__ import annotations

from sdbr.functions.common import is_number, label_reason, number_reason
from sdbr.functions.registry import FunctionRow, float_reason, function

BASE = "chainer.functions.loss."
#: What Chainer puts in the place of a distance that it divides by.
LEAST_DISTANCE = 1e-7


def _mean_over_samples(b, node, loss):
    """The losses themselves, or their sum over the number of samples."""
    if node.function.reduce != "mean":
        return loss
    total = b.reduce("sum", loss, range(loss.ndim))
    return b.elementwise("div_constant", total, floats=(float(loss.shape[0]),))


def _per_sample(b, node, gy, n: int):
    """The gradient of each sample's loss."""
    if node.function.reduce != "mean":
        return gy
    return b.broadcast(b.elementwise("div_constant", gy, floats=(float(n),)), (n,))


def _columns(b, row, width: int):
    """One number per sample, repeated over its features (a view)."""
    return b.broadcast(b.reshape(row, (row.shape[0], 1)), (row.shape[0], width))


@function(BASE + "contrastive.Contrastive")
class Contrastive(FunctionRow):
    """Squared distance of pairs that belong together, squared lack of margin of the others."""

    scalars = ("margin",)

    def reason(node):
        if not is_number(node.function.margin):
            return f"margin is of type {type(node.function.margin).__name__}"
        return float_reason(node, [0, 1])

    def forward(b, node, xs):
        x0, x1, y = xs
        diff = b.elementwise("subtract", x0, x1)
        square = b.reduce("sum", b.elementwise("square", diff), (1,))
        lack = Contrastive.lack(b, node, b.elementwise("sqrt", square))
        same, other = Contrastive.kinds(b, y, x0.dtype)
        near = b.elementwise("multiply", same, square)
        far = b.elementwise("multiply", other, b.elementwise("square", lack))
        loss = b.elementwise("mul_constant", b.elementwise("add", near, far), floats=(0.5,))
        node.state["square"] = square
        return [_mean_over_samples(b, node, loss)]

    def backward(b, node, xs, ys, gys, wanted):
        x0, x1, y = xs
        n, width = x0.shape
        same, other = Contrastive.kinds(b, y, x0.dtype)
        square = node.state["square"]
        if node.may_change(b, x0, x1):  # Chainer computes it again
            again = b.elementwise("square", b.elementwise("subtract", x0, x1))
            square = b.reduce("sum", again, (1,))
        distance = b.elementwise("sqrt", square)
        least = b.constant(x0.dtype.type(LEAST_DISTANCE))
        g = _per_sample(b, node, gys[0], n)
        near = b.elementwise("multiply", g, same)
        far = b.elementwise("multiply", g, other)
        far = b.elementwise("multiply", far, Contrastive.lack(b, node, distance))
        # Sample by sample in this order, as in define-by-run: infinities spread alike.
        diff = b.elementwise("subtract", x0, x1)
        unit = _columns(b, b.elementwise("maximum", distance, least), width)
        apart = b.elementwise("negative", b.elementwise("divide", diff, unit))
        gx = b.elementwise(
            "add",
            b.elementwise("multiply", _columns(b, near, width), diff),
            b.elementwise("multiply", _columns(b, far, width), apart),
        )
        return [gx, b.elementwise("negative", gx) if 1 in wanted else None, None]

    def lack(b, node, distance):
        """How far a distance stays below the margin."""
        below = b.elementwise("rsub_constant", distance, floats=(node.scalar("margin"),))
        return b.elementwise("relu", below)

    def kinds(b, y, dtype):
        """The labels and one minus them, as numbers."""
        same = b.cast(y, dtype)
        return same, b.elementwise("rsub_constant", same, floats=(1.0,))


@function(BASE + "triplet.Triplet")
class Triplet(FunctionRow):
    """Squared distance to the positive less that to the negative, plus the margin, from 0 up."""

    scalars = ("margin",)

    def reason(node):
        if len(node.in_shapes[0]) != 2:
            return "samples that are not vectors"
        return number_reason(node, "margin")

    def forward(b, node, xs):
        anchor, positive, negative = xs
        near, far = (
            b.elementwise("square", b.elementwise("subtract", anchor, other))
            for other in (positive, negative)
        )
        excess = b.reduce("sum", b.elementwise("subtract", near, far), (1,))
        excess = b.elementwise("add_constant", excess, floats=(node.scalar("margin"),))
        hinge = node.state["hinge"] = b.elementwise("relu", excess)
        return [_mean_over_samples(b, node, hinge)]

    def backward(b, node, xs, ys, gys, wanted):
        anchor, positive, negative = xs
        n, width = anchor.shape
        g = b.elementwise("mul_constant", _per_sample(b, node, gys[0], n), floats=(2.0,))
        hinge = node.kept(b, node.state["hinge"])
        factor = _columns(b, b.elementwise("relu_grad", hinge, g), width)
        pairs = ((negative, positive), (positive, anchor), (anchor, negative))
        return [
            b.elementwise("multiply", factor, b.elementwise("subtract", *pair))
            if i in wanted
            else None
            for i, pair in enumerate(pairs)
        ]


@function(BASE + "hinge.Hinge")
class Hinge(FunctionRow):
    """max(0, 1 - x) of the label's score and max(0, 1 + x) of the others, or its square."""

    checks = True

    def reason(node):
        return label_reason(node)

    def forward(b, node, xs):
        hinge = b.elementwise("relu", Hinge.signed(b, xs[0], xs[1], 1.0))
        node.state["hinge"] = hinge
        loss = hinge if node.function.norm == "L1" else b.elementwise("square", hinge)
        return [_mean_over_samples(b, node, loss)]

    def backward(b, node, xs, ys, gys, wanted):
        x, t = xs
        side = Hinge.signed(b, node.kept(b, node.state["hinge"]), t)
        if node.function.norm == "L1":
            side = b.elementwise("sign", side)
        else:
            side = b.elementwise("mul_constant", side, floats=(2.0,))
        g = gys[0]
        if node.function.reduce == "mean":
            g = b.elementwise("div_constant", g, floats=(float(x.shape[0]),))
        return [b.elementwise("multiply", side, g), None]

    def signed(b, x, t, shift: float = 0.0):
        """`x` with the score of each label negated, plus `shift`."""
        y = b.new(x.shape, x.dtype)
        b.emit("negate_item", [b.contiguous(x), b.contiguous(t)], [y])
        return b.elementwise("add_constant", y, floats=(shift,)) if shift else y
