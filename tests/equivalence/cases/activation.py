"""chainer.functions.activation."""

from __future__ import annotations

import chainer.functions as F

from tests.equivalence.arguments import D, N, Q, U, array_of
from tests.equivalence.harness import Case, native


def gelu(x):
    """As it is written where there is no erf."""
    return 0.5 * x * (1 + F.tanh(0.79788456 * (x + 0.044715 * x**3)))


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

CASES = [
    *native(ACTIVATION),
    Case("hard_sigmoid", F.hard_sigmoid, [U(-4, 4, 3, 4)], native=True),
    Case("hard_sigmoid float16", F.hard_sigmoid, [U(-4, 4, 3, 4)], dtypes="e"),
    Case("maxout", lambda x: F.maxout(x, 2), [D(3, 6)], native=True),
    Case("maxout axis", lambda x: F.maxout(x, 3, axis=2), [D(2, 2, 6)], native=True),
    Case("prelu", F.prelu, [N(3, 4), N(4)], native=True),
    Case("prelu one slope", F.prelu, [N(3, 4), N()], native=True),
    Case("prelu two axes", F.prelu, [N(3, 4, 2), N(4, 2)], native=True),
    Case("rrelu", F.rrelu, [N(3, 4)], native=True),
    Case("rrelu bounds", lambda x: F.rrelu(x, 0.1, 0.6), [N(30, 40)], native=True),
    Case(
        "rrelu given",
        lambda x, r: F.rrelu(x, r=array_of(r)),
        [N(3, 4), U(0.1, 0.3, 3, 4)],
        native=True,
    ),
    Case("rrelu return_r", lambda x: F.rrelu(x, return_r=True), [N(3, 4)], native=True),
    Case("selu", F.selu, [N(3, 4)], native=True),
    Case("selu alpha", lambda x: F.selu(x, 1.1, 0.7), [N(3, 4)], native=True),
    Case("swish", F.swish, [N(3, 4), N(4)], native=True),
    Case("swish one beta", F.swish, [N(3, 4, 2), N()], native=True),
    Case("composite gelu by tanh", gelu, [N(3, 4)], native=True),
    Case(
        "composite gelu by erf",
        lambda x: 0.5 * x * (1 + F.erf(x / 2**0.5)),
        [N(3, 4)],
        native=True,
    ),
]
