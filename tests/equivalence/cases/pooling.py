"""chainer.functions.pooling."""

from __future__ import annotations

import chainer.functions as F

from tests.equivalence.arguments import ROIS, D, I, N, Q, array_of
from tests.equivalence.harness import Case


def _upsample(x, y):
    """Puts `y` where the maxima of `x` were."""
    pooled, indexes = F.max_pooling_2d(x, 2, return_indices=True)
    return F.upsampling_2d(y + pooled, indexes, 2)


CASES = [
    Case("average_pooling_1d", lambda x: F.average_pooling_1d(x, 3), [N(2, 3, 6)], native=True),
    Case("max_pooling_1d", lambda x: F.max_pooling_1d(x, 3), [D(2, 3, 6)], native=True),
    Case(
        "max_pooling_1d return_indices",
        lambda x: F.max_pooling_1d(x, 3, return_indices=True),
        [D(2, 3, 6)],
        native=True,
    ),
    Case("unpooling_1d", lambda x: F.unpooling_1d(x, 2), [N(2, 3, 6)], native=True),
    Case(
        "unpooling_1d options",
        lambda x: F.unpooling_1d(x, 3, 2, 1, cover_all=False),
        [N(2, 3, 6)],
        native=True,
    ),
    Case("average_pooling_2d", lambda x: F.average_pooling_2d(x, 3), [N(2, 3, 5, 6)], native=True),
    Case("max_pooling_2d", lambda x: F.max_pooling_2d(x, 3), [D(2, 3, 5, 6)], native=True),
    Case(
        "max_pooling_2d return_indices",
        lambda x: F.max_pooling_2d(x, 3, return_indices=True),
        [D(2, 3, 5, 6)],
        native=True,
    ),
    Case("unpooling_2d", lambda x: F.unpooling_2d(x, 2), [N(2, 3, 5, 6)], native=True),
    Case(
        "unpooling_2d options",
        lambda x: F.unpooling_2d(x, 3, 2, 1, cover_all=False),
        [N(2, 3, 5, 6)],
        native=True,
    ),
    Case(
        "average_pooling_3d", lambda x: F.average_pooling_3d(x, 2), [N(2, 3, 4, 5, 3)], native=True
    ),
    Case("max_pooling_3d", lambda x: F.max_pooling_3d(x, 2), [D(2, 3, 4, 5, 3)], native=True),
    Case(
        "max_pooling_3d return_indices",
        lambda x: F.max_pooling_3d(x, 2, return_indices=True),
        [D(2, 3, 4, 5, 3)],
        native=True,
    ),
    Case("unpooling_3d", lambda x: F.unpooling_3d(x, 2), [N(2, 3, 4, 5, 3)], native=True),
    Case(
        "unpooling_3d options",
        lambda x: F.unpooling_3d(x, 3, 2, 1, cover_all=False),
        [N(2, 3, 4, 5, 3)],
        native=True,
    ),
    Case("max_pooling_2d ties", lambda x: F.max_pooling_2d(x, 2), [Q(2, 3, 5, 4)], native=True),
    Case(
        "max_pooling_2d options",
        lambda x: F.max_pooling_2d(x, (3, 2), (2, 1), (1, 0), cover_all=False),
        [D(2, 3, 5, 6)],
        native=True,
    ),
    Case(
        "max_pooling_2d half precision",
        lambda x: F.max_pooling_2d(x, 2),
        [D(2, 3, 4, 5)],
        dtypes="e",
    ),
    Case(
        "average_pooling_nd beside another",
        lambda x, y: F.average_pooling_nd(x, 3, 2, 1, None) + y,
        [N(2, 3, 5, 6), N(2, 3, 3, 3)],
        native=True,
    ),
    Case("max_pooling_2d pairs", lambda x: F.max_pooling_2d(x, 2), [D(2, 3, 6, 8)], native=True),
    Case(
        "max_pooling_2d wide border",
        lambda x: F.max_pooling_2d(x, 2, 3, 2),
        [D(2, 3, 5, 6)],
        native=True,
    ),
    Case(
        "max_pooling_2d large window",
        lambda x: F.max_pooling_2d(x, 17, 2),
        [D(1, 2, 20, 21)],
        native=True,
    ),
    Case(
        "max_pooling_2d of a view",
        lambda x: F.max_pooling_2d(x.transpose(0, 1, 3, 2), 2),
        [D(2, 3, 5, 6)],
        native=True,
    ),
    Case(
        "max_pooling_2d integers kept",
        lambda x: F.max_pooling_2d(x, (2, 3), return_indices=True)[1],
        [D(2, 3, 5, 6)],
        loss=False,
        second=False,
        partial=False,
        native=True,
    ),
    Case(
        "average_pooling_2d global",
        lambda x: F.average_pooling_2d(x, (5, 6)),
        [N(2, 3, 5, 6)],
        native=True,
    ),
    Case(
        "average_pooling_nd within",
        lambda x: F.average_pooling_nd(x, (3, 2), 2, (1, 1), None) * 2,
        [N(2, 3, 5, 6)],
        native=True,
    ),
    Case(
        "average_pooling_3d options",
        lambda x: F.average_pooling_3d(x, 2, (2, 1, 1), 1),
        [N(2, 3, 4, 5, 3)],
        native=True,
    ),
    Case(
        "max_pooling_nd four axes",
        lambda x: F.max_pooling_nd(x, 2),
        [D(1, 2, 2, 3, 2, 3)],
    ),
    Case(
        "average_pooling_2d options",
        lambda x: F.average_pooling_2d(x, 3, 2, 1),
        [N(2, 3, 5, 6)],
        native=True,
    ),
    Case(
        "average_pooling_nd",
        lambda x: F.average_pooling_nd(x, 3, 2, 1, None),
        [N(2, 3, 5, 6)],
        native=True,
    ),
    Case(
        "max_pooling_nd",
        lambda x: F.max_pooling_nd(x, 3, 2, 1, False),
        [D(2, 3, 5, 6)],
        native=True,
    ),
    Case(
        "unpooling_nd", lambda x: F.unpooling_nd(x, 2, outsize=(5, 6)), [N(2, 3, 3, 3)], native=True
    ),
    *[
        Case(
            f"{name}",
            lambda x, r, i, name=name, a=a: getattr(F, name)(x, array_of(r), i, *a),
            [N(2, 3, 8, 8), ROIS(4, 8, 0.5), I(0, 2, 4)],
            dtypes="f",
        )
        for name, a in [
            ("roi_average_align_2d", ((3, 2), 0.5)),
            ("roi_max_align_2d", ((3, 2), 0.5)),
            ("roi_average_pooling_2d", ((3, 2), 0.5)),
            ("roi_max_pooling_2d", ((3, 2), 0.5)),
        ]
    ],
    Case(
        "roi_average_align_2d sampling_ratio",
        lambda x, r, i: F.roi_average_align_2d(x, array_of(r), i, 2, 0.5, (2, 3)),
        [N(2, 3, 8, 8), ROIS(4, 8, 0.5), I(0, 2, 4)],
        dtypes="f",
    ),
    Case(
        "roi_max_align_2d sampling_ratio",
        lambda x, r, i: F.roi_max_align_2d(x, array_of(r), i, 2, 0.5, 2),
        [N(2, 3, 8, 8), ROIS(4, 8, 0.5), I(0, 2, 4)],
        dtypes="f",
    ),
    Case(
        "roi_pooling_2d",
        lambda x, r: F.roi_pooling_2d(x, F.pad(r, ((0, 0), (1, 0)), "constant").array, 3, 2, 0.5),
        [D(1, 3, 8, 8), ROIS(4, 8, 0.5)],
    ),
    Case(
        "spatial_pyramid_pooling_2d",
        lambda x: F.spatial_pyramid_pooling_2d(x, 2, "max"),
        [D(2, 3, 5, 6)],
        native=True,
    ),
    Case(
        "spatial_pyramid_pooling_2d three",
        lambda x: F.spatial_pyramid_pooling_2d(x, 3, "max"),
        [D(2, 3, 9, 7)],
        native=True,
    ),
    Case("upsampling_2d", _upsample, [D(2, 3, 4, 4), N(2, 3, 2, 2)], native=True),
]
