"""The functions that are native, one case per variant: name, function, arguments."""

from __future__ import annotations

import chainer.functions as F
import numpy as np

from equivalence.arguments import N, Q, T
from .cases_math import MATH_CASES

W3 = np.array([0.5, 2, 1.5], np.float32)

ACTIVATION = [
    ("relu", F.relu, [Q(3, 4)]),
    ("relu 0-d", F.relu, [N()]),
    ("relu empty", F.relu, [N(0, 4)]),
    ("relu of a transposed view", lambda x: F.relu(F.transpose(x)), [N(3, 4)]),
    ("leaky_relu", F.leaky_relu, [Q(3, 4)]),
    ("leaky_relu slope 0", lambda x: F.leaky_relu(x, 0.0), [Q(3, 4)]),
    ("leaky_relu negative slope", lambda x: F.leaky_relu(x, -0.3), [Q(3, 4)]),
    ("elu", F.elu, [Q(3, 4)]),
    ("elu alpha 0", lambda x: F.elu(x, 0), [Q(3, 4)]),
    ("elu negative alpha", lambda x: F.elu(x, -0.5), [Q(3, 4)]),
    ("elu small", lambda x: F.elu(x * 1e-6), [N(3, 4)]),
    ("clipped_relu", lambda x: F.clipped_relu(x, 0.5), [Q(3, 4)]),
    ("relu6", F.relu6, [N(3, 4)]),
    ("sigmoid", F.sigmoid, [N(3, 4)]),
    ("sigmoid large", lambda x: F.sigmoid(x * 100), [Q(3, 4)]),
    ("tanh", F.tanh, [N(3, 4)]),
    ("softplus", F.softplus, [N(3, 4)]),
    ("softplus beta", lambda x: F.softplus(x, 2.5), [N(3, 4)]),
    ("softplus large", lambda x: F.softplus(x * 1000), [N(3, 4)]),
    *[
        (f"{f.__name__} axis {axis}", lambda x, f=f, axis=axis: f(x, axis=axis), [N(2, 3, 4)])
        for f in (F.softmax, F.log_softmax)
        for axis in (0, 1, 2, -1, -3)
    ],
    ("crelu", F.crelu, [Q(3, 4, 2)]),
    ("crelu axis", lambda x: F.crelu(x, axis=-1), [Q(3, 4)]),
    ("softmax of a transposed view", lambda x: F.softmax(x.T), [N(3, 4)]),
    ("log_softmax of a transposed view", lambda x: F.log_softmax(x.T).T, [N(3, 4)]),
]

CONNECTION = [
    ("linear", F.linear, [N(5, 3), N(4, 3), N(4)]),
    ("linear no bias", F.linear, [N(5, 3), N(4, 3)]),
    ("linear 4-D", F.linear, [N(5, 2, 3, 1), N(4, 6), N(4)]),
    ("linear two batch axes", lambda *a: F.linear(*a, n_batch_axes=2), [N(5, 2, 3), N(4, 3), N(4)]),
    ("linear empty batch", F.linear, [N(0, 3), N(4, 3), N(4)]),
    ("linear one", F.linear, [N(1, 1), N(1, 1), N(1)]),
    ("linear of views", lambda x, w: F.linear(x.T, w.T), [N(3, 5), N(3, 4)]),
    ("linear then relu", lambda *a: F.relu(F.linear(*a)), [N(5, 3), N(4, 3), N(4)]),
]


def _matmul(a, b, ta=False, tb=False):
    def f(x, y):
        return F.matmul(x, y, ta, tb)

    return (f"matmul {a} {b} {int(ta)}{int(tb)}", f, [N(*a), N(*b)])


