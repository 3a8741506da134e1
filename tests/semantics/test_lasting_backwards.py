"""Row 10: a backward that looks at what the call wrote after the forward did."""

from __future__ import annotations

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.comparison import BACKENDS, assert_near
from tests.harness.twins import statistics_of
from tests.tolerances import GRADIENTS, RESULTS

N, D = 5, 4


class Held(chainer.Chain):
    """A layer, and arrays of all kinds that the call writes when it has used them."""

    def __init__(self, use):
        super().__init__()
        rng = np.random.RandomState(1)
        with self.init_scope():
            self.l = L.Linear(D, D, initialW=rng.randn(D, D).astype("f"))
        self.a = rng.rand(N, D).astype("f") + 0.5
        self.square = rng.randn(D, D).astype("f")
        self.row = rng.rand(D).astype("f") + 0.5
        self.column = rng.rand(N).astype("f")
        self.labels = rng.randint(0, D, N).astype("i")
        self.bits = rng.randint(0, 2, (N, D)).astype("i")
        self.filters = rng.randn(2, 1, 2, 2).astype("f")
        self.use = use

    def forward(self, x):
        h = self.l(x)
        y = self.use(self, h)
        self.a *= 0.5
        self.a += x * x
        self.square[1:] = x[:3]
        self.row[...] = 1 + abs(x[0])
        self.column[1] = 0.25
        self.labels[...] = (self.labels + 1) % D
        self.bits[...] = 1 - self.bits
        self.filters[0] = x[0].reshape(1, 2, 2)
        return F.sum(y * y)


USES = {
    "product": lambda s, h: h * s.a,
    "product turned": lambda s, h: s.a * h,
    "quotient": lambda s, h: h / s.a,
    "divided": lambda s, h: s.a / (h * h + 1),
    "power": lambda s, h: (F.tanh(h) + 2) ** s.a,
    "base": lambda s, h: s.a ** F.tanh(h),
    "sum and view": lambda s, h: h + s.a[::-1] * h,
    "product of a view": lambda s, h: h * s.square.T[0],
    "product of a number": lambda s, h: h * s.square[1, 2],
    "product of a copy": lambda s, h: h * s.a.copy(),
    "product of a sum": lambda s, h: h * (s.a + 1),
    "twice": lambda s, h: h * s.a * s.a,
    "matmul": lambda s, h: F.matmul(h, s.square),
    "matmul turned": lambda s, h: F.matmul(s.square, h, transb=True),
    "linear": lambda s, h: F.linear(h, s.square, s.row),
    "linear of it": lambda s, h: F.linear(s.a, F.tanh(h[:D]), h[0]),
    "layer of it": lambda s, h: s.l(s.a) + h,
    "maximum": lambda s, h: F.maximum(h, s.a),
    "minimum": lambda s, h: F.minimum(s.a, h),
    "where": lambda s, h: F.where(s.bits > 0, h, h * 2),
    "where of it": lambda s, h: F.where(h.array > 0, h, s.a),
    "absolute error": lambda s, h: F.absolute_error(h, s.a),
    "squared error": lambda s, h: F.squared_error(h, s.a),
    "mean absolute error": lambda s, h: F.mean_absolute_error(h, s.a),
    "mean squared error": lambda s, h: F.mean_squared_error(s.a, h),
    "huber": lambda s, h: F.huber_loss(h, s.a, 0.5, reduce="no"),
    "softmax cross entropy": lambda s, h: F.softmax_cross_entropy(h, s.labels),
    "softmax cross entropy weighed": lambda s, h: F.softmax_cross_entropy(
        h, s.labels, class_weight=np.arange(1, D + 1, dtype="f")
    ),
    "soft targets": lambda s, h: F.softmax_cross_entropy(h, s.a),
    "sigmoid cross entropy": lambda s, h: F.sigmoid_cross_entropy(h, s.bits),
    "bernoulli": lambda s, h: F.bernoulli_nll(s.a, h),
    "gaussian": lambda s, h: F.gaussian_nll(s.a, h, h * 0.1),
    "kl": lambda s, h: F.gaussian_kl_divergence(s.a, h * 0.1),
    "hinge": lambda s, h: F.hinge(h, s.labels),
    "contrastive": lambda s, h: F.contrastive(h, s.a, s.bits[:, 0]),
    "triplet": lambda s, h: F.triplet(h, s.a, h * 2),
    "cross covariance": lambda s, h: F.cross_covariance(F.tanh(h), s.a, "half_squared_sum"),
    "select": lambda s, h: F.select_item(h, s.labels),
    "get": lambda s, h: F.get_item(h, s.labels),
    "get by index": lambda s, h: h[(s.labels, s.labels[::-1])],
    "embed": lambda s, h: F.embed_id(s.labels, h),
    "embed of it": lambda s, h: F.embed_id(s.labels, s.square) * h,
    "scatter": lambda s, h: F.scatter_add(h, s.labels, h * 2),
    "concat": lambda s, h: F.concat((h, s.a)) ** 2,
    "stack": lambda s, h: F.stack((h, s.a)) ** 2,
    "einsum": lambda s, h: F.einsum("ij,jk->ik", h, s.square),
    "tensordot": lambda s, h: F.tensordot(h, s.square, axes=1),
    "batch product": lambda s, h: F.batch_matmul(h, s.a, transa=True),
    "scale": lambda s, h: F.scale(h, s.column, axis=0),
    "bias": lambda s, h: F.bias(h, s.row, axis=1) ** 2,
    "layer normalization": lambda s, h: F.layer_normalization(h, s.row, s.row),
    "batch normalization": lambda s, h: h * F.batch_normalization(h * h, s.row, s.row),
    "fixed batch normalization": lambda s, h: F.fixed_batch_normalization(
        h, s.row, s.row, s.row, s.row
    ),
    "prelu": lambda s, h: F.prelu(h, s.row),
    "arctan2": lambda s, h: F.arctan2(h, s.a),
    "fmod": lambda s, h: F.fmod(h, s.a),
    "convolution": lambda s, h: F.convolution_2d(F.reshape(h, (N, 1, 2, 2)), s.filters, pad=1),
    "convolution of it": lambda s, h: F.convolution_2d(
        s.a.reshape(N, 1, 2, 2), F.reshape(h[0], (1, 1, 2, 2)), pad=1
    ),
    "lstm": lambda s, h: F.lstm(s.a, F.concat((h, h, h, h)))[1],
    "lstm of it": lambda s, h: F.lstm(h, s.a[:, [0, 1, 2, 3] * 4])[1],
    "simple": lambda s, h: F.softmax(s.a) * F.relu(s.row) * F.sigmoid(s.square[0]) * h,
    "cosine": lambda s, h: F.normalize(s.a) * F.normalize(h),
    "dropout": lambda s, h: F.dropout(h, 0.3) * s.a,
    "broadcast": lambda s, h: F.broadcast_to(s.row, h.shape) * h,
    "cast": lambda s, h: F.cast(s.bits, "f") * h,
    "linear interpolate": lambda s, h: F.linear_interpolate(s.a, h, h * h),
    "average": lambda s, h: F.average(h, axis=0, weights=s.column),
    "bilinear": lambda s, h: F.bilinear(h, s.a, np.ones((D, D, 2), "f")),
}

