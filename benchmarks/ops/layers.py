"""Products, convolutions, poolings, recurrent cells, losses and evaluations."""

from __future__ import annotations

import chainer.functions as F
import numpy as np

from benchmarks.ops.arrays import images, rows, square
from benchmarks.ops.case import Size, cases_of
from tests.equivalence.arguments import I, N, T, U

PRODUCTS = [
    ("linear", F.linear, lambda s: [*rows(256)(s), N(s(256), s(256)), N(s(256))], 4),
    ("linear thin", F.linear, lambda s: [*rows(64)(s), N(s(8), s(64)), N(s(8))]),
    (
        "linear two batch axes",
        lambda *a: F.linear(*a, n_batch_axes=2),
        lambda s: [N(s.rows(16, s(64)), 16, s(64)), N(s(64), s(64)), N(s(64))],
    ),
    ("matmul", F.matmul, lambda s: square(N, 2)(s), 8),
    ("matmul transposed", lambda x, y: F.matmul(x, y, True, True), lambda s: square(N, 2)(s), 8),
    ("matmul vector", F.matmul, lambda s: [N(s.side(), s.side()), N(s.side())]),
    ("matmul of vectors", F.matmul, lambda s: [N(s.rows())] * 2),
    ("matmul batches", F.matmul, lambda s: [N(s.rows(s(32), s(32)), s(32), s(32))] * 2),
    (
        "matmul small batches",
        F.matmul,
        lambda s: [N(s.rows(3, 5), 3, 5), N(s.rows(3, 5), 5, 4)],
        4,
    ),
    ("batch_matmul", F.batch_matmul, lambda s: [N(s.rows(s(32), s(32)), s(32), s(32))] * 2),
    (
        "einsum",
        lambda a, b: F.einsum("abij,abkj->aibk", a, b),
        lambda s: [N(s.rows(4, s(32), s(32)), 4, s(32), s(32))] * 2,
        8,
    ),
    ("einsum trace", lambda a: F.einsum("ii->", a), square(N)),
    (
        "einsum diagonal",
        lambda a, b: F.einsum("ij,j->ji", a, b),
        lambda s: [*rows(64)(s), N(s(64))],
    ),
    (
        "tensordot",
        F.tensordot,
        lambda s: [N(s.rows(16, 16), 16, 16), N(16, 16, 32)],
    ),
    (
        "bilinear",
        F.bilinear,
        lambda s: [N(s.rows(16), 16), N(s.rows(16), 16), N(16, 16, 8)],
        16,
    ),
    (
        "simplified_dropconnect",
        F.simplified_dropconnect,
        lambda s: [N(s.rows(256), 16), N(16, 16), N(16)],
    ),
    (
        "composite attention",
        lambda q, k, v: F.matmul(F.softmax(F.matmul(q, k, transb=True) * 0.1, axis=2), v),
        lambda s: [N(s.rows(s(64), s(32)), s(64), s(32))] * 3,
    ),
]


def _filters(n_out: int, n_in: int, *kernel: int):
    return [N(n_out, n_in, *kernel), N(n_out)]


CONVOLUTIONS = [
    (
        "convolution_1d",
        F.convolution_1d,
        lambda s: [N(s.rows(16, s(64)), 16, s(64)), *_filters(16, 16, 3)],
    ),
    ("convolution_2d", F.convolution_2d, lambda s: [*images()(s), *_filters(16, 16, 3, 3)], 4),
    ("convolution_2d 1x1", F.convolution_2d, lambda s: [*images()(s), *_filters(16, 16, 1, 1)], 2),
    (
        "convolution_2d stride",
        lambda *a: F.convolution_2d(*a, stride=2, pad=1),
        lambda s: [*images()(s), *_filters(16, 16, 3, 3)],
        2,
    ),
    (
        "convolution_2d groups",
        lambda *a: F.convolution_2d(*a, groups=4),
        lambda s: [*images()(s), *_filters(16, 4, 3, 3)],
        4,
    ),
    (
        "convolution_3d",
        F.convolution_3d,
        lambda s: [N(s.rows(4, 8, 8, 8), 4, 8, 8, 8), *_filters(8, 4, 3, 3, 3)],
        8,
    ),
    ("convolution_nd", F.convolution_nd, lambda s: [*images()(s), *_filters(16, 16, 3, 3)], 8),
    (
        "deconvolution_1d",
        F.deconvolution_1d,
        lambda s: [N(s.rows(16, s(64)), 16, s(64)), N(16, 16, 3), N(16)],
        2,
    ),
    (
        "deconvolution_2d",
        lambda *a: F.deconvolution_2d(*a, stride=2),
        lambda s: [*images()(s), N(16, 16, 3, 3), N(16)],
        8,
    ),
    (
        "deconvolution_3d",
        F.deconvolution_3d,
        lambda s: [N(s.rows(4, 8, 8, 8), 4, 8, 8, 8), N(4, 8, 3, 3, 3), N(8)],
        8,
    ),
    ("deconvolution_nd", F.deconvolution_nd, lambda s: [*images()(s), N(16, 16, 3, 3), N(16)], 8),
    (
        "depthwise_convolution_2d",
        F.depthwise_convolution_2d,
        lambda s: [*images()(s), N(1, 16, 3, 3), N(16)],
        8,
    ),
    (
        "dilated_convolution_2d",
        lambda *a: F.dilated_convolution_2d(*a, stride=1, pad=2, dilate=2),
        lambda s: [*images()(s), *_filters(16, 16, 3, 3)],
        4,
    ),
    (
        "local_convolution_2d",
        F.local_convolution_2d,
        lambda s: [N(s.rows(4, 16, 16), 4, 16, 16), N(4, 14, 14, 4, 3, 3), N(4, 14, 14)],
        16,
    ),
]


