"""Functions that move elements, and those that reduce axes."""

from __future__ import annotations

import chainer.functions as F
import numpy as np

from benchmarks.ops.case import Size, cases_of
from tests.equivalence.arguments import PERM, I, N, P, T


def square(maker, n: int = 1):
    """`n` matrices with as many rows as columns."""
    return lambda s: [maker(s.side(), s.side())] * n


def rows(n: int, maker=N, others=()):
    """Many rows of `n`."""
    return lambda s: [maker(s.rows(s(n)), s(n)), *others]


def cube(maker):
    """Three axes, the last one short."""
    return lambda s: [maker(s.side(s(16)), s.side(s(16)), s(16))]


def images(maker=N, channels: int = 16, size: int = 16):
    """Images of 16 channels."""
    return lambda s: [maker(s.rows(channels, s(size), s(size)), channels, s(size), s(size))]


def _axes(name: str):
    f = getattr(F, name)
    maker = P if name == "prod" else N
    yield name, f, square(maker)
    yield f"{name} axis 0", lambda x: f(x, axis=0), square(maker)
    yield f"{name} axis 0 of many rows", lambda x: f(x, axis=0), rows(64, maker)
    yield f"{name} axis 0 of few columns", lambda x: f(x, axis=0), rows(4, maker)
    yield f"{name} axis 1", lambda x: f(x, axis=1), square(maker)
    yield f"{name} axis 1 of few columns", lambda x: f(x, axis=1), rows(4, maker)
    yield f"{name} middle axis", lambda x: f(x, axis=1), cube(maker)
    if not name.startswith("arg"):
        yield f"{name} axes 0 and 2", lambda x: f(x, axis=(0, 2)), cube(maker)
        yield f"{name} of channels", lambda x: f(x, axis=(0, 2, 3)), images(maker)


REDUCTIONS = [
    row
    for name in ("sum", "mean", "average", "max", "min", "prod", "logsumexp", "argmax", "argmin")
    for row in _axes(name)
]

OTHER_REDUCTIONS = [
    ("sum of a transposed view", lambda x: F.sum(x.T, axis=1), square(N)),
    ("sum keepdims", lambda x: F.sum(x, axis=1, keepdims=True) * x, square(N)),
    ("sum_to", lambda x: F.math.sum.sum_to(x, (1, x.shape[1], 1)), cube(N)),
    ("average weights", lambda x, w: F.average(x, 1, w), lambda s: [*rows(64)(s), P(s(64))]),
    ("cumsum", F.cumsum, square(N)),
    ("cumsum axis 0", lambda x: F.cumsum(x, axis=0), square(N)),
    ("cumsum axis 1", lambda x: F.cumsum(x, axis=1), square(N)),
    ("cumsum middle axis", lambda x: F.cumsum(x, axis=1), cube(N)),
    ("cumprod", F.cumprod, lambda s: [P(s.rows())], 64),
    ("cumprod axis 0", lambda x: F.cumprod(x, axis=0), rows(64, P), 64),
    ("cumprod axis 1", lambda x: F.cumprod(x, axis=1), rows(64, P), 64),
    ("batch_l2_norm_squared", F.batch_l2_norm_squared, rows(64)),
]

