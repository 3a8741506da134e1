"""Rows for chainer.functions.evaluation."""

from __future__ import annotations

from sdbr.functions.common import label_layout, label_reason
from sdbr.functions.registry import FunctionRow, function


@function("chainer.functions.evaluation.accuracy.Accuracy")
class Accuracy(FunctionRow):
    """Share of samples whose largest score is the label; it has no gradient."""

    def reason(node):
        return label_reason(node)

    def forward(b, node, xs):
        x, t = xs
        ignore = node.function.ignore_label
        y = b.new((), x.dtype)
        x_shape, t_shape = label_layout(x, t)
        attributes = (0, 0) if ignore is None else (1, int(ignore))
        b.emit("accuracy", [b.reshape(x, x_shape), b.reshape(t, t_shape)], [y], attributes)
        return [y]

    def backward(b, node, xs, ys, gys, wanted):
        return [None, None]
