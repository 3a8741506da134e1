"""Cases of comparisons, and of integers and truth values."""

from __future__ import annotations

from collections.abc import Iterator

from sdbr.ops.table import Op

import numpy as np

from .elementwise_cases import BROADCASTS
from .harness import Case
from .values import KINDS, LAYOUTS, blank, laid_out, repeated, values, whole

INTEGERS = (np.dtype("i4"), np.dtype("i8"))
SHAPES = ((), (0,), (1,), (37,), (3, 0), (3, 5), (2, 3, 4, 5))
#: The kinds that truth values have, of `integer`.
LOGICAL = (5, 6, 7)


def _numbers(rng, shape, dtype, kind: str = "ordinary") -> np.ndarray:
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        return np.round(values(rng, shape, dtype, kind))  # equal numbers among them
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    x = rng.integers(-3, 4, shape).astype(dtype)
    bounds = np.iinfo(dtype)
    extreme = rng.integers(bounds.min, bounds.max, shape, dtype, endpoint=True)
    return np.where(rng.random(shape) < 0.2, extreme, x).astype(dtype)


def _all(op: Op, rng, dtype, result, k: int) -> Iterator[Case]:
    def case(what, x, y, z):
        return Case(op.name, f"{dtype.name}, {what}", [x, y], [z], (k,), exact=True)

    for shape in SHAPES:
        x, y = (whole(_numbers(rng, shape, dtype)) for _ in "xy")
        yield case("contiguous", x, y, blank(shape, result))
    for layout in LAYOUTS:
        for at in range(3):
            arrays = [_numbers(rng, (5, 9), dtype) for _ in "xy"] + [blank((5, 9), result).base]
            rows = [laid_out(a, layout if i == at else "") for i, a in enumerate(arrays)]
            yield case(layout, *rows)
    for small, big in BROADCASTS:
        x, y = repeated(_numbers(rng, small, dtype), big), whole(_numbers(rng, big, dtype))
        yield case("x broadcast", x, y, blank(big, result))
        yield case("y broadcast", y, x, blank(big, result))
    for kind in KINDS if dtype.kind == "f" else ():
        x, y = (whole(_numbers(rng, (67,), dtype, kind)) for _ in "xy")
        yield case(f"{kind} values", x, y, blank((67,), result))


def compare(op: Op, rng, dtype) -> Iterator[Case]:
    """Every comparison, of floats and of integers."""
    for d in (dtype, INTEGERS[dtype.itemsize == 8]):
        for k in range(6):
            yield from _all(op, rng, d, np.dtype(bool), k)


def integer(op: Op, rng, dtype) -> Iterator[Case]:
    """Every kind of both integers; truth values; numbers that wrap around."""
    for k in range(8):
        d = INTEGERS[dtype.itemsize == 8]
        with np.errstate(over="ignore"):
            yield from _all(op, rng, d, d, k)
        if k in LOGICAL:
            yield from _all(op, rng, np.dtype(bool), np.dtype(bool), k)


def count(op: Op, rng, dtype) -> Iterator[Case]:
    """None of none, all, some; more than one block of the kernel."""
    del dtype  # there is one
    for shape in (*SHAPES, (70001,)):
        for share in (0.5, 0.0, 1.0):
            x = rng.random(shape) < share
            out = blank((), np.dtype("d"))
            yield Case(op.name, f"{share} of {shape}", [whole(x)], [out], exact=True)


BY_OP = {"compare": compare, "integer": integer, "count": count}
