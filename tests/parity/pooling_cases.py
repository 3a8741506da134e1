"""Cases of pooling: windows that overlap, leave gaps and reach beyond the border."""

from __future__ import annotations

import math
from collections.abc import Iterator

from sdbr.ops.table import Op

import numpy as np

from .harness import Case
from .values import KINDS, blank, values, whole

#: ``n, (d, h, w), (od, oh, ow), window`` with the window as size, stride and padding.
SHAPES = (
    (1, (1, 1, 1), (1, 1, 1), (1, 1, 1, 1, 1, 1, 0, 0, 0)),
    (3, (1, 4, 6), (1, 2, 3), (1, 2, 2, 1, 2, 2, 0, 0, 0)),
    (2, (1, 5, 7), (1, 2, 3), (1, 2, 2, 1, 2, 2, 0, 0, 0)),
    (2, (1, 5, 7), (1, 3, 4), (1, 2, 2, 1, 2, 2, 0, 0, 0)),
    (2, (1, 7, 9), (1, 4, 5), (1, 3, 3, 1, 2, 2, 0, 1, 1)),
    (2, (1, 6, 5), (1, 6, 5), (1, 3, 3, 1, 1, 1, 0, 1, 1)),
    (1, (3, 4, 5), (2, 3, 3), (2, 2, 3, 2, 1, 2, 1, 0, 1)),
    (1, (1, 1, 600), (1, 1, 300), (1, 1, 2, 1, 1, 2, 0, 0, 0)),
    (1, (1, 2, 700), (1, 1, 350), (1, 2, 2, 1, 2, 2, 0, 0, 0)),
    (1, (1, 1, 300), (1, 1, 299), (1, 1, 4, 1, 1, 1, 0, 0, 1)),
    (2, (1, 20, 20), (1, 2, 2), (1, 17, 17, 1, 3, 3, 0, 0, 0)),
    (1, (1, 3, 3), (1, 2, 2), (1, 1, 1, 1, 3, 3, 0, 1, 1)),
    (1, (1, 2, 2), (1, 3, 3), (1, 2, 2, 1, 3, 3, 0, 3, 3)),
    (2, (2, 3, 8), (1, 1, 2), (2, 3, 5, 3, 3, 3, 0, 0, 0)),
    (0, (1, 4, 4), (1, 2, 2), (1, 2, 2, 1, 2, 2, 0, 0, 0)),
)
#: More than one tile of pooling_tile.h: many images, and images of many rows.
LARGE = (
    (300, (1, 4, 4), (1, 2, 2), (1, 2, 2, 1, 2, 2, 0, 0, 0)),
    (3, (1, 41, 90), (1, 20, 45), (1, 2, 2, 1, 2, 2, 0, 0, 0)),
    (2, (1, 70, 90), (1, 35, 45), (1, 3, 3, 1, 2, 2, 0, 1, 1)),
    (2, (1, 50, 40), (1, 50, 40), (1, 3, 3, 1, 1, 1, 0, 1, 1)),
    (70, (1, 6, 3), (1, 6, 2), (1, 5, 2, 1, 1, 1, 0, 2, 0)),
)


def _index_dtypes(window) -> tuple[str, ...]:
    return ("u1", "i4") if math.prod(window[:3]) <= 256 else ("i4",)


def _cases(rng, dtype) -> Iterator[tuple[str, tuple, tuple, tuple]]:
    for n, inner, outer, window in (*SHAPES, *LARGE):
        for kind in KINDS if n * math.prod(inner) < 2000 else ("ordinary", "nan"):
            yield kind, (n, *inner), (n, *outer), window


def maximum(op: Op, rng, dtype) -> Iterator[Case]:
    """Values, ties, and both dtypes of the index."""
    for kind, x, y, window in _cases(rng, dtype):
        a = values(rng, x, dtype, kind)
        for what, data in ((f"{kind} values", a), ("ties", np.sign(a))):
            for index in _index_dtypes(window) if op.name == "max_pooling_index" else (None,):
                outs = [blank(y, dtype), *([] if index is None else [blank(y, index)])]
                yield Case(op.name, what, [whole(data)], outs, window, exact=True)


def by_index(op: Op, rng, dtype) -> Iterator[Case]:
    """Places as max_pooling_index gives them, and any others."""
    grad = op.name == "max_pooling_grad"
    for kind, x, y, window in _cases(rng, dtype):
        if grad and kind == "largest":
            continue  # sums of these depend on the order
        places = math.prod(window[:3])
        for index, negative in ((d, n) for d in (*_index_dtypes(window), "i8") for n in (0, 1)):
            known = index != "i8"
            low = -places if negative and not known else 0
            k = whole(rng.integers(low, places, size=y).astype(index))
            for flag in (0, 1) if not grad else (int(known), 0):
                source = y if grad else x
                ins = [whole(values(rng, source, dtype, kind)), k]
                out = blank(x if grad else y, dtype)
                yield Case(op.name, f"{kind} values", ins, [out], (*window, flag), exact=not grad)


def average(op: Op, rng, dtype) -> Iterator[Case]:
    """Every divisor; a window beyond the border has none."""
    for kind, x, y, window in _cases(rng, dtype):
        if kind == "largest":
            continue  # sums of these depend on the order
        for divide in range(3):
            shapes = (y, x) if op.name.endswith("grad") else (x, y)
            ins = [whole(values(rng, shapes[0], dtype, kind))]
            yield Case(op.name, f"{kind} values", ins, [blank(shapes[1], dtype)], (*window, divide))


def out_of_range(dtype, wrong: int) -> Iterator[Case]:
    """Cases whose third index is wrong for a window of 5."""
    window = (1, 1, 5, 1, 1, 5, 0, 0, 0)
    k = whole(np.array([0, 4, wrong, 9999]).reshape(1, 1, 1, 4))
    x, y = whole(np.ones((1, 1, 1, 20), dtype)), whole(np.ones((1, 1, 1, 4), dtype))
    yield Case("max_pooling_grad", "", [y, k], [blank((1, 1, 1, 20), dtype)], (*window, 0))
    yield Case("max_pooling_pick", "", [x, k], [blank((1, 1, 1, 4), dtype)], (*window, 0))


BY_OP = {
    "max_pooling": maximum,
    "max_pooling_index": maximum,
    "max_pooling_grad": by_index,
    "max_pooling_pick": by_index,
    "average_pooling": average,
    "average_pooling_grad": average,
}
