"""Losses, evaluation, and picking by label."""

from __future__ import annotations

from collections.abc import Sequence

from sdbr.ops.array import check_labels
from sdbr.ops.elementwise import sigmoid
from sdbr.ops.op import Layout, Ops

import numpy as np

Array = np.ndarray
define = Ops()


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


def log_sum_exp(x: Array) -> Array:
    """``log(exp(x).sum(1))``, shifted by the largest element."""
    top = x.max(axis=1, keepdims=True, initial=-np.inf)
    return (np.log(np.exp(x - top).sum(axis=1, keepdims=True)) + top)[:, 0]


def _some_class(
    ins: Sequence[Layout], outs: Sequence[Layout], ints: Sequence[int], floats: Sequence
) -> str:
    """At least one class where there is a label."""
    outer, c, inner = ins[0][1]
    return "labels, and no class" if c == 0 < outer * inner else ""


@define(
    "softmax_cross_entropy",
    "x:T[outer,c,inner] t:I[outer,inner] w:T[c]?",
    "loss:T[] lse:T[outer,inner] coeff:T[]",
    "lse = log(sum(exp(x), 1)); coeff = 1 / count; loss = -sum(w[t] * (x[t] - lse) * (t != "
    "ignore_label)) * coeff; w: weights of classes; count: number of valid labels (at least "
    "1) when normalize, else outer. IndexError for labels outside [-c, c) apart from "
    "ignore_label, which picks class 0",
    ints="normalize<2 ignore_label",
    rule=_some_class,
)
def softmax_cross_entropy(x: Array, t: Array, *w: Array, normalize: int, ignore_label: int):
    """Mean over the valid labels (or over the batch), log of the sums, and 1 / count."""
    lse = log_sum_exp(x)
    p, valid = _picked(x - np.expand_dims(lse, 1), t, w, ignore_label)
    coeff = 1 / max(int(valid.sum()) if normalize else len(x), 1)
    return p.sum() * -coeff, lse, coeff


@define(
    "softmax_cross_entropy_grad",
    "x:T[outer,c,inner] t:I[outer,inner] lse:T[outer,inner] coeff:T[] gloss:T[] w:T[c]?",
    "gx:T[outer,c,inner]",
    "gx = (exp(x - lse) - onehot(t)) * w[t] * (t != ignore_label) * (gloss * coeff)",
    ints="ignore_label",
    inplace=(0,),
    rule=_some_class,
)
def softmax_cross_entropy_grad(
    x: Array, t: Array, lse: Array, coeff: Array, gloss: Array, *w: Array, ignore_label: int
) -> Array:
    """The gradient of the mean: each label's share of `gloss` is `coeff`."""
    share = np.full(t.shape, gloss * coeff, x.dtype)
    return softmax_cross_entropy_no_reduce_grad(x, t, lse, share, *w, ignore_label=ignore_label)


@define(
    "softmax_cross_entropy_no_reduce",
    "x:T[outer,c,inner] t:I[outer,inner] w:T[c]?",
    "loss:T[outer,inner] lse:T[outer,inner]",
    "loss = -w[t] * (x[t] - lse) * (t != ignore_label)",
    ints="ignore_label",
    rule=_some_class,
)
def softmax_cross_entropy_no_reduce(x: Array, t: Array, *w: Array, ignore_label: int):
    """One loss per label, and log of the sums."""
    lse = log_sum_exp(x)
    return -_picked(x - np.expand_dims(lse, 1), t, w, ignore_label)[0], lse


@define(
    "softmax_cross_entropy_no_reduce_grad",
    "x:T[outer,c,inner] t:I[outer,inner] lse:T[outer,inner] gloss:T[outer,inner] w:T[c]?",
    "gx:T[outer,c,inner]",
    "gx = (exp(x - lse) - onehot(t)) * w[t] * (t != ignore_label) * gloss",
    ints="ignore_label",
    inplace=(0,),
    rule=_some_class,
)
def softmax_cross_entropy_no_reduce_grad(
    x: Array, t: Array, lse: Array, gloss: Array, *w: Array, ignore_label: int
) -> Array:
    """``(softmax - onehot) * w[t] * valid * gloss``."""
    index, valid = _labels(x, t, ignore_label)
    onehot = np.arange(x.shape[1]).reshape(1, -1, 1) == index
    scale = np.expand_dims(gloss * valid, 1) * (w[0][index] if w else 1)
    return (np.exp(x - np.expand_dims(lse, 1)) - onehot) * scale


@define(
    "sigmoid_cross_entropy",
    "x:T[s...] t:I[s...]",
    "loss:T[] count:T[]",
    "l = (t != -1) * (x * (t - (x >= 0)) - log1p(exp(-abs(x)))); loss = -sum(l) / count; "
    "count = number of t != -1 (at least 1) when normalize, else batch size",
    ints="normalize<2 batch>=0",
)
def sigmoid_cross_entropy(x: Array, t: Array, normalize: int, batch: int):
    """Sum over the elements divided by their number (or the batch size), and that divisor."""
    count = max(int((t != -1).sum()) if normalize else batch, 1)
    return sigmoid_cross_entropy_no_reduce(x, t).sum() / count, count


