"""Function rows for mathematics of one or two arguments, and activations made of it."""

from __future__ import annotations

import math

from sdbr.functions.registry import FunctionRow, float_reason, function

import numpy as np

MATH = "chainer.functions.math."
ACTIVATION = "chainer.functions.activation."


class _Unary(FunctionRow):
    """y = f(x), element by element."""

    name = ""

    @classmethod
    def forward(cls, b, node, xs):
        return [b.elementwise(cls.name, xs[0])]


class _Gaussian(_Unary):
    """The gradient is a multiple of exp of a multiple of x * x."""

    factor = 0.0
    scale = -1.0

    @classmethod
    def backward(cls, b, node, xs, ys, gys, wanted):
        return [b.elementwise("gauss_grad", xs[0], gys[0], floats=(cls.factor, cls.scale))]


@function(MATH + "erf.Erf")
class Erf(_Gaussian):
    """Error function."""

    name, factor = "erf", 2 / math.pi**0.5
    transparent = True


@function(MATH + "erfc.Erfc")
class Erfc(_Gaussian):
    """Complementary error function."""

    name, factor = "erfc", -2 / math.pi**0.5


@function(MATH + "ndtr.Ndtr")
class Ndtr(_Gaussian):
    """Cumulative distribution function of the normal distribution."""

    name, factor, scale = "ndtr", (2 * math.pi) ** -0.5, -0.5


@function(MATH + "log_ndtr.LogNdtr")
class LogNdtr(_Unary):
    """Logarithm of the distribution function of the normal distribution."""

    name = "log_ndtr"

    def backward(b, node, xs, ys, gys, wanted):
        return [b.elementwise("log_ndtr_grad", xs[0], gys[0])]


@function(MATH + "exponential_m1.Expm1")
class Expm1(_Unary):
    """exp(x) - 1."""

    name = "expm1"
    transparent = True

    def backward(b, node, xs, ys, gys, wanted):
        y1 = b.elementwise("add_constant", ys[0], floats=(1.0,))
        return [b.elementwise("multiply", y1, gys[0])]


@function(MATH + "logarithm_1p.Log1p")
class Log1p(_Unary):
    """log(1 + x)."""

    name = "log1p"
    transparent = True

    def backward(b, node, xs, ys, gys, wanted):
        x1 = b.elementwise("add_constant", xs[0], floats=(1.0,))
        return [b.elementwise("divide", gys[0], x1)]


class _Logarithm(_Unary):
    base = 0

    @classmethod
    def backward(cls, b, node, xs, ys, gys, wanted):
        share = b.elementwise("divide", gys[0], xs[0])
        return [b.elementwise("mul_constant", share, floats=(1 / math.log(cls.base),))]


@function(MATH + "exponential.Log2")
class Log2(_Logarithm):
    """Logarithm to the base 2."""

    name, base = "log2", 2


@function(MATH + "exponential.Log10")
class Log10(_Logarithm):
    """Logarithm to the base 10."""

    name, base = "log10", 10


class _Other(_Unary):
    """The gradient is another function of x times gy."""

    other = ""
    sign = ""

    @classmethod
    def backward(cls, b, node, xs, ys, gys, wanted):
        slope = b.elementwise(cls.other, xs[0])
        if cls.sign:
            slope = b.elementwise(cls.sign, slope)
        return [b.elementwise("multiply", slope, gys[0])]


@function(MATH + "hyperbolic.Sinh")
class Sinh(_Other):
    """Hyperbolic sine."""

    name, other = "sinh", "cosh"
    transparent = True


@function(MATH + "hyperbolic.Cosh")
class Cosh(_Other):
    """Hyperbolic cosine."""

    name, other = "cosh", "sinh"
    transparent = True


@function(MATH + "trigonometric.Sin")
class Sin(_Other):
    """Sine."""

    name, other = "sin", "cos"
    transparent = True


