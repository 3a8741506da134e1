"""Trees, graphs, memories, sets: models whose shape is in the data."""

from __future__ import annotations

import chainer
import numpy as np
from chainer import functions as F
from chainer import links as L

from benchmarks.wild.way import MLP, Program, Way, floats, labels, ring


def _tree(rng: np.random.RandomState, depth: int):
    if depth == 0 or rng.rand() < 0.2:
        return int(rng.randint(20))
    return [_tree(rng, depth - 1), _tree(rng, depth - 1)]


class Recursive(chainer.Chain):
    """A vector for each node of a binary tree."""

    def __init__(self) -> None:
        super().__init__()
        with self.init_scope():
            self.embed = L.EmbedID(20, 16)
            self.join = L.Linear(32, 16)
            self.label = L.Linear(16, 3)

    def visit(self, node):
        """The vector of a node."""
        if isinstance(node, int):
            return self.embed(np.array([node], "i"))
        left, right = map(self.visit, node)
        return F.tanh(self.join(F.concat((left, right))))

    def forward(self, tree, t):
        """The loss of a tree."""
        return F.softmax_cross_entropy(self.label(self.visit(tree)), t)


def _trees(way: Way, n: int) -> Program:
    model = way.graph(Recursive())
    optimizer = way.optimizer(chainer.optimizers.AdaGrad(0.01), model)
    data = ring(lambda rng: (_tree(rng, 4), labels(rng, 3, 1)), n)
    return Program(lambda i: optimizer.update(model, *data[i % n]) or (), (model,))


def trees(way: Way) -> Program:
    """A new tree in each call."""
    return _trees(way, 400)


def few_trees(way: Way) -> Program:
    """Eight trees that come again."""
    return _trees(way, 8)


class TreeLSTM(chainer.Chain):
    """Goes through a stack of shift and reduce operations, in a plain list."""

    def __init__(self) -> None:
        super().__init__()
        with self.init_scope():
            self.embed, self.lift = L.EmbedID(20, 16), L.Linear(16, 16)
            self.cell, self.out = L.NaryTreeLSTM(16, 16, n_ary=2), L.Linear(16, 3)

    def forward(self, words, actions, t):
        """The loss of one sentence; `actions` are a tuple of numbers."""
        e = self.lift(self.embed(words))
        rest = [(e[i : i + 1], e[i : i + 1]) for i in range(len(words))][::-1]
        stack: list = []
        for action in actions:
            if action == 0:
                stack.append(rest.pop())
            else:
                (c2, h2), (c1, h1) = stack.pop(), stack.pop()
                stack.append(self.cell(c1, c2, h1, h2, e[:1]))
        return F.softmax_cross_entropy(self.out(stack[-1][1]), t)


def shift_reduce(way: Way) -> Program:
    """A parser's stack, in one of three orders."""
    model = way.graph(TreeLSTM())
    optimizer = way.optimizer(chainer.optimizers.SGD(0.01), model)
    orders = (0, 0, 1, 0, 1, 0, 1), (0, 0, 0, 0, 1, 1, 1), (0, 0, 1, 0, 0, 1, 1)
    data = ring(lambda rng: (labels(rng, 20, 4), orders[rng.randint(3)], labels(rng, 3, 1)))
    return Program(lambda i: optimizer.update(model, *data[i % 16]) or (), (model,))


class GCN(chainer.Chain):
    """Two rounds of messages over a normalized adjacency matrix."""

    def __init__(self) -> None:
        super().__init__()
        with self.init_scope():
            self.l1, self.l2 = L.Linear(8, 16), L.Linear(16, 3)

    def forward(self, x, adjacency, t, mask):
        """The loss of the nodes with labels."""
        degree = adjacency.sum(axis=1)
        a = adjacency / np.sqrt(np.outer(degree, degree))
        h = F.dropout(F.relu(F.matmul(a, self.l1(x))), 0.3)
        y = F.matmul(a, self.l2(h))
        loss = F.sum(F.softmax_cross_entropy(y, t, reduce="no") * mask) / mask.sum().item()
        accuracy = ((y.array.argmax(axis=1) == t) * mask).sum().item() / mask.sum().item()
        chainer.report({"loss": loss.array.item(), "accuracy": accuracy}, self)
        return loss


def _graph(rng: np.random.RandomState, n: int) -> np.ndarray:
    a = (rng.rand(n, n) < 0.2).astype(chainer.config.dtype)
    return np.maximum(np.maximum(a, a.T), np.eye(n, dtype=a.dtype))


def gcn(way: Way) -> Program:
    """Numbers by item(), one of which goes back into the loss."""
    model = way.graph(GCN())
    optimizer = way.optimizer(chainer.optimizers.Adam(1e-3), model)

    def make(rng):
        mask = (rng.rand(20) < 0.5).astype(chainer.config.dtype)
        mask[0] = 1
        return floats(rng, 20, 8), _graph(rng, 20), labels(rng, 3, 20), mask

    data = ring(make)
    return Program(lambda i: optimizer.update(model, *data[i % 16]) or (), (model,))


