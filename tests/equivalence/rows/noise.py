"""chainer.functions.noise."""

from __future__ import annotations

import chainer.functions as F

from equivalence.arguments import N
from equivalence.harness import native

NOISE = [
    ("dropout", F.dropout, [N(3, 4)]),
    ("dropout ratio", lambda x: F.dropout(x, 0.2), [N(30, 4)]),
    ("dropout ratio 0", lambda x: F.dropout(x, 0.0), [N(3, 4)]),
    ("dropout twice", lambda x: F.dropout(F.dropout(x, 0.2) * 2, 0.7), [N(5, 7)]),
    ("dropout of a view", lambda x: F.dropout(x.T, 0.4), [N(5, 7)]),
]

ROWS = [
    *native(NOISE),
]
