"""Function row for chainer.functions.connectionist_temporal_classification."""

from __future__ import annotations

from sdbr.functions.registry import FunctionRow, float_reason, function

import numpy as np


@function("chainer.functions.loss.ctc.ConnectionistTemporalClassification")
class ConnectionistTemporalClassification(FunctionRow):
    """All paths through the labels, in the logarithm; inputs are lengths, labels and scores.

    In float32 the logarithms of long sequences are coarse, here as in Chainer: at 600 steps the
    gradients of either are off by a thousandth of the largest.
    """

    checks = True

    def reason(node):
        reason = float_reason(node, [3])
        if reason is None and any(d != np.int32 for d in node.in_dtypes[:3]):
            reason = "lengths or labels that are not int32"
        if reason is None and 0 in node.in_shapes[3]:
            reason = "no scores"
        return reason

    def forward(b, node, xs):
        n, m, t, x = (b.contiguous(r) for r in xs)
        times, batch, _ = x.shape
        loss, y = b.new((batch,), x.dtype), b.new(x.shape, x.dtype)
        paths = b.new((times, batch, 2 * t.shape[1] + 1), x.dtype)
        blank = (int(node.function.blank_symbol),)
        b.emit("ctc", [x, n, m, t], [loss, y, paths], blank)
        node.state.update(y=y, paths=paths)
        return [b.reduce("mean", loss, (0,)) if node.function.reduce == "mean" else loss]

    def backward(b, node, xs, ys, gys, wanted):
        # Chainer keeps the paths and their lengths, and reads the lengths of the inputs again.
        n, (m, t) = b.contiguous(xs[0]), (b.contiguous(node.kept(b, r)) for r in xs[1:3])
        x, gloss = xs[3], gys[0]
        if node.function.reduce == "mean":
            gloss = b.elementwise("div_constant", gloss, floats=(float(x.shape[1]),))
            gloss = b.broadcast(gloss, (x.shape[1],))
        gx = b.new(x.shape, x.dtype)
        blank = (int(node.function.blank_symbol),)
        ins = [node.state["y"], node.state["paths"], n, m, t, b.contiguous(gloss)]
        b.emit("ctc_grad", ins, [gx], blank)
        return [None, None, None, gx]
