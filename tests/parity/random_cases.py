"""Cases of ops that draw: every backend draws the same doubles."""

from __future__ import annotations

from collections.abc import Iterator

from sdbr.ops.op import Op

from .harness import Case
from .values import KINDS, blank, values, whole

#: Float attributes to try where nothing goes in.
FLOATS = {
    "keep_mask": ((0.5,), (0.0,), (0.9,)),
    "uniform": ((0.0, 1.0), (0.125, 1 / 3), (-0.1, 0.7)),
}


def dropout(op: Op, rng, dtype) -> Iterator[Case]:
    """Masks are those of one seed."""
    for ratio in (0.5, 0.0, 0.3, 0.9):
        for shape in ((), (0,), (1,), (37,), (3, 5), (1037,), (2, 3, 4)):
            for kind in KINDS if shape == (37,) else ("ordinary",):
                x = whole(values(rng, shape, dtype, kind))
                outs = [blank(shape, dtype), blank(shape, dtype)]
                yield Case(
                    "dropout", f"{kind} values", [x], outs, (), (ratio,), exact=True, zero_sign=True
                )


def draws(op: Op, rng, dtype) -> Iterator[Case]:
    """Nothing goes in."""
    for floats in FLOATS[op.name]:
        for shape in ((), (0,), (1,), (37,), (3, 5), (1037,), (2, 3, 4)):
            yield Case(op.name, "", [], [blank(shape, dtype)], (), floats, exact=True)


BY_OP = {"dropout": dropout, "keep_mask": draws, "uniform": draws}
