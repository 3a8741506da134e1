"""chainer.functions.composite."""

from __future__ import annotations

import chainer.functions as F

from tests.equivalence.arguments import N, T
from tests.equivalence.harness import Case, native

COMPOSITE = [
    (
        "composite attention",
        lambda q, k, v: F.matmul(F.softmax(F.matmul(q, k, transb=True) * 0.5, axis=2), v),
        [N(2, 3, 4), N(2, 5, 4), N(2, 5, 6)],
    ),
    (
        "composite softmax_cross_entropy by parts",
        lambda x: F.sum(-F.log_softmax(x) * F.softmax(x) / 5),
        [N(5, 3)],
    ),
]

CASES = [
    *native(COMPOSITE),
    Case(
        "composite multi-layer perceptron",
        lambda x, w1, b1, w2, b2, t: F.softmax_cross_entropy(
            F.linear(F.relu(F.linear(x, w1, b1)), w2, b2), t
        ),
        [N(6, 5), N(4, 5), N(4), N(3, 4), N(3), T(3, 6)],
        native=True,
        second=False,
    ),
]
