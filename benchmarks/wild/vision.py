"""Images: detectors, embeddings that are told apart, styles, capsules, augmentation."""

from __future__ import annotations

import chainer
import numpy as np
from chainer import functions as F
from chainer import links as L

from benchmarks.wild.way import MLP, Program, Way, floats, labels, ring


class Block(chainer.Chain):
    """A residual block."""

    def __init__(self, a: int, b: int, stride: int) -> None:
        super().__init__()
        with self.init_scope():
            self.c1 = L.Convolution2D(a, b, 3, stride, 1, nobias=True)
            self.c2 = L.Convolution2D(b, b, 3, 1, 1, nobias=True)
            self.b1, self.b2 = L.BatchNormalization(b), L.BatchNormalization(b)
            if stride != 1:
                self.shortcut = L.Convolution2D(a, b, 1, stride)

    def forward(self, x):
        """What is added to what goes around."""
        h = self.b2(self.c2(F.relu(self.b1(self.c1(x)))))
        return F.relu(h + (self.shortcut(x) if hasattr(self, "shortcut") else x))


class ResNet(chainer.Chain):
    """Some blocks."""

    def __init__(self) -> None:
        super().__init__()
        with self.init_scope():
            self.first = L.Convolution2D(3, 8, 3, pad=1)
            self.blocks = chainer.ChainList(Block(8, 8, 1), Block(8, 16, 2))
            self.out = L.Linear(16, 4)

    def forward(self, x):
        """Logits."""
        h = F.relu(self.first(x))
        for block in self.blocks:
            h = block(h)
        return self.out(F.average_pooling_2d(h, h.shape[2:]))


def resnet(way: Way) -> Program:
    """A classifier of residual blocks; a test batch after each tenth step."""
    model = way.graph(L.Classifier(ResNet()))
    optimizer = way.optimizer(chainer.optimizers.MomentumSGD(0.01), model)
    optimizer.add_hook(chainer.optimizer.WeightDecay(1e-4))
    data = ring(lambda rng: (floats(rng, 4, 3, 8, 8), labels(rng, 4, 4)))

    def step(i):
        optimizer.lr = 0.01 * 0.99**i
        optimizer.update(model, *data[i % 16])
        if i % 10 == 9:
            with chainer.using_config("train", False), chainer.no_backprop_mode():
                return model(*data[0])
        return ()

    return Program(step, (model,))


class MultiBox(chainer.Chain):
    """Boxes and classes at fixed places; the hardest negatives count."""

    def __init__(self) -> None:
        super().__init__()
        with self.init_scope():
            self.conv = L.Convolution2D(3, 16, 3, pad=1)
            self.loc, self.conf = L.Convolution2D(16, 4, 1), L.Convolution2D(16, 3, 1)

    def forward(self, x, boxes, classes):
        """The loss of a batch."""
        h = F.relu(self.conv(x))
        loc = F.reshape(F.transpose(self.loc(h), (0, 2, 3, 1)), (-1, 4))
        conf = F.reshape(F.transpose(self.conf(h), (0, 2, 3, 1)), (-1, 3))
        t = classes.ravel()
        positive = t > 0
        n = positive.sum()
        if n == 0:
            return F.sum(conf) * 0
        each = F.softmax_cross_entropy(conf, t, reduce="no")
        negative = np.where(positive, 0, each.array)
        rank = (-negative).argsort().argsort()
        chosen = np.logical_or(positive, rank < 3 * n)
        loss = F.sum(F.where(chosen, each, np.zeros_like(each.array))) / n
        off = F.huber_loss(loc, boxes.reshape(-1, 4), 1.0)
        return loss + F.sum(off * positive) / n


def hard_negatives(way: Way) -> Program:
    """A detector of one stage: sorting by NumPy, a return if there is nothing to see."""
    model = way.graph(MultiBox())
    optimizer = way.optimizer(chainer.optimizers.MomentumSGD(1e-3), model)

    def make(rng):
        classes = np.where(rng.rand(2, 36) < 0.1, rng.randint(1, 3, (2, 36)), 0).astype("i")
        return floats(rng, 2, 3, 6, 6), floats(rng, 2, 36, 4), classes

    data = ring(make)
    return Program(lambda i: optimizer.update(model, *data[i % 16]) or (), (model,))


def suppress(boxes: np.ndarray, scores: np.ndarray, limit: float) -> np.ndarray:
    """The best boxes that do not overlap too much."""
    order, kept = scores.argsort()[::-1], []
    area = (boxes[:, 2:] - boxes[:, :2]).prod(axis=1)
    while len(order):
        i = order[0]
        kept.append(i)
        low = np.maximum(boxes[i, :2], boxes[order, :2])
        high = np.minimum(boxes[i, 2:], boxes[order, 2:])
        both = (high - low).clip(0).prod(axis=1)
        order = order[both / (area[i] + area[order] - both) < limit]
        order = order[order != i]
    return np.array(kept)