MATMUL = [
    _matmul((3, 4), (4, 5)),
    _matmul((4, 3), (4, 5), True),
    _matmul((3, 4), (5, 4), False, True),
    _matmul((4, 3), (5, 4), True, True),
    _matmul((4,), (4,)),
    _matmul((4,), (4,), True, True),
    _matmul((4,), (4, 5)),
    _matmul((4,), (5, 4), False, True),
    _matmul((3, 4), (4,)),
    _matmul((4, 3), (4,), True),
    _matmul((2, 3, 4), (4,)),
    _matmul((2, 4, 3), (4,), True),
    _matmul((4,), (2, 4, 3)),
    _matmul((4,), (2, 3, 4), False, True),
    _matmul((2, 3, 4), (2, 4, 5)),
    _matmul((2, 4, 3), (2, 4, 5), True),
    _matmul((2, 3, 4), (2, 5, 4), False, True),
    _matmul((2, 4, 3), (2, 5, 4), True, True),
    _matmul((2, 3, 4), (4, 5)),
    _matmul((2, 3, 4), (5, 4), False, True),
    _matmul((2, 4, 3), (4, 5), True),
    _matmul((3, 4), (2, 4, 5)),
    _matmul((2, 1, 3, 4), (6, 4, 5)),
    _matmul((1, 3, 4), (2, 4, 5)),
    _matmul((0, 3, 4), (0, 4, 5)),
    _matmul((3, 0), (0, 5)),
    ("matmul of views", lambda x, y: F.matmul(x.T, y.T), [N(4, 3), N(5, 4)]),
    ("matmul operator", lambda x, y: (x @ y).T @ x, [N(3, 4), N(4, 5)]),
    ("matmul output transposed", lambda x, y: _node_matmul(x, y, True, True), [N(4, 3), N(5, 4)]),
    ("matmul with itself", lambda x: F.matmul(x, x), [N(4, 4)]),
]


def _node_matmul(x, y, ta, tb):
    from chainer.functions.math.matmul import MatMul

    return MatMul(ta, tb, True).apply((x, y))[0]


SCE, SIG = F.softmax_cross_entropy, F.sigmoid_cross_entropy
LOSS = [
    ("softmax_cross_entropy", SCE, [N(5, 3), T(3, 5)]),
    ("softmax_cross_entropy int64", SCE, [N(5, 3), T(3, 5, kind=np.int64)]),
    ("softmax_cross_entropy int8", SCE, [N(5, 3), T(3, 5, kind=np.int8)]),
    ("softmax_cross_entropy ignored", SCE, [N(5, 3), T(3, 5, ignore=-1)]),
    ("softmax_cross_entropy all ignored", SCE, [N(5, 3), T(0, 5, low=-1)]),
    ("softmax_cross_entropy 4-D", SCE, [N(5, 3, 2, 2), T(3, 5, 2, 2, ignore=-1)]),
    (
        "softmax_cross_entropy negative labels",
        lambda x, t: SCE(x, t, ignore_label=7),
        [N(5, 3), T(3, 5, low=-3, ignore=7)],
    ),
    (
        "softmax_cross_entropy not normalized",
        lambda x, t: SCE(x, t, normalize=False),
        [N(5, 3, 2), T(3, 5, 2, ignore=-1)],
    ),
    (
        "softmax_cross_entropy no cache",
        lambda x, t: SCE(x, t, cache_score=False),
        [N(5, 3), T(3, 5)],
    ),
    (
        "softmax_cross_entropy class_weight",
        lambda x, t: SCE(x, t, class_weight=W3),
        [N(5, 3, 2), T(3, 5, 2, ignore=-1)],
    ),
    ("softmax_cross_entropy no", lambda x, t: SCE(x, t, reduce="no"), [N(5, 3), T(3, 5)]),
    (
        "softmax_cross_entropy no, 3-D, class_weight",
        lambda x, t: SCE(x, t, reduce="no", class_weight=W3),
        [N(5, 3, 2), T(3, 5, 2, ignore=-1)],
    ),
    ("softmax_cross_entropy scaled", lambda x, t: SCE(x, t) * 3, [N(5, 3), T(3, 5)]),
    ("softmax_cross_entropy of a view", lambda x, t: SCE(x.T, t), [N(3, 5), T(3, 5)]),
    ("sigmoid_cross_entropy", SIG, [N(5, 3), T(2, 5, 3)]),
    ("sigmoid_cross_entropy ignored", SIG, [N(5, 3), T(2, 5, 3, ignore=-1)]),
    ("sigmoid_cross_entropy all ignored", SIG, [N(5, 3), T(0, 5, 3, low=-1)]),
    ("sigmoid_cross_entropy zero", SIG, [Q(5, 3), T(2, 5, 3, kind=np.int64)]),
    (
        "sigmoid_cross_entropy not normalized",
        lambda x, t: SIG(x, t, normalize=False),
        [N(5, 3), T(2, 5, 3, ignore=-1)],
    ),
    (
        "sigmoid_cross_entropy no",
        lambda x, t: SIG(x, t, reduce="no"),
        [N(5, 3), T(2, 5, 3, ignore=-1)],
    ),
    ("mean_squared_error", F.mean_squared_error, [N(3, 4), N(3, 4)]),
    ("mean_squared_error of a view", lambda x, y: F.mean_squared_error(x.T, y), [N(4, 3), N(3, 4)]),
    ("mean_squared_error 0-d", F.mean_squared_error, [N(), N()]),
    ("mean_absolute_error", F.mean_absolute_error, [Q(3, 4), Q(3, 4)]),
    ("huber_loss", lambda x, y: F.huber_loss(x, y, 1.0), [Q(3, 4), N(3, 4)]),
    ("huber_loss ties", lambda x, y: F.huber_loss(x, y, 1.0), [Q(3, 4), Q(3, 4)]),
    ("huber_loss 3-D", lambda x, y: F.huber_loss(x, y, 0.7), [N(3, 4, 2), N(3, 4, 2)]),
    ("huber_loss no", lambda x, y: F.huber_loss(x, y, 0.7, reduce="no"), [N(3, 4), N(3, 4)]),
    ("squared_error", F.squared_error, [N(3, 4), N(3, 4)]),
    ("squared_difference", F.squared_difference, [N(3, 4), N(3, 4)]),
    ("absolute_error", F.absolute_error, [Q(3, 4), Q(3, 4)]),
]

