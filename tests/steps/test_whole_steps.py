"""The whole step: fifty steps of forward, backward and update, each one native call."""

from __future__ import annotations

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L
from chainer import optimizers
from chainer.training import extensions

from tests.harness.comparison import (
    BACKENDS,
    assert_all_near,
    assert_near,
    copy_of,
)
from tests.harness.models import MODELS, Net, data, floats, labels
from tests.harness.steps import BATCH, OPTIMIZERS, classifier, compare, train
from tests.harness.twins import POINTS, twins
from tests.tolerances import RESULTS, SUMS


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_fifty_steps(name, backend):
    compare(classifier, BATCH, OPTIMIZERS[name], backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "name", ["mlp_tanh", "mlp_dropout", "autoencoder", "actor_critic", "dqn", "conv_net",
             "regularised", "sigmoid_cross_entropy"],
)  # fmt: skip
def test_models(name, backend):
    make, batch, native = MODELS[name]
    compare(make, batch, OPTIMIZERS["adam"], backend=backend, steps=12, native=bool(native))


def test_nothing_but_the_step_is_built():
    """A forward and a backward of their own, which nobody has asked for, take as long again."""
    with chainer.using_config("sdbr_audit", "off"):
        _, model, _ = train(classifier, BATCH, OPTIMIZERS["adam"], static=True, steps=4)
    manager = model.schedule_manager
    assert manager.statistics.steps == 3
    assert manager.static_schedule._forward is None


@pytest.mark.parametrize("backend", BACKENDS)
def test_hyperparameters_change_between_steps(backend):
    def each(model, optimizer, i):
        if i == 3:
            optimizer.hyperparam.alpha = 0.01
        if i == 5:
            model.predictor.l1.W.update_rule.hyperparam.alpha = 0.02
        if i == 7:
            optimizer.hyperparam.beta1 = 0.8

    compare(classifier, BATCH, OPTIMIZERS["adam"], backend=backend, steps=10, each=each)


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_the_last_step_leaves(backend):
    _records, model, optimizer = train(
        classifier, BATCH, OPTIMIZERS["adam"], static=True, steps=4, backend=backend
    )
    assert isinstance(model.loss, chainer.Variable) and isinstance(model.y, chainer.Variable)
    assert isinstance(model.accuracy, chainer.Variable)
    assert model.loss.shape == () and model.y.shape == (8, 3)
    assert model.loss.creator is not None
    with pytest.raises(sdbr.StaleGraphError, match="whole step"):
        model.loss.backward()
    assert optimizer.t == 4
    arrays = [p.grad for p in model.params()]
    assert all(type(g) is np.ndarray and g.flags.writeable and g.flags.c_contiguous for g in arrays)
    for i, a in enumerate(arrays):
        for b in [*arrays[:i], *(p.array for p in model.params())]:
            assert not np.shares_memory(a, b)


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_the_user_keeps_of_a_step_never_changes(backend):
    kept = []

    def each(model, optimizer, i):
        kept.append((model.loss, copy_of(model.loss.array)))
        kept.append((model.y.array, copy_of(model.y.array)))
        kept.append((model.y.array[1:, ::2], copy_of(model.y.array[1:, ::2])))
        kept.append((model.predictor.l1.W.grad, copy_of(model.predictor.l1.W.grad)))
        kept.append((model.predictor.l2.b.grad[1:3], copy_of(model.predictor.l2.b.grad[1:3])))
        kept.append((model.predictor.l3.W.grad_var, copy_of(model.predictor.l3.W.grad)))

    train(classifier, BATCH, OPTIMIZERS["adam"], static=True, steps=8, backend=backend, each=each)
    assert len({float(then) for thing, then in kept if then.shape == ()}) > 1
    for thing, then in kept:
        np.testing.assert_array_equal(getattr(thing, "array", thing), then)


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_a_reporter_keeps_never_changes(backend):
    model = sdbr.static_graph(classifier(), backend=backend)
    optimizer = sdbr.static_optimizer(optimizers.SGD(0.5)).setup(model)
    reporter = chainer.Reporter()
    reporter.add_observer("main", model)
    kept = []
    rng = np.random.RandomState(0)
    for _ in range(6):
        observation: dict = {}
        with reporter.scope(observation):
            optimizer.update(model, *BATCH(rng))
        kept += [(v, copy_of(getattr(v, "array", v))) for v in observation.values()]
    assert len(kept) == 12
    for thing, then in kept:
        assert_near(getattr(thing, "array", thing), then, 0, "reported")


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_that_the_user_set_are_not_written(backend):
    mine = []

    def each(model, optimizer, i):
        g = np.full(model.predictor.l1.W.shape, i, "f")
        model.predictor.l1.W.grad = g
        mine.append((g, i))

    train(classifier, BATCH, OPTIMIZERS["sgd"], static=True, steps=6, backend=backend, each=each)
    for g, i in mine:
        np.testing.assert_array_equal(g, i)