def _upsample(x, y):
    """Puts `y` where the maxima of `x` were."""
    pooled, indexes = F.max_pooling_2d(x, 2, return_indices=True)
    return F.upsampling_2d(y + pooled, indexes, 2)


def _sequences(s: Size) -> list:
    return [N(s.rows(16, s(64)), 16, s(64))]


def _volumes(s: Size) -> list:
    return [N(s.rows(4, 8, 8, 8), 4, 8, 8, 8)]


def _halved(s: Size) -> list:
    n = s.rows(16, 16, 16)
    return [N(n, 16, 16, 16), N(n, 16, 8, 8)]


POOLING = [
    *[
        (f"{kind}_pooling_{name}", lambda x, f=f: f(x, 2), make, 4)
        for kind in ("max", "average")
        for name, make in (("1d", _sequences), ("2d", images()), ("3d", _volumes), ("nd", images()))
        for f in [getattr(F, f"{kind}_pooling_{name}")]
    ],
    ("max_pooling_2d overlapping", lambda x: F.max_pooling_2d(x, 3, 2, 1), images(), 4),
    ("average_pooling_2d overlapping", lambda x: F.average_pooling_2d(x, 3, 2, 1), images(), 4),
    ("average_pooling_2d global", lambda x: F.average_pooling_2d(x, x.shape[2:]), images()),
    ("max_pooling_2d large images", lambda x: F.max_pooling_2d(x, 2), images(N, 4, 128), 4),
    ("unpooling_1d", lambda x: F.unpooling_1d(x, 2), _sequences, 4),
    ("unpooling_2d", lambda x: F.unpooling_2d(x, 2), images(), 4),
    ("unpooling_3d", lambda x: F.unpooling_3d(x, 2), _volumes, 8),
    ("unpooling_nd", lambda x: F.unpooling_nd(x, 2), images(), 4),
    ("upsampling_2d", _upsample, _halved, 4),
    (
        "spatial_pyramid_pooling_2d",
        lambda x: F.spatial_pyramid_pooling_2d(x, 2, "max"),
        images(),
        4,
    ),
]


def _n_step(kind: str, n: int = 32, steps: int = 4):
    """``F.n_step_*`` of one layer on sequences of the same length, as a row."""
    gates = {"lstm": 8, "gru": 6, "rnn": 2}[kind.removeprefix("bi")]
    directions = 2 if kind.startswith("bi") else 1
    function = getattr(F, f"n_step_{kind}")
    states = 1 + kind.endswith("lstm")

    def call(*flat):
        flat = list(flat)
        held, xs = flat[:states], flat[-steps:]
        per = 2 * gates
        weights = [flat[states + per * i : states + per * (i + 1)] for i in range(directions)]
        ws = [w[:gates] for w in weights]
        bs = [w[gates:] for w in weights]
        return function(1, 0.0, *held, ws, bs, xs)

    def inputs(s):
        batch = s.rows(n, steps, gates)
        weights = [U(-0.1, 0.1, n, n)] * gates + [N(n)] * gates
        return [N(directions, batch, n)] * states + weights * directions + [N(batch, n)] * steps

    return f"n_step_{kind}", call, inputs


RECURRENT = [
    ("lstm", F.lstm, lambda s: [N(s.rows(4 * s(64)), s(64)), N(s.rows(4 * s(64)), 4 * s(64))]),
    ("slstm", F.slstm, lambda s: [N(s.rows(256), 64)] * 2 + [N(s.rows(256), 256)] * 2),
    ("tree_lstm", F.tree_lstm, lambda s: [N(s.rows(320), 64)] * 2 + [N(s.rows(320), 320)]),
    *[_n_step(kind) for kind in ("lstm", "bilstm", "gru", "bigru", "rnn", "birnn")],
]


def _classes(n: int, **options):
    return lambda s: [N(s.rows(s(n)), s(n)), T(s(n), s.rows(s(n)), **options)]


