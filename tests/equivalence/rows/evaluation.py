"""chainer.functions.evaluation."""

from __future__ import annotations

import chainer.functions as F
import numpy as np

from equivalence.arguments import N, Q, T
from equivalence.harness import native

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

ROWS = [
    *native(EVALUATION),
]
