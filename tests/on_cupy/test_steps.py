"""Whole steps with arrays of CuPy: as Chainer's own on the GPU, one native call each."""

import gc
import itertools

import sdbr
from sdbr.base.audit_share import share_now

import chainer
import chainer.functions as F
import chainer.links as L
import cupy
import pytest
from chainer import optimizers
from chainer.optimizers.ada_grad import AdaGradRule

from tests.harness.update_rules import HOOKS, RULES

from .programs import Way, assert_alike, normal, seen, state, two_devices, whole

STEPS = 8


class Own(AdaGradRule):
    """A rule of the user's: Chainer's own code, under another name."""


class OwnAdaGrad(optimizers.AdaGrad):
    def create_update_rule(self):
        return Own(self.hyperparam)


def perceptron(self, x, t):
    return F.softmax_cross_entropy(self.out(F.tanh(self.layer(x))), t)


def made(way):
    return way.model(perceptron, layer=lambda: L.Linear(3, 4), out=lambda: L.Linear(4, 2))


def batches(n=STEPS):
    return [(normal(5, 3, seed=k), whole(2, 5, seed=k)) for k in range(n)]


def assert_whole(way, executables, steps=STEPS - 1):
    """All steps but those that were traced were one program, and no Python op ran in them."""
    (statistics,) = way.statistics()
    assert (statistics.steps, statistics.python_ops) == (steps, 0), statistics
    last = executables[-1]
    assert (len(last.parts), last.python_ops) == (1, 0)
    assert last.recorded <= 2


@pytest.mark.parametrize("name", RULES)
def test_rules(name, executables):
    want = Way(False)
    want = want.trained(made(want), RULES[name](), batches())
    way = Way(True)
    assert_alike(way.trained(made(way), RULES[name](), batches()), want)
    assert_whole(way, executables)


class TestChained:
    """Small ops are one kernel."""

    @pytest.fixture
    def chained(self):
        return True

    def test_step(self, executables):
        test_rules("adam", executables)
        assert len(executables[-1].calls[0]) <= 4


def test_a_rule_without_kernels():
    want = Way(False)
    want = want.trained(made(want), OwnAdaGrad(), batches())
    way = Way(True)
    assert_alike(way.trained(made(way), OwnAdaGrad(), batches()), want)
    (statistics,) = way.statistics()
    # With audits each is a call and a backward, so that the rule runs once.
    steps = 0 if share_now() else STEPS - 1
    assert (statistics.replays, statistics.steps) == (STEPS - 1, steps)


@pytest.mark.parametrize("names", [["decay", "lasso", "clip"], *([name] for name in HOOKS)])
def test_hooks(executables, names):
    found = []
    for way in (Way(False), Way(True)):
        model = made(way)
        optimizer = way.optimizer(optimizers.Adam(), model)
        for name in names:
            optimizer.add_hook(HOOKS[name](), name)
        chainer.backends.cuda.cupy.random.seed(0)
        of_way = []
        for batch in batches():
            optimizer.update(model, *batch)
            of_way.append(state(model))
        found.append(of_way)
    assert_alike(*found[::-1])
    assert model.schedule_manager.statistics.steps == STEPS - 1
    if names != ["noise"]:  # which CuPy draws
        assert len(executables[-1].parts) == 1


def recurrent(self, x, t):
    self.cell.reset_state()
    h = F.dropout(self.cell(self.words(x[0])), 0.3)
    h = F.dropout(self.cell(self.words(x[1])), 0.3) + h
    return F.softmax_cross_entropy(self.out(h), t)


def test_recurrent_network_with_dropout(executables):
    parts = {
        "words": lambda: L.EmbedID(9, 3),
        "cell": lambda: L.LSTM(3, 4),
        "out": lambda: L.Linear(4, 9),
    }
    data = [(whole(9, 2, 5, seed=k), whole(9, 5, seed=k + 1)) for k in range(STEPS)]
    found = []
    for way in (Way(False), Way(True)):
        model = way.model(recurrent, **parts)
        cupy.random.seed(3)
        found.append([way.trained(model, optimizers.SGD(0.5), data), seen(cupy.random.rand(2))])
    assert_alike(*found[::-1])
    assert_whole(way, executables)


def test_convolutional_network():
    def forward(self, x, t):
        h = F.max_pooling_2d(F.relu(self.filters(x)), 2)
        return F.softmax_cross_entropy(self.out(h), t)

    parts = {"filters": lambda: L.Convolution2D(1, 3, 3), "out": lambda: L.Linear(12, 4)}
    data = [(normal(2, 1, 6, 6, seed=k), whole(4, 2, seed=k)) for k in range(STEPS)]
    want = Way(False)
    want = want.trained(want.model(forward, **parts), optimizers.SGD(0.1), data)
    way = Way(True)
    assert_alike(way.trained(way.model(forward, **parts), optimizers.SGD(0.1), data), want)
    (statistics,) = way.statistics()
    assert statistics.steps == STEPS - 1 and statistics.python_ops > 0


