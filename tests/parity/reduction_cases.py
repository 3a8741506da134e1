"""Cases of reductions and of ops on rows."""

from __future__ import annotations

from collections.abc import Iterator

from sdbr.ops.op import Op

import numpy as np

from .harness import Case
from .values import KINDS, blank, spread, values, whole

#: ``[outer, n, inner]``
ROWS = (
    (1, 1, 1), (3, 5, 7), (1, 1037, 1), (4, 67, 1), (1, 9, 65), (2, 33, 17), (129, 1, 3),
    (16, 10, 1), (0, 3, 2), (2, 3, 0), (1, 2100, 1), (300, 7, 1), (1, 200, 3), (2, 5, 300),
    (1, 3, 2500),
)  # fmt: skip


def reduction(op: Op, rng, dtype) -> Iterator[Case]:
    """All shapes, value classes, and runs of zeros added up."""
    picks = op.name in ("max", "min")
    shapes = ROWS if picks else (*ROWS, (2, 0, 3))
    for kind in KINDS:
        for shape in shapes:
            x = whole(spread(rng, shape, 1, dtype, kind))
            out = blank((shape[0], shape[2]), dtype)
            yield Case(op.name, f"{kind} values", [x], [out], exact=picks)


def softmax(op: Op, rng, dtype) -> Iterator[Case]:
    """Forward on any numbers, gradients on real outputs and on any numbers."""
    shapes = (*ROWS, (2, 0, 3))
    for kind in KINDS:
        for shape in shapes:
            for k in (None, *op.inplace) if kind in ("ordinary", "nan") else (None,):
                ins = [whole(spread(rng, shape, 1, dtype, kind)) for _ in op.inputs]
                if len(ins) == 2:
                    ins[0] = whole(_activated(op.name, rng, shape, dtype, kind))
                outs = [blank(shape, dtype) if k is None else ins[k]]
                what = f"{kind} values" if k is None else f"{kind} values, in place of {k}"
                yield Case(op.name, what, ins, outs)


def _activated(name: str, rng, shape, dtype, kind: str) -> np.ndarray:
    x = values(rng, shape, dtype, "ordinary" if kind == "largest" else kind)
    with np.errstate(all="ignore"):
        e = np.exp(x)
        y = e / e.sum(axis=1, keepdims=True)
        return (np.log(y) if name.startswith("log") else y).astype(dtype)


BY_OP = {
    **dict.fromkeys(("sum", "mean", "max", "min"), reduction),
    **dict.fromkeys(("softmax", "softmax_grad", "log_softmax", "log_softmax_grad"), softmax),
}
