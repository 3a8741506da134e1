"""Cases of the cells of recurrent networks."""

from __future__ import annotations

from collections.abc import Iterator

from sdbr.ops.table import Op

import numpy as np

from .harness import Case
from .values import KINDS, blank, spread, values, whole

#: Numbers of cells: part of a vector, vectors with a rest, blocks with a rest.
CELLS = (0, 1, 3, 16, 37, 64, 200)
GIVEN = ((1, 1), (1, 0), (0, 1))
#: ``n, children, cells``
TREES = ((3, 1, 5), (2, 2, 64), (1, 3, 67), (0, 2, 3), (4, 2, 1))


def _kinds(m: int):
    return KINDS if m == 37 else ("ordinary",)


def lstm(op: Op, rng, dtype) -> Iterator[Case]:
    """Values of every class; the gates in place of what they are made of."""
    for m in CELLS:
        for kind in _kinds(m):
            for shared in (False, True):
                c = whole(values(rng, (m,), dtype))
                x = whole(spread(rng, (m, 4), 1, dtype, kind))
                gates = x if shared else blank((m, 4), dtype)
                outs = [gates, blank((m,), dtype), blank((m,), dtype)]
                yield Case(op.name, f"{kind} values, in place {shared}", [c, x], outs)


def lstm_grad(op: Op, rng, dtype) -> Iterator[Case]:
    """Either gradient or both; in place of the gates."""
    for m in CELLS:
        for kind in _kinds(m):
            for flags in GIVEN:
                for shared in (False, True):
                    gates = whole(np.tanh(values(rng, (m, 4), dtype)))
                    ins = [gates, *[whole(values(rng, (m,), dtype)) for _ in range(2)]]
                    ins += [whole(values(rng, (m,), dtype, kind)) for _ in range(sum(flags))]
                    outs = [gates if shared else blank((m, 4), dtype), blank((m,), dtype)]
                    yield Case(op.name, f"{kind} values, in place {shared}", ins, outs, flags)


def slstm(op: Op, rng, dtype) -> Iterator[Case]:
    """Forward, or the gradients from either or both."""
    for m in CELLS:
        for kind in _kinds(m):
            for flags in GIVEN if op.ints else ((),):
                ins = [whole(values(rng, (m,), dtype)) for _ in range(2)]
                ins += [whole(spread(rng, (m, 4), 1, dtype, kind)) for _ in range(2)]
                ins += [whole(values(rng, (m,), dtype)) for _ in range(bool(flags) + sum(flags))]
                shapes = [(m, 4), (m, 4), (m,), (m,)] if flags else [(m,), (m,)]
                outs = [blank(shape, dtype) for shape in shapes]
                yield Case(op.name, f"{kind} values", ins, outs, flags)


def tree_lstm(op: Op, rng, dtype) -> Iterator[Case]:
    """One child and more; forward, or the gradients from either or both."""
    for n, children, cells in TREES:
        for kind in _kinds(37 if cells == 67 else 0):
            for flags in GIVEN if op.ints else ((),):
                plain = (n, cells)
                shape = (n, 3 + children, cells)
                ins = [whole(spread(rng, shape, 2, dtype, kind))]
                more = children + bool(flags) + sum(flags)
                ins += [whole(values(rng, plain, dtype)) for _ in range(more)]
                shapes = [shape, *[plain] * children] if flags else [plain, plain]
                outs = [blank(s, dtype) for s in shapes]
                yield Case(op.name, f"{kind} values", ins, outs, flags)


BY_OP = {
    "lstm": lstm,
    "lstm_grad": lstm_grad,
    "slstm": slstm,
    "slstm_grad": slstm,
    "tree_lstm": tree_lstm,
    "tree_lstm_grad": tree_lstm,
}
