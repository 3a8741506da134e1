"""Formulas of data movement, elementwise ops, reductions, products, losses and updates."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

Array = np.ndarray


# --- helpers -----------------------------------------------------------------------------------
def sigmoid(x: Array) -> Array:
    """The form that cannot overflow."""
    return np.tanh(x * 0.5) * 0.5 + 0.5


#: Activations by the number that `linear` and `gemm_mask` carry.
ACTIVATIONS: tuple[Callable, ...] = (lambda x: x, lambda x: np.maximum(x, 0), sigmoid, np.tanh)
#: Gradient through an activation, from its output `y`.
ACTIVATION_GRADS: tuple[Callable, ...] = (
    lambda y, gy: gy,
    lambda y, gy: gy * (y > 0),
    lambda y, gy: gy * y * (1 - y),
    lambda y, gy: gy * (1 - y * y),
)


def log_softmax(x: Array) -> Array:
    """``x - logsumexp(x, 1)`` along axis 1."""
    top = x.max(axis=1, keepdims=True, initial=-np.inf)
    return x - (np.log(np.exp(x - top).sum(axis=1, keepdims=True)) + top)


def softmax(x: Array) -> Array:
    """``exp(x) / exp(x).sum(1)`` along axis 1, shifted by the largest element."""
    e = np.exp(x - x.max(axis=1, keepdims=True, initial=-np.inf))
    return e / e.sum(axis=1, keepdims=True)


def transposed(x: Array, flag: int) -> Array:
    """`x` with its last two axes swapped when `flag` is set."""
    return x.swapaxes(-1, -2) if flag else x


def check_labels(t: Array, n: int, valid: Array | bool = True) -> None:
    """Raise `IndexError` for the first label outside ``[-n, n)``, in C order.

    Negative labels count from the end, as in NumPy's indexing.
    """
    wrong = ((t < -n) | (t >= n)) & valid
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        bad = t.reshape(-1)[at]
        raise IndexError(f"index {bad} at position {at} is out of range for {n} entries")


def _labels(x: Array, t: Array, ignore_label: int | None) -> tuple[Array, Array]:
    """Labels that may index axis 1 of `x`[outer, c, inner], and where they count."""
    valid = np.ones(t.shape, bool) if ignore_label is None else t != ignore_label
    check_labels(t, x.shape[1], valid)
    wrapped = np.where(t < 0, t.astype(np.intp) + x.shape[1], t)
    return np.expand_dims(np.where(valid, wrapped, 0).astype(np.intp), 1), valid


def _picked(log_y: Array, t: Array, w: Sequence[Array], ignore_label: int) -> tuple[Array, Array]:
    """``w[t] * log_y[t] * valid`` and `valid`; an ignored label picks class 0, times 0."""
    index, valid = _labels(log_y, t, ignore_label)
    if index.size == 0:
        return np.zeros(t.shape, log_y.dtype), valid
    p = np.take_along_axis(log_y, index, axis=1)
    if w:
        p = p * w[0][index]
    return p[:, 0] * valid, valid


# --- losses and evaluation ---------------------------------------------------------------------
def log_sum_exp(x: Array) -> Array:
    """``log(exp(x).sum(1))``, shifted by the largest element."""
    top = x.max(axis=1, keepdims=True, initial=-np.inf)
    return (np.log(np.exp(x - top).sum(axis=1, keepdims=True)) + top)[:, 0]


def softmax_cross_entropy(x: Array, t: Array, *w: Array, normalize: int, ignore_label: int):
    """Mean over the valid labels (or over the batch), log of the sums, and 1 / count."""
    lse = log_sum_exp(x)
    p, valid = _picked(x - np.expand_dims(lse, 1), t, w, ignore_label)
    coeff = 1 / max(int(valid.sum()) if normalize else len(x), 1)
    return p.sum() * -coeff, lse, coeff


def softmax_cross_entropy_no_reduce(x: Array, t: Array, *w: Array, ignore_label: int):
    """One loss per label, and log of the sums."""
    lse = log_sum_exp(x)
    return -_picked(x - np.expand_dims(lse, 1), t, w, ignore_label)[0], lse


def softmax_cross_entropy_no_reduce_grad(
    x: Array, t: Array, lse: Array, gloss: Array, *w: Array, ignore_label: int
) -> Array:
    """``(softmax - onehot) * w[t] * valid * gloss``."""
    index, valid = _labels(x, t, ignore_label)
    onehot = np.arange(x.shape[1]).reshape(1, -1, 1) == index
    scale = np.expand_dims(gloss * valid, 1) * (w[0][index] if w else 1)
    return (np.exp(x - np.expand_dims(lse, 1)) - onehot) * scale


def softmax_cross_entropy_grad(
    x: Array, t: Array, lse: Array, coeff: Array, gloss: Array, *w: Array, ignore_label: int
) -> Array:
    """The gradient of the mean: each label's share of `gloss` is `coeff`."""
    share = np.full(t.shape, gloss * coeff, x.dtype)
    return softmax_cross_entropy_no_reduce_grad(x, t, lse, share, *w, ignore_label=ignore_label)