class Molecule(chainer.Chain):
    """Gated messages between atoms along kinds of bonds."""

    def __init__(self) -> None:
        super().__init__()
        with self.init_scope():
            self.embed, self.message = L.EmbedID(10, 16), L.Linear(16, 32)
            self.update_cell, self.out = L.StatelessGRU(16, 16), L.Linear(16, 1)

    def forward(self, atoms, bonds, y):
        """How far the prediction for the graph is off."""
        batch, n = atoms.shape
        h = F.reshape(self.embed(atoms), (-1, 16))
        for _ in range(3):
            m = F.reshape(self.message(h), (batch, n, 16, 2))
            m = sum(F.matmul(bonds[:, k], m[:, :, :, k]) for k in range(2))
            h = self.update_cell(h, F.reshape(m, (-1, 16)))
        real = (atoms != 0).astype(chainer.config.dtype)[:, :, None]
        total = F.sum(F.reshape(self.out(h), (batch, n, 1)) * real, axis=1)
        loss = F.mean_squared_error(total, y)
        chainer.report({"loss": loss, "abs": abs(total.array - y).mean()}, self)
        return loss


def molecules(way: Way) -> Program:
    """Padded to the largest molecule of the batch."""
    model = way.graph(Molecule())
    optimizer = way.optimizer(chainer.optimizers.Adam(1e-3), model)

    def make(rng):
        n = rng.randint(6, 10)
        bonds = np.stack([[_graph(rng, n) for _ in range(2)] for _ in range(4)])
        return labels(rng, 10, 4, n), bonds, floats(rng, 4, 1)

    data = ring(make)
    return Program(lambda i: optimizer.update(model, *data[i % 16]) or (), (model,))


class Memory(chainer.Chain):
    """Answers by hops over a memory of sentences."""

    def __init__(self) -> None:
        super().__init__()
        with self.init_scope():
            self.a, self.b, self.c = (L.EmbedID(30, 16) for _ in range(3))
            self.out = L.Linear(16, 30)
        self.hops = 2

    def forward(self, story, question, answer):
        """The loss of a batch of stories."""
        u = F.sum(self.b(question), axis=1)
        m, c = F.sum(self.a(story), axis=2), F.sum(self.c(story), axis=2)
        for _ in range(self.hops):
            p = F.softmax(F.sum(m * F.broadcast_to(u[:, None], m.shape), axis=2))
            u = u + F.sum(F.broadcast_to(p[:, :, None], c.shape) * c, axis=1)
        y = self.out(u)
        chainer.report({"accuracy": F.accuracy(y, answer)}, self)
        return F.softmax_cross_entropy(y, answer)


def memory_network(way: Way) -> Program:
    """Attention over stories of one of three lengths."""
    model = way.graph(Memory())
    optimizer = way.optimizer(chainer.optimizers.Adam(1e-3), model)

    def make(rng):
        n = 4 + rng.randint(3)
        return labels(rng, 30, 8, n, 5), labels(rng, 30, 8, 4), labels(rng, 30, 8)

    data = ring(make)
    return Program(lambda i: optimizer.update(model, *data[i % 16]) or (), (model,))


class Pointer(chainer.Chain):
    """Points to one of its inputs after the other, never twice."""

    def __init__(self) -> None:
        super().__init__()
        with self.init_scope():
            self.encoder, self.cell = MLP(2, 16, 16), L.StatelessGRU(16, 16)

    def forward(self, x):
        """The length of a tour, weighted by its log-probability."""
        batch, n, _ = x.shape
        e = F.reshape(self.encoder(F.reshape(x, (-1, 2))), (batch, n, 16))
        h = F.mean(e, axis=1)
        visited = np.zeros((batch, n), chainer.config.dtype)
        rows = np.arange(batch)
        logp, tour = 0, []
        for _ in range(n):
            score = F.sum(e * F.broadcast_to(h[:, None], e.shape), axis=2) - 1e4 * visited
            chosen = score.array.argmax(axis=1)
            visited[rows, chosen] = 1
            logp += F.select_item(F.log_softmax(score), chosen.astype("i"))
            h = self.cell(h, e[rows, chosen])
            tour.append(x[rows, chosen])
        path = np.stack(tour, axis=1)
        length = np.sqrt(((path - np.roll(path, 1, axis=1)) ** 2).sum(axis=2)).sum(axis=1)
        return F.mean(logp * (length - length.mean()))


def pointer(way: Way) -> Program:
    """What is visited is written in place by index arrays."""
    model = way.graph(Pointer())
    optimizer = way.optimizer(chainer.optimizers.Adam(1e-3), model)
    data = ring(lambda rng: floats(rng, 8, 5, 2))
    return Program(lambda i: optimizer.update(model, data[i % 16]) or (), (model,))


class Sets(chainer.Chain):
    """Sets of points as a list of arrays, one by one."""

    def __init__(self) -> None:
        super().__init__()
        with self.init_scope():
            self.each, self.all = MLP(3, 16, 16), MLP(16, 16, 2)

    def forward(self, points, t):
        """The loss of a list of clouds."""
        pooled = [F.max(self.each(cloud), axis=0) for cloud in points]
        return F.softmax_cross_entropy(self.all(F.stack(pooled)), t)


def point_clouds(way: Way) -> Program:
    """Lists of arrays of any length."""
    model = way.graph(Sets())
    optimizer = way.optimizer(chainer.optimizers.Adam(1e-3), model)

    def make(rng):
        return [floats(rng, n, 3) for n in rng.randint(4, 30, 5)], labels(rng, 2, 5)

    data = ring(make, 400)
    return Program(lambda i: optimizer.update(model, *data[i % 400]) or (), (model,))