@two_devices
def test_there_and_back():
    """A model that moves between the host and a GPU, with its optimizer."""
    found = []
    for way in (Way(False), Way(True)):
        model = made(way)
        optimizer = way.optimizer(optimizers.MomentumSGD(0.1), model)
        of_way = []
        for device in ("@cupy:0", "@numpy", "@cupy:0", "@cupy:1"):
            device = chainer.get_device(device)
            model.to_device(device)
            for param in model.params():
                if param.update_rule.state is not None:
                    kept = {n: device.send(x) for n, x in param.update_rule.state.items()}
                    param.update_rule._state = kept
            with chainer.using_device(device):
                for batch in batches(3):
                    optimizer.update(model, *[device.send(x) for x in batch])
                    of_way.append(
                        [
                            p.array if device.name == "@numpy" else p.array.get()
                            for _, p in sorted(model.namedparams())
                        ]
                    )
        found.append(of_way)
    assert_alike(*found[::-1])
    statistics = model.schedule_manager.statistics
    assert statistics.define_by_run_calls == 0
    assert statistics.steps >= 6, statistics


def test_gradients_that_are_there():
    """``update()`` without a loss function: one native call for the gradients of others."""
    found = []
    for way in (Way(False), Way(True)):
        model = made(Way(False))
        optimizer = way.optimizer(optimizers.Adam(), model)
        of_way = []
        for batch in batches():
            loss = model(*batch)
            model.cleargrads()
            loss.backward()
            optimizer.update()
            of_way.append(state(model))
        found.append(of_way)
    assert_alike(*found[::-1])
    assert optimizer.update_statistics.native_calls == STEPS
    assert optimizer.update_plan.reason is None


def test_memory_is_flat():
    gc.collect()  # what tests before have left
    way = Way(True)
    model = made(way)
    optimizer = way.optimizer(optimizers.Adam(), model)
    data = batches(4)
    for k in range(6):
        optimizer.update(model, *data[k % 4])
    pool = cupy.get_default_memory_pool()
    used = pool.used_bytes()
    many = 200 if "host_cupy" in cupy.__file__ else 10_000
    for k in range(many):
        optimizer.update(model, *data[k % 4])
    assert pool.used_bytes() == used
    assert model.schedule_manager.statistics.steps == many + 5


def test_training_by_a_trainer():
    found = []
    for way in (Way(False), Way(True)):
        model = made(way)
        optimizer = way.optimizer(optimizers.Adam(), model)
        rows = [(x, t) for x, t in zip(normal(20, 3).get(), whole(2, 20).get(), strict=True)]
        iterator = chainer.iterators.SerialIterator(rows, 5, shuffle=False)
        updater = chainer.training.StandardUpdater(iterator, optimizer, device="@cupy:0")
        trainer = chainer.training.Trainer(updater, (3, "epoch"), out="/nonexistent")
        trainer.out = ""
        while updater.epoch < 3:
            updater.update()
        found.append(state(model))
    assert_alike(*found[::-1])
    assert model.schedule_manager.statistics.steps == 11


def test_a_static_optimizer_on_parameters_that_lie_apart():
    model = chainer.Chain()
    with model.init_scope():
        model.here, model.there = L.Linear(3, 2), L.Linear(3, 2)
    model.there.to_device("@cupy:0")
    optimizer = sdbr.static_optimizer(optimizers.SGD(0.1)).setup(model)
    for _, param in model.namedparams():
        param.grad = param.xp.ones_like(param.array)
    optimizer.update()
    assert "several devices" in optimizer.update_plan.reason


def test_dropout_by_philox(executables):
    """Another stream than define-by-run's, of which CuPy's generator knows nothing."""

    def forward(self, x):
        self.dropped = F.dropout(x, 0.4)
        return F.sum(self.layer(self.dropped) ** 2)

    way = Way(True)
    model = way.model(forward, layer=lambda: L.Linear(30, 4))
    optimizer = way.optimizer(optimizers.Adam(), model)
    xs = [normal(5, 30, seed=k) for k in range(6)]
    with chainer.using_config("sdbr_random", "philox"):
        for x in xs[:2]:
            optimizer.update(model, x)
        cupy.random.seed(5)
        kept = []
        for x in xs:
            optimizer.update(model, x)
            kept.append(model.dropped.array.copy())
        drawn = cupy.random.rand(3)
    cupy.random.seed(5)
    assert (cupy.random.rand(3) == drawn).all()
    zeros = [cupy.asnumpy(x == 0) for x in kept]
    assert 0.3 < sum(z.mean() for z in zeros) / len(zeros) < 0.5
    assert all((a != b).any() for a, b in itertools.pairwise(zeros))
    assert_whole(way, executables)
    optimizer.update(model, xs[0])  # what is drawn is part of the key
    assert way.statistics()[0].traces == 2