def sigmoid_cross_entropy_no_reduce(x: Array, t: Array) -> Array:
    """One loss per element, times 0 where the label is -1."""
    z = t.astype(x.dtype)
    return -((t != -1) * (x * (z - (x >= 0)) - np.log1p(np.exp(-abs(x)))))


def sigmoid_cross_entropy(x: Array, t: Array, normalize: int, batch: int):
    """Sum over the elements divided by their number (or the batch size), and that divisor."""
    count = max(int((t != -1).sum()) if normalize else batch, 1)
    return sigmoid_cross_entropy_no_reduce(x, t).sum() / count, count


def sigmoid_cross_entropy_no_reduce_grad(x: Array, t: Array, gloss: Array) -> Array:
    """``gloss * (sigmoid(x) - t)``, times 0 where the label is -1."""
    return gloss * (t != -1) * (sigmoid(x) - t.astype(x.dtype))


def accuracy(x: Array, t: Array, has_ignore: int, ignore_label: int) -> Array:
    """Share of rows whose largest score (the first of equals, or the first NaN) is the label."""
    valid = t != ignore_label if has_ignore else np.ones(t.shape, bool)
    right = (x.argmax(axis=1) == t) & valid if t.size else valid
    if has_ignore and not valid.any():
        return np.zeros((), x.dtype)
    return np.divide(right.sum(), valid.sum())


def huber(x: Array, y: Array, delta: float) -> Array:
    """Quadratic up to `delta`, linear beyond."""
    a = abs(x - y)
    return np.where(a > delta, delta * (a - delta / 2), a * a / 2)


def linear(x: Array, w: Array, *b: Array, activation: int) -> Array:
    """``act(x @ w.T + b)``."""
    z = x @ w.T
    return ACTIVATIONS[activation](z + b[0] if b else z)


# --- random ------------------------------------------------------------------------------------
def dropout(x: Array, ratio: float):
    """Output and scaled mask, drawn from NumPy's global generator."""
    mask = (np.random.rand(*x.shape) >= ratio) * x.dtype.type(1 / (1 - ratio))
    return x * mask, mask


# --- update ------------------------------------------------------------------------------------
def adam(
    g, p, m, v, *vhat, alpha_t, one_minus_beta1, one_minus_beta2, eps, eta, decay, lower, upper
):  # fmt: skip
    """Adam with the options of AdamW, AMSGrad and AdaBound."""
    m = m + one_minus_beta1 * (g - m)
    v = v + one_minus_beta2 * (g * g - v)
    s = np.maximum(vhat[0], v) if vhat else v
    step = np.clip(alpha_t / (np.sqrt(s) + eps), lower, upper)
    p = decay * p - eta * step * m
    return (p, m, v, s) if vhat else (p, m, v)


def momentum_sgd(g, p, v, lr, momentum):
    """Momentum, then the step."""
    v = momentum * v - lr * g
    return p + v, v


def rmsprop(g, p, ms, lr, alpha, one_minus_alpha, eps_inside, eps_outside):
    """One of the two eps is 0: that of the place which Chainer's option does not choose."""
    ms = ms * alpha + one_minus_alpha * g * g
    return p - lr * g / (np.sqrt(ms + eps_inside) + eps_outside), ms


