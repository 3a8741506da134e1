"""Function row for chainer.functions.negative_sampling."""

from __future__ import annotations

from sdbr.base.errors import NotStaticError
from sdbr.functions.integers import compare, where
from sdbr.functions.matmul import product
from sdbr.functions.registry import FunctionRow, float_reason, function

import numpy as np


class Samples:
    """Draws the negative examples, and puts the labels in front: the sampler is Python code."""

    label = "NegativeSamplingFunction"

    def __init__(self, sampler, known: bool):
        self.sampler = sampler
        self.known = known

    def __call__(self, memory, ins, outs) -> None:
        samples = self.sampler(outs[0].shape)
        if self.known and samples.dtype != outs[0].dtype:
            raise NotStaticError(
                f"the samples were of dtype {outs[0].dtype.name} while tracing and are of "
                f"{samples.dtype.name} now"
            )
        samples[:, 0] = ins[0]
        outs[0][...] = samples


@function("chainer.functions.loss.negative_sampling.NegativeSamplingFunction")
class NegativeSampling(FunctionRow):
    """Logistic loss of each label and of samples that are none; only the sampler runs in Python."""

    checks = True
    draws = True
    states = ("samples",)

    def reason(node):
        return float_reason(node, [0, 2])

    def forward(b, node, xs):
        f, (x, t, w) = node.function, xs
        shape = (x.shape[0], f.sample_size + 1)
        known = len(node.out_dtypes) == 2
        samples = b.new(shape, node.out_dtypes[1] if known else np.int64)
        b.emit("python", [t], [samples], ints=(0, 1), obj=Samples(f.sampler, known))
        node.python = "its sampler is Python code; all else is native"
        rows = NegativeSampling.rows(b, w, samples)
        scores = b.reshape(product(b, rows, 0, b.reshape(x, (*x.shape, 1)), 0), shape)
        scores = b.elementwise("multiply", scores, NegativeSampling.signs(b, x.dtype, shape[1]))
        node.state.update(samples=samples, scores=scores)
        loss = b.reduce("sum", b.elementwise("softplus", scores, floats=(1.0,)), (1,))
        loss = where(b, NegativeSampling.valid(b, node, t), loss, b.constant(x.dtype.type(0)))
        return [b.reduce("sum", loss, (0,)) if f.reduce == "sum" else loss]

    def backward(b, node, xs, ys, gys, wanted):
        x, t, w = xs
        samples, scores = node.state["samples"], node.state["scores"]
        n, k = scores.shape
        if node.may_change(b, x, w, samples):  # Chainer computes the scores again
            rows = NegativeSampling.rows(b, w, samples)
            scores = b.reshape(product(b, rows, 0, b.reshape(x, (*x.shape, 1)), 0), (n, k))
            scores = b.elementwise("multiply", scores, NegativeSampling.signs(b, x.dtype, k))
        # Which labels are left out Chainer keeps.
        valid = b.reshape(NegativeSampling.valid(b, node, node.kept(b, t)), (n, 1))
        gloss = gys[0] if node.function.reduce == "sum" else b.reshape(gys[0], (n, 1))
        odds = b.elementwise("exp", b.elementwise("negative", scores))
        g = b.elementwise("divide", gloss, b.elementwise("add_constant", odds, floats=(1.0,)))
        g = b.elementwise("multiply", g, NegativeSampling.signs(b, x.dtype, k))
        grads = [None, None, None]
        if 0 in wanted:
            rows = NegativeSampling.rows(b, w, samples)
            gx = b.reshape(product(b, b.reshape(g, (n, 1, k)), 0, rows, 0), x.shape)
            grads[0] = where(b, valid, gx, b.constant(x.dtype.type(0)))
        if 2 in wanted:
            outer = b.elementwise(
                "multiply", b.reshape(g, (n, k, 1)), b.reshape(x, (n, 1, x.shape[1]))
            )
            # No row of W has this number: what is left out adds nothing, not even NaN.
            nowhere = w.shape[0]
            places = where(b, valid, samples, b.constant(samples.dtype.type(nowhere)))
            grads[2] = b.new(w.shape, w.dtype)
            b.emit(
                "scatter_add",
                [b.reshape(outer, (1, n * k, x.shape[1])), b.reshape(places, (n * k,))],
                [b.reshape(grads[2], (1, *w.shape))],
                (0, 1, nowhere),
            )
        return grads

    def rows(b, w, samples):
        """The rows of W for each sample."""
        (n, k), width = samples.shape, w.shape[1]
        rows = b.new((n, k, width), w.dtype)
        to = b.reshape(rows, (1, n * k, width))
        flat = b.reshape(samples, (n * k,))
        b.emit("take", [b.reshape(w, (1, *w.shape)), flat], [to], (0, 0))
        return rows

    def signs(b, dtype, k: int):
        """Minus one for the label, one for the others."""
        return b.constant(np.array([-1] + [1] * (k - 1), dtype))

    def valid(b, node, t):
        """Where the label counts."""
        return compare(b, "ne", t, b.constant(t.dtype.type(node.function.ignore_label)))
