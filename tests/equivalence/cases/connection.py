"""chainer.functions.connection."""

from __future__ import annotations

import chainer.functions as F
import numpy as np

from tests.equivalence.arguments import H, I, N, T, U
from tests.equivalence.harness import Case, native

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

CONVOLUTIONS = [
    *[
        (f"convolution_{n}d", getattr(F, f"convolution_{n}d"), [N(2, 3, *s), N(4, 3, *k), N(4)])
        for n, s, k in [(1, (6,), (3,)), (2, (5, 4), (3, 2)), (3, (3, 4, 3), (2, 3, 2))]
    ],
    *[
        (f"deconvolution_{n}d", getattr(F, f"deconvolution_{n}d"), [N(2, 3, *s), N(3, 4, *k), N(4)])
        for n, s, k in [(1, (4,), (3,)), (2, (3, 4), (3, 2)), (3, (2, 3, 2), (2, 3, 2))]
    ],
    (
        "convolution_2d options",
        lambda x, W, b: F.convolution_2d(
            x, W, b, (2, 1), (1, 2), cover_all=True, dilate=2, groups=2
        ),
        [N(2, 4, 7, 6), N(6, 2, 3, 2), N(6)],
    ),
    ("convolution_2d 1x1", F.convolution_2d, [N(2, 3, 4, 4), N(5, 3, 1, 1), N(5)]),
    (
        "convolution_2d 1x1 stride",
        lambda x, W: F.convolution_2d(x, W, stride=2),
        [N(2, 3, 5, 4), N(5, 3, 1, 1)],
    ),
    ("convolution_2d empty batch", F.convolution_2d, [N(0, 3, 5, 4), N(4, 3, 3, 3), N(4)]),
    (
        "convolution_2d of views",
        lambda x, W: F.convolution_2d(x.transpose(0, 3, 1, 2), W.transpose(3, 2, 1, 0)),
        [N(2, 5, 4, 3), N(3, 3, 3, 4)],
    ),
    (
        "convolution_2d then relu",
        lambda *a: F.relu(F.convolution_2d(*a, pad=1)),
        [N(2, 3, 5, 4), N(4, 3, 3, 3), N(4)],
    ),
    ("convolution_nd", F.convolution_nd, [N(2, 3, 5, 4), N(4, 3, 3, 2), N(4)]),
    (
        "convolution_nd options",
        lambda x, W: F.convolution_nd(x, W, None, 2, 1, cover_all=True, dilate=2, groups=2),
        [N(2, 4, 9), N(6, 2, 3)],
    ),
    (
        "convolution_3d options",
        lambda x, W: F.convolution_3d(x, W, None, (2, 1, 2), (1, 0, 2), True, (1, 2, 1), 2),
        [N(2, 4, 4, 5, 3), N(6, 2, 2, 2, 3)],
    ),
    ("deconvolution_2d no bias", F.deconvolution_2d, [N(2, 3, 3, 4), N(3, 2, 3, 3)]),
    (
        "deconvolution_2d options",
        lambda x, W, b: F.deconvolution_2d(x, W, b, 2, 1, (6, 5), dilate=1, groups=2),
        [N(2, 4, 3, 3), N(4, 3, 3, 2), N(6)],
    ),
    (
        "deconvolution_2d dilate",
        lambda x, W: F.deconvolution_2d(x, W, None, (1, 2), (2, 0), dilate=(2, 3)),
        [N(2, 4, 3, 3), N(4, 3, 3, 2)],
    ),
    (
        "deconvolution_2d then relu",
        lambda *a: F.relu(F.deconvolution_2d(*a, stride=2)),
        [N(2, 4, 3, 3), N(4, 3, 3, 2), N(3)],
    ),
    ("deconvolution_nd", F.deconvolution_nd, [N(2, 3, 4), N(3, 2, 3), N(2)]),
    (
        "deconvolution_nd options",
        lambda x, W: F.deconvolution_nd(x, W, None, 2, 1, (7,), dilate=1, groups=2),
        [N(2, 4, 4), N(4, 3, 3)],
    ),
    (
        "deconvolution_3d options",
        lambda x, W: F.deconvolution_3d(x, W, None, (2, 1, 2), (1, 0, 2), None, (1, 2, 1), 2),
        [N(2, 4, 2, 3, 4), N(4, 2, 2, 2, 3)],
    ),
    ("depthwise_convolution_2d", F.depthwise_convolution_2d, [N(2, 3, 5, 4), N(2, 3, 3, 2), N(6)]),
    (
        "depthwise_convolution_2d options",
        lambda x, W: F.depthwise_convolution_2d(x, W, stride=2, pad=1),
        [N(2, 3, 5, 4), N(2, 3, 3, 2)],
    ),
    (
        "dilated_convolution_2d",
        lambda x, W, b: F.dilated_convolution_2d(x, W, b, stride=1, pad=2, dilate=2),
        [N(2, 3, 5, 4), N(4, 3, 3, 2), N(4)],
    ),
]

