"""Elementwise ops."""

from __future__ import annotations

from sdbr.ops.op import Ops

import numpy as np

Array = np.ndarray
define = Ops()
one = define.elementwise

FREE = {"again": "free", "exact": True}
EXACT = {"exact": True}
CHOICE = {"exact": True, "zero_sign_open": True}


def sigmoid(x: Array) -> Array:
    """The form that cannot overflow."""
    return np.tanh(x * 0.5) * 0.5 + 0.5


# --- one input -----------------------------------------------------------------------------------
one("negative", "x", "y", "y = -x", lambda x: -x, **FREE)
one("absolute", "x", "y", "y = abs(x)", lambda x: abs(x), **EXACT)
one("sign", "x", "y", "y = sign(x)", lambda x: np.sign(x), **EXACT)
one("exp", "x", "y", "y = exp(x)", lambda x: np.exp(x))
one("log", "x", "y", "y = log(x)", lambda x: np.log(x))
one("sqrt", "x", "y", "y = sqrt(x)", lambda x: np.sqrt(x), **EXACT)
one("square", "x", "y", "y = x * x", lambda x: x * x, **FREE)
one("reciprocal", "x", "y", "y = 1 / x", lambda x: 1 / x, **EXACT)
one("relu", "x", "y", "y = maximum(x, 0)", lambda x: np.maximum(x, 0), activation=1, **CHOICE)
one("sigmoid", "x", "y", "y = tanh(x * 0.5) * 0.5 + 0.5", sigmoid, activation=2)
one("tanh", "x", "y", "y = tanh(x)", lambda x: np.tanh(x), activation=3)

# --- one input and numbers -----------------------------------------------------------------------
one(
    "leaky_relu", "x", "y", "y = where(x <= 0, slope * x, x)",
    lambda x, slope: np.where(x <= 0, slope * x, x), "slope", **EXACT,
)  # fmt: skip
one(
    "elu", "x", "y", "y = where(x <= 0, alpha * expm1(x), x)",
    lambda x, alpha: np.where(x <= 0, alpha * np.expm1(x), x), "alpha",
)  # fmt: skip
one(
    "clipped_relu", "x", "y", "y = minimum(maximum(0, x), z)",
    lambda x, z: np.minimum(np.maximum(0, x), z), "z", **CHOICE,
)  # fmt: skip
one(
    "softplus", "x", "y",
    "y = (maximum(bx, 0) + log1p(exp(-abs(bx)))) / beta with bx = beta * x",
    lambda x, beta: (np.maximum(beta * x, 0) + np.log1p(np.exp(-abs(beta * x)))) / beta, "beta",
)  # fmt: skip
one(
    "clip", "x", "y", "y = clip(x, low, high)",
    lambda x, low, high: np.clip(x, low, high), "low high", **CHOICE,
)  # fmt: skip
one("add_constant", "x", "y", "y = x + value", lambda x, value: x + value, "value", **FREE)
one("rsub_constant", "x", "y", "y = value - x", lambda x, value: value - x, "value", **FREE)
one("mul_constant", "x", "y", "y = x * value", lambda x, value: x * value, "value", **FREE)
one("div_constant", "x", "y", "y = x / value", lambda x, value: x / value, "value", **FREE)
one("rdiv_constant", "x", "y", "y = value / x", lambda x, value: value / x, "value", **EXACT)
one("pow_constant", "x", "y", "y = x ** value", lambda x, value: x**value, "value")
one("rpow_constant", "x", "y", "y = value ** x", lambda x, value: value**x, "value")

# --- two inputs ----------------------------------------------------------------------------------
one("add", "x y", "z", "z = x + y", lambda x, y: x + y, **EXACT)
one("subtract", "x y", "z", "z = x - y", lambda x, y: x - y, **EXACT)
one("multiply", "x y", "z", "z = x * y", lambda x, y: x * y, **EXACT)
one("divide", "x y", "z", "z = x / y", lambda x, y: x / y, **EXACT)
one("power", "x y", "z", "z = x ** y", lambda x, y: x**y)
one("maximum", "x y", "z", "z = maximum(x, y)", lambda x, y: np.maximum(x, y), **CHOICE)
one("minimum", "x y", "z", "z = minimum(x, y)", lambda x, y: np.minimum(x, y), **CHOICE)
one(
    "rrelu", "x r", "y", "y = where(x >= 0, x, x * r)",
    lambda x, r: np.where(x >= 0, x, x * r), **EXACT,
)  # fmt: skip


@one(
    "huber", "x y", "loss",
    "a = abs(x - y); loss = where(a > delta, delta * (a - delta / 2), a * a / 2)", floats="delta",
)  # fmt: skip
def huber(x: Array, y: Array, delta: float) -> Array:
    """Quadratic up to `delta`, linear beyond."""
    a = abs(x - y)
    return np.where(a > delta, delta * (a - delta / 2), a * a / 2)


@one(
    "bernoulli_log_prob", "logit x", "y",
    "y = logit * (x - 1) - log(exp(-logit) + 1); log(x) where logit is inf, log(1 - x) where it is "
    "-inf; with check -inf where x is neither 0 nor 1", floats="check",
)  # fmt: skip
def bernoulli_log_prob(logit: Array, x: Array, check: float) -> Array:
    """Log-probability of `x`; with `check`, minus infinity where it is neither 0 nor 1."""
    y = logit * (x - 1) - np.log(np.exp(-logit) + 1)
    y = np.where(logit == np.inf, np.log(x), y)
    y = np.where(logit == -np.inf, np.log(1 - x), y)
    return np.where((x != 0) & (x != 1), -np.inf, y) if check else y


