"""Function rows for chainer.functions.evaluation: nothing of it has a gradient."""

from __future__ import annotations

import math

from sdbr.functions.common import label_layout, label_reason
from sdbr.functions.integers import compare, compared_dtype, counted, integer, where
from sdbr.functions.registry import FunctionRow, float_reason, function

import numpy as np

BASE = "chainer.functions.evaluation."
F8, I8 = np.dtype("f8"), np.dtype("i8")


class _Evaluation(FunctionRow):
    def backward(b, node, xs, ys, gys, wanted):
        return [None] * len(xs)


@function(BASE + "accuracy.Accuracy")
class Accuracy(_Evaluation):
    """Share of samples whose largest score is the label; it has no gradient."""

    half = True

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


@function(BASE + "binary_accuracy.BinaryAccuracy")
class BinaryAccuracy(_Evaluation):
    """Share of scores on the side of 0 that the label says; label -1 is left out."""

    def reason(node):
        reason = label_reason(node)
        if reason is None and compared_dtype(node.in_dtypes[1]) is None:
            reason = f"labels of dtype {node.in_dtypes[1].name} have no native kernels"
        return reason

    def forward(b, node, xs):
        x = b.reshape(xs[0], (xs[0].size,))
        t = b.cast(b.reshape(xs[1], (xs[1].size,)), compared_dtype(xs[1].dtype))
        positive = b.cast(compare(b, "ge", x, b.constant(x.dtype.type(0))), t.dtype)
        right = counted(b, compare(b, "eq", positive, t), (0,), F8)
        ignored = b.constant(t.dtype.type(node.function.ignore_label))
        valid = counted(b, compare(b, "ne", t, ignored), (0,), F8)
        valid = b.elementwise("maximum", valid, b.constant(F8.type(1)))
        return [b.cast(b.elementwise("divide", right, valid), x.dtype)]


@function(BASE + "r2_score.R2_score")
class R2Score(_Evaluation):
    """One minus the squared error over the variance of the truth; 0 where that is 0."""

    def reason(node):
        if 0 in node.in_shapes[0] or not node.in_shapes[0]:
            return "a score of nothing"
        return float_reason(node)

    def forward(b, node, xs):
        predicted, true = xs
        wrong = b.reduce("sum", _squared(b, predicted, true), (0,))
        mean = b.reduce("mean", true, (0,), keepdims=True)
        spread = b.reduce("sum", _squared(b, true, mean), (0,))
        zero, one = (b.constant(true.dtype.type(v)) for v in (0, 1))
        flat = compare(b, "eq", spread, zero)
        share = b.elementwise("divide", wrong, where(b, flat, one, spread))
        score = where(b, flat, zero, b.elementwise("rsub_constant", share, floats=(1.0,)))
        if node.function.multioutput == "uniform_average":
            score = b.reduce("mean", score, range(score.ndim))
        return [score]


def _squared(b, x, y):
    return b.elementwise("square", b.elementwise("subtract", x, y))


@function(BASE + "classification_summary.ClassificationSummary")
class ClassificationSummary(_Evaluation):
    """Precision, recall, F-beta and number of samples of each class."""

    checks = True

    def reason(node):
        if node.function.label_num is None:
            return "the number of classes is found in the labels"
        if math.prod(node.in_shapes[1]) == 0:
            return "a summary of nothing"
        return label_reason(node)

    def forward(b, node, xs):
        f = node.function
        x, t = xs
        n = int(f.label_num)
        x_shape = (*x.shape[:2], math.prod(t.shape[1:]))
        found = b.new((x_shape[0], x_shape[2]), "i4")
        b.emit("argmax", [b.reshape(x, x_shape)], [found])
        found = b.cast(b.reshape(found, (t.size,)), I8)
        # Chainer looks at labels as at int32.
        true = b.cast(b.reshape(b.cast(t, np.int32), (t.size,)), I8)
        none, left_out = (b.constant(I8.type(v)) for v in (n, f.ignore_label))
        ignored = compare(b, "eq", true, left_out)
        found, true = (where(b, ignored, none, row) for row in (found, true))
        hit = where(b, compare(b, "eq", found, true), true, none)
        support, relevant, hits = (_histogram(b, row, n) for row in (true, found, hit))
        precision = b.elementwise("divide", hits, relevant)
        recall = b.elementwise("divide", hits, support)
        square = float(f.beta) * float(f.beta)
        above = b.elementwise("mul_constant", precision, floats=(1 + square,))
        above = b.elementwise("multiply", above, recall)
        below = b.elementwise("mul_constant", precision, floats=(square,))
        score = b.elementwise("divide", above, b.elementwise("add", below, recall))
        made = (precision, recall, score, support)
        return [b.cast(row, dtype) for row, dtype in zip(made, node.out_dtypes, strict=True)]


def _histogram(b, labels, n: int):
    """How often each label below `n` comes, as float64; larger ones are not counted.

    Negative ones raise `IndexError`, for they would count from the end.
    """
    beyond = b.constant(I8.type(n))
    wrong = compare(b, "lt", labels, b.constant(I8.type(0)))
    places = where(b, wrong, b.constant(I8.type(n + 1)), integer(b, "min", labels, beyond))
    counts = b.new((n + 1,), F8)
    ones = b.broadcast(b.constant(F8.type(1)), (1, labels.size, 1))
    to = b.reshape(counts, (1, n + 1, 1))
    b.emit("scatter_add", [b.contiguous(ones), places], [to], (0, 0, 0))
    return b.slice(counts, slice(0, n))