@function(MATH + "trigonometric.Cos")
class Cos(_Other):
    """Cosine."""

    name, other, sign = "cos", "sin", "negative"
    transparent = True


@function(MATH + "trigonometric.Tan")
class Tan(_Unary):
    """Tangent."""

    name = "tan"
    transparent = True

    def backward(b, node, xs, ys, gys, wanted):
        square = b.elementwise("square", b.elementwise("cos", xs[0]))
        return [b.elementwise("divide", gys[0], square)]


def _one_minus_square(b, x):
    return b.elementwise("rsub_constant", b.elementwise("square", x), floats=(1.0,))


@function(MATH + "trigonometric.Arcsin")
class Arcsin(_Unary):
    """Inverse of the sine."""

    name = "arcsin"
    transparent = True

    def backward(b, node, xs, ys, gys, wanted):
        return [b.elementwise("divide", gys[0], b.elementwise("sqrt", _one_minus_square(b, xs[0])))]


@function(MATH + "trigonometric.Arccos")
class Arccos(_Unary):
    """Inverse of the cosine."""

    name = "arccos"
    transparent = True

    def backward(b, node, xs, ys, gys, wanted):
        return [b.elementwise("negative", g) for g in Arcsin.backward(b, node, xs, ys, gys, wanted)]


@function(MATH + "trigonometric.Arctan")
class Arctan(_Unary):
    """Inverse of the tangent."""

    name = "arctan"
    transparent = True

    def backward(b, node, xs, ys, gys, wanted):
        square = b.elementwise("square", xs[0])
        return [
            b.elementwise("divide", gys[0], b.elementwise("add_constant", square, floats=(1.0,)))
        ]


@function(MATH + "arctanh.Arctanh")
class Arctanh(_Unary):
    """Inverse of the hyperbolic tangent."""

    name = "arctanh"

    def backward(b, node, xs, ys, gys, wanted):
        return [b.elementwise("divide", gys[0], _one_minus_square(b, xs[0]))]


def _same_shape_reason(node):
    if len(set(node.in_shapes)) > 1:
        return "inputs of different shapes"
    return float_reason(node)


@function(MATH + "trigonometric.Arctan2")
class Arctan2(FunctionRow):
    """Angle of the point (x2, x1)."""

    def reason(node):
        return _same_shape_reason(node)

    def forward(b, node, xs):
        return [b.elementwise("arctan2", *xs)]

    def backward(b, node, xs, ys, gys, wanted):
        x1, x2 = xs
        norm = b.elementwise("add", b.elementwise("square", x1), b.elementwise("square", x2))
        share = b.elementwise("divide", gys[0], norm)
        gx1 = b.elementwise("multiply", x2, share) if 0 in wanted else None
        gx2 = None
        if 1 in wanted:
            gx2 = b.elementwise("negative", b.elementwise("multiply", x1, share))
        return [gx1, gx2]


@function(MATH + "fmod.Fmod")
class Fmod(FunctionRow):
    """Rest of the division, with the sign of x."""

    def reason(node):
        return _same_shape_reason(node)

    def forward(b, node, xs):
        return [b.elementwise("fmod", *xs)]

    def backward(b, node, xs, ys, gys, wanted):
        gx = gys[0] if 0 in wanted else None
        if 1 not in wanted:
            return [gx, None]
        times = b.elementwise("trunc", b.elementwise("divide", *xs))
        return [gx, b.elementwise("multiply", b.elementwise("negative", times), gys[0])]


# --- gamma function, inverses of erf -----------------------------------------------------------
@function(MATH + "digamma.DiGamma")
class DiGamma(_Other):
    """Derivative of the logarithm of the gamma function."""

    name, other = "digamma", "trigamma"


@function(MATH + "lgamma.LGamma")
class LGamma(_Other):
    """Logarithm of the gamma function."""

    name, other = "lgamma", "digamma"