# --- gradients -----------------------------------------------------------------------------------
one(
    "relu_grad", "y gy", "gx", "gx = gy * (y > 0)",
    lambda y, gy: gy * (y > 0), activation_grad=1, **EXACT,
)  # fmt: skip
one(
    "leaky_relu_grad", "x gy", "gx", "gx = where(x <= 0, slope * gy, gy)",
    lambda x, gy, slope: np.where(x <= 0, slope * gy, gy), "slope", **EXACT,
)  # fmt: skip
one(
    "elu_grad", "x gy", "gx", "gx = where(x > 0, gy, alpha * exp(x) * gy)",
    lambda x, gy, alpha: np.where(x > 0, gy, alpha * np.exp(x) * gy), "alpha",
)  # fmt: skip
one(
    "clipped_relu_grad", "x gy", "gx", "gx = gy * ((0 < x) & (x < z))",
    lambda x, gy, z: gy * ((x > 0) & (x < z)), "z", **EXACT,
)  # fmt: skip
one(
    "sigmoid_grad", "y gy", "gx", "gx = gy * y * (1 - y)",
    lambda y, gy: gy * y * (1 - y), activation_grad=2,
)  # fmt: skip
one(
    "tanh_grad", "y gy", "gx", "gx = gy * (1 - y * y)",
    lambda y, gy: gy * (1 - y * y), activation_grad=3,
)  # fmt: skip
one(
    "softplus_grad", "x gy", "gx", "gx = gy / (1 + exp(-beta * x))",
    lambda x, gy, beta: gy / (1 + np.exp(-beta * x)), "beta",
)  # fmt: skip
one(
    "clip_grad", "x gy", "gx", "gx = gy * ((low <= x) & (x <= high))",
    lambda x, gy, low, high: gy * ((low <= x) & (x <= high)), "low high", **EXACT,
)  # fmt: skip
one(
    "absolute_grad", "x gy", "gx", "gx = sign(x) * gy",
    lambda x, gy: np.sign(x) * gy, **EXACT,
)  # fmt: skip
one("sqrt_grad", "y gy", "gx", "gx = gy / (2 * y)", lambda y, gy: gy / (2 * y))
one("square_grad", "x gy", "gx", "gx = 2 * x * gy", lambda x, gy: 2 * x * gy)
one(
    "pow_constant_grad", "x gy", "gx", "gx = value * x ** (value - 1) * gy",
    lambda x, gy, value: value * x ** (value - 1) * gy, "value",
)  # fmt: skip
one(
    "rpow_constant_grad", "y gy", "gx", "gx = log(value) * y * gy",
    lambda y, gy, value: float(np.log(value)) * y * gy, "value",
)  # fmt: skip
one(
    "rdiv_constant_grad", "x gy", "gx", "gx = -value * gy / (x * x)",
    lambda x, gy, value: -value * gy / (x * x), "value", keeps_denormals=True,
)  # fmt: skip
one(
    "divide_grad_y", "x y gz", "gx", "gy = -(gz / y) * x / y",
    lambda x, y, gz: -(gz / y) * x / y,
)  # fmt: skip
one(
    "power_grad_x", "x y gz", "gx", "gx = y * x ** (y - 1) * gz",
    lambda x, y, gz: y * x ** (y - 1) * gz,
)  # fmt: skip
one(
    "power_grad_y", "x z gz", "gx", "gy = log(x) * z * gz",
    lambda x, z, gz: np.log(x) * z * gz,
)  # fmt: skip
one(
    "where_ge", "x y gz", "gx", "g = where(x >= y, gz, 0)",
    lambda x, y, gz: np.where(x >= y, gz, 0), **EXACT,
)  # fmt: skip
one(
    "where_not_ge", "x y gz", "gx", "g = where(x >= y, 0, gz)",
    lambda x, y, gz: np.where(x >= y, 0, gz), **EXACT,
)  # fmt: skip
one("mask_ge", "x y gz", "gx", "g = gz * (x >= y)", lambda x, y, gz: gz * (x >= y), **EXACT)
one("mask_gt", "x y gz", "gx", "g = gz * (x > y)", lambda x, y, gz: gz * (x > y), **EXACT)
one("mask_eq", "x y gz", "gx", "g = gz * (x == y)", lambda x, y, gz: gz * (x == y), **EXACT)
one(
    "rrelu_grad", "y r gy", "gx", "gx = where(y >= 0, gy, gy * r)",
    lambda y, r, gy: np.where(y >= 0, gy, gy * r), **EXACT,
)  # fmt: skip
one(
    "huber_grad", "x y gloss", "gx",
    "gx = gloss * where(abs(x - y) > delta, delta * sign(x - y), x - y)",
    lambda x, y, gloss, delta: (
        gloss * np.where(abs(x - y) > delta, delta * np.sign(x - y), x - y)
    ), "delta",
)  # fmt: skip


@one(
    "bernoulli_log_prob_grad", "logit x gy", "glogit",
    "glogit = gy * (x - 1 / (1 + exp(-logit))); NaN where logit is infinite, with check also where "
    "x is neither 0 nor 1", floats="check",
)  # fmt: skip
def bernoulli_log_prob_grad(logit: Array, x: Array, gy: Array, check: float) -> Array:
    """Gradient for the logit; NaN where it is infinite, or where `check` finds fault with `x`."""
    undefined = np.isinf(logit)
    if check:
        undefined |= (x != 0) & (x != 1)
    return gy * np.where(undefined, np.nan, x - 1 / (1 + np.exp(-logit)))


OPS = define.ops
