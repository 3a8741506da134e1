"""Comparisons, arithmetic of integers and truth values, and how many are true."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sdbr.ops.op import Layout, Ops

import numpy as np

Array = np.ndarray
define = Ops()


#: By the number that `compare` carries.
COMPARISONS: tuple[Callable, ...] = (
    np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal,
)  # fmt: skip


#: By the number that `integer` carries.
ARITHMETIC: tuple[Callable, ...] = (
    np.add, np.subtract, np.multiply, np.maximum, np.minimum,
    np.bitwise_and, np.bitwise_or, np.bitwise_xor,
)  # fmt: skip


def _kinds(known: Sequence[Callable]) -> Callable[..., str]:
    """The rule that `kind` is one of those that there are."""

    def rule(
        ins: Sequence[Layout], outs: Sequence[Layout], ints: Sequence[int], floats: Sequence
    ) -> str:
        return "" if 0 <= ints[0] < len(known) else f"kind {ints[0]}, of {len(known)}"

    return rule


define(
    "compare",
    "x:S[s...] y:S[s...]",
    "z:B[s...]",
    "z = x == y, !=, <, <=, > or >= y, by `kind`; x and y of one dtype out of float32, "
    "float64, int32, int64; z bool",
    lambda x, y, kind: COMPARISONS[kind](x, y),
    ints="kind",
    rule=_kinds(COMPARISONS),
)

define(
    "integer",
    "x:S[s...] y:S[s...]",
    "z:S[s...]",
    "z = x + y, -, *, maximum, minimum, &, | or ^ y, by `kind`; all of one dtype out of "
    "int32, int64 and, for the last three, bool; sums and products wrap around",
    lambda x, y, kind: ARITHMETIC[kind](x, y),
    ints="kind",
    rule=_kinds(ARITHMETIC),
)

define(
    "count",
    "x:B[s...]",
    "y:D[]",
    "y = how many of x are True",
    lambda x: np.asarray(np.count_nonzero(x), np.float64),
)

OPS = define.ops
