"""chainer.functions.matmul."""

from __future__ import annotations

import chainer.functions as F

from tests.equivalence.arguments import N
from tests.equivalence.harness import Case, native


def _matmul(a, b, ta=False, tb=False):
    def f(x, y):
        return F.matmul(x, y, ta, tb)

    return (f"matmul {a} {b} {int(ta)}{int(tb)}", f, [N(*a), N(*b)])


MATMUL = [
    _matmul((3, 4), (4, 5)),
    _matmul((4, 3), (4, 5), True),
    _matmul((3, 4), (5, 4), False, True),
    _matmul((4, 3), (5, 4), True, True),
    _matmul((4,), (4,)),
    _matmul((4,), (4,), True, True),
    _matmul((4,), (4, 5)),
    _matmul((4,), (5, 4), False, True),
    _matmul((3, 4), (4,)),
    _matmul((4, 3), (4,), True),
    _matmul((2, 3, 4), (4,)),
    _matmul((2, 4, 3), (4,), True),
    _matmul((4,), (2, 4, 3)),
    _matmul((4,), (2, 3, 4), False, True),
    _matmul((2, 3, 4), (2, 4, 5)),
    _matmul((2, 4, 3), (2, 4, 5), True),
    _matmul((2, 3, 4), (2, 5, 4), False, True),
    _matmul((2, 4, 3), (2, 5, 4), True, True),
    _matmul((2, 3, 4), (4, 5)),
    _matmul((2, 3, 4), (5, 4), False, True),
    _matmul((2, 4, 3), (4, 5), True),
    _matmul((3, 4), (2, 4, 5)),
    _matmul((2, 1, 3, 4), (6, 4, 5)),
    _matmul((1, 3, 4), (2, 4, 5)),
    _matmul((0, 3, 4), (0, 4, 5)),
    _matmul((3, 0), (0, 5)),
    ("matmul of views", lambda x, y: F.matmul(x.T, y.T), [N(4, 3), N(5, 4)]),
    ("matmul operator", lambda x, y: (x @ y).T @ x, [N(3, 4), N(4, 5)]),
    ("matmul output transposed", lambda x, y: _node_matmul(x, y, True, True), [N(4, 3), N(5, 4)]),
    ("matmul with itself", lambda x: F.matmul(x, x), [N(4, 4)]),
]


def _node_matmul(x, y, ta, tb):
    from chainer.functions.math.matmul import MatMul

    return MatMul(ta, tb, True).apply((x, y))[0]


CASES = [
    *native(MATMUL),
    Case("batch_matmul", F.batch_matmul, [N(2, 3, 4), N(2, 4, 5)], dtypes="f", native=True),
    Case(
        "batch_matmul transposed",
        lambda a, b: F.batch_matmul(a, b, True, True),
        [N(2, 4, 3), N(2, 5, 4)],
        dtypes="f",
        native=True,
    ),
    Case("batch_matmul vectors", F.batch_matmul, [N(2, 3, 4), N(2, 4)], dtypes="f", native=True),
    Case("matmul float16", F.matmul, [N(3, 4), N(4, 5)], dtypes="e"),
]
