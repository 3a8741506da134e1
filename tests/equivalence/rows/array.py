"""chainer.functions.array."""

from __future__ import annotations

import chainer.functions as F
import numpy as np

from equivalence.arguments import N, T
from equivalence.harness import native

S = slice
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

ROWS = [
    *native(ARRAY),
]
