"""Ops whose operands are integers that come from data, large enough to be caught in between."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.parity.harness import Case, Prepared
from tests.parity.values import Operand, blank, values, whole


def _numbers(rng, *shape) -> Operand:
    return whole(values(rng, shape, "f4"))


def _labels(rng, n: int, *shape, dtype="i4") -> Operand:
    return whole(rng.integers(0, n, shape).astype(dtype))


def _take(rng, dtype):
    return [_numbers(rng, 1, 500, 3), _labels(rng, 500, 9000, dtype=dtype)], [
        blank((1, 9000, 3), "f4")
    ]


def _put(rng, dtype):
    return [_numbers(rng, 1, 9000, 3), _labels(rng, 500, 9000, dtype=dtype)], [
        blank((1, 500, 3), "f4")
    ]


def _scores(rng, dtype):
    return _numbers(rng, 6000, 5, 1), _labels(rng, 5, 6000, 1, dtype=dtype)


def _cross_entropy(rng, dtype):
    return [*_scores(rng, dtype), _numbers(rng, 5)], [
        blank((), "f4"),
        blank((6000, 1), "f4"),
        blank((), "f4"),
    ]


def _cross_entropy_grad(rng, dtype):
    ins = [*_scores(rng, dtype), _numbers(rng, 6000, 1), _numbers(rng), _numbers(rng)]
    return [*ins, _numbers(rng, 5)], [blank((6000, 5, 1), "f4")]


def _cross_entropies(rng, dtype):
    return [*_scores(rng, dtype), _numbers(rng, 5)], [blank((6000, 1), "f4")] * 1 + [
        blank((6000, 1), "f4")
    ]


def _cross_entropies_grad(rng, dtype):
    ins = [*_scores(rng, dtype), _numbers(rng, 6000, 1), _numbers(rng, 6000, 1)]
    return [*ins, _numbers(rng, 5)], [blank((6000, 5, 1), "f4")]


def _sigmoid(*more):
    def make(rng, dtype):
        shapes = [(6000,) if m == "each" else () for m in more]
        return [_numbers(rng, 6000), _labels(rng, 2, 6000, dtype=dtype)], [
            blank(shape, "f4") for shape in shapes
        ]

    return make


def _sigmoid_grad(*more):
    def make(rng, dtype):
        shapes = [(6000,) if m == "each" else () for m in more]
        ins = [_numbers(rng, 6000), _labels(rng, 2, 6000, dtype=dtype)]
        return [*ins, *[_numbers(rng, *shape) for shape in shapes]], [blank((6000,), "f4")]

    return make


def _accuracy(rng, dtype):
    return [*_scores(rng, dtype)], [blank((), "f4")]


def _select(rng, dtype):
    return [_numbers(rng, 9000, 4), _labels(rng, 4, 9000, dtype=dtype)], [blank((9000,), "f4")]


def _select_grad(rng, dtype):
    return [_labels(rng, 4, 9000, dtype=dtype), _numbers(rng, 9000)], [blank((9000, 4), "f4")]


def _negate(rng, dtype):
    return [_numbers(rng, 9000, 4), _labels(rng, 4, 9000, dtype=dtype)], [blank((9000, 4), "f4")]


def _pool_grad(rng, dtype):
    return [_numbers(rng, 40, 1, 10, 10), _labels(rng, 9, 40, 1, 10, 10, dtype="i4")], [
        blank((40, 1, 20, 20), "f4")
    ]


def _pool_pick(rng, dtype):
    return [_numbers(rng, 40, 1, 20, 20), _labels(rng, 9, 40, 1, 10, 10, dtype="i4")], [
        blank((40, 1, 10, 10), "f4")
    ]


_TIMES, _BATCH, _LETTERS, _LENGTH = 12, 30, 9, 5
_PATHS = (_TIMES, _BATCH, 2 * _LENGTH + 1)


def _sequences(rng):
    lengths = [whole(np.full(_BATCH, n, "i4")) for n in (_TIMES, _LENGTH)]
    return [*lengths, whole(rng.integers(1, _LETTERS, (_BATCH, _LENGTH)).astype("i4"))]


def _ctc(rng, dtype):
    shape = (_TIMES, _BATCH, _LETTERS)
    outs = [(_BATCH,), shape, _PATHS, (4 * (_PATHS[2] + 2),)]
    return [_numbers(rng, *shape), *_sequences(rng)], [blank(s, "f4") for s in outs]


def _ctc_grad(rng, dtype):
    shape = (_TIMES, _BATCH, _LETTERS)
    ins = [_numbers(rng, *shape), _numbers(rng, *_PATHS), *_sequences(rng), _numbers(rng, _BATCH)]
    return ins, [blank(shape, "f4")]


_WINDOW = (1, 3, 3, 1, 2, 2, 0, 1, 1)
#: Every op with operands of integers that come from data: what makes the operands, attributes.
OPS: dict[str, tuple[Callable, tuple]] = {
    "take": (_take, (0, 0)),
    "put": (_put, (0, 0)),
    "scatter_add": (_put, (1, 0, 0)),
    "softmax_cross_entropy": (_cross_entropy, (1, -1)),
    "softmax_cross_entropy_grad": (_cross_entropy_grad, (-1,)),
    "softmax_cross_entropy_no_reduce": (_cross_entropies, (-1,)),
    "softmax_cross_entropy_no_reduce_grad": (_cross_entropies_grad, (-1,)),
    "sigmoid_cross_entropy": (_sigmoid("one", "one"), (1, 6000)),
    "sigmoid_cross_entropy_grad": (_sigmoid_grad("one", "one"), ()),
    "sigmoid_cross_entropy_no_reduce": (_sigmoid("each"), ()),
    "sigmoid_cross_entropy_no_reduce_grad": (_sigmoid_grad("each"), ()),
    "accuracy": (_accuracy, (1, -1)),
    "select_item": (_select, ()),
    "select_item_grad": (_select_grad, ()),
    "negate_item": (_negate, ()),
    "max_pooling_grad": (_pool_grad, (*_WINDOW, 0)),
    "max_pooling_pick": (_pool_pick, (*_WINDOW, 0)),
    "ctc": (_ctc, (0,)),
    "ctc_grad": (_ctc_grad, (0,)),
}


def op_run(name: str, dtype: str) -> tuple[Callable, list[np.ndarray]]:
    """What runs the op once, and the arrays of indices that it reads."""
    make, ints = OPS[name]
    ins, outs = make(np.random.default_rng(0), dtype)
    prepared = Prepared([Case(name, "", ins, outs, ints)], "cython")
    indices = [prepared.arrays[id(o)] for o in ins if o.base.dtype.kind in "iu"]
    return prepared.executable.run, indices
