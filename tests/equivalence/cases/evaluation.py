"""chainer.functions.evaluation."""

from __future__ import annotations

import chainer.functions as F
import numpy as np

from tests.equivalence.arguments import I, N, Q, T
from tests.equivalence.harness import Case, native

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
    ("binary_accuracy", F.binary_accuracy, [N(7), I(0, 2, 7)]),
    ("binary_accuracy ignored", F.binary_accuracy, [N(7, 2), I(-1, 2, 7, 2, kind=np.int8)]),
    ("r2_score", F.r2_score, [N(7, 2), N(7, 2)]),
    ("r2_score raw", lambda p, t: F.r2_score(p, t, multioutput="raw_values"), [N(7, 2), N(7, 2)]),
    ("r2_score 1-D", F.r2_score, [N(7), N(7)]),
    (
        "r2_score of equal truths",
        lambda p, t: F.r2_score(p, t * 0 + 2, multioutput="raw_values"),
        [N(7, 2), N(7, 2)],
    ),
]

CASES = [
    *native(EVALUATION),
    *[
        Case(
            f"{f.__name__}{label}",
            lambda y, t, f=f, k=k: f(y, t, **k),
            [N(9, 3), T(3, 9, low=low)],
            native=True,
        )
        for f in (F.classification_summary, F.precision, F.recall, F.f1_score)
        for label, low, k in [
            (" label_num", -1, {"label_num": 3}),
            (" ignored", 0, {"label_num": 3, "ignore_label": 1}),
        ]
    ],
    *[
        Case(
            f"{f.__name__} of unknown labels",
            f,
            [N(4, 5), I(0, 5, 4)],
            dynamic="without label_num the number of classes is the largest label plus one",
        )
        for f in (F.classification_summary, F.precision, F.recall, F.f1_score)
    ],
    Case(
        "classification_summary beta",
        lambda y, t: F.classification_summary(y, t, 3, beta=2.0),
        [N(9, 3), T(3, 9)],
        native=True,
    ),
    Case(
        "classification_summary more scores",
        lambda y, t: F.classification_summary(y, t, 3),
        [N(4, 5, 3), T(3, 4, 3, kind=np.int64)],
        native=True,
    ),
]
