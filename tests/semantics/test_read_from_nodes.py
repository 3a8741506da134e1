"""Row 10: what a function has left on its node, and user code reads there, is not frozen."""

from __future__ import annotations

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer.functions.loss.softmax_cross_entropy import SoftmaxCrossEntropy

X = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
#: The number of labels that count decides about `_coeff`.
LABELS = [np.array(t, np.int32) for t in ((0, 1), (0, -1), (-1, 2))]


def loss_of(x, t):
    return F.softmax_cross_entropy(x, t)


def by_creator(x, t):
    return loss_of(x, t).creator._coeff


def by_creator_node(x, t):
    return loss_of(x, t).creator_node._coeff


def by_node(x, t):
    return loss_of(x, t).node.creator._coeff


def by_node_of_node(x, t):
    return loss_of(x, t).node.creator_node._coeff


def by_private_names(x, t):
    return loss_of(x, t)._node._creator_node._coeff


def by_a_later_node(x, t):
    y = loss_of(x, t) * 2
    return y.creator.inputs[0].creator._coeff


def by_a_graph(x, t):
    graph = chainer.computational_graph.build_computational_graph([loss_of(x, t)])
    (node,) = [n for n in graph.nodes if isinstance(n, SoftmaxCrossEntropy)]
    return node._coeff


def by_own_node(x, t):
    node = SoftmaxCrossEntropy()
    node.apply((x, t))
    return node._coeff


def by_own_node_in_a_chain(x, t):
    node = SoftmaxCrossEntropy()
    chainer.Sequential(node.apply)((x, t))
    return node._coeff


def by_getattr(x, t):
    name = "_co" + "eff"
    return getattr(getattr(loss_of(x, t), "creator" + "_node"), name)


class Kept(chainer.FunctionNode):
    def forward(self, xs):
        self.total = float(xs[0].sum()) + float(xs[1].sum())
        return (xs[0] * 2,)


class KeptOld(chainer.Function):
    def forward(self, xs):
        self.total = float(xs[0].sum()) + float(xs[1].sum())
        return (xs[0] * 2,)


def by_users_node(x, t):
    node = Kept()
    node.apply((x, t))
    return node.total


def by_users_function(x, t):
    function = KeptOld()
    function(x, t)
    return function.total


def by_function_of_creator(x, t):
    return KeptOld()(x, t).creator.total


WAYS = [
    by_creator, by_creator_node, by_node, by_node_of_node, by_private_names, by_a_later_node,
    by_a_graph, by_own_node, by_own_node_in_a_chain, by_getattr, by_users_node, by_users_function,
    by_function_of_creator,
]  # fmt: skip


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_number_on_a_node(way):
    def f(x, t):
        return x * float(way(x, t))

    static = sdbr.static_graph(f)
    with pytest.warns(sdbr.SdbrWarning, match="was read from attribute '(_coeff|total)'"):
        for t in LABELS:
            x = chainer.Variable(X)
            np.testing.assert_array_equal(static(x, t).array, f(x, t).array)


def test_nodes_are_not_patched_for_what_chainer_alone_holds():
    plain = chainer.FunctionNode.__dict__.get("__getattribute__")
    seen = []

    def f(x, t):
        y = F.relu(loss_of(x, t))
        seen.append(chainer.FunctionNode.__dict__.get("__getattribute__"))
        seen.append(y.creator)
        seen.append(chainer.FunctionNode.__dict__.get("__getattribute__"))
        del seen[1]
        return y

    sdbr.static_graph(f)(chainer.Variable(X), LABELS[0])
    assert seen[0] is plain and seen[1] is not plain
    assert chainer.FunctionNode.__dict__.get("__getattribute__") is plain
