"""Formulas of recurrent cells."""

from __future__ import annotations

from collections.abc import Callable

from sdbr.backends.formulas.basic import sigmoid

import numpy as np

Array = np.ndarray


def _tanh_grad(y: Array) -> Array:
    return 1 - y * y


def _sigmoid_grad(y: Array) -> Array:
    return y * (1 - y)


def _gates(x: Array) -> Array:
    """Cell input, input gate, forget gate, output gate of each cell."""
    return np.concatenate([np.tanh(x[:, :1]), sigmoid(x[:, 1:])], axis=1)


def _given(grads: tuple[Array, ...], has_gc: int, has_gh: int):
    """The gradients of cell and output; 0 for one that is not there."""
    return grads[0] if has_gc else 0, grads[has_gc] if has_gh else 0


def lstm(c_prev: Array, x: Array):
    """One step of long short-term memory."""
    gates = _gates(x)
    a, i, f, o = gates.T
    c = a * i + f * c_prev
    return gates, c, o * np.tanh(c)


def lstm_grad(gates: Array, c_prev: Array, c: Array, *g: Array, has_gc: int, has_gh: int):
    """Gradients of the gates' inputs and of the last cell state."""
    gc, gh = _given(g, has_gc, has_gh)
    a, i, f, o = gates.T
    co = np.tanh(c)
    d = gh * o * _tanh_grad(co) + gc
    gx = [
        d * i * _tanh_grad(a),
        d * a * _sigmoid_grad(i),
        d * c_prev * _sigmoid_grad(f),
        gh * co * _sigmoid_grad(o),
    ]
    return np.stack(gx, axis=1), d * f


def slstm(c1: Array, c2: Array, x1: Array, x2: Array):
    """A cell with two children."""
    a1, i1, f1, _ = _gates(x1).T
    a2, i2, f2, _ = _gates(x2).T
    c = a1 * i1 + a2 * i2 + f1 * c1 + f2 * c2
    return c, sigmoid(x1[:, 3] + x2[:, 3]) * np.tanh(c)


def slstm_grad(c1, c2, x1, x2, c, *g: Array, has_gc: int, has_gh: int):
    """Gradients of both children's gates and cell states."""
    gc, gh = _given(g, has_gc, has_gh)
    o, co = sigmoid(x1[:, 3] + x2[:, 3]), np.tanh(c)
    d = gh * o * _tanh_grad(co) + gc
    go = gh * co * _sigmoid_grad(o)
    gxs, gcs = [], []
    for x, child in ((x1, c1), (x2, c2)):
        a, i, f, _ = _gates(x).T
        gx = [d * i * _tanh_grad(a), d * a * _sigmoid_grad(i), d * child * _sigmoid_grad(f), go]
        gxs.append(np.stack(gx, axis=1))
        gcs.append(d * f)
    return (*gxs, *gcs)


def tree_lstm(x: Array, *children: Array):
    """A cell with any number of children."""
    c = np.tanh(x[:, 0]) * sigmoid(x[:, 1])
    for k, child in enumerate(children):
        c = c + sigmoid(x[:, 3 + k]) * child
    return c, sigmoid(x[:, 2]) * np.tanh(c)


def tree_lstm_grad(x: Array, c: Array, *more: Array, has_gc: int, has_gh: int):
    """Gradients of the gates and of each child's cell state."""
    children = more[: x.shape[1] - 3]
    gc, gh = _given(more[len(children) :], has_gc, has_gh)
    a, i, o, co = np.tanh(x[:, 0]), sigmoid(x[:, 1]), sigmoid(x[:, 2]), np.tanh(c)
    fs = [sigmoid(x[:, 3 + k]) for k in range(len(children))]
    d = gh * o * _tanh_grad(co) + gc
    gx = [d * i * _tanh_grad(a), d * a * _sigmoid_grad(i), gh * co * _sigmoid_grad(o)]
    gx += [d * child * _sigmoid_grad(f) for child, f in zip(children, fs, strict=True)]
    return (np.stack(gx, axis=1), *[d * f for f in fs])


FORMULAS: dict[str, Callable] = {
    "lstm": lstm,
    "lstm_grad": lstm_grad,
    "slstm": slstm,
    "slstm_grad": slstm_grad,
    "tree_lstm": tree_lstm,
    "tree_lstm_grad": tree_lstm_grad,
}
