"""chainer.functions.array."""

from __future__ import annotations

import chainer.functions as F
import numpy as np

from tests.equivalence.arguments import PERM, B, I, N, T, U, array_of
from tests.equivalence.harness import Case, native

S = slice
LAYOUT = "as_strided depends on how its input lies in memory"

ARRAY = [
    ("reshape", lambda x: F.reshape(x, (2, 6)), [N(3, 4)]),
    ("reshape -1", lambda x: x.reshape(2, -1) * 2, [N(3, 4)]),
    ("reshape of a transposed view", lambda x: F.reshape(x.T, (2, 6)), [N(3, 4)]),
    ("reshape to 0-d", lambda x: F.reshape(x, ()), [N(1, 1)]),
    ("flatten", F.flatten, [N(3, 4)]),
    ("transpose", F.transpose, [N(3, 4, 2)]),
    ("transpose axes", lambda x: F.transpose(x, (1, -1, 0)), [N(3, 4, 2)]),
    ("transpose 0-d", F.transpose, [N()]),
    ("transpose T", lambda x: x.T + 1, [N(3, 4)]),
    ("swapaxes", lambda x: F.swapaxes(x, 0, -1), [N(3, 4, 2)]),
    *[
        (f"rollaxis {a} {s}", lambda x, a=a, s=s: F.rollaxis(x, a, s), [N(3, 4, 2)])
        for a in (0, 1, 2, -1, -2)
        for s in (0, 1, 2, 3, -1, -2)
    ],
    ("moveaxis", lambda x: F.moveaxis(x, 0, -1), [N(3, 4, 2)]),
    ("moveaxis two", lambda x: F.moveaxis(x, (0, 2), (-1, 0)), [N(3, 4, 2, 5)]),
    ("expand_dims", lambda x: F.expand_dims(x, 1), [N(3, 4)]),
    ("expand_dims last", lambda x: F.expand_dims(x.T, -1) * 2, [N(3, 4)]),
    ("expand_dims end", lambda x: F.expand_dims(x, 2), [N(3, 4)]),
    ("squeeze", F.squeeze, [N(1, 3, 1, 4)]),
    ("squeeze axis", lambda x: F.squeeze(x, -2), [N(1, 3, 1, 4)]),
    ("squeeze axes", lambda x: F.squeeze(x, (0, -2)), [N(1, 3, 1, 4)]),
    ("squeeze of a transposed view", lambda x: F.squeeze(x.transpose(2, 1, 0)), [N(4, 1, 3)]),
    ("broadcast_to", lambda x: F.broadcast_to(x, (2, 3, 4)), [N(3, 1)]),
    ("broadcast_to used", lambda x: F.broadcast_to(x, (2, 3, 4)) * 2 + 1, [N(4)]),
    ("broadcast", lambda x, y: F.broadcast(x, y), [N(3, 1), N(4)]),
    ("flip", lambda x: F.flip(x, 0) * 2, [N(3, 4)]),
    ("flip last", lambda x: F.flip(x, -1), [N(3, 4)]),
    ("flipud", F.flipud, [N(3, 4)]),
    ("fliplr", F.fliplr, [N(3, 4)]),
    ("select_item", F.select_item, [N(5, 3), T(3, 5)]),
    ("select_item negative", F.select_item, [N(5, 3), T(3, 5, low=-3, kind=np.int64)]),
    ("cast", lambda x: F.cast(x, np.float64) * 2, [N(3, 4)]),
    ("cast back", lambda x: F.cast(F.cast(x, "f"), "d") * 2, [N(3, 4)]),
    ("cast labels", lambda x, t: F.cast(t, x.dtype) * x, [N(5), T(3, 5)]),
    ("cast to the same", lambda x: F.cast(x, x.dtype), [N(3, 4)]),
    *[
        (f"get_item {key}", lambda x, key=key: F.get_item(x, key), [N(3, 4, 2)])
        for key in [
            0,
            -1,
            (1, 2, 0),
            S(None),
            S(1, 3),
            S(None, None, -1),
            S(5, 1, -2),
            (S(None), 1),
            (S(None), S(0, 4, 3), -1),
            (Ellipsis, 0),
            (None, 1),
            (0, Ellipsis, None, S(1)),
            Ellipsis,
            (S(2, 2), 1),
            (np.int64(1), S(None, 2)),
        ]
    ],
    ("get_item list of ints", lambda x: F.get_item(x, [S(None), 1]), [N(3, 4)]),
    ("get_item used twice", lambda x: x[0] * F.sum(x[1:].T[0]), [N(3, 3)]),
    ("get_item 0-d", lambda x: F.get_item(x, ()) * 2, [N()]),
]

PERMUTATIONS = [
    ("permutate", F.permutate, [N(5, 3), PERM(5)]),
    ("permutate axis", lambda x, i: F.permutate(x, i, 1), [N(2, 5), PERM(5)]),
    ("permutate inv", lambda x, i: F.permutate(x, i, inv=True), [N(5, 3), PERM(5)]),
    ("permutate inv axis", lambda x, i: F.permutate(x, i, 1, True), [N(2, 5, 2), PERM(5)]),
    ("permutate of a view", lambda x, i: F.permutate(x.T, i, -1), [N(2, 5), PERM(5)]),
]