#: Outputs that are views, and nodes that hold an array in another way than as an input.
DYNAMIC = [
    USES[name]
    for name in (
        "get", "get by index", "scatter", "scale", "bias", "broadcast", "average",
    )
]  # fmt: skip


def x_of(i: int) -> np.ndarray:
    return np.random.RandomState(i).randn(N, D).astype("f")


def state(model) -> dict:
    found = {name: x for name, x in vars(model).items() if type(x) is np.ndarray}
    found.update((name, p.array) for name, p in model.namedparams())
    return {name: x.copy() for name, x in found.items()}


def same(have: dict, want: dict, bound, note: str) -> None:
    for name, x in want.items():
        assert_near(have[name], x, bound, f"{note} {name}")


def gradients(model, i: int, backwards: int) -> dict:
    np.random.seed(i)
    y = model(x_of(i))
    found = {"y": y.array.copy()}
    for k in range(backwards):
        model.cleargrads()
        y.backward(retain_grad=k > 0)
        found.update((f"{name} {k}", p.grad.copy()) for name, p in model.namedparams())
    return found


@pytest.mark.parametrize("memory", ["default", "low"])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_backward_looks_at_what_was_written(use, backend, memory):
    plain = Held(use)
    static = sdbr.static_graph(Held(use), backend=backend, memory=memory)
    for i in range(4):
        want, have = gradients(plain, i, 1 + i % 2), gradients(static, i, 1 + i % 2)
        same(have, want, GRADIENTS, f"call {i}")
        same(state(static), state(plain), RESULTS, f"after call {i}")
    assert statistics_of(static).replays == (0 if use in DYNAMIC else 3)


@pytest.mark.parametrize("memory", ["default", "low"])
@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_and_so_does_the_backward_of_a_whole_step(use, memory):
    plain, static = Held(use), sdbr.static_graph(Held(use), memory=memory)
    one = chainer.optimizers.SGD(1e-5).setup(plain)
    other = sdbr.static_optimizer(chainer.optimizers.SGD(1e-5)).setup(static)
    for i in range(4):
        for model, optimizer in ((plain, one), (static, other)):
            np.random.seed(i)
            optimizer.update(model, x_of(i))
        same(state(static), state(plain), GRADIENTS, f"after step {i}")
    assert statistics_of(static).steps == (0 if use in DYNAMIC else 3)