class _Inverse(_Unary):
    """The gradient is a multiple of exp(y * y)."""

    factor = 0.0

    @classmethod
    def backward(cls, b, node, xs, ys, gys, wanted):
        slope = b.elementwise("exp", b.elementwise("square", ys[0]))
        slope = b.elementwise("mul_constant", slope, floats=(cls.factor,))
        return [b.elementwise("multiply", slope, gys[0])]


@function(MATH + "erfinv.ErfInv")
class ErfInv(_Inverse):
    """Inverse of the error function."""

    name, factor = "erfinv", math.pi**0.5 / 2


@function(MATH + "erfcinv.ErfcInv")
class ErfcInv(_Inverse):
    """Inverse of the complementary error function."""

    name, factor = "erfcinv", -(math.pi**0.5) / 2


@function(MATH + "erfcx.Erfcx")
class Erfcx(_Unary):
    """exp(x * x) times the complementary error function."""

    name = "erfcx"

    def backward(b, node, xs, ys, gys, wanted):
        product = b.elementwise("multiply", xs[0], ys[0])
        slope = b.elementwise("add_constant", product, floats=(-(math.pi**-0.5),))
        slope = b.elementwise("mul_constant", slope, floats=(2.0,))
        return [b.elementwise("multiply", slope, gys[0])]


# --- activations -----------------------------------------------------------------------------
@function(ACTIVATION + "hard_sigmoid.HardSigmoid")
class HardSigmoid(_Unary):
    """0.2 x + 0.5 in [0, 1]."""

    diagonal = True
    name = "hard_sigmoid"

    def backward(b, node, xs, ys, gys, wanted):
        return [b.elementwise("hard_sigmoid_grad", xs[0], gys[0])]


def _after_batch(b, v, x):
    """`v`, whose axes are those of `x` from the second on, as it is broadcast against `x`."""
    return b.reshape(b.contiguous(v), (1, *v.shape, *(1,) * (x.ndim - v.ndim - 1)))


@function(ACTIVATION + "prelu.PReLUFunction")
class PReLU(FunctionRow):
    """x where it is not negative, else x times a slope that is learned."""

    def forward(b, node, xs):
        x, w = xs
        return [b.elementwise("rrelu", x, _after_batch(b, w, x))]

    def backward(b, node, xs, ys, gys, wanted):
        x, w = xs
        slope = _after_batch(b, w, x)
        gx = b.elementwise("rrelu_grad", x, slope, gys[0]) if 0 in wanted else None
        if 1 not in wanted:
            return [gx, None]
        zero = b.constant(np.zeros((), x.dtype))
        share = b.elementwise("where_not_ge", x, zero, b.elementwise("multiply", x, gys[0]))
        return [gx, b.reshape(b.sum_to(share, slope.shape), w.shape)]


@function(ACTIVATION + "swish.Swish")
class Swish(FunctionRow):
    """x times the logistic function of beta x."""

    transparent = True

    def parts(b, x, beta):
        """beta as it is broadcast, the logistic function, and the output."""
        beta = _after_batch(b, beta, x)
        gate = b.elementwise("sigmoid", b.elementwise("multiply", x, beta))
        return beta, gate, b.elementwise("multiply", x, gate)

    def forward(b, node, xs):
        return [Swish.parts(b, *xs)[2]]

    def backward(b, node, xs, ys, gys, wanted):
        x, beta = xs
        gy = gys[0]
        wide, gate, y = Swish.parts(b, x, beta)
        grads = [None, None]
        if 0 in wanted:
            by = b.elementwise("multiply", y, wide)
            rest = b.elementwise("rsub_constant", by, floats=(1.0,))
            slope = b.elementwise("add", by, b.elementwise("multiply", gate, rest))
            grads[0] = b.elementwise("multiply", gy, slope)
        if 1 in wanted:
            apart = b.elementwise("multiply", y, b.elementwise("subtract", x, y))
            share = b.elementwise("multiply", gy, apart)
            grads[1] = b.reshape(b.sum_to(share, wide.shape), beta.shape)
        return grads
