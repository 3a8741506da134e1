"""Cases of data movement."""

from __future__ import annotations

from collections.abc import Iterator

from sdbr.base.dtypes import DTYPES
from sdbr.ops.op import Op

import numpy as np

from .elementwise_cases import BROADCASTS
from .harness import Case
from .values import KINDS, LAYOUTS, Operand, blank, laid_out, repeated, values, whole

REAL = [d for d in DTYPES if d.kind != "c"]


def _any(rng, shape, dtype: np.dtype) -> np.ndarray:
    """Numbers of any dtype, small enough for every other dtype."""
    if dtype.kind == "f":
        return values(rng, shape, dtype, "nan")
    x = rng.integers(0, 2 if dtype.kind == "b" else 100, size=shape)
    return (x * (1 - 2j) if dtype.kind == "c" else x).astype(dtype)


def copy(op: Op, rng, dtype) -> Iterator[Case]:
    """Every native dtype; all layouts on both sides; shapes with up to five axes."""

    def case(what, x, y):
        return Case("copy", what, [x], [y], exact=True, zero_sign=True)

    for d in DTYPES if dtype == np.dtype("f4") else (dtype,):
        for shape in ((), (0,), (1,), (37,), (3, 5), (3, 0, 2), (2, 3, 4, 5, 3)):
            yield case("contiguous", whole(_any(rng, shape, d)), blank(shape, d))
        for layout in LAYOUTS:
            x = _any(rng, (5, 9), d)
            yield case(f"from {layout}", laid_out(x, layout), blank(x.shape, d))
            yield case(f"to {layout}", whole(x), laid_out(blank(x.shape, d).base, layout))
        for n in (1, 3, 4, 7, 16, 61, 64, 300):  # rows with gaps between them
            x = _any(rng, (5, n + 2), d)
            yield case("rows", Operand(x, x[:, 1:-1]), blank((5, n), d))
            y = blank((5, n + 2), d)
            yield case("to rows", whole(_any(rng, (5, n), d)), Operand(y.base, y.base[:, 1:-1]))
        for small, big in BROADCASTS:
            yield case(f"from {small}", repeated(_any(rng, small, d), big), blank(big, d))
    for kind in KINDS:
        yield case(f"{kind} values", whole(values(rng, (67,), dtype, kind)), blank((67,), dtype))
    for shape, axes in (
        ((33, 70), (1, 0)),
        ((101, 130), (1, 0)),
        ((3, 17, 19), (2, 0, 1)),
        ((5, 17, 19), (0, 2, 1)),
        ((17, 5, 19), (2, 1, 0)),
        ((2, 3, 4, 5), (0, 3, 1, 2)),
        ((3, 2, 11, 13), (0, 2, 3, 1)),
        ((3, 7, 2, 5, 3), (0, 2, 1, 4, 3)),
        *(((3, 7, 2, n), (1, 0, 2, 3)) for n in (1, 2, 3, 8, 9, 17)),
        *(
            ((2, 2, 2, 3, 4, n), (0, 3, 4, 1, 5, 2)) for n in (2, 3, 8, 9, 33)
        ),  # to every other place
    ):
        base = values(rng, shape, dtype)
        view = base.transpose(axes)
        yield case(f"axes {axes}", Operand(base, view), blank(view.shape, dtype))
        target = blank(shape, dtype)
        yield case(
            f"to axes {axes}", whole(view), Operand(target.base, target.base.transpose(axes))
        )


def fill(op: Op, rng, dtype) -> Iterator[Case]:
    """Every dtype and layout, and floats that only floats hold."""
    for d in REAL if dtype == np.dtype("f4") else (dtype,):
        for shape in ((), (0,), (1,), (37,), (3, 5), (3, 0, 2)):
            yield Case("fill", "contiguous", [], [blank(shape, d)], floats=(3.0,), exact=True)
        for layout in LAYOUTS:
            out = laid_out(blank((5, 9), d).base, layout)
            yield Case("fill", layout, [], [out], floats=(0.0,), exact=True, zero_sign=True)
    for value in (-0.0, 0.1, np.inf, np.nan, float(np.finfo(dtype).max), 1e-42):
        out = blank((7,), dtype)
        yield Case("fill", "special", [], [out], floats=(value,), exact=True, zero_sign=True)


def cast(op: Op, rng, dtype) -> Iterator[Case]:
    """Every pair of real dtypes, values that the target can hold."""
    sources = REAL if dtype == np.dtype("f4") else [dtype]
    for source in sources:
        for target in REAL:
            for shape in ((), (0,), (37,), (3, 5)):
                x = _any(rng, shape, source)
                x = np.nan_to_num(abs(x)) if source.kind == "f" else x
                yield Case("cast", "contiguous", [whole(x)], [blank(shape, target)], exact=True)
    for target in (np.dtype("f4"), np.dtype("f8"), np.dtype("f2")):
        for kind in KINDS:
            x = whole(values(rng, (67,), dtype, kind))
            out = blank((67,), target)
            yield Case("cast", f"{kind} values", [x], [out], exact=True, zero_sign=True)
    for layout in LAYOUTS:
        x = laid_out(values(rng, (5, 9), dtype, "ordinary"), layout)
        for target in (np.dtype("f4"), np.dtype("f8"), np.dtype("i4")):
            yield Case("cast", f"from {layout}", [x], [blank((5, 9), target)], exact=True)


BY_OP = {"copy": copy, "fill": fill, "cast": cast}
