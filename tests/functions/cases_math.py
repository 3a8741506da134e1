"""Native functions: operators, mathematics, arrays; one case per variant."""

from __future__ import annotations

import chainer.functions as F
import numpy as np

from equivalence.arguments import N, P, Q, T

BINARY = [
    (name, f, [a(*s), b(*t)])
    for name, f, a, b in [
        ("add", lambda x, y: x + y, N, N),
        ("subtract", lambda x, y: x - y, N, N),
        ("multiply", lambda x, y: x * y, N, N),
        ("divide", lambda x, y: x / y, N, P),
        ("power", lambda x, y: x**y, P, N),
        ("maximum", F.maximum, Q, Q),
        ("minimum", F.minimum, Q, Q),
    ]
    for s, t in [((3, 4), (3, 4)), ((3, 4), (4,)), ((3, 1), (1, 4)), ((), (2, 3)), ((2, 0), (2, 1))]
]

BASIC_MATH = [
    *BINARY,
    ("add three", lambda x, y, z: F.add(x, y, z), [N(3, 4), N(4), N(2, 3, 1)]),
    ("add one", lambda x: F.add(x) * 2, [N(3, 4)]),
    ("x + x", lambda x: x + x, [N(3, 4)]),
    ("x * x", lambda x: x * x, [N(3, 4)]),
    ("x - x", lambda x: x - x, [N(3, 4)]),
    ("x / x", lambda x: x / x, [P(3, 4)]),
    ("negative", lambda x: -x, [N(3, 4)]),
    ("absolute", abs, [Q(3, 4)]),
    ("absolute F", F.absolute, [Q(3, 4)]),
    ("x + 2", lambda x: x + 2, [N(3, 4)]),
    ("2.5 + x", lambda x: 2.5 + x, [N(3, 4)]),
    ("x - 2", lambda x: x - 2, [N(3, 4)]),
    ("2 - x", lambda x: 2 - x, [N(3, 4)]),
    ("x * float32", lambda x: x * np.float32(0.1), [N(3, 4)]),
    ("float64 * x", lambda x: np.float64(0.1) * x, [N(3, 4)]),
    ("x * True", lambda x: x * True, [N(3, 4)]),
    ("x * int64", lambda x: x * np.int64(3), [N(3, 4)]),
    ("x * 0-d array", lambda x: x * np.array(0.7), [N(3, 4)]),
    ("x + array", lambda x: x + np.arange(4.0), [N(3, 4)]),
    ("x / 3", lambda x: x / 3, [N(3, 4)]),
    ("3 / x", lambda x: 3 / x, [P(3, 4)]),
    ("x ** 2", lambda x: x**2, [N(3, 4)]),
    ("x ** 3", lambda x: x**3, [N(3, 4)]),
    ("x ** 0", lambda x: x**0, [N(3, 4)]),
    ("x ** 0.5", lambda x: x**0.5, [P(3, 4)]),
    ("x ** -1.5", lambda x: x**-1.5, [P(3, 4)]),
    ("2 ** x", lambda x: 2**x, [N(3, 4)]),
    ("0.3 ** x", lambda x: 0.3**x, [N(3, 4)]),
    ("long chain", lambda x: ((-x + 1) * 2 - 3) / 4 + abs(x), [N(3, 4)]),
]

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

