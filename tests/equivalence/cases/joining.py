"""chainer.functions.joining."""

from __future__ import annotations

import chainer.functions as F
import numpy as np

from tests.equivalence.arguments import N
from tests.equivalence.harness import Case, native

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
    ("split_axis no index", lambda x: F.split_axis(x, [], 0), [N(3, 4)]),
    ("split_axis and use", lambda x: F.tanh(F.split_axis(x, 2, 1)[0]), [N(3, 4)]),
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

SEQUENCES = [
    ("transpose_sequence", lambda *xs: F.transpose_sequence(xs), [N(3, 2), N(2, 2), N(1, 2)]),
    ("transpose_sequence equal", lambda *xs: F.transpose_sequence(xs), [N(2, 2), N(2, 2)]),
    ("transpose_sequence empty", lambda *xs: F.transpose_sequence(xs), [N(2, 2), N(0, 2)]),
    ("transpose_sequence wide", lambda *xs: F.transpose_sequence(xs), [N(3, 4099), N(2, 4099)]),
    (
        "transpose_sequence long",
        lambda *xs: F.transpose_sequence(xs),
        [N(7, 2), N(7, 2), N(4, 2), N(3, 2), N(3, 2)],
    ),
]

CASES = [
    *native(JOINING),
    Case(
        "split_axis array",
        lambda x: F.split_axis(x, np.array([1, 1, 2]), 0),
        [N(3, 4)],
        native=True,
    ),
    *native(SEQUENCES, partial=False),
]
