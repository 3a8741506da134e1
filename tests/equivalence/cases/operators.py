"""Operators of Variables, chainer.functions.math.basic_math."""

from __future__ import annotations

import chainer.functions as F
import numpy as np

from tests.equivalence.arguments import N, P, Q
from tests.equivalence.harness import Case, native

BINARY = [
    (f"{name} {s} {t}", f, [a(*s), b(*t)])
    for name, f, a, b in [
        ("add", lambda x, y: x + y, N, N),
        ("operator subtract", lambda x, y: x - y, N, N),
        ("operator multiply", lambda x, y: x * y, N, N),
        ("operator divide", lambda x, y: x / y, N, P),
        ("operator power", lambda x, y: x**y, P, N),
        ("maximum", F.maximum, Q, Q),
        ("minimum", F.minimum, Q, Q),
    ]
    for s, t in [((3, 4), (3, 4)), ((3, 4), (4,)), ((3, 1), (1, 4)), ((), (2, 3)), ((2, 0), (2, 1))]
]

BASIC_MATH = [
    *BINARY,
    ("add three", lambda x, y, z: F.add(x, y, z), [N(3, 4), N(4), N(2, 3, 1)]),
    ("add one", lambda x: F.add(x) * 2, [N(3, 4)]),
    ("operator x + x", lambda x: x + x, [N(3, 4)]),
    ("operator x * x", lambda x: x * x, [N(3, 4)]),
    ("operator x - x", lambda x: x - x, [N(3, 4)]),
    ("operator x / x", lambda x: x / x, [P(3, 4)]),
    ("operator negative", lambda x: -x, [N(3, 4)]),
    ("absolute", abs, [Q(3, 4)]),
    ("absolute F", F.absolute, [Q(3, 4)]),
    ("operator x + 2", lambda x: x + 2, [N(3, 4)]),
    ("operator 2.5 + x", lambda x: 2.5 + x, [N(3, 4)]),
    ("operator x - 2", lambda x: x - 2, [N(3, 4)]),
    ("operator 2 - x", lambda x: 2 - x, [N(3, 4)]),
    ("operator x * float32", lambda x: x * np.float32(0.1), [N(3, 4)]),
    ("operator float64 * x", lambda x: np.float64(0.1) * x, [N(3, 4)]),
    ("operator x * True", lambda x: x * True, [N(3, 4)]),
    ("operator x * int64", lambda x: x * np.int64(3), [N(3, 4)]),
    ("operator x + array", lambda x: x + np.arange(4.0), [N(3, 4)]),
    ("operator x / 3", lambda x: x / 3, [N(3, 4)]),
    ("operator 3 / x", lambda x: 3 / x, [P(3, 4)]),
    ("operator x ** 2", lambda x: x**2, [N(3, 4)]),
    ("operator x ** 3", lambda x: x**3, [N(3, 4)]),
    ("operator x ** 0", lambda x: x**0, [N(3, 4)]),
    ("operator x ** 0.5", lambda x: x**0.5, [P(3, 4)]),
    ("operator x ** -1.5", lambda x: x**-1.5, [P(3, 4)]),
    ("operator 2 ** x", lambda x: 2**x, [N(3, 4)]),
    ("operator 0.3 ** x", lambda x: 0.3**x, [N(3, 4)]),
    ("operator long chain", lambda x: ((-x + 1) * 2 - 3) / 4 + abs(x), [N(3, 4)]),
]

CASES = [
    *native(BASIC_MATH),
    Case("operator x * 0-d array", lambda x: x * np.array(0.7), [N(3, 4)], native=True),
]