MOVES = [
    ("transpose", lambda x: F.transpose(x) + 1, square(N)),
    ("transpose copied", lambda x: F.reshape(F.transpose(x), (-1,)), square(N)),
    ("transpose axes", lambda x: F.transpose(x, (0, 3, 1, 2)) * 2, images()),
    ("transpose back", lambda x: F.transpose(x, (0, 2, 3, 1)) * 2, images()),
    ("transpose heads", lambda x: F.transpose(x, (0, 2, 1, 3)) * 2, images()),
    ("transpose 102", lambda x: F.transpose(x, (1, 0, 2)) * 2, cube(N)),
    ("transpose 210", lambda x: F.transpose(x, (2, 1, 0)) * 2, cube(N)),
    ("transpose of a product", lambda x, y: F.transpose(x * y), square(N, 2)),
    ("swapaxes", lambda x: F.swapaxes(x, 0, -1) * 2, cube(N)),
    ("rollaxis", lambda x: F.rollaxis(x, 2) * 2, cube(N)),
    ("moveaxis", lambda x: F.moveaxis(x, 0, -1) * 2, cube(N)),
    ("reshape", lambda x: F.reshape(x, (-1,)) * 2, square(N)),
    ("flatten", lambda x: F.flatten(x) * 2, square(N)),
    ("expand_dims", lambda x: F.expand_dims(x, 1) * 2, square(N)),
    ("squeeze", lambda x: F.squeeze(x, 1) * 2, lambda s: [N(s.side(), 1, s.side())]),
    ("broadcast_to", lambda x: F.broadcast_to(x, (99, *x.shape)) * 2, lambda s: [N(s.rows(99))]),
    (
        "broadcast_to columns",
        lambda x: F.broadcast_to(x, (x.shape[0], 64)) * 2,
        lambda s: [N(s.rows(64), 1)],
    ),
    (
        "broadcast",
        lambda x, y: sum(F.broadcast(x, y)),
        lambda s: [N(s.side(), 1), N(s.side())],
    ),
    ("flip", lambda x: F.flip(x, 0), square(N)),
    ("flip last", lambda x: F.flip(x, 1), square(N)),
    ("flipud", F.flipud, square(N)),
    ("fliplr", F.fliplr, square(N)),
    ("copy", lambda x: F.copy(x, -1), square(N)),
    ("tile", lambda x: F.tile(x, (2, 3)), square(N), 2),
    ("tile of columns", lambda x: F.tile(x, (1, 8)), lambda s: [N(s.rows(8), 1)]),
    ("repeat", lambda x: F.repeat(x, 3, axis=0), square(N), 2),
    ("repeat last", lambda x: F.repeat(x, 3, axis=1), square(N), 2),
    ("pad", lambda x: F.pad(x, ((1, 2), (3, 1)), "constant"), square(N)),
    (
        "pad images",
        lambda x: F.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), "constant"),
        images(),
    ),
    ("depth2space", lambda x: F.depth2space(x, 2), images()),
    (
        "space2depth",
        lambda x: F.space2depth(x, 2),
        lambda s: [N(s.rows(16, 16, 16), 16, 16, 16)],
    ),
    ("diagonal", lambda x: F.diagonal(x, 0, 1, 2), images()),
    ("im2col", lambda x: F.im2col(x, 3, pad=1), images(), 2),
    ("im2col stride", lambda x: F.im2col(x, 3, 2, 1), images()),
    ("im2col large images", lambda x: F.im2col(x, 3), lambda s: [N(1, 3, s.side(3), s.side(3))], 4),
    ("resize_images", lambda x: F.resize_images(x, (31, 29)), images(), 4),
    (
        "resize_images nearest",
        lambda x: F.resize_images(x, (31, 29), mode="nearest"),
        images(),
        4,
    ),
    ("shift", F.shift, images()),
    ("transpose_sequence", lambda *xs: F.transpose_sequence(xs), lambda s: [N(9, s.rows(18))] * 2),
    (
        "pad_sequence",
        lambda *xs: F.pad_sequence(xs),
        lambda s: [N(n, s.rows(72)) for n in (9, 7, 8, 5, 9, 3, 2, 9)],
    ),
]


def _some(s: Size, n: int, kind=np.int32):
    """Many indices below `n`."""
    return I(0, n, s.rows(s(64)), kind=kind)