class TwoStage(chainer.Chain):
    """Proposals, of which NumPy keeps some, and a head that looks at them."""

    def __init__(self) -> None:
        super().__init__()
        with self.init_scope():
            self.conv = L.Convolution2D(3, 8, 3, pad=1)
            self.score, self.move = L.Convolution2D(8, 1, 1), L.Convolution2D(8, 4, 1)
            self.head = L.Linear(8 * 4, 3)
        y, x = np.mgrid[:6, :6].reshape(2, -1)
        self.anchors = np.stack((x - 1, y - 1, x + 1, y + 1), axis=1).astype(chainer.config.dtype)

    def forward(self, x, t):
        """The loss of one image with a label for each proposal by its place."""
        h = F.relu(self.conv(x))
        score = F.reshape(self.score(h), (-1,))
        move = F.reshape(F.transpose(self.move(h), (0, 2, 3, 1)), (-1, 4))
        boxes = np.clip(self.anchors + move.array, 0, 6)
        boxes[:, 2:] = np.maximum(boxes[:, 2:], boxes[:, :2] + 0.5)
        kept = suppress(boxes, score.array, 0.3)[:12]
        rois = np.concatenate((np.zeros((len(kept), 1)), boxes[kept]), axis=1)
        pooled = F.roi_average_align_2d(
            F.cast(h, "f"), rois[:, 1:].astype("f"), np.zeros(len(kept), "i"), 2, 1.0, 2
        )
        loss = F.softmax_cross_entropy(self.head(F.cast(pooled, h.dtype)), t[kept])
        loss += F.sigmoid_cross_entropy(score, (t > 0).astype("i")) + 0.01 * F.mean(move**2)
        chainer.report({"loss": float(loss.array), "proposals": len(kept)}, self)
        return loss


def proposals(way: Way) -> Program:
    """A detector of two stages: as many boxes as NumPy has kept."""
    model = way.graph(TwoStage())
    optimizer = way.optimizer(chainer.optimizers.SGD(1e-3), model)
    data = ring(lambda rng: (floats(rng, 1, 3, 6, 6), labels(rng, 3, 36)))
    return Program(lambda i: optimizer.update(model, *data[i % 16]) or (), (model,))


def siamese(way: Way) -> Program:
    """One network, called twice, one loss."""
    net = MLP(16, 32, 8)

    def loss_of(a, b, same):
        return F.contrastive(net(a), net(b), same, margin=1)

    loss_of = way.graph(loss_of)
    optimizer = way.optimizer(chainer.optimizers.Adam(1e-3), net)
    data = ring(lambda rng: (floats(rng, 32, 16), floats(rng, 32, 16), labels(rng, 2, 32)))
    return Program(lambda i: optimizer.update(loss_of, *data[i % 16]) or (), (net,))


class Triplets(chainer.Chain):
    """The farthest of the same class and the nearest of another one, found by NumPy."""

    def __init__(self) -> None:
        super().__init__()
        with self.init_scope():
            self.net = MLP(16, 32, 8)

    def forward(self, x, t):
        """The loss of a batch."""
        y = F.normalize(self.net(x))
        d = ((y.array[:, None] - y.array[None]) ** 2).sum(axis=2)
        same = t[:, None] == t[None]
        farthest = np.where(same, d, -np.inf).argmax(axis=1)
        nearest = np.where(same, np.inf, d).argmin(axis=1)
        loss = F.triplet(y, y[farthest], y[nearest], margin=0.2)
        chainer.report({"loss": loss, "d": float(d.mean())}, self)
        return loss


def triplets(way: Way) -> Program:
    """Mining of hard examples in the call."""
    model = way.graph(Triplets())
    optimizer = way.optimizer(chainer.optimizers.Adam(1e-3), model)
    data = ring(lambda rng: (floats(rng, 24, 16), labels(rng, 3, 24)))
    return Program(lambda i: optimizer.update(model, *data[i % 16]) or (), (model,))


def style(way: Way) -> Program:
    """The image is the parameter, the network stands still."""
    c1, c2 = L.Convolution2D(3, 8, 3, pad=1), L.Convolution2D(8, 8, 3, pad=1)
    rng = np.random.RandomState(0)
    image = chainer.Link()
    with image.init_scope():
        image.x = chainer.Parameter(floats(rng, 1, 3, 8, 8))

    def gram(h):
        h = F.reshape(h, (8, -1))
        return F.matmul(h, h, transb=True) / h.size

    def features(x):
        a = F.relu(c1(x))
        return a, F.relu(c2(a))

    with chainer.no_backprop_mode():
        content = features(floats(rng, 1, 3, 8, 8))[1].array
        styles = [gram(h).array for h in features(floats(rng, 1, 3, 8, 8))]

    def loss_of():
        found = features(image.x)
        loss = F.mean_squared_error(found[1], content)
        for h, s in zip(found, styles, strict=True):
            loss += 100 * F.mean_squared_error(gram(h), s)
        x = image.x
        return loss + 1e-3 * F.mean((x[:, :, 1:] - x[:, :, :-1]) ** 2)

    loss_of = way.graph(loss_of)
    optimizer = way.optimizer(chainer.optimizers.Adam(0.01), image)
    return Program(lambda i: optimizer.update(loss_of) or (), (image,))


