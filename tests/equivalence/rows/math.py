"""chainer.functions.math."""

from __future__ import annotations

import chainer.functions as F

from equivalence.arguments import N, P, Q
from equivalence.harness import native

MATH = [
    ("exp", F.exp, [N(3, 4)]),
    ("log", F.log, [P(3, 4)]),
    ("sqrt", F.sqrt, [P(3, 4)]),
    ("rsqrt", F.rsqrt, [P(3, 4)]),
    ("square", F.square, [N(3, 4)]),
    ("identity", F.identity, [N(3, 4)]),
    ("identity of two", lambda x, y: F.identity(x, y), [N(3, 4), N(2)]),
    ("clip", lambda x: F.clip(x, -0.5, 0.5), [Q(3, 4)]),
    ("clip below", lambda x: F.clip(x, -0.5, None), [Q(3, 4)]),
    ("clip above", lambda x: F.clip(x, None, 1), [Q(3, 4)]),
    *[
        (
            f"{f.__name__} {shape} axis {axis} keepdims {keep}",
            lambda x, f=f, axis=axis, keep=keep: f(x, axis=axis, keepdims=keep),
            [make(*shape)],
        )
        for f, make in [(F.sum, N), (F.mean, N), (F.average, N), (F.max, Q), (F.min, Q)]
        for shape, axis, keep in [
            ((2, 3, 4), None, False),
            ((2, 3, 4), None, True),
            ((2, 3, 4), 0, False),
            ((2, 3, 4), -1, True),
            ((2, 3, 4), 1, False),
            ((2, 3, 4), (0, 2), False),
            ((2, 3, 4), (2, 0), True),
            ((2, 3, 4), (-1, 1), False),
            ((2, 3, 4), (0, 1, 2), False),
            ((), None, False),
        ]
    ],
    ("sum axis ()", lambda x: F.sum(x, axis=()), [N(2, 3)]),
    ("sum empty", lambda x: F.sum(x, axis=0), [N(0, 3)]),
    ("sum of a transposed view", lambda x: F.sum(x.T, axis=1), [N(2, 3)]),
    ("sum of a broadcast view", lambda x: F.sum(F.broadcast_to(x, (5, 2, 3)) * 2), [N(2, 3)]),
    ("sum_to", lambda x: F.math.sum.sum_to(x, (1, 3)), [N(4, 2, 3)]),
    ("average weights", lambda x, w: F.average(x, 1, w), [N(3, 4), P(4)]),
    ("average weights no axis", lambda x, w: F.average(x, weights=w), [N(3, 4), P(3, 4)]),
    ("logsumexp", F.logsumexp, [N(2, 3, 4)]),
    ("logsumexp axis", lambda x: F.logsumexp(x, axis=1), [N(2, 3, 4)]),
    ("logsumexp axes", lambda x: F.logsumexp(x * 100, axis=(0, -1)), [N(2, 3, 4)]),
    ("linear_interpolate", F.linear_interpolate, [P(3, 4), N(3, 4), N(3, 4)]),
    ("bias", F.bias, [N(2, 3, 4), N(3)]),
    ("scale", lambda x, y: F.scale(x, y, axis=0), [N(2, 3, 4), N(2, 3)]),
]

ROWS = [
    *native(MATH),
]
