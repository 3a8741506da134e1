"""chainer.functions.connection."""

from __future__ import annotations

import chainer.functions as F

from equivalence.arguments import N
from equivalence.harness import native

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

ROWS = [
    *native(CONNECTION),
]
