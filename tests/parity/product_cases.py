"""Cases of matrix products."""

from __future__ import annotations

from collections.abc import Iterator

from sdbr.ops.op import Op

import numpy as np

from .harness import Case
from .values import KINDS, blank, values, whole

#: ``n, k, m`` of ``[n, k] @ [k, m]``
PRODUCTS = (
    (1, 1, 1), (3, 5, 7), (1, 33, 65), (65, 33, 1), (17, 64, 33), (64, 128, 129), (0, 4, 3),
    (4, 3, 0), (4, 0, 3), (3, 1100, 9), (1, 1100, 40), (41, 1, 37),
)  # fmt: skip
#: So many multiplications that a library may be faster than a loop.
LARGE = ((70, 300, 260), (1100, 40, 100))
#: Every number of rows and columns that is left over when tiles have been cut.
TAILS = tuple(
    (n, 5, m) for n in (1, 2, 3, 4, 5, 6, 7, 11, 13) for m in (2, 4, 7, 8, 15, 16, 23, 47)
)


def _factors(rng, a_shape, b_shape, dtype, kind: str) -> tuple[np.ndarray, np.ndarray]:
    a, b = values(rng, a_shape, dtype, kind), values(rng, b_shape, dtype)
    if kind == "largest":  # no sum may overflow on the way: that would depend on its order
        return a / 1024, b
    # Sums of about one, where an activation neither saturates nor magnifies their rounding.
    return a, (b / (4 * np.sqrt(max(b_shape[-2:])))).astype(dtype)


def linear(op: Op, rng, dtype) -> Iterator[Case]:
    """Every activation, with and without bias."""
    for n, k, m in (*PRODUCTS, *TAILS, *LARGE):
        for activation in range(4):
            for bias in (False, True):
                for kind in KINDS if (n, k, m) == (3, 5, 7) else ("ordinary",):
                    x, w = _factors(rng, (n, k), (m, k), dtype, kind)
                    ins = [whole(x), whole(w)] + [whole(values(rng, (m,), dtype))] * bias
                    out = blank((n, m), dtype)
                    yield Case(op.name, f"{kind} values", ins, [out], (activation,))


def gemm(op: Op, rng, dtype) -> Iterator[Case]:
    """Every combination of transposes, overwriting and adding."""
    for n, k, m in (*PRODUCTS, *TAILS, *LARGE):
        for flags in np.ndindex(2, 2, 2):
            for kind in KINDS if (n, k, m) == (3, 5, 7) else ("ordinary",):
                a_shape = (k, n) if flags[0] else (n, k)
                b_shape = (m, k) if flags[1] else (k, m)
                a, b = _factors(rng, a_shape, b_shape, dtype, kind)
                out = whole(values(rng, (n, m), dtype)) if flags[2] else blank((n, m), dtype)
                yield Case(op.name, f"{kind} values", [whole(a), whole(b)], [out], flags)


def batch_matmul(op: Op, rng, dtype) -> Iterator[Case]:
    """Every combination of transposes, batches of none, one and three."""
    few = [(n, k, m) for n in (3, 32, 33) for k in (1, 16, 17) for m in (1, 4, 8, 9)]
    for batch in (0, 1, 3):
        for n, k, m in (*PRODUCTS, *few, *LARGE[: batch == 1]):
            for flags in np.ndindex(2, 2):
                for kind in KINDS if (n, k, m) == (3, 5, 7) else ("ordinary",):
                    a_shape = (batch, k, n) if flags[0] else (batch, n, k)
                    b_shape = (batch, m, k) if flags[1] else (batch, k, m)
                    a, b = _factors(rng, a_shape, b_shape, dtype, kind)
                    out = blank((batch, n, m), dtype)
                    yield Case(op.name, f"{kind} values", [whole(a), whole(b)], [out], flags)


def gemm_mask(op: Op, rng, dtype) -> Iterator[Case]:
    """The three activations whose gradient can be folded into a product."""
    for n, k, m in (*PRODUCTS, *TAILS, *LARGE):
        for activation in (1, 2, 3):
            for kind in KINDS if (n, k, m) == (3, 5, 7) else ("ordinary",):
                a, b = _factors(rng, (n, k), (k, m), dtype, kind)
                y = np.tanh(values(rng, (n, m), dtype))
                ins = [whole(a), whole(b), whole(y)]
                yield Case(op.name, f"{kind} values", ins, [blank((n, m), dtype)], (activation,))


BY_OP = {"linear": linear, "gemm": gemm, "batch_matmul": batch_matmul, "gemm_mask": gemm_mask}