# --- ops that need more than their inputs --------------------------------------------------------
def gemm(ins, outs, attributes) -> None:
    """``c = op(a) @ op(b) + (c if accumulate else 0)``."""
    product = transposed(ins[0], attributes["trans_a"]) @ transposed(ins[1], attributes["trans_b"])
    outs[0][...] = outs[0] + product if attributes["accumulate"] else product


def select_item(ins, outs, attributes) -> None:
    """``y = x[arange(n), t]``."""
    x, t = ins
    check_labels(t, x.shape[1])
    outs[0][...] = x[np.arange(len(x)), t]


def select_item_grad(ins, outs, attributes) -> None:
    """``gx = 0; gx[arange(n), t] = gy``."""
    t, gy = ins
    check_labels(t, outs[0].shape[1])
    gx = np.zeros_like(outs[0])
    gx[np.arange(len(gx)), t] = gy
    outs[0][...] = gx


def clip_norm(ins, outs, attributes) -> None:
    """Scale all inputs in place when their joint norm is above the threshold."""
    norm = np.sqrt(np.float64(sum(float((g * g).sum()) for g in ins)))
    rate = float(attributes["threshold"] / norm)
    if not rate >= 1:  # NaN as well: that is what the hook of Chainer does
        for g in ins:
            g *= rate
    outs[0][...] = norm


DIRECT: dict[str, Callable] = {
    "nop": lambda ins, outs, attributes: None,
    "fork": lambda ins, outs, attributes: None,  # one branch after the other
    "gemm": gemm,
    "select_item": select_item,
    "select_item_grad": select_item_grad,
    "clip_norm": clip_norm,
}