CASES = [
    *native(ARRAY),
    Case(
        "as_strided",
        lambda x: F.as_strided(x, (3, 2), (1, 2)),
        [N(8)],
        dynamic=LAYOUT,
    ),
    Case(
        "as_strided offset",
        lambda x: F.as_strided(x, (2, 3), (4, 1), 1),
        [N(2, 4)],
        dynamic=LAYOUT,
    ),
    Case("copy", lambda x: F.copy(x, -1), [N(3, 4)], exact=True, native=True),
    Case("depth2space", lambda x: F.depth2space(x, 2), [N(2, 8, 3, 2)], exact=True, native=True),
    Case("space2depth", lambda x: F.space2depth(x, 2), [N(2, 2, 4, 6)], exact=True, native=True),
    Case("diagonal", F.diagonal, [N(3, 4)], exact=True, native=True),
    Case(
        "diagonal offset", lambda x: F.diagonal(x, 1, 1, 2), [N(2, 3, 4)], exact=True, native=True
    ),
    Case(
        "diagonal below", lambda x: F.diagonal(x, -1, -1, 0), [N(2, 3, 4)], exact=True, native=True
    ),
    Case(
        "get_item array of ints",
        lambda x: F.get_item(x, np.array([0, 2])),
        [N(3, 4)],
        native=True,
    ),
    Case("get_item lists", lambda x: F.get_item(x, ([0, 2], [1, 1])), [N(3, 4)], native=True),
    Case(
        "get_item index argument",
        lambda x, i: F.get_item(x, i),
        [N(5, 4), I(-5, 5, 3)],
        native=True,
    ),
    Case("get_item rows and columns", lambda x, i: x[i, 1:], [N(5, 4), I(-5, 5, 3)], native=True),
    Case(
        "get_item two index arguments",
        lambda x, i, j: x[i, j],
        [N(5, 4), I(0, 5, 3), I(0, 4, 3)],
        native=True,
    ),
    Case(
        "get_item mask",
        lambda x: F.get_item(x, np.array([True, False, True])),
        [N(3, 4)],
        native=True,
    ),
    Case("get_item apart", lambda x, i: x[i, :, 1:, i], [N(5, 2, 3, 4), I(-4, 4, 3)], native=True),
    Case("get_item an int apart", lambda x, i: x[0, :, i], [N(2, 3, 4), I(0, 4, 2)], native=True),
    Case("get_item an int beside", lambda x, i: x[:, 0, i], [N(2, 3, 4), I(0, 4, 2)], native=True),
    Case("get_item matrix", lambda x, i: x[None, ::2, i], [N(4, 3), I(-3, 3, 2, 2)], native=True),
    Case("get_item one index", lambda x, i: x.T[i] * 2, [N(4, 3), I(0, 3)], native=True),
    Case("get_item broadcast", lambda x, i: x[i, [[0], [2]]], [N(4, 3), I(0, 4, 5)], native=True),
    Case(
        "get_item mask of two axes",
        lambda x: x[1:, np.array([[True, False, True], [False, True, True]])],
        [N(3, 2, 3, 2)],
        native=True,
    ),
    Case(
        "get_item mask beside an index",
        lambda x, i: x[np.array([True, False, True]), i],
        [N(3, 4), I(0, 4, 2)],
    ),
    Case("get_item no index", lambda x: F.get_item(x, ([],)) * 2, [N(3, 4)], native=True),
    Case(
        "get_item of an array",
        lambda x, i: x * array_of(x)[array_of(i), 1:].T.sum(),
        [N(4, 3), I(-4, 4, 4)],
        native=True,
    ),
    Case(
        "get_item mask of the call",  # of as many each time
        lambda x: F.get_item(x, np.argsort(array_of(x)[:, 0]) > 0),
        [N(3, 4)],
    ),
    Case("im2col", lambda x: F.im2col(x, 3), [N(2, 3, 5, 4)], native=True),
    Case(
        "im2col options",
        lambda x: F.im2col(x, (2, 3), (2, 1), (1, 0), True, 2),
        [N(2, 1, 6, 7)],
        native=True,
    ),
    Case(
        "pad", lambda x: F.pad(x, ((1, 2), (0, 1)), "constant"), [N(3, 4)], exact=True, native=True
    ),
    Case(
        "pad value",
        lambda x: F.pad(x, 2, "constant", constant_values=0.5),
        [N(3, 4)],
        exact=True,
        native=True,
    ),
    Case("pad reflected", lambda x: F.pad(x, 1, "reflect"), [N(3, 4)]),
    Case(
        "pad four values",
        lambda x: F.pad(x, ((1, 2), (2, 1)), "constant", constant_values=((1, 2), (3, 4))),
        [N(2, 3)],
        exact=True,
        native=True,
    ),
    Case(
        "pad two values",
        lambda x: F.pad(x, 1, "constant", constant_values=(1, 2)),
        [N(3)],
        native=True,
    ),
    Case(
        "pad_sequence",
        lambda *xs: F.pad_sequence(xs),
        [N(3, 2), N(1, 2), N(4, 2)],
        exact=True,
        native=True,
    ),
    Case(
        "pad_sequence length and padding",
        lambda *xs: F.pad_sequence(xs, 6, -1),
        [N(3, 2), N(1, 2), N(4, 2)],
        exact=True,
        native=True,
    ),
    Case(
        "pad_sequence one",
        lambda x: F.pad_sequence([x], padding=2.5),
        [N(3)],
        exact=True,
        native=True,
    ),
    *native(PERMUTATIONS, exact=True),
    Case("repeat", lambda x: F.repeat(x, 3), [N(2, 3)], exact=True, native=True),
    Case("repeat axis", lambda x: F.repeat(x, 2, axis=1), [N(2, 3, 2)], exact=True, native=True),
    Case(
        "repeat each", lambda x: F.repeat(x, (1, 0, 3), axis=-1), [N(2, 3)], exact=True, native=True
    ),
    Case(
        "resize_images",
        lambda x: F.resize_images(x, (5, 7)),
        [N(2, 3, 4, 4)],
        dtypes="f",
        native=True,
    ),
    Case(
        "resize_images smaller",
        lambda x: F.resize_images(x, (2, 3)),
        [N(2, 3, 5, 4)],
        dtypes="f",
        native=True,
    ),
    Case(
        "resize_images nearest",
        lambda x: F.resize_images(x, (5, 7), mode="nearest"),
        [N(2, 3, 4, 4)],
        dtypes="f",
        native=True,
    ),
    Case(
        "resize_images corners",
        lambda x: F.resize_images(x, (5, 7), align_corners=False),
        [N(2, 3, 4, 4)],
        dtypes="f",
        native=True,
    ),
    Case(
        "scatter_add",
        lambda a, b: F.scatter_add(a, slice(1, 3), b),
        [N(4, 3), N(2, 3)],
        native=True,
    ),
    Case("scatter_add one", lambda a, b: F.scatter_add(a, 1, b), [N(4, 3), N(3)], native=True),
    Case(
        "scatter_add index argument",
        lambda a, b, i: F.scatter_add(a, i, b),
        [N(4, 3), N(5, 3), I(0, 4, 5)],
        native=True,
    ),
    Case(
        "scatter_add apart",
        lambda a, b, i: F.scatter_add(a, (i, slice(1, None), i), b),
        [N(4, 3, 4), N(5, 2), I(-4, 4, 5)],
        native=True,
    ),
    Case(
        "scatter_add of a part",
        lambda a, b, i: F.scatter_add(a, (slice(None), i, 0), b),
        [N(2, 3, 4), N(2, 5), I(0, 3, 5)],
        native=True,
    ),
    Case(
        "scatter_add in columns",
        lambda a, b, i: F.scatter_add(a, (slice(0, 1), slice(1, 3), i), b),
        [N(2, 3, 4), N(1, 2, 5), I(0, 4, 5)],
        native=True,
    ),
    Case(
        "scatter_add the same place twice",
        lambda a, b: F.scatter_add(a, [0, 0, 2], b),
        [N(4, 3), N(3, 3)],
        native=True,
    ),
    Case(
        "spatial_transformer_grid",
        lambda theta: F.spatial_transformer_grid(theta, (3, 4)),
        [N(2, 2, 3)],
    ),
    Case(
        "spatial_transformer_sampler",
        F.spatial_transformer_sampler,
        [N(2, 3, 5, 4), U(-1.5, 1.5, 2, 2, 3, 3)],
    ),
    Case(
        "spatial_transformer_sampler with its grid",
        lambda x, theta: F.spatial_transformer_sampler(
            x, F.spatial_transformer_grid(theta, (3, 4))
        ),
        [N(2, 3, 5, 4), U(-0.5, 0.5, 2, 2, 3)],
    ),
    Case("tile", lambda x: F.tile(x, 2), [N(2, 3)], exact=True, native=True),
    Case("tile reps", lambda x: F.tile(x, (2, 1, 3)), [N(2, 3)], exact=True, native=True),
    Case("tile of long rows", lambda x: F.tile(x, (2, 3)), [N(80, 96)], exact=True, native=True),
    Case("tile fewer reps", lambda x: F.tile(x, (3,)), [N(2, 3)], exact=True, native=True),
    Case("where", F.where, [B(3, 4), N(3, 4), N(3, 4)], exact=True, native=True),
    Case("where broadcast", F.where, [B(4), N(3, 4), N(3, 1)], exact=True, native=True),
    Case(
        "where condition of the call",
        lambda x, y: F.where(array_of(x) > 0, x, y),
        [N(3, 4), N(3, 4)],
        native=True,
    ),
]
