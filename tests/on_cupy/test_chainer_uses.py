"""What Chainer does with arrays besides functions: devices, files, trainers, checks, drawing."""

from __future__ import annotations

import chainer
import cupy
import numpy as np
import pytest
from chainer import functions as F
from chainer import gradient_check, initializers, iterators, optimizers, training
from chainer import links as L
from chainer.backends import cuda
from chainer.training import extensions

from .harness import DEVICE
from .programs import two_devices

SECOND = "@cupy:1"


class Layers(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.first = L.Linear(3, 4)
            self.norm = L.BatchNormalization(4)
            self.last = L.Linear(4, 2)

    def forward(self, x):
        return self.last(F.relu(self.norm(self.first(x))))


def classifier(device=DEVICE):
    np.random.seed(0)
    model = L.Classifier(Layers())
    model.to_device(device)
    return model


def examples(n=20):
    rng = np.random.default_rng(0)
    return chainer.datasets.TupleDataset(
        rng.standard_normal((n, 3)).astype("f"), rng.integers(0, 2, n).astype("i")
    )


def numbers_of(model):
    return {name: cupy.asnumpy(p.array) for name, p in model.namedparams()}


@two_devices
@pytest.mark.parametrize("kind", ["npz", "hdf5"])
def test_files(kind, tmp_path):
    save, load = (getattr(chainer.serializers, f"{do}_{kind}") for do in ("save", "load"))
    model = classifier(SECOND)
    optimizer = optimizers.Adam().setup(model)
    with cupy.cuda.Device(1):
        optimizer.update(model, cupy.ones((4, 3), "f"), cupy.zeros(4, "i"))
    files = {name: str(tmp_path / f"{name}.{kind}") for name in ("model", "optimizer")}
    save(files["model"], model)
    save(files["optimizer"], optimizer)
    again = classifier(SECOND)
    other = optimizers.Adam().setup(again)
    load(files["model"], again)
    with cupy.cuda.Device(1):
        other.update(again, cupy.ones((4, 3), "f"), cupy.zeros(4, "i"))
    load(files["model"], again)
    load(files["optimizer"], other)
    for (_, p), (_, q) in zip(model.namedparams(), again.namedparams(), strict=True):
        assert q.array.device.id == 1 and p.array is not q.array
        np.testing.assert_array_equal(p.array.get(), q.array.get())
        for name, kept in q.update_rule.state.items():
            assert type(kept) is cupy.ndarray and kept.device.id == 1
            np.testing.assert_array_equal(kept.get(), p.update_rule.state[name].get())


@two_devices
def test_devices_of_links_and_arrays():
    model = classifier()
    model.to_device(SECOND)
    assert {p.array.device.id for p in model.params()} == {1}
    assert model.predictor.norm.avg_mean.device.id == 1
    model.to_device("@numpy")
    assert {type(p.array) for p in model.params()} == {np.ndarray}
    x = cupy.arange(3.0)
    y = cuda.to_gpu(x, 1)
    assert (x.device.id, y.device.id) == (0, 1) and cuda.to_cpu(y).tolist() == [0, 1, 2]
    variable = chainer.Variable(x)
    variable.to_device(SECOND)
    assert variable.array.device.id == 1 and variable.xp is cupy


def test_a_trainer(tmp_path):
    model = classifier()
    optimizer = optimizers.SGD().setup(model)
    before = numbers_of(model)
    updater = training.StandardUpdater(
        iterators.SerialIterator(examples(), 5), optimizer, device=DEVICE
    )
    trainer = training.Trainer(updater, (2, "epoch"), out=tmp_path)
    held_out = iterators.SerialIterator(examples(), 5, repeat=False, shuffle=False)
    trainer.extend(extensions.Evaluator(held_out, model, device=DEVICE))
    trainer.extend(extensions.LogReport())
    trainer.extend(extensions.snapshot(filename="snapshot"))
    trainer.run()
    assert np.isfinite(float(trainer.observation["validation/main/loss"]))
    assert any((before[name] != x).any() for name, x in numbers_of(model).items())
    chainer.serializers.load_npz(tmp_path / "snapshot", trainer)


@two_devices
def test_two_devices_at_once():
    model = classifier("@numpy")
    updater = training.ParallelUpdater(
        iterators.SerialIterator(examples(), 6, shuffle=False),
        optimizers.MomentumSGD().setup(model),
        devices={"main": DEVICE, "second": SECOND},
    )
    for _ in range(3):
        updater.update()
    first, second = updater._models["main"], updater._models["second"]
    assert {p.array.device.id for p in first.params()} == {0}
    assert {p.array.device.id for p in second.params()} == {1}
    for name, x in numbers_of(first).items():
        np.testing.assert_array_equal(numbers_of(second)[name], x)


@pytest.mark.parametrize(
    "initializer",
    [
        initializers.Orthogonal(), initializers.GlorotUniform(), initializers.HeNormal(),
        initializers.Uniform(), initializers.Normal(), initializers.Identity(),
        initializers.Constant(2.0), initializers.LeCunNormal(),
    ],
    ids=lambda x: type(x).__name__,
)  # fmt: skip
def test_initializers(initializer):
    last = cupy.cuda.runtime.getDeviceCount() - 1
    with chainer.using_device(f"@cupy:{last}"):
        made = initializers.generate_array(initializer, (4, 4), cupy)
    assert type(made) is cupy.ndarray and made.device.id == last
    assert np.isfinite(made.get()).all()


def test_gradient_checks():
    cupy.random.seed(0)
    x, g, gg = (cupy.random.randn(3, 4) for _ in range(3))
    gradient_check.check_backward(F.tanh, x, g, dtype="d")
    gradient_check.check_double_backward(lambda x: F.tanh(x) * x, x, g, gg, dtype="d")
    with pytest.raises(AssertionError):
        gradient_check.check_backward(_Wrong(), x, g, dtype="d")


class _Wrong(chainer.Function):
    def forward(self, inputs):
        return (inputs[0] * 2,)

    def backward(self, inputs, gradients):
        return (gradients[0] * 3,)


@pytest.mark.parametrize("sparse_first", [True, False])
def test_sparse_products(sparse_first):
    dense = np.diag([1.0, 2.0, 3.0]) + np.eye(3, k=1)
    a = chainer.utils.to_coo(cupy.asarray(dense), requires_grad=True)
    b = chainer.Variable(cupy.arange(9.0).reshape(3, 3))
    y = F.sparse_matmul(a, b) if sparse_first else F.sparse_matmul(b, a)
    y.grad = cupy.ones((3, 3))
    y.backward()
    want = dense @ b.array.get() if sparse_first else b.array.get() @ dense
    np.testing.assert_allclose(y.array.get(), want)
    ones = np.ones((3, 3))
    np.testing.assert_allclose(b.grad.get(), dense.T @ ones if sparse_first else ones @ dense.T)
    whole = ones @ b.array.get().T if sparse_first else b.array.get().T @ ones
    np.testing.assert_allclose(a.data.grad.get(), whole[a.row.get(), a.col.get()])


def test_weights_of_classes():
    x, t = np.arange(6.0).reshape(3, 2), np.array([0, 1, 0])
    losses = [
        F.softmax_cross_entropy(xp.asarray(x), xp.asarray(t), class_weight=xp.asarray([1.0, 2.0]))
        for xp in (np, cupy)
    ]
    assert float(losses[1].array) == pytest.approx(float(losses[0].array))


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("Bernoulli", (0.5,)), ("Beta", (2.0, 3.0)), ("Cauchy", (0.0, 1.0)), ("Chisquare", (3.0,)),
        ("Exponential", (2.0,)), ("Gamma", (2.0, 3.0)), ("Geometric", (0.3,)),
        ("Gumbel", (0.0, 1.0)), ("Laplace", (0.0, 1.0)), ("LogNormal", (0.0, 1.0)),
        ("Normal", (0.0, 1.0)), ("Pareto", (1.0, 3.0)), ("Poisson", (3.0,)),
        ("Categorical", ([0.2, 0.8],)), ("Dirichlet", ([2.0, 3.0],)),
    ],
)  # fmt: skip
def test_distributions(name, parameters):
    made = getattr(chainer.distributions, name)(*map(cupy.asarray, parameters))
    drawn = made.sample(4)
    assert type(drawn.array) is cupy.ndarray and len(drawn) == 4
    of_numpy = getattr(chainer.distributions, name)(*map(np.asarray, parameters))
    if name not in ("Dirichlet",):
        want = of_numpy.log_prob(drawn.array.get()).array
        np.testing.assert_allclose(made.log_prob(drawn).array.get(), want)


@pytest.mark.parametrize("scalar", [np.float64, cupy.asarray])
def test_scalars_of_double_precision_leave_dtypes_alone(scalar):
    """CuPy 14 promotes as NumPy 2 does: such a number would make float64 of float32."""
    x = chainer.Variable(cupy.ones((2, 3), "f"))
    gamma, beta = cupy.ones(3, "f"), cupy.zeros(3, "f")
    y = F.layer_normalization(x, gamma, beta, eps=scalar(1e-5))
    assert y.dtype == np.float32
    F.sum(y).backward()
    assert x.grad.dtype == np.float32
    images = cupy.ones((1, 4, 2, 2), "f")
    given = {"k": scalar(2.0), "alpha": scalar(1e-4), "beta": scalar(0.75)}
    assert F.local_response_normalization(images, **given).dtype == np.float32