#: Op name -> formula. `python` is the executor's own.
FORMULAS: dict[str, Callable] = {
    # data movement
    "copy": lambda x: x,
    "fill": lambda value: value,
    "cast": lambda x: x,
    # elementwise, one input
    "negative": lambda x: -x,
    "absolute": lambda x: abs(x),
    "sign": lambda x: np.sign(x),
    "exp": lambda x: np.exp(x),
    "log": lambda x: np.log(x),
    "sqrt": lambda x: np.sqrt(x),
    "square": lambda x: x * x,
    "reciprocal": lambda x: 1 / x,
    "relu": lambda x: np.maximum(x, 0),
    "sigmoid": sigmoid,
    "tanh": lambda x: np.tanh(x),
    "leaky_relu": lambda x, slope: np.where(x <= 0, slope * x, x),
    "elu": lambda x, alpha: np.where(x <= 0, alpha * np.expm1(x), x),
    "clipped_relu": lambda x, z: np.minimum(np.maximum(0, x), z),
    "softplus": lambda x, beta: (np.maximum(beta * x, 0) + np.log1p(np.exp(-abs(beta * x)))) / beta,
    "clip": lambda x, low, high: np.clip(x, low, high),
    "add_constant": lambda x, value: x + value,
    "rsub_constant": lambda x, value: value - x,
    "mul_constant": lambda x, value: x * value,
    "div_constant": lambda x, value: x / value,
    "rdiv_constant": lambda x, value: value / x,
    "pow_constant": lambda x, value: x**value,
    "rpow_constant": lambda x, value: value**x,
    # elementwise, two inputs
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y,
    "power": lambda x, y: x**y,
    "maximum": lambda x, y: np.maximum(x, y),
    "minimum": lambda x, y: np.minimum(x, y),
    # elementwise gradients
    "relu_grad": lambda y, gy: gy * (y > 0),
    "leaky_relu_grad": lambda x, gy, slope: np.where(x <= 0, slope * gy, gy),
    "elu_grad": lambda x, gy, alpha: np.where(x > 0, gy, alpha * np.exp(x) * gy),
    "clipped_relu_grad": lambda x, gy, z: gy * ((x > 0) & (x < z)),
    "sigmoid_grad": lambda y, gy: gy * y * (1 - y),
    "tanh_grad": lambda y, gy: gy * (1 - y * y),
    "softplus_grad": lambda x, gy, beta: gy / (1 + np.exp(-beta * x)),
    "clip_grad": lambda x, gy, low, high: gy * ((low <= x) & (x <= high)),
    "absolute_grad": lambda x, gy: np.sign(x) * gy,
    "sqrt_grad": lambda y, gy: gy / (2 * y),
    "square_grad": lambda x, gy: 2 * x * gy,
    "pow_constant_grad": lambda x, gy, value: value * x ** (value - 1) * gy,
    "rpow_constant_grad": lambda y, gy, value: float(np.log(value)) * y * gy,
    "rdiv_constant_grad": lambda x, gy, value: -value * gy / (x * x),
    "divide_grad_y": lambda x, y, gz: -(gz / y) * x / y,
    "power_grad_x": lambda x, y, gz: y * x ** (y - 1) * gz,
    "power_grad_y": lambda x, z, gz: np.log(x) * z * gz,
    "where_ge": lambda x, y, gz: np.where(x >= y, gz, 0),
    "where_not_ge": lambda x, y, gz: np.where(x >= y, 0, gz),
    "mask_ge": lambda x, y, gz: gz * (x >= y),
    "mask_gt": lambda x, y, gz: gz * (x > y),
    "mask_eq": lambda x, y, gz: gz * (x == y),
    # random
    "dropout": dropout,
    # reductions of x[outer, n, inner] over axis 1
    "sum": lambda x: x.sum(axis=1),
    "mean": lambda x: x.sum(axis=1) / x.shape[1],
    "max": lambda x: x.max(axis=1),
    "min": lambda x: x.min(axis=1),
    # rows of x[outer, n, inner] along axis 1
    "softmax": softmax,
    "softmax_grad": lambda y, gy: y * (gy - (y * gy).sum(axis=1, keepdims=True)),
    "log_softmax": log_softmax,
    "log_softmax_grad": lambda y, gy: gy - np.exp(y) * gy.sum(axis=1, keepdims=True),
    # matrix products
    "linear": linear,
    "batch_matmul": lambda a, b, trans_a, trans_b: transposed(a, trans_a) @ transposed(b, trans_b),
    "gemm_mask": lambda a, b, y, activation: ACTIVATION_GRADS[activation](y, a @ b),
    # losses and evaluation
    "softmax_cross_entropy": softmax_cross_entropy,
    "softmax_cross_entropy_grad": softmax_cross_entropy_grad,
    "softmax_cross_entropy_no_reduce": softmax_cross_entropy_no_reduce,
    "softmax_cross_entropy_no_reduce_grad": softmax_cross_entropy_no_reduce_grad,
    "sigmoid_cross_entropy": sigmoid_cross_entropy,
    "sigmoid_cross_entropy_grad": lambda x, t, count, gloss: (
        sigmoid_cross_entropy_no_reduce_grad(x, t, gloss) / count
    ),
    "sigmoid_cross_entropy_no_reduce": sigmoid_cross_entropy_no_reduce,
    "sigmoid_cross_entropy_no_reduce_grad": sigmoid_cross_entropy_no_reduce_grad,
    "mean_squared_error": lambda x, y: ((x - y) ** 2).sum() / x.size,
    "mean_squared_error_grad": lambda x, y, gloss: (x - y) * (2 * gloss / x.size),
    "mean_absolute_error": lambda x, y: abs(x - y).sum() / x.size,
    "mean_absolute_error_grad": lambda x, y, gloss: np.sign(x - y) * (gloss / x.size),
    "huber": huber,
    "huber_grad": lambda x, y, gloss, delta: (
        gloss * np.where(abs(x - y) > delta, delta * np.sign(x - y), x - y)
    ),
    "accuracy": accuracy,
    "argmax": lambda x: x.argmax(axis=1).astype(np.int32),
    # update
    "sgd": lambda g, p, lr: p - lr * g,
    "momentum_sgd": momentum_sgd,
    "adam": adam,
    "rmsprop": rmsprop,
    "weight_decay": lambda g, p, rate: g + rate * p,
    "lasso": lambda g, p, rate: g + rate * np.sign(p),
}
