"""Rows for chainer.functions.noise."""

from __future__ import annotations

from sdbr.functions.registry import FunctionRow, float_reason, function


@function("chainer.functions.noise.dropout.Dropout")
class Dropout(FunctionRow):
    """Scaled random mask, drawn in NumPy's order; or the mask that the caller gave."""

    diagonal = True
    draws = True

    arrays = states = ("mask",)
    scalars = ("dropout_ratio",)

    def reason(node):
        reason = float_reason(node)
        if reason is not None:
            return reason
        mask = node.function.mask
        if mask is not None and (mask.dtype, mask.shape) != (node.in_dtypes[0], node.in_shapes[0]):
            return f"a mask of dtype {mask.dtype.name} and shape {mask.shape}"
        return None

    def forward(b, node, xs):
        x = xs[0]
        if node.function.mask is not None:
            mask = node.array(b, "mask", x.dtype)
            y = b.elementwise("multiply", x, mask)
        else:
            y, mask = b.new(x.shape, x.dtype), b.new(x.shape, x.dtype)
            b.emit("dropout", [b.contiguous(x)], [y, mask], floats=(node.scalar("dropout_ratio"),))
        node.state["mask"] = mask
        return [y]

    def backward(b, node, xs, ys, gys, wanted):
        return [b.elementwise("multiply", gys[0], node.state["mask"])]
