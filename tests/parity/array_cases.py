"""Cases of elements chosen by indices or a condition, of sums along an axis and of images."""

from __future__ import annotations

from collections.abc import Iterator

from sdbr.ops.op import Op

import numpy as np

from .harness import Case
from .loss_cases import LABEL_DTYPES, labels
from .reduction_cases import ROWS
from .values import KINDS, LAYOUTS, blank, laid_out, repeated, values, whole

#: ``outer, lengths of the indexed axes, inner, m``; more places than a kernel works out at a time.
SHAPES = (
    (1, (1,), 1, 1), (1, (5,), 3, 7), (3, (4,), 1, 5), (2, (7,), 65, 3), (1, (3, 4), 2, 6),
    (2, (3, 2, 2), 5, 4), (1, (9,), 2, 1030), (2, (3,), 1, 0), (0, (3,), 2, 2), (2, (0,), 3, 0),
    (2, (3,), 0, 4), (1, (6,), 130, 4), (2, (5,), 4, 7), (1, (6,), 16, 9), (1, (6,), 61, 9),
)  # fmt: skip
#: ``take`` and ``put`` are by element size.
MOVED = ("i1", "i2", None, "i8", "?")
#: Products of more factors leave the range of the dtype.
FACTORS = tuple(shape for shape in ROWS if shape[1] <= 67)
#: ``n, (h, w), (out_h, out_w)``
IMAGES = (
    (1, (1, 1), (1, 1)), (2, (4, 5), (7, 9)), (3, (7, 6), (3, 2)), (1, (3, 4), (6, 8)),
    (2, (1, 3), (4, 1)), (1, (5, 1), (1, 6)), (1, (2, 9), (3, 600)), (0, (2, 2), (3, 3)),
    (2, (10, 10), (10, 10)),
)  # fmt: skip


# --- by index or condition ---------------------------------------------------------------------
def _places(rng, lengths, m: int, dtype, negative: bool = False, ignore: int | None = None):
    t = [labels(rng, (m,), max(n, 1), dtype, negative=negative) for n in lengths]
    if ignore is not None:
        t[0] = np.where(rng.random(m) < 0.4, ignore, t[0]).astype(dtype)
    return [whole(k) for k in t]


def _variants(rng, lengths, m: int) -> Iterator[tuple[str, list, tuple]]:
    for dtype in LABEL_DTYPES:
        yield f"{np.dtype(dtype).name} indices", _places(rng, lengths, m, dtype), (0, 0)
    yield "indices from the end", _places(rng, lengths, m, np.int32, True), (0, 0)
    if len(lengths) == 1:
        yield "ignored", _places(rng, lengths, m, np.int32, False, -99), (1, -99)
        yield "ignored in range", _places(rng, lengths, m, np.int64), (1, 0)


def _array(rng, shape, dtype, kind: str) -> np.ndarray:
    if np.dtype(dtype).kind == "f":
        return values(rng, shape, dtype, kind)
    return rng.integers(0, 2 if dtype == "?" else 99, size=shape).astype(dtype)


def moved(op: Op, rng, dtype) -> Iterator[Case]:
    """Every shape, index dtype and element size; the indexed side in every layout."""
    for outer, lengths, inner, m in SHAPES:
        side, rows = (outer, *lengths, inner), (outer, m, inner)
        for what, t, ints in _variants(rng, lengths, m):
            yield _moved(op, rng, side, rows, dtype, "ordinary", "", t, ints, what)
        t = _places(rng, lengths, m, np.int32)
        for kind in KINDS:
            yield _moved(op, rng, side, rows, dtype, kind, "", t, (0, 0), f"{kind} values")
        for other in MOVED:
            yield _moved(op, rng, side, rows, other or dtype, "ordinary", "", t, (0, 0), "size")
        for layout in LAYOUTS if 0 not in side else ():
            yield _moved(op, rng, side, rows, dtype, "ordinary", layout, t, (0, 0), layout)


def _moved(op, rng, side, rows, dtype, kind, layout, t, ints, what) -> Case:
    if op.name == "take":
        x = laid_out(_array(rng, side, dtype, kind), layout)
        return Case(op.name, what, [x, *t], [blank(rows, dtype)], ints, exact=True, zero_sign=True)
    y = laid_out(np.full(side, 1, dtype), layout)
    x = whole(_array(rng, rows, dtype, kind))
    return Case(op.name, what, [x, *t], [y], ints, exact=True, zero_sign=True)


