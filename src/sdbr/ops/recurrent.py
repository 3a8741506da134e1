"""Cells of recurrent networks."""

from __future__ import annotations

from collections.abc import Sequence

from sdbr.ops.elementwise import sigmoid
from sdbr.ops.op import Layout, Ops

import numpy as np

Array = np.ndarray
define = Ops()


def _flags(ints: Sequence[int]) -> str:
    """At least one gradient must be there where there may be any."""
    return "" if not ints or (set(ints) <= {0, 1} and sum(ints)) else f"flags {list(ints)}"


def _gradients(fixed: int):
    """The rule of gradients, behind so many other inputs, as flags tell."""

    def rule(
        ins: Sequence[Layout], outs: Sequence[Layout], ints: Sequence[int], floats: Sequence
    ) -> str:
        given = len(ins) - fixed
        return _flags(ints) or ("" if given == sum(ints) else f"{given} gradients")

    return rule


def _children(
    ins: Sequence[Layout], outs: Sequence[Layout], ints: Sequence[int], floats: Sequence
) -> str:
    """A gate and a cell state for each child."""
    children = ins[0][1][1] - 3
    inputs = 1 + children + (1 + sum(ints) if ints else 0)
    outputs = 1 + children if ints else 2
    if children < 1 or (len(ins), len(outs)) != (inputs, outputs):
        return f"{children} children by the gates"
    return _flags(ints)


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


@define(
    "lstm",
    "c_prev:T[m] x:T[m,4]",
    "gates:T[m,4] c:T[m] h:T[m]",
    "gates = tanh(x[:, 0]), sigmoid(x[:, 1:]), that is a, i, f, o; c = a * i + f * c_prev; h "
    "= o * tanh(c); m cells, C-contiguous",
    inplace=(1,),
)
def lstm(c_prev: Array, x: Array):
    """One step of long short-term memory."""
    gates = _gates(x)
    a, i, f, o = gates.T
    c = a * i + f * c_prev
    return gates, c, o * np.tanh(c)


@define(
    "lstm_grad",
    "gates:T[m,4] c_prev:T[m] c:T[m] g:T[m]*",
    "gx:T[m,4] gc_prev:T[m]",
    "gx and gc_prev of `lstm` from gc (when has_gc) and gh (when has_gh)",
    ints="has_gc<2 has_gh<2",
    inplace=(0,),
    rule=_gradients(3),
)
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


@define(
    "slstm",
    "c1:T[m] c2:T[m] x1:T[m,4] x2:T[m,4]",
    "c:T[m] h:T[m]",
    "c = a1 * i1 + a2 * i2 + f1 * c1 + f2 * c2; h = sigmoid(x1[:, 3] + x2[:, 3]) * tanh(c), "
    "with a, i, f of each x as in `lstm`",
)
def slstm(c1: Array, c2: Array, x1: Array, x2: Array):
    """A cell with two children."""
    a1, i1, f1, _ = _gates(x1).T
    a2, i2, f2, _ = _gates(x2).T
    c = a1 * i1 + a2 * i2 + f1 * c1 + f2 * c2
    return c, sigmoid(x1[:, 3] + x2[:, 3]) * np.tanh(c)


@define(
    "slstm_grad",
    "c1:T[m] c2:T[m] x1:T[m,4] x2:T[m,4] c:T[m] g:T[m]*",
    "gx1:T[m,4] gx2:T[m,4] gc1:T[m] gc2:T[m]",
    "the gradients of `slstm` from gc (when has_gc) and gh (when has_gh)",
    ints="has_gc<2 has_gh<2",
    rule=_gradients(5),
)
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


@define(
    "tree_lstm",
    "x:T[n,gates,cells] child:T[n,cells]*",
    "c:T[n,cells] h:T[n,cells]",
    "c = tanh(x[:, 0]) * sigmoid(x[:, 1]) + sum over k of sigmoid(x[:, 3 + k]) * child[k]; h "
    "= sigmoid(x[:, 2]) * tanh(c); gates = 3 + children",
    rule=_children,
)
def tree_lstm(x: Array, *children: Array):
    """A cell with any number of children."""
    c = np.tanh(x[:, 0]) * sigmoid(x[:, 1])
    for k, child in enumerate(children):
        c = c + sigmoid(x[:, 3 + k]) * child
    return c, sigmoid(x[:, 2]) * np.tanh(c)


@define(
    "tree_lstm_grad",
    "x:T[n,gates,cells] c:T[n,cells] more:T[n,cells]*",
    "gx:T[n,gates,cells] gchild:T[n,cells]*",
    "the gradients of `tree_lstm`; after c come the children, then gc (when has_gc) and gh "
    "(when has_gh)",
    ints="has_gc<2 has_gh<2",
    rule=_children,
)
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


OPS = define.ops