def test_the_first_step_writes_where_the_gradients_of_the_trace_lay():
    """Both together would be the peak; what the user holds is not written."""
    model = sdbr.static_graph(classifier(), on_dynamic="raise")
    optimizer = sdbr.static_optimizer(optimizers.SGD(0.1)).setup(model)
    rng = np.random.RandomState(0)
    optimizer.update(model, *BATCH(rng))
    params = list(model.params())
    held = [params[0].grad, params[1].grad[:1], params[2].grad_var]
    copies = [copy_of(getattr(thing, "array", thing)) for thing in held]
    places = [p.grad.ctypes.data for p in params]
    optimizer.update(model, *BATCH(rng))
    same = [p.grad.ctypes.data == place for p, place in zip(params, places, strict=True)]
    assert same == [False] * 3 + [True] * (len(params) - 3)
    for thing, copy in zip(held, copies, strict=True):
        np.testing.assert_array_equal(getattr(thing, "array", thing), copy)
    assert model.schedule_manager.statistics.steps == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_changed_batch_size_and_back(backend):
    sizes = [8, 8, 5, 8, 5, 5, 8, 8]
    todo = []

    def batch(rng):
        if not todo:
            todo.extend(sizes)
        n = todo.pop(0)
        return floats(n, 4)(rng), labels(3, n)(rng)

    want, _, _ = train(classifier, batch, OPTIMIZERS["adam"], static=False, steps=8)
    got, model, _ = train(
        classifier, batch, OPTIMIZERS["adam"], static=True, steps=8, backend=backend
    )
    for g, w in zip(got, want, strict=True):
        assert_all_near(g["state"], w["state"], SUMS, "state")
    statistics = model.schedule_manager.statistics
    assert (statistics.traces, statistics.steps) == (2, 6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_replaced_and_frozen_parameters(backend, tmp_path):
    other = classifier()
    path = str(tmp_path / "model.npz")
    chainer.serializers.save_npz(path, other)

    def each(model, optimizer, i):
        if i == 2:
            model.predictor.l1.W.array = np.full_like(model.predictor.l1.W.array, 0.1)
        if i == 4:
            chainer.serializers.load_npz(path, model)
        if i == 6:
            model.copyparams(other)
        if i == 8:
            model.predictor.l2.disable_update()
        if i == 10:
            model.predictor.l2.enable_update()

    want, _, _ = train(classifier, BATCH, OPTIMIZERS["adam"], static=False, steps=13, each=each)
    got, model, _ = train(
        classifier, BATCH, OPTIMIZERS["adam"], static=True, steps=13, backend=backend, each=each
    )
    for i, (g, w) in enumerate(zip(got, want, strict=True)):
        assert_all_near(g["state"], w["state"], SUMS, f"step {i}")
    assert model.schedule_manager.statistics.traces == 1
    assert model.schedule_manager.statistics.steps >= 10


def test_log_report_through_a_trainer(tmp_path):
    def run(static):
        np.random.seed(0)
        rng = np.random.RandomState(0)
        examples = [(floats(4)(rng), labels(3)(rng)[()]) for _ in range(40)]
        model = classifier()
        optimizer = optimizers.Adam()
        if static:
            model = sdbr.static_graph(model, on_dynamic="raise")
            optimizer = sdbr.static_optimizer(optimizer)
        optimizer.setup(model)
        iterator = chainer.iterators.SerialIterator(examples, 8, shuffle=True)
        updater = chainer.training.StandardUpdater(iterator, optimizer)
        trainer = chainer.training.Trainer(updater, (4, "epoch"), out=str(tmp_path))
        log = extensions.LogReport(trigger=(5, "iteration"))
        trainer.extend(log)
        trainer.extend(extensions.Evaluator(
            chainer.iterators.SerialIterator(examples, 8, repeat=False, shuffle=False), model
        ))  # fmt: skip
        trainer.run()
        return log.log, model

    want, _ = run(False)
    got, model = run(True)
    assert len(got) == len(want) == 4
    for g, w in zip(got, want, strict=True):
        assert (
            g.keys() == w.keys()
            and {"main/loss", "main/accuracy", "validation/main/loss"} <= g.keys()
        )
        for key in g.keys() - {"elapsed_time"}:
            assert g[key] == pytest.approx(w[key], rel=SUMS)
    statistics = model.schedule_manager.statistics
    # Twenty steps and four rounds of five evaluations; one trace of each kind.
    assert (statistics.calls, statistics.traces, statistics.steps) == (40, 2, 19)
    assert statistics.replays == 38


def test_goes_piece_by_piece_where_one_program_cannot():
    def setup(model):
        model.cleargrads = model.cleargrads  # its own, whatever it does
        return optimizers.SGD(0.1).setup(model)

    want, _, _ = train(classifier, BATCH, setup, static=False, steps=5)
    got, model, _ = train(classifier, BATCH, setup, static=True, steps=5)
    for g, w in zip(got, want, strict=True):
        assert_all_near(g["state"], w["state"], SUMS, "state")
    statistics = model.schedule_manager.statistics
    assert (statistics.steps, statistics.replays) == (0, 4)


@pytest.mark.parametrize("backend", BACKENDS)
def test_parameter_that_the_loss_does_not_reach(backend):
    def make():
        return Net(lambda self, x: F.sum(self.l(x) ** 2), l=L.Linear(3, 2), unused=L.Linear(2, 2))

    compare(make, data(floats(4, 3)), OPTIMIZERS["adam"], backend=backend, steps=6)


@pytest.mark.parametrize("keep", [False, True])
def test_reports_are_those_of_chainer(keep):
    """Names, copies without history, and the error for an observer that nobody registered."""
    model = sdbr.static_graph(L.Classifier(L.Linear(4, 3)))
    optimizer = sdbr.static_optimizer(chainer.optimizers.SGD()).setup(model)
    reporter = chainer.Reporter()
    reporter.add_observer("main", model)
    x, t = np.random.rand(5, 4).astype("f"), np.array([0, 1, 2, 1, 0], "i")
    kept = []
    with chainer.using_config("keep_graph_on_report", keep):
        for _ in range(4):
            observation = {}
            with reporter.scope(observation):
                optimizer.update(model, x, t)
            assert sorted(observation) == ["main/accuracy", "main/loss"]
            loss = observation["main/loss"]
            assert type(loss) is chainer.Variable
            assert (loss is model.loss) is keep
            assert loss.array is model.loss.array
            assert (loss.creator is None) is not keep
            kept.append((loss.array, float(loss.array)))
            del loss, observation  # who holds a graph gets steps in parts
    assert all(float(array) == value for array, value in kept)
    assert len({value for _, value in kept}) == 4
    assert model.schedule_manager.statistics.steps == 3
    stranger = chainer.Reporter()
    with stranger.scope({}), pytest.raises(KeyError, match="not registered"):
        optimizer.update(model, x, t)


class Reporting(chainer.Chain):
    """Reports and keeps what it was given."""

    def __init__(self):
        super().__init__()
        self.scale = chainer.Variable(np.full(3, 2, "f"))
        with self.init_scope():
            self.layer = L.Linear(4, 3)

    def forward(self, x):
        loss = F.sum(self.layer(x) * self.scale)
        chainer.report({"x": x, "bias": self.layer.b, "scale": self.scale, "loss": loss}, self)
        self.seen = x
        return loss


def test_step_reports_what_it_was_given():
    model = sdbr.static_graph(Reporting())
    optimizer = sdbr.static_optimizer(chainer.optimizers.SGD(0.1))
    optimizer.setup(model)
    reporter = chainer.Reporter()
    reporter.add_observer("model", model)
    for seed in range(4):
        x = np.random.RandomState(seed).randn(5, 4).astype("f")
        observation = {}
        with reporter.scope(observation):
            optimizer.update(model, x)
        assert observation["model/x"] is x
        np.testing.assert_array_equal(observation["model/bias"].array, model.layer.b.array)
        np.testing.assert_array_equal(observation["model/scale"].array, model.scale.array)
        assert model.seen is x
    assert model.schedule_manager.statistics.replays == 3


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_parameter_without_gradient(backend):
    """As in Chainer: a parameter that the loss does not reach is not touched, nor does it fail."""

    def make():
        return Net(lambda self, x: F.sum(self.a(x) ** 2), a=L.Linear(4, 3), b=L.Linear(4, 3))

    with chainer.using_config("sdbr_backend", backend):
        plain, static = twins(make, backend=backend)
        optimizers = [
            chainer.optimizers.Adam().setup(plain),
            sdbr.static_optimizer(chainer.optimizers.Adam()).setup(static),
        ]
        for k in range(4):
            for model, optimizer in zip((plain, static), optimizers, strict=True):
                optimizer.update(model, POINTS + k)
            got, want = (dict(m.namedparams()) for m in (static, plain))
            for name in want:
                assert_near(got[name].array, want[name].array, RESULTS, name)
    assert static.schedule_manager.statistics.steps == 3