define(
    "sigmoid_cross_entropy_grad",
    "x:T[s...] t:I[s...] count:T[] gloss:T[]",
    "gx:T[s...]",
    "gx = gloss * (t != -1) * (sigmoid(x) - t) / count",
    lambda x, t, count, gloss: sigmoid_cross_entropy_no_reduce_grad(x, t, gloss) / count,
)


@define(
    "sigmoid_cross_entropy_no_reduce",
    "x:T[s...] t:I[s...]",
    "loss:T[s...]",
    "loss = -(t != -1) * (x * (t - (x >= 0)) - log1p(exp(-abs(x))))",
)
def sigmoid_cross_entropy_no_reduce(x: Array, t: Array) -> Array:
    """One loss per element, times 0 where the label is -1."""
    z = t.astype(x.dtype)
    return -((t != -1) * (x * (z - (x >= 0)) - np.log1p(np.exp(-abs(x)))))


@define(
    "sigmoid_cross_entropy_no_reduce_grad",
    "x:T[s...] t:I[s...] gloss:T[s...]",
    "gx:T[s...]",
    "gx = gloss * (t != -1) * (sigmoid(x) - t)",
)
def sigmoid_cross_entropy_no_reduce_grad(x: Array, t: Array, gloss: Array) -> Array:
    """``gloss * (sigmoid(x) - t)``, times 0 where the label is -1."""
    return gloss * (t != -1) * (sigmoid(x) - t.astype(x.dtype))


define(
    "mean_squared_error",
    "x:T[s...] y:T[s...]",
    "loss:T[]",
    "loss = ((x - y) ** 2).sum() / x.size; C-contiguous",
    lambda x, y: ((x - y) ** 2).sum() / x.size,
)

define(
    "mean_squared_error_grad",
    "x:T[s...] y:T[s...] gloss:T[]",
    "gx:T[s...]",
    "gx = (x - y) * (2 * gloss / x.size)",
    lambda x, y, gloss: (x - y) * (2 * gloss / x.size),
)

define(
    "mean_absolute_error",
    "x:T[s...] y:T[s...]",
    "loss:T[]",
    "loss = abs(x - y).sum() / x.size",
    lambda x, y: abs(x - y).sum() / x.size,
)

define(
    "mean_absolute_error_grad",
    "x:T[s...] y:T[s...] gloss:T[]",
    "gx:T[s...]",
    "gx = sign(x - y) * (gloss / x.size)",
    lambda x, y, gloss: np.sign(x - y) * (gloss / x.size),
)


# --- evaluation ----------------------------------------------------------------------------------
@define(
    "accuracy",
    "x:T[outer,c,inner] t:I[outer,inner]",
    "y:T[]",
    "y = mean(x.argmax(1) == t), with has_ignore over t != ignore_label (0 when there is none)",
    ints="has_ignore<2 ignore_label",
    rule=_some_class,
)
def accuracy(x: Array, t: Array, has_ignore: int, ignore_label: int) -> Array:
    """Share of rows whose largest score (the first of equals, or the first NaN) is the label."""
    valid = t != ignore_label if has_ignore else np.ones(t.shape, bool)
    right = (x.argmax(axis=1) == t) & valid if t.size else valid
    if has_ignore and not valid.any():
        return np.zeros((), x.dtype)
    return np.divide(right.sum(), valid.sum())


# --- picking by label ----------------------------------------------------------------------------
@define(
    "select_item",
    "x:T[n,c] t:I[n]",
    "y:T[n]",
    "y = x[arange(n), t]; IndexError outside [-c, c)",
    direct=True,
)
def select_item(ins, outs, attributes) -> None:
    """``y = x[arange(n), t]``."""
    x, t = ins
    check_labels(t, x.shape[1])
    outs[0][...] = x[np.arange(len(x)), t]


@define(
    "select_item_grad",
    "t:I[n] gy:T[n]",
    "gx:T[n,c]",
    "gx = 0; gx[arange(n), t] = gy",
    direct=True,
)
def select_item_grad(ins, outs, attributes) -> None:
    """``gx = 0; gx[arange(n), t] = gy``."""
    t, gy = ins
    check_labels(t, outs[0].shape[1])
    gx = np.zeros_like(outs[0])
    gx[np.arange(len(gx)), t] = gy
    outs[0][...] = gx


@define(
    "negate_item",
    "x:T[n,c] t:I[n]",
    "y:T[n,c]",
    "y = x; y[arange(n), t] *= -1; IndexError outside [-c, c)",
)
def negate_item(x: Array, t: Array) -> Array:
    """One element of each row with the other sign."""
    check_labels(t, x.shape[1])
    y = x.copy()
    y[np.arange(len(y)), t] *= -1
    return y


def _define_place(name: str, kind: str) -> None:
    """The op that finds where along an axis the extreme element is."""
    extreme = getattr(np, name)
    define(
        name,
        "x:T[outer,c,inner]",
        "y:I[outer,inner]",
        f"y = x.{name}(1), the first of the {kind}, or the first NaN; int32",
        lambda x: extreme(x, axis=1).astype(np.int32),
        rule=_some_class,
    )


_define_place("argmax", "largest")
_define_place("argmin", "smallest")

OPS = define.ops
