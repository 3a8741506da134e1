"""Functions and links of users whose arguments are indices."""

from __future__ import annotations

from collections.abc import Iterator

import sdbr

import chainer
import numpy as np
from chainer import functions as F
from chainer import links as L


class _Call(chainer.Chain):
    """A static loss on `data`, with a whole step now and then."""

    def __init__(self, function, indices, x=None, links=None):
        super().__init__()
        with self.init_scope():
            self.bias = chainer.Parameter(np.zeros(3, "f"))
            for name, link in (links or {}).items():
                setattr(self, name, link)
        self.function = function
        self.indices = indices
        self.data = [] if x is None else [x]
        self.optimizer = None

    def forward(self, *arrays):
        return F.sum(self.function(self, *arrays)) + F.sum(self.bias)

    def run(self) -> None:
        """Forward and backward of one call, then a whole step."""
        arrays = [*self.data, *self.indices]
        if self.optimizer is None:
            sdbr.static_graph(self)
            self.optimizer = sdbr.static_optimizer(chainer.optimizers.SGD(1e-6)).setup(self)
        self.cleargrads()
        self(*arrays).backward()
        self.optimizer.update(self, *arrays)


def _data(*shape) -> np.ndarray:
    return np.random.RandomState(0).randn(*shape).astype("f")


def _ids(n: int, *shape, dtype="i") -> np.ndarray:
    return np.random.RandomState(1).randint(0, n, shape).astype(dtype)


def _sampler(shape):
    return np.random.randint(0, 50, shape).astype("i")


def calls() -> Iterator[tuple[str, _Call]]:
    """All of them, by name."""
    ids = _ids(60, 4096)
    yield "EmbedID", _Call(lambda m, t: m.embed(t), [ids], links={"embed": L.EmbedID(60, 7)})
    yield (
        "EmbedID, ignore_label",
        _Call(
            lambda m, t: m.embed(t),
            [_ids(60, 64, 64)],
            links={"embed": L.EmbedID(60, 7, ignore_label=-1)},
        ),
    )
    yield (
        "an array as an index",
        _Call(lambda m, x, t: x[t] * m.bias, [_ids(50, 4096)], _data(50, 3)),
    )
    yield (
        "two arrays as an index",
        _Call(
            lambda m, x, t, u: F.get_item(x * m.bias, (t, slice(None), u)),
            [_ids(50, 4096), _ids(3, 4096)],
            _data(50, 4, 3),
        ),
    )
    yield (
        "select_item",
        _Call(lambda m, x, t: F.select_item(x * m.bias, t), [_ids(3, 4096)], _data(4096, 3)),
    )
    yield (
        "permutate",
        _Call(
            lambda m, x, t: F.permutate(x * m.bias, t),
            [np.random.RandomState(0).permutation(900).astype("i")],
            _data(900, 3),
        ),
    )
    yield (
        "scatter_add",
        _Call(
            lambda m, x, t: F.scatter_add(x * m.bias, t, np.ones((4096, 3), "f")),
            [_ids(50, 4096)],
            _data(50, 3),
        ),
    )
    for options in (
        {},
        {"ignore_label": 1},
        {"class_weight": np.array([1, 2, 3], "f")},
        {"reduce": "no"},
    ):
        yield (
            f"softmax_cross_entropy {' '.join(options)}",
            _Call(
                lambda m, x, t, o=options: F.softmax_cross_entropy(x * m.bias, t, **o),
                [_ids(3, 4096)],
                _data(4096, 3),
            ),
        )
    yield (
        "sigmoid_cross_entropy",
        _Call(
            lambda m, x, t: F.sigmoid_cross_entropy(x * m.bias, t),
            [_ids(2, 4096, 3)],
            _data(4096, 3),
        ),
    )
    yield "hinge", _Call(lambda m, x, t: F.hinge(x * m.bias, t), [_ids(3, 4096)], _data(4096, 3))
    yield (
        "accuracy and the class summary",
        _Call(
            lambda m, x, t: (
                F.accuracy(x, t) + F.sum(F.cast(F.classification_summary(x, t, 3)[2], "f"))
            ),
            [_ids(3, 4096)],
            _data(4096, 3),
        ),
    )
    yield (
        "connectionist_temporal_classification",
        _Call(
            lambda m, x, t, n, k: F.connectionist_temporal_classification(
                list(F.separate(x * m.bias)), t, 0, n, k
            ),
            [_ids(2, 60, 4) + 1, np.full(60, 9, "i"), np.full(60, 4, "i")],
            _data(9, 60, 3),
        ),
    )
    yield (
        "negative_sampling",
        _Call(
            lambda m, x, t: F.negative_sampling(x * m.bias, t, m.w, _sampler, 4),
            [_ids(50, 900)],
            _data(900, 3),
            {"w": chainer.Parameter(np.ones((50, 3), "f"))},
        ),
    )
    tree = L.BinaryHierarchicalSoftmax.create_huffman_tree({k: k + 1 for k in range(50)})
    yield (
        "hierarchical softmax",
        _Call(
            lambda m, x, t: m.h(x * m.bias, t),
            [_ids(50, 300)],
            _data(300, 3),
            {"h": L.BinaryHierarchicalSoftmax(3, tree)},
        ),
    )
    yield (
        "crf1d",
        _Call(
            lambda m, x, t: F.crf1d(m.cost, list(F.separate(x * m.bias)), list(t)),
            [_ids(3, 5, 300)],
            _data(5, 300, 3),
            {"cost": chainer.Parameter(np.ones((3, 3), "f"))},
        ),
    )