EMBEDDING = [
    ("embed_id", F.embed_id, [I(0, 5, 3, 2), N(5, 4)]),
    ("embed_id negative", F.embed_id, [I(-5, 5, 7, kind=np.int64), N(5, 4)]),
    ("embed_id wide", F.embed_id, [I(0, 3, 7, kind=np.int8), N(3, 131)]),
    (
        "embed_id ignored",
        lambda x, W: F.embed_id(x, W, ignore_label=-1),
        [T(5, 9, ignore=-1), N(5, 4)],
    ),
    (
        "embed_id ignored in range",
        lambda x, W: F.embed_id(x, W, ignore_label=2),
        [I(0, 5, 3, 4), N(5, 4)],
    ),
]

CASES = [
    *native(CONNECTION),
    *native(CONVOLUTIONS),
    Case("bilinear", F.bilinear, [N(3, 4), N(3, 5), N(4, 5, 2)], dtypes="f", native=True),
    Case(
        "bilinear all",
        F.bilinear,
        [N(3, 4), N(3, 5), N(4, 5, 2), N(4, 2), N(5, 2), N(2)],
        dtypes="f",
        native=True,
    ),
    Case(
        "bilinear sequences",
        F.bilinear,
        [N(3, 2, 2), N(3, 5), N(4, 5, 2)],
        dtypes="f",
        native=True,
    ),
    Case(
        "convolution_2d no bias",
        F.convolution_2d,
        [N(2, 3, 5, 4), N(4, 3, 3, 3)],
        dtypes="fde",
        native=True,
    ),
    Case("convolution_nd 4 axes", F.convolution_nd, [N(1, 2, 2, 3, 2, 2), N(3, 2, 2, 2, 1, 2)]),
    Case(
        "deformable_convolution_2d_sampler",
        F.deformable_convolution_2d_sampler,
        [N(2, 3, 5, 5), U(-1, 1, 2, 18, 3, 3), N(2, 3, 3, 3), N(2)],
    ),
    Case(
        "deformable_convolution_2d_sampler options",
        lambda x, o, W: F.deformable_convolution_2d_sampler(x, o, W, stride=2, pad=1),
        [N(2, 3, 5, 5), U(-1, 1, 2, 18, 3, 3), N(2, 3, 3, 3)],
    ),
    *native(EMBEDDING, exact=True),
    Case(
        "local_convolution_2d",
        F.local_convolution_2d,
        [N(2, 3, 5, 4), N(4, 3, 3, 3, 3, 2), N(4, 3, 3)],
        native=True,
    ),
    Case(
        "local_convolution_2d stride",
        lambda x, W: F.local_convolution_2d(x, W, stride=2),
        [N(2, 3, 5, 5), N(4, 2, 2, 3, 3, 3)],
        native=True,
    ),
    Case(
        "local_convolution_2d strides, gaps between patches",
        lambda x, W, b: F.local_convolution_2d(x, W, b, (3, 2)),
        [N(2, 3, 8, 6), N(4, 3, 2, 3, 2, 1), N(4, 3, 2)],
        native=True,
    ),
    Case(
        "local_convolution_2d of views",
        lambda x, W: F.local_convolution_2d(x.transpose(0, 3, 1, 2), W.transpose(5, 4, 3, 2, 1, 0)),
        [N(2, 5, 4, 3), N(2, 3, 3, 3, 3, 4)],
        native=True,
    ),
    Case(
        "local_convolution_2d empty batch",
        F.local_convolution_2d,
        [N(0, 3, 5, 4), N(4, 3, 3, 3, 3, 2), N(4, 3, 3)],
        native=True,
    ),
    Case("shift", F.shift, [N(2, 9, 4, 5)], exact=True, native=True),
    Case(
        "shift options", lambda x: F.shift(x, (5, 3), 2), [N(2, 17, 6, 5)], exact=True, native=True
    ),
    Case(
        "convolution_2d mixed dtypes",
        F.convolution_2d,
        [H(2, 3, 5, 4), N(4, 3, 3, 3), H(4)],
        dtypes="f",
        second=False,
    ),
    Case("linear mixed dtypes", F.linear, [H(5, 3), N(4, 3), H(4)], dtypes="f", second=False),
]