EVALUATION = [
    ("accuracy", F.accuracy, [N(7, 3), T(3, 7)]),
    ("accuracy ties", F.accuracy, [Q(7, 3), T(3, 7, kind=np.int64)]),
    ("accuracy trailing ones", F.accuracy, [N(7, 3, 1, 1), T(3, 7)]),
    ("accuracy 3-D", F.accuracy, [N(7, 3, 2), T(3, 7, 2)]),
    ("accuracy ignored", lambda x, t: F.accuracy(x, t, ignore_label=1), [N(7, 3), T(3, 7)]),
    (
        "accuracy all ignored",
        lambda x, t: F.accuracy(x, t, ignore_label=-1),
        [N(7, 3), T(0, 7, low=-1)],
    ),
]

NOISE = [
    ("dropout", F.dropout, [N(3, 4)]),
    ("dropout ratio", lambda x: F.dropout(x, 0.2), [N(30, 4)]),
    ("dropout ratio 0", lambda x: F.dropout(x, 0.0), [N(3, 4)]),
    ("dropout twice", lambda x: F.dropout(F.dropout(x, 0.2) * 2, 0.7), [N(5, 7)]),
    ("dropout of a view", lambda x: F.dropout(x.T, 0.4), [N(5, 7)]),
]

COMPOSITE = [
    (
        "multi-layer perceptron",
        lambda x, w1, b1, w2, b2, t: SCE(F.linear(F.relu(F.linear(x, w1, b1)), w2, b2), t),
        [N(6, 5), N(4, 5), N(4), N(3, 4), N(3), T(3, 6)],
    ),
    (
        "attention",
        lambda q, k, v: F.matmul(F.softmax(F.matmul(q, k, transb=True) * 0.5, axis=2), v),
        [N(2, 3, 4), N(2, 5, 4), N(2, 5, 6)],
    ),
    (
        "softmax_cross_entropy by parts",
        lambda x: F.sum(-F.log_softmax(x) * F.softmax(x) / 5),
        [N(5, 3)],
    ),
]

CASES = [
    *ACTIVATION,
    *CONNECTION,
    *MATMUL,
    *LOSS,
    *EVALUATION,
    *NOISE,
    *COMPOSITE,
    *MATH_CASES,
]