INDEXING = [
    ("get_item rows", lambda x: x[3:-3] * 2, square(N)),
    ("get_item columns", lambda x: x[:, 3:-3] * 2, square(N)),
    ("get_item column", lambda x: x[:, 3] * 2, square(N)),
    ("get_item steps", lambda x: x[::-2, ::3] * 2, square(N)),
    ("get_item last", lambda x: x[..., -1] * 2, cube(N)),
    (
        "get_item index argument",
        lambda x, i: F.get_item(x, i),
        lambda s: [*rows(64)(s), _some(s, 5)],
    ),
    (
        "get_item two indices",
        lambda x, i, j: x[i, j],
        lambda s: [*rows(64)(s), _some(s, 5), _some(s, s(64))],
    ),
    (
        "get_item columns by index",
        lambda x, i: x[:, i],
        lambda s: [*rows(64)(s), I(0, s(64), 32)],
    ),
    (
        "scatter_add",
        lambda a, b, i: F.scatter_add(a, i, b),
        lambda s: [*rows(64)(s), *rows(64)(s), _some(s, 5)],
    ),
    (
        "scatter_add slice",
        lambda a, b: F.scatter_add(a, slice(0, 3), b),
        lambda s: [*rows(64)(s), N(3, s(64))],
    ),
    ("select_item", F.select_item, lambda s: [*rows(64)(s), T(s(64), s.rows(s(64)))]),
    ("permutate", F.permutate, lambda s: [*rows(64)(s), PERM(s.rows(s(64)))]),
    ("permutate axis", lambda x, i: F.permutate(x, i, 1), lambda s: [*rows(64)(s), PERM(s(64))]),
    (
        "permutate inv",
        lambda x, i: F.permutate(x, i, inv=True),
        lambda s: [*rows(64)(s), PERM(s.rows(s(64)))],
    ),
    ("embed_id", F.embed_id, lambda s: [_some(s, 1000), N(1000, s(64))]),
    ("embed_id few words", F.embed_id, lambda s: [_some(s, 10), N(10, s(64))]),
    ("embed_id many words", F.embed_id, lambda s: [_some(s, s.rows(s(64))), *rows(64)(s)]),
    (
        "embed_id ignored",
        lambda x, W: F.embed_id(x, W, ignore_label=-1),
        lambda s: [T(1000, s.rows(s(64)), ignore=-1), N(1000, s(64))],
    ),
]

JOINING = [
    ("concat", lambda *xs: F.concat(xs), lambda s: rows(16)(s) * 4),
    ("concat axis 0", lambda *xs: F.concat(xs, 0), square(N, 2)),
    ("concat channels", lambda *xs: F.concat(xs), lambda s: images()(s) * 2),
    ("concat columns", lambda *xs: F.concat(xs), lambda s: [N(s.rows(8), 1)] * 8),
    ("stack", lambda *xs: F.stack(xs), square(N, 2)),
    ("stack last", lambda *xs: F.stack(xs, -1), square(N, 2)),
    ("stack of four, last", lambda *xs: F.stack(xs, -1), lambda s: [N(s.rows(4))] * 4),
    ("hstack", lambda *xs: F.hstack(xs), square(N, 2)),
    ("vstack", lambda *xs: F.vstack(xs), square(N, 2)),
    ("dstack", lambda *xs: F.dstack(xs), square(N, 2)),
    ("split_axis", lambda x: F.split_axis(x, 4, 1), lambda s: [N(s.rows(64), 64)]),
    (
        "split_axis and use",
        lambda x: [y * 2 for y in F.split_axis(x, 4, 1)],
        lambda s: [N(s.rows(64), 64)],
    ),
    ("split_axis 0", lambda x: F.split_axis(x, 2, 0), lambda s: [N(2 * s.rows(128), 64)]),
    ("separate", lambda x: F.separate(x, 1), lambda s: [N(s.rows(8), 8)]),
    ("separate 0", lambda x: F.separate(x, 0), lambda s: [N(8, s.rows(8))]),
]

CASES = cases_of([*REDUCTIONS, *OTHER_REDUCTIONS, *MOVES, *INDEXING, *JOINING])