def scatter_add(op: Op, rng, dtype) -> Iterator[Case]:
    """The sums of one place in one order: not the least difference."""
    for outer, lengths, inner, m in SHAPES:
        side, rows = (outer, *lengths, inner), (outer, m, inner)
        for accumulate in (0, 1):
            old = values(rng, side, dtype)
            for what, t, ints in _variants(rng, lengths, m):
                gy, gx = whole(values(rng, rows, dtype)), whole(old)
                yield Case(op.name, what, [gy, *t], [gx], (accumulate, *ints), exact=True)
            for kind in KINDS:
                t = _places(rng, lengths, m, np.int32)
                gy, gx = whole(values(rng, rows, dtype, kind)), whole(old)
                yield Case(op.name, kind, [gy, *t], [gx], (accumulate, 0, 0), exact=True)
        for layout in LAYOUTS if 0 not in side else ():
            gx = laid_out(values(rng, side, dtype), layout)
            gy, t = whole(values(rng, rows, dtype)), _places(rng, lengths, m, np.int32)
            yield Case(op.name, layout, [gy, *t], [gx], (1, 0, 0), exact=True)
    for of in (np.int32, np.int64, np.int8):  # long rows of places that follow one another
        runs = [np.arange(k % 30, k % 30 + 29 + k % 7) for k in range(0, 900, 13)]
        t = np.concatenate([*runs, np.full(40, 99)]).astype(of)
        gy, gx = whole(values(rng, (2, len(t), 1), dtype)), whole(values(rng, (2, 100, 1), dtype))
        for ints in ((1, 0, 0), (1, 1, 99), (0, 1, 31)):
            yield Case(op.name, "runs", [gy, whole(t)], [gx], ints, exact=True)


def where(op: Op, rng, dtype) -> Iterator[Case]:
    """Every element size, layout and operand that is repeated."""
    for shape in ((1,), (3, 5), (2, 3, 4), (1037,), (0, 3), (2, 67)):
        for kind in KINDS:
            for of in (dtype, "i1", "i2", "i8") if kind == "ordinary" else (dtype,):
                ins = [whole(_array(rng, shape, d, kind)) for d in ("?", of, of)]
                yield _chosen(op, ins, blank(shape, of), f"{kind} values")
        for layout in LAYOUTS if 0 not in shape else ():
            for k in range(4):
                arrays = [_array(rng, shape, d, "ordinary") for d in ("?", dtype, dtype, dtype)]
                rows = [laid_out(a, layout if i == k else "") for i, a in enumerate(arrays)]
                yield _chosen(op, rows[:3], rows[3], f"operand {k} {layout}")
        for k, of in enumerate(("?", dtype, dtype)):
            ins = [whole(_array(rng, shape, d, "ordinary")) for d in ("?", dtype, dtype)]
            ins[k] = repeated(_array(rng, (), of, "ordinary"), shape)
            yield _chosen(op, ins, blank(shape, dtype), f"one {k}")


def _chosen(op, ins, out, what: str) -> Case:
    return Case(op.name, what, ins, [out], exact=True, zero_sign=True)


def out_of_range(dtype, wrong: int) -> Iterator[Case]:
    """Cases whose third index is wrong for 5 entries."""
    bad = whole(np.array([0, 4, wrong, 9999]))
    side, rows = whole(np.ones((2, 5, 3), dtype)), whole(np.ones((2, 4, 3), dtype))
    yield Case("take", "", [side, bad], [blank((2, 4, 3), dtype)], (0, 0))
    yield Case("take", "", [side, bad], [blank((2, 4, 3), dtype)], (1, 0))
    yield Case("put", "", [rows, bad], [blank((2, 5, 3), dtype)], (0, 0))
    yield Case("scatter_add", "", [rows, bad], [blank((2, 5, 3), dtype)], (0, 0, 0))
    pair = whole(np.ones((2, 2, 5, 3), dtype))
    good = whole(np.zeros(4, np.int32))
    yield Case("take", "second index", [pair, good, bad], [blank((2, 4, 3), dtype)], (0, 0))


# --- along an axis, between images -------------------------------------------------------------
def along(op: Op, rng, dtype) -> Iterator[Case]:
    """All shapes and value classes; sums in one order, so that nothing may differ."""
    shapes = ROWS if op.name == "cumsum" else FACTORS
    for shape in (*shapes, (2, 0, 3)):
        less = (shape[0], shape[2])
        for kind in KINDS:
            if kind == "largest" and op.name != "cumsum":
                continue  # which product leaves the range first depends on the order
            x, y, gy = (whole(values(rng, shape, dtype, k)) for k in (kind, kind, "ordinary"))
            few = whole(values(rng, less, dtype))
            ins, out = {
                "cumsum": ([x], shape),
                "cumprod": ([x], shape),
                "cumprod_grad": ([x, y, gy], shape),
                "prod": ([x], less),
                "prod_grad": ([x, few], shape),
            }[op.name]
            for ints in ((0,), (1,)) if op.ints else ((),):
                yield Case(op.name, f"{kind} values", ins, [blank(out, dtype)], ints)


def resize(op: Op, rng, dtype) -> Iterator[Case]:
    """Larger and smaller, in every mode."""
    for n, inner, outer in IMAGES:
        for kind in KINDS[:-1]:
            for mode in range(3):
                shapes = [(n, *inner), (n, *outer)]
                if op.name == "resize_grad":
                    shapes.reverse()
                ins = [whole(values(rng, shapes[0], dtype, kind))]
                yield Case(op.name, f"{kind} values", ins, [blank(shapes[1], dtype)], (mode,))


BY_OP = {
    "take": moved,
    "put": moved,
    "scatter_add": scatter_add,
    "where": where,
    **dict.fromkeys(("cumsum", "cumprod", "cumprod_grad", "prod", "prod_grad"), along),
    **dict.fromkeys(("resize", "resize_grad"), resize),
}
