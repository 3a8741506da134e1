"""Function rows for the losses of chainer.functions.loss that look at covariances."""

from __future__ import annotations

from sdbr.functions.matmul import product
from sdbr.functions.registry import FunctionRow, function

import numpy as np

BASE = "chainer.functions.loss."


def _centered(b, x):
    return b.elementwise("subtract", x, b.reduce("mean", x, (0,), keepdims=True))


def _over(b, x, n: int):
    return b.elementwise("div_constant", x, floats=(float(n),))


def _half_squared_sum(b, x):
    flat = b.reshape(b.elementwise("square", x), (x.size,))
    return b.elementwise("mul_constant", b.reduce("sum", flat, (0,)), floats=(0.5,))


def _without_diagonal(b, x):
    """A matrix with zeros on its diagonal, whatever was there."""
    beside = b.constant(1 - np.eye(x.shape[0], dtype=x.dtype))
    half = b.constant(x.dtype.type(0.5))
    return b.elementwise("where_ge", beside, half, x)


class _Covariance(FunctionRow):
    """What both have in common: the covariance itself, or half its squared norm."""

    @classmethod
    def forward(cls, b, node, xs):
        covariance = node.state["covariance"] = cls.covariance(b, node, xs)
        if node.function.reduce == "half_squared_sum":
            return [_half_squared_sum(b, covariance)]
        return [covariance]

    @staticmethod
    def grads(b, node, gy, n: int, gradient, covariance=None):
        """What ``gradient(weights)`` makes of the gradient of the covariance, divided by n.

        The one of half its norm comes in last, as in define-by-run: where it is infinite, so is
        the result.
        """
        gy = _over(b, gy, n)
        if node.function.reduce != "half_squared_sum":
            return gradient(gy)
        return b.elementwise("multiply", gradient(covariance or node.state["covariance"]), gy)


@function(BASE + "decov.DeCov")
class DeCov(_Covariance):
    """Covariance of the features without its diagonal, or half its squared norm."""

    def covariance(b, node, xs):
        centered = node.state["centered"] = _centered(b, xs[0])
        product_ = _without_diagonal(b, product(b, centered, 1, centered, 0))
        return _over(b, product_, xs[0].shape[0])

    def backward(b, node, xs, ys, gys, wanted):
        h = xs[0]
        centered = node.state["centered"] if node.may_change(b, h) else _centered(b, h)

        def gradient(weights):
            if node.function.reduce == "half_squared_sum":
                weights = b.elementwise("mul_constant", weights, floats=(2.0,))
            else:
                weights = _without_diagonal(b, weights)
                weights = b.elementwise("add", weights, b.transpose(weights))
            return product(b, centered, 0, weights, 0)

        return [DeCov.grads(b, node, gys[0], h.shape[0], gradient)]


@function(BASE + "cross_covariance.CrossCovariance")
class CrossCovariance(_Covariance):
    """Covariance of two groups of features, or half its squared norm."""

    def covariance(b, node, xs):
        y, z = (_centered(b, x) for x in xs)
        return _over(b, product(b, y, 1, z, 0), xs[0].shape[0])

    def backward(b, node, xs, ys, gys, wanted):
        grads = [None, None]
        covariance = None
        if node.may_change(b, *xs) and node.function.reduce == "half_squared_sum":
            covariance = CrossCovariance.covariance(b, node, xs)  # Chainer computes it again
        for i in wanted:
            other = _centered(b, xs[1 - i])

            def gradient(weights, other=other, trans=1 - i):
                return product(b, other, 0, weights, trans)

            n = xs[0].shape[0]
            grads[i] = CrossCovariance.grads(b, node, gys[0], n, gradient, covariance)
        return grads