S = slice
ARRAY = [
    ("reshape", lambda x: F.reshape(x, (2, 6)), [N(3, 4)]),
    ("reshape -1", lambda x: x.reshape(2, -1) * 2, [N(3, 4)]),
    ("reshape of a transposed view", lambda x: F.reshape(x.T, (2, 6)), [N(3, 4)]),
    ("reshape to 0-d", lambda x: F.reshape(x, ()), [N(1, 1)]),
    ("flatten", F.flatten, [N(3, 4)]),
    ("transpose", F.transpose, [N(3, 4, 2)]),
    ("transpose axes", lambda x: F.transpose(x, (1, -1, 0)), [N(3, 4, 2)]),
    ("transpose 0-d", F.transpose, [N()]),
    ("T", lambda x: x.T + 1, [N(3, 4)]),
    ("swapaxes", lambda x: F.swapaxes(x, 0, -1), [N(3, 4, 2)]),
    *[
        (f"rollaxis {a} {s}", lambda x, a=a, s=s: F.rollaxis(x, a, s), [N(3, 4, 2)])
        for a in (0, 1, 2, -1, -2)
        for s in (0, 1, 2, 3, -1, -2)
    ],
    ("moveaxis", lambda x: F.moveaxis(x, 0, -1), [N(3, 4, 2)]),
    ("moveaxis two", lambda x: F.moveaxis(x, (0, 2), (-1, 0)), [N(3, 4, 2, 5)]),
    ("expand_dims", lambda x: F.expand_dims(x, 1), [N(3, 4)]),
    ("expand_dims last", lambda x: F.expand_dims(x.T, -1) * 2, [N(3, 4)]),
    ("expand_dims end", lambda x: F.expand_dims(x, 2), [N(3, 4)]),
    ("squeeze", F.squeeze, [N(1, 3, 1, 4)]),
    ("squeeze axis", lambda x: F.squeeze(x, -2), [N(1, 3, 1, 4)]),
    ("squeeze axes", lambda x: F.squeeze(x, (0, -2)), [N(1, 3, 1, 4)]),
    ("squeeze of a transposed view", lambda x: F.squeeze(x.transpose(2, 1, 0)), [N(4, 1, 3)]),
    ("broadcast_to", lambda x: F.broadcast_to(x, (2, 3, 4)), [N(3, 1)]),
    ("broadcast_to used", lambda x: F.broadcast_to(x, (2, 3, 4)) * 2 + 1, [N(4)]),
    ("broadcast", lambda x, y: F.broadcast(x, y), [N(3, 1), N(4)]),
    ("flip", lambda x: F.flip(x, 0) * 2, [N(3, 4)]),
    ("flip last", lambda x: F.flip(x, -1), [N(3, 4)]),
    ("flipud", F.flipud, [N(3, 4)]),
    ("fliplr", F.fliplr, [N(3, 4)]),
    ("select_item", F.select_item, [N(5, 3), T(3, 5)]),
    ("select_item negative", F.select_item, [N(5, 3), T(3, 5, low=-3, kind=np.int64)]),
    ("cast", lambda x: F.cast(x, np.float64) * 2, [N(3, 4)]),
    ("cast back", lambda x: F.cast(F.cast(x, "f"), "d") * 2, [N(3, 4)]),
    ("cast labels", lambda x, t: F.cast(t, x.dtype) * x, [N(5), T(3, 5)]),
    ("cast to the same", lambda x: F.cast(x, x.dtype), [N(3, 4)]),
    *[
        (f"get_item {key}", lambda x, key=key: x[key], [N(3, 4, 2)])
        for key in [
            0,
            -1,
            (1, 2, 0),
            S(None),
            S(1, 3),
            S(None, None, -1),
            S(5, 1, -2),
            (S(None), 1),
            (S(None), S(0, 4, 3), -1),
            (Ellipsis, 0),
            (None, 1),
            (0, Ellipsis, None, S(1)),
            Ellipsis,
            (S(2, 2), 1),
            (np.int64(1), S(None, 2)),
        ]
    ],
    ("get_item list of ints", lambda x: F.get_item(x, [S(None), 1]), [N(3, 4)]),
    ("get_item used twice", lambda x: x[0] * F.sum(x[1:].T[0]), [N(3, 3)]),
    ("get_item 0-d", lambda x: x[()] * 2, [N()]),
]

JOINING = [
    ("concat", lambda *xs: F.concat(xs), [N(2, 3), N(2, 1), N(2, 4)]),
    ("concat axis 0", lambda *xs: F.concat(xs, 0), [N(2, 3), N(0, 3), N(4, 3)]),
    ("concat axis -1", lambda *xs: F.concat(xs, -1), [N(2, 3), N(2, 1)]),
    ("concat one", lambda x: F.concat([x]), [N(2, 3)]),
    ("concat the same twice", lambda x: F.concat([x, x * 2, x]), [N(2, 3)]),
    ("concat of views", lambda x, y: F.concat([x.T, y.T], 0), [N(3, 2), N(3, 4)]),
    ("concat then add", lambda x, y: F.concat([x, y]) + 1, [N(2, 3), N(2, 2)]),
    ("stack", lambda *xs: F.stack(xs), [N(2, 3), N(2, 3)]),
    ("stack axis 1", lambda *xs: F.stack(xs, 1), [N(2, 3), N(2, 3)]),
    ("stack axis -1", lambda *xs: F.stack(xs, -1), [N(2, 3), N(2, 3)]),
    ("stack 0-d", lambda *xs: F.stack(xs), [N(), N()]),
    ("split_axis", lambda x: F.split_axis(x, 2, 1), [N(3, 4)]),
    ("split_axis indices", lambda x: F.split_axis(x, [1, 3], -1), [N(3, 4)]),
    ("split_axis array", lambda x: F.split_axis(x, np.array([1, 1, 2]), 0), [N(3, 4)]),
    ("split_axis no index", lambda x: F.split_axis(x, [], 0), [N(3, 4)]),
    ("split and use", lambda x: F.tanh(F.split_axis(x, 2, 1)[0]), [N(3, 4)]),
    ("separate", lambda x: F.separate(x, 1), [N(3, 4)]),
    ("separate and use", lambda x: F.separate(x, 0)[1] * 2, [N(3, 4)]),
    *[
        (f"{f.__name__} {shapes}", lambda *xs, f=f: f(xs), [N(*s) for s in shapes])
        for f, shapes in [
            (F.hstack, [(), ()]),
            (F.hstack, [(2,), (3,)]),
            (F.hstack, [(2, 3), (2, 1)]),
            (F.hstack, [()]),
            (F.vstack, [(), ()]),
            (F.vstack, [(3,), (3,)]),
            (F.vstack, [(3,)]),
            (F.vstack, [(2, 3), (1, 3)]),
            (F.dstack, [(), ()]),
            (F.dstack, [(3,), (3,)]),
            (F.dstack, [(2, 3), (2, 3)]),
            (F.dstack, [(2, 3, 1), (2, 3, 4)]),
            (F.dstack, [(2, 3)]),
        ]
    ],
]

MATH_CASES = [*BASIC_MATH, *MATH, *ARRAY, *JOINING]