class Capsules(chainer.Chain):
    """Routing by agreement: a loop, softmax of logits that are summed up."""

    def __init__(self) -> None:
        super().__init__()
        with self.init_scope():
            self.primary = L.Linear(32, 8 * 4)
            self.w = chainer.Parameter(chainer.initializers.Normal(0.1), (8, 3, 4, 4))

    def forward(self, x, t):
        """The margin loss."""
        u = F.reshape(self.primary(x), (-1, 8, 4))
        batch = len(u)
        parts = [
            F.matmul(
                F.broadcast_to(self.w[i], (batch, 3, 4, 4)),
                F.broadcast_to(u[:, i, None, :, None], (batch, 3, 4, 1)),
            )[:, :, :, 0]
            for i in range(8)
        ]
        u = F.stack(parts, axis=1)
        logits = np.zeros((batch, 8, 3), chainer.config.dtype)
        for _ in range(3):
            c = F.broadcast_to(F.softmax(logits, axis=2)[:, :, :, None], u.shape)
            s = F.sum(c * u, axis=1)
            n = F.sum(s**2, axis=2, keepdims=True)
            v = s * F.broadcast_to(F.sqrt(n + 1e-8) / (1 + n), s.shape)
            logits = logits + F.sum(u * F.broadcast_to(v[:, None], u.shape), axis=3)
        length = F.sqrt(F.sum(v**2, axis=2) + 1e-8)
        wanted = np.eye(3, dtype=chainer.config.dtype)[t]
        return F.mean(
            wanted * F.relu(0.9 - length) ** 2 + 0.5 * (1 - wanted) * F.relu(length - 0.1) ** 2
        )


def capsules(way: Way) -> Program:
    """Labels to one-hot rows by indexing."""
    model = way.graph(Capsules())
    optimizer = way.optimizer(chainer.optimizers.Adam(1e-3), model)
    data = ring(lambda rng: (floats(rng, 8, 32), labels(rng, 3, 8)))
    return Program(lambda i: optimizer.update(model, *data[i % 16]) or (), (model,))


class Mixed(chainer.Chain):
    """Mixup and smoothed labels, drawn in the call."""

    def __init__(self) -> None:
        super().__init__()
        with self.init_scope():
            self.net = MLP(16, 32, 4)

    def forward(self, x, t):
        """The loss of a mixed batch."""
        share = np.random.beta(0.4, 0.4)
        order = np.random.permutation(len(x))
        y = F.log_softmax(self.net((share * x + (1 - share) * x[order]).astype(x.dtype)))
        one = np.eye(4, dtype=x.dtype)[t] * 0.9 + 0.1 / 4
        mixed = (share * one + (1 - share) * one[order]).astype(x.dtype)
        return -F.mean(F.sum(mixed * y, axis=1))


def mixup(way: Way) -> Program:
    """A number and a permutation are drawn in each call."""
    model = way.graph(Mixed())
    optimizer = way.optimizer(chainer.optimizers.Adam(1e-3), model)
    data = ring(lambda rng: (floats(rng, 32, 16), labels(rng, 4, 32)))
    return Program(lambda i: optimizer.update(model, *data[i % 16]) or (), (model,))


class Segments(chainer.Chain):
    """A class for each pixel; pixels without one do not count."""

    def __init__(self) -> None:
        super().__init__()
        with self.init_scope():
            self.down = L.Convolution2D(3, 8, 3, 2, 1)
            self.up = L.Deconvolution2D(8, 3, 4, 2, 1)

    def forward(self, x, t):
        """The loss, with weights of classes by their frequency in the batch."""
        y = self.up(F.relu(self.down(x)))
        counts = np.bincount(t[t >= 0], minlength=3).astype(chainer.config.dtype)
        weight = counts.sum() / (3 * counts + 1)
        loss = F.softmax_cross_entropy(y, t, class_weight=weight, ignore_label=-1)
        union = [((y.array.argmax(axis=1) == k) | (t == k)).sum() for k in range(3)]
        both = [((y.array.argmax(axis=1) == k) & (t == k)).sum() for k in range(3)]
        iou = np.mean([b / max(u, 1) for b, u in zip(both, union, strict=True)])
        chainer.report({"loss": loss, "miou": iou}, self)
        return loss


def segmentation(way: Way) -> Program:
    """Weights and figures by NumPy."""
    model = way.graph(Segments())
    optimizer = way.optimizer(chainer.optimizers.Adam(1e-3), model)
    data = ring(lambda rng: (floats(rng, 2, 3, 8, 8), labels(rng, 4, 2, 8, 8) - 1))
    return Program(lambda i: optimizer.update(model, *data[i % 16]) or (), (model,))