def _pixels(s: Size) -> list:
    n = s.rows(10, s(16), s(16))
    return [N(n, 10, s(16), s(16)), T(10, n, s(16), s(16), ignore=-1)]


def _three(s: Size) -> list:
    return rows(64)(s) * 3


def draw(shape):
    """A sampler of negative examples as in word2vec."""
    return np.random.choice(100, shape).astype(np.int32)


SCE = F.softmax_cross_entropy
LOSSES = [
    ("softmax_cross_entropy", SCE, _classes(64)),
    ("softmax_cross_entropy few classes", SCE, _classes(4)),
    ("softmax_cross_entropy many classes", SCE, _classes(1000)),
    ("softmax_cross_entropy pixels", SCE, _pixels),
    ("softmax_cross_entropy no", lambda x, t: SCE(x, t, reduce="no"), _classes(64)),
    (
        "softmax_cross_entropy soft targets",
        lambda x, t: SCE(x, F.softmax(t), soft_target_loss="cross-entropy"),
        lambda s: rows(64)(s) * 2,
    ),
    (
        "sigmoid_cross_entropy",
        F.sigmoid_cross_entropy,
        lambda s: [*rows(64)(s), T(2, s.rows(s(64)), s(64))],
    ),
    ("mean_squared_error", F.mean_squared_error, lambda s: rows(64)(s) * 2),
    ("mean_absolute_error", F.mean_absolute_error, lambda s: rows(64)(s) * 2),
    ("huber_loss", lambda x, y: F.huber_loss(x, y, 1.0), lambda s: rows(64)(s) * 2),
    ("contrastive", F.contrastive, lambda s: [*(rows(64)(s) * 2), I(0, 2, s.rows(s(64)))]),
    ("triplet", F.triplet, _three),
    ("hinge", F.hinge, _classes(64)),
    ("hinge L2", lambda x, t: F.hinge(x, t, "L2"), _classes(64)),
    ("bernoulli_nll", F.bernoulli_nll, lambda s: [U(0, 1, s.rows(64), 64), N(s.rows(64), 64)]),
    ("gaussian_nll", F.gaussian_nll, _three),
    ("gaussian_kl_divergence", F.gaussian_kl_divergence, lambda s: rows(64)(s) * 2),
    ("cross_covariance", F.cross_covariance, lambda s: rows(32)(s) * 2),
    ("decov", F.decov, rows(64)),
    (
        "negative_sampling",
        lambda x, W, t: F.negative_sampling(x, t, W, draw, 4),
        lambda s: [*rows(64)(s), N(100, s(64)), T(100, s.rows(s(64)))],
        16,
    ),
    (
        "black_out",
        lambda x, W, t, n: F.black_out(x, t, W, n),
        lambda s: [
            *rows(64)(s),
            N(100, s(64)),
            I(0, 100, s.rows(s(64))),
            I(0, 100, s.rows(s(64)), 4),
        ],
        16,
    ),
    (
        "connectionist_temporal_classification",
        lambda *a: F.connectionist_temporal_classification(list(a[:9]), a[9], 0),
        lambda s: [N(s.rows(180), 20)] * 9 + [I(1, 20, s.rows(180), 3)],
        64,
    ),
    (
        "crf1d",
        lambda c, *a: F.crf1d(c, list(a[:4]), list(a[4:])),
        lambda s: [N(8, 8), *[N(s.rows(64), 8)] * 4, *[I(0, 8, s.rows(64))] * 4],
        8,
    ),
    (
        "argmax_crf1d",
        lambda c, *a: F.argmax_crf1d(c, list(a)),
        lambda s: [N(8, 8), *[N(s.rows(64), 8)] * 4],
        8,
    ),
    (
        "discriminative_margin_based_clustering_loss",
        lambda e, t: F.discriminative_margin_based_clustering_loss(e, t, 0.5, 1.5, 3),
        lambda s: [N(3, 3, s.side(9), s.side(9)), I(0, 3, 3, s.side(9), s.side(9))],
        8,
    ),
]

EVALUATION = [
    ("accuracy", F.accuracy, _classes(64)),
    ("accuracy ignored", lambda x, t: F.accuracy(x, t, ignore_label=1), _classes(64)),
    ("binary_accuracy", F.binary_accuracy, lambda s: [N(s.rows()), I(0, 2, s.rows())]),
    ("r2_score", F.r2_score, lambda s: rows(8)(s) * 2),
    *[
        (f.__name__, lambda y, t, f=f: f(y, t, label_num=10), _classes(10))
        for f in (F.classification_summary, F.precision, F.recall, F.f1_score)
    ],
]

CASES = cases_of(
    [*PRODUCTS, *CONVOLUTIONS, *POOLING, *RECURRENT, *LOSSES, *EVALUATION],
)
