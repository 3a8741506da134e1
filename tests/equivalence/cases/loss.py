"""chainer.functions.loss."""

from __future__ import annotations

import chainer.functions as F
import numpy as np

from tests.equivalence.arguments import I, N, Q, T, U
from tests.equivalence.harness import Case, native
from tests.tolerances import CONFORMANCE

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
    ("contrastive", F.contrastive, [N(5, 3), N(5, 3), I(0, 2, 5)]),
    ("contrastive equal", F.contrastive, [Q(9, 1), Q(9, 1), I(0, 2, 9)]),
    (
        "contrastive no",
        lambda *a: F.contrastive(*a, margin=0.7, reduce="no"),
        [N(5, 3), N(5, 3), I(0, 2, 5, kind=np.int64)],
    ),
    ("triplet", F.triplet, [N(5, 3), N(5, 3), N(5, 3)]),
    ("triplet no", lambda *a: F.triplet(*a, margin=0.5, reduce="no"), [N(5, 3)] * 3),
]

# The weights come from outside.
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


def draw(shape):
    """A sampler of negative examples as in word2vec."""
    return np.random.choice(6, shape).astype(np.int32)


CASES = [
    *native(LOSS),
    *native(WEIGHTED),
    Case(
        "softmax_cross_entropy twice",
        lambda x, t: SCE(x, t, enable_double_backprop=True),
        [N(5, 3), T(3, 5)],
        native=True,
    ),
    Case(
        "softmax_cross_entropy twice, no, ignored, 3-D",
        lambda x, t: SCE(x, t, reduce="no", enable_double_backprop=True),
        [N(5, 3, 2), T(3, 5, 2, ignore=-1)],
        native=True,
    ),
    Case("bernoulli_nll", F.bernoulli_nll, [U(0, 1, 3, 4), N(3, 4)], native=True),
    Case(
        "bernoulli_nll no",
        lambda x, y: F.bernoulli_nll(x, y, "no"),
        [U(0, 1, 3, 4), N(3, 4)],
        native=True,
    ),
    Case(
        "black_out",
        lambda x, W, t, s: F.black_out(x, t, W, s),
        [N(4, 3), N(6, 3), I(0, 6, 4), I(0, 6, 4, 2)],
        native=True,
    ),
    Case(
        "black_out no",
        lambda x, W, t, s: F.black_out(x, t, W, s, reduce="no"),
        [N(4, 3), N(6, 3), I(0, 6, 4), I(0, 6, 4, 2)],
        native=True,
    ),
    *[
        Case(
            f"connectionist_temporal_classification{label}",
            lambda *a, k=k: F.connectionist_temporal_classification(list(a[:4]), a[4], 2, **k),
            [*[N(2, 3)] * 4, I(0, 2, 2, 2)],
            native=True,
        )
        for label, k in [("", {}), (" no", {"reduce": "no"})]
    ],
    Case(
        "connectionist_temporal_classification lengths",
        lambda *a: F.connectionist_temporal_classification(list(a[:4]), a[4], 2, a[5], a[6]),
        [*[N(2, 3)] * 4, I(0, 2, 2, 2), I(3, 5, 2), I(1, 3, 2)],
        native=True,
    ),
    Case(
        "connectionist_temporal_classification longer",
        lambda *a: F.connectionist_temporal_classification(
            list(a[:9]), a[9], 0, a[10], a[11], reduce="no"
        ),
        [*[N(3, 5)] * 9, I(-4, 0, 3, 3), I(4, 10, 3), I(1, 4, 3)],
        native=True,
    ),
    *[
        Case(
            f"crf1d{label}",
            lambda cost, a, b, c, y, z, w, k=k: F.crf1d(cost, [a, b, c], [y, z, w], **k),
            [N(3, 3), N(4, 3), N(3, 3), N(1, 3), I(0, 3, 4), I(0, 3, 3), I(0, 3, 1)],
            native=True,
        )
        for label, k in [("", {}), (" no", {"reduce": "no"})]
    ],
    Case(
        "argmax_crf1d",
        lambda cost, a, b, c: F.argmax_crf1d(cost, [a, b, c]),
        [N(3, 3), N(4, 3), N(3, 3), N(1, 3)],
        native=True,
    ),
    *[
        Case(f"{f.__name__}{label}", lambda *a, f=f, k=k: f(*a, **k), inputs, native=True)
        for f, inputs in [
            (F.cross_covariance, [N(5, 3), N(5, 4)]),
            (F.decov, [N(5, 3)]),
        ]
        for label, k in [("", {}), (" no", {"reduce": "no"})]
    ],
    *[
        Case(f"{f.__name__}{label}", lambda *a, f=f, k=k: f(*a, **k), [N(3, 4)] * n, native=True)
        for f, n in [(F.gaussian_kl_divergence, 2), (F.gaussian_nll, 3)]
        for label, k in [("", {}), (" mean", {"reduce": "mean"}), (" no", {"reduce": "no"})]
    ],
    Case(
        "discriminative_margin_based_clustering_loss",
        lambda e, t: F.discriminative_margin_based_clustering_loss(e, t, 0.5, 1.5, 3),
        [N(3, 3, 4, 4), I(0, 3, 3, 4, 4)],
        native=True,
    ),
    *[
        Case(
            f"hinge {norm} {reduce}",
            lambda x, t, a=(norm, reduce): F.hinge(x, t, *a),
            [N(5, 3), T(3, 5, low=-3)],
            native=True,
        )
        for norm in ("L1", "L2")
        for reduce in ("mean", "no")
    ],
    *[
        Case(
            f"negative_sampling{label}",
            lambda x, W, t, k=k: F.negative_sampling(x, t, W, draw, 4, **k),
            [N(5, 3), N(6, 3), T(6, 5, ignore=-1)],
            native=True,
            draws=1,
        )
        for label, k in [
            ("", {}),
            (" no", {"reduce": "no"}),
            (" return_samples", {"return_samples": True}),
        ]
    ],
    Case("sigmoid_cross_entropy int8", SIG, [N(5, 3), T(2, 5, 3, kind=np.int8)], native=True),
    Case(
        "softmax_cross_entropy soft targets",
        lambda x, t: SCE(x, F.softmax(t), soft_target_loss="cross-entropy"),
        [N(5, 3), N(5, 3)],
        native=True,
    ),
    Case(
        "softmax_cross_entropy kl",
        lambda x, t: SCE(x, F.softmax(t).array, soft_target_loss="kl-divergence", reduce="no"),
        [N(5, 3), N(5, 3)],
        native=True,
    ),
    Case(
        "softmax_cross_entropy kl, 3-D",
        lambda x, t: SCE(x, F.softmax(t), soft_target_loss="kl-divergence"),
        [N(5, 3, 2), N(5, 3, 2)],
        native=True,
    ),
    Case(
        "softmax_cross_entropy soft targets with -1",
        lambda x, t: SCE(x, t, reduce="no"),
        [N(5, 3), Q(5, 3)],
        native=True,
    ),
    Case(
        "softmax_cross_entropy float16",
        SCE,
        [N(5, 3), T(3, 5)],
        dtypes="e",
        tolerances=CONFORMANCE,  # Chainer rounds each logarithm before they are added up
    ),
]
