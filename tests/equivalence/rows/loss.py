"""chainer.functions.loss."""

from __future__ import annotations

import chainer.functions as F
import numpy as np

from equivalence.arguments import N, Q, T
from equivalence.harness import native

W3 = np.array([0.5, 2, 1.5], np.float32)
SCE, SIG = F.softmax_cross_entropy, F.sigmoid_cross_entropy
LOSS = [
    ("softmax_cross_entropy", SCE, [N(5, 3), T(3, 5)]),
    ("softmax_cross_entropy int64", SCE, [N(5, 3), T(3, 5, kind=np.int64)]),
    ("softmax_cross_entropy int8", SCE, [N(5, 3), T(3, 5, kind=np.int8)]),
    ("softmax_cross_entropy ignored", SCE, [N(5, 3), T(3, 5, ignore=-1)]),
    ("softmax_cross_entropy all ignored", SCE, [N(5, 3), T(0, 5, low=-1)]),
    ("softmax_cross_entropy 4-D", SCE, [N(5, 3, 2, 2), T(3, 5, 2, 2, ignore=-1)]),
    (
        "softmax_cross_entropy negative labels",
        lambda x, t: SCE(x, t, ignore_label=7),
        [N(5, 3), T(3, 5, low=-3, ignore=7)],
    ),
    (
        "softmax_cross_entropy not normalized",
        lambda x, t: SCE(x, t, normalize=False),
        [N(5, 3, 2), T(3, 5, 2, ignore=-1)],
    ),
    (
        "softmax_cross_entropy no cache",
        lambda x, t: SCE(x, t, cache_score=False),
        [N(5, 3), T(3, 5)],
    ),
    ("softmax_cross_entropy no", lambda x, t: SCE(x, t, reduce="no"), [N(5, 3), T(3, 5)]),
    ("softmax_cross_entropy scaled", lambda x, t: SCE(x, t) * 3, [N(5, 3), T(3, 5)]),
    ("softmax_cross_entropy of a view", lambda x, t: SCE(x.T, t), [N(3, 5), T(3, 5)]),
    ("sigmoid_cross_entropy", SIG, [N(5, 3), T(2, 5, 3)]),
    ("sigmoid_cross_entropy ignored", SIG, [N(5, 3), T(2, 5, 3, ignore=-1)]),
    ("sigmoid_cross_entropy all ignored", SIG, [N(5, 3), T(0, 5, 3, low=-1)]),
    ("sigmoid_cross_entropy zero", SIG, [Q(5, 3), T(2, 5, 3, kind=np.int64)]),
    (
        "sigmoid_cross_entropy not normalized",
        lambda x, t: SIG(x, t, normalize=False),
        [N(5, 3), T(2, 5, 3, ignore=-1)],
    ),
    (
        "sigmoid_cross_entropy no",
        lambda x, t: SIG(x, t, reduce="no"),
        [N(5, 3), T(2, 5, 3, ignore=-1)],
    ),
    ("mean_squared_error", F.mean_squared_error, [N(3, 4), N(3, 4)]),
    ("mean_squared_error of a view", lambda x, y: F.mean_squared_error(x.T, y), [N(4, 3), N(3, 4)]),
    ("mean_squared_error 0-d", F.mean_squared_error, [N(), N()]),
    ("mean_absolute_error", F.mean_absolute_error, [Q(3, 4), Q(3, 4)]),
    ("huber_loss", lambda x, y: F.huber_loss(x, y, 1.0), [Q(3, 4), N(3, 4)]),
    ("huber_loss ties", lambda x, y: F.huber_loss(x, y, 1.0), [Q(3, 4), Q(3, 4)]),
    ("huber_loss 3-D", lambda x, y: F.huber_loss(x, y, 0.7), [N(3, 4, 2), N(3, 4, 2)]),
    ("huber_loss no", lambda x, y: F.huber_loss(x, y, 0.7, reduce="no"), [N(3, 4), N(3, 4)]),
    ("squared_error", F.squared_error, [N(3, 4), N(3, 4)]),
    ("squared_difference", F.squared_difference, [N(3, 4), N(3, 4)]),
    ("absolute_error", F.absolute_error, [Q(3, 4), Q(3, 4)]),
]

# The weights come from outside: a second trace confirms that they stay.
WEIGHTED = [
    (
        "softmax_cross_entropy class_weight",
        lambda x, t: SCE(x, t, class_weight=W3),
        [N(5, 3, 2), T(3, 5, 2, ignore=-1)],
    ),
    (
        "softmax_cross_entropy no, 3-D, class_weight",
        lambda x, t: SCE(x, t, reduce="no", class_weight=W3),
        [N(5, 3, 2), T(3, 5, 2, ignore=-1)],
    ),
]

ROWS = [
    *native(LOSS),
    *native(WEIGHTED, traces=2),
]
