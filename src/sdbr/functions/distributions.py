"""Function rows for the function nodes of chainer.distributions."""

from __future__ import annotations

from sdbr.functions.registry import FunctionRow, float_reason, function


@function("chainer.distributions.bernoulli.BernoulliLogProb")
class BernoulliLogProb(FunctionRow):
    """Log-probability of 0 or 1 by its logit; NaN beyond, where Chainer may raise."""

    def reason(node):
        if node.in_dtypes[1].kind == "i":  # unsigned x - 1 would wrap around
            return float_reason(node, [0])
        return float_reason(node)

    def forward(b, node, xs):
        return [BernoulliLogProb.emit(b, node, "bernoulli_log_prob", xs)]

    def backward(b, node, xs, ys, gys, wanted):
        if 0 not in wanted:
            return [None, None]
        g = BernoulliLogProb.emit(b, node, "bernoulli_log_prob_grad", xs, gys[0])
        return [b.sum_to(g, xs[0].shape), None]

    def emit(b, node, name, xs, *gys):
        logit, x = xs
        check = float(bool(node.function.binary_check))
        return b.elementwise(name, logit, b.cast(x, logit.dtype), *gys, floats=(check,))
