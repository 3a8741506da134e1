"""Whole steps on a GPU without a GPU: one graph, whose numbers are those of define-by-run."""

import gc

import sdbr
from sdbr.backends.cuda.chains import MOST

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L
from chainer import optimizers
from chainer.optimizer_hooks import GradientClipping, Lasso, WeightDecay

from tests.harness import device
from tests.harness.comparison import assert_near
from tests.harness.models import MLP, MODELS, Net, data, floats, labels
from tests.harness.steps import BATCH, OPTIMIZERS, classifier, compare, train
from tests.tolerances import GRADIENTS


@pytest.fixture
def simulated():
    with device.simulated() as made:
        yield made


def with_hooks(rule, *hooks):
    def setup(model):
        optimizer = rule().setup(model)
        for hook in hooks:
            optimizer.add_hook(hook())
        return optimizer

    return setup


RULES = {
    **OPTIMIZERS,
    "amsgrad": with_hooks(lambda: optimizers.Adam(amsgrad=True)),
    "adamw": with_hooks(lambda: optimizers.AdamW(weight_decay_rate=0.01)),
    "adabound": with_hooks(optimizers.AdaBound),
    "rmsprop": with_hooks(lambda: optimizers.RMSprop(0.01)),
    "lasso": with_hooks(optimizers.Adam, lambda: Lasso(1e-3)),
    "clipped": with_hooks(optimizers.Adam, lambda: GradientClipping(0.1), lambda: WeightDecay(0.1)),
}


def is_one_graph(executable):
    """Whether a program runs as one, recorded again only when it was known what moves."""
    return (len(executable.parts), executable.others) == (1, []) and executable.recorded <= 2


@pytest.mark.parametrize("name", RULES)
def test_fifty_steps(simulated, name):
    compare(classifier, BATCH, RULES[name], backend=device.NAME)
    (step,) = simulated
    assert step.program.name == "step"
    assert is_one_graph(step)
    assert len(step.moving) == 2  # the batch, which is another array in each step
    updates = [x.kernel for unit in step.units[0] for x in unit.launches if x.is_update]
    assert (
        len(updates)
        == len(set(updates))
        == 1 + (name in ("lasso", "clipped", "momentum_with_hooks"))
    )


@pytest.mark.parametrize("chained", [False, True])
def test_bias_gradients_are_summed_by_the_products(chained):
    """More rows and columns than a tile has, and odd numbers of them."""

    def make():
        return L.Classifier(MLP(70, 131, 3))

    with device.simulated(chained) as made:
        compare(
            make, data(floats(37, 70), labels(3, 37)), OPTIMIZERS["adam"],
            backend=device.NAME, steps=5,
        )  # fmt: skip
    (step,) = made
    kernels = [x.kernel for unit in step.units[0] for x in unit.launches]
    assert kernels.count("gemm_sums_f4") == 3
    assert "sum_f4" not in kernels


def test_the_same_hook_twice(simulated):
    """Parameters are updated together by one kernel, but no gradient twice by the same."""

    def twice(model):
        optimizer = optimizers.SGD(0.1).setup(model)
        optimizer.add_hook(WeightDecay(0.1), "first")
        optimizer.add_hook(WeightDecay(0.2), "second")
        return optimizer

    compare(classifier, BATCH, twice, backend=device.NAME, steps=6)
    (step,) = simulated
    assert sum(x.is_update for unit in step.units[0] for x in unit.launches) == 3


@pytest.mark.parametrize(
    "name", ["mlp_tanh", "mlp_dropout", "autoencoder", "actor_critic", "dqn", "conv_net",
             "regularised", "sigmoid_cross_entropy"],
)  # fmt: skip
def test_models(simulated, name):
    make, batch, native = MODELS[name]
    compare(make, batch, OPTIMIZERS["adam"], backend=device.NAME, steps=6, native=bool(native))
    assert any(x.recorded for x in simulated)


class Recurrent(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.embed = L.EmbedID(10, 8, ignore_label=-1)
            self.lstm, self.gru = L.LSTM(8, 12), L.StatefulGRU(12, 12)
            self.out = L.Linear(12, 10)

    def forward(self, x, t):
        self.lstm.reset_state()
        self.gru.reset_state()
        loss = 0
        for i in range(x.shape[1]):
            y = self.out(self.gru(self.lstm(self.embed(x[:, i]))))
            loss += F.softmax_cross_entropy(y, t[:, i])
        chainer.report({"loss": loss}, self)
        return loss


@pytest.mark.parametrize("name", ["momentum_with_hooks", "clipped"])
def test_memory_of_its_own(name):
    """Nothing of the host's is reached but what is copied."""
    with device.simulated(copied=True) as made:
        compare(classifier, BATCH, RULES[name], backend=device.NAME, steps=12)
    (step,) = made
    assert len(step.parts) == 1


@pytest.mark.parametrize("name", ["adam", "clipped"])
def test_small_ops_are_one_kernel(name):
    with device.simulated(chained=True) as made:
        compare(classifier, BATCH, RULES[name], backend=device.NAME, steps=12)
    (step,) = made
    assert is_one_graph(step)
    assert len(step.program) > 20
    assert len(step.calls[0]) <= 8
    assert max(len(call.links) for call in step.calls[0]) == MOST


@pytest.mark.parametrize("name", ["adam", "momentum_with_hooks"])
def test_recurrent_networks(simulated, name):
    compare(
        Recurrent,
        data(labels(10, 3, 4), labels(10, 3, 4)),
        OPTIMIZERS[name],
        backend=device.NAME,
        steps=8,
    )
    (step,) = simulated
    assert is_one_graph(step)


@pytest.mark.parametrize("chained", [False, True])
def test_labels_out_of_range_leave_everything_as_it_was(chained):
    with device.simulated(chained):
        check_labels_out_of_range()


def check_labels_out_of_range():
    _, model, optimizer = train(
        classifier, BATCH, RULES["clipped"], static=True, steps=4, backend=device.NAME
    )
    x = np.ones((8, 4), "f")
    before = [p.array.copy() for p in model.params()]
    grads = [p.grad.copy() for p in model.params()]
    states = [{k: np.copy(v) for k, v in p.update_rule.state.items()} for p in model.params()]
    with pytest.raises(IndexError, match="index 3 at position 5 is out of range for 3") as caught:
        optimizer.update(model, x, np.array([0, 1, 2, 0, 1, 3, 0, 1], "i"))
    notes = getattr(caught.value, "__notes__", caught.value.args)
    assert "softmax_cross_entropy" in "".join(notes)
    for p, array, grad, state in zip(model.params(), before, grads, states, strict=True):
        np.testing.assert_array_equal(p.array, array)
        np.testing.assert_array_equal(p.grad, grad)
        for k, v in state.items():
            np.testing.assert_array_equal(p.update_rule.state[k], v)
    optimizer.update(model, x, np.zeros(8, "i"))
    assert model.schedule_manager.statistics.replays == 4  # the one that failed is none
    assert not np.array_equal(next(iter(model.params())).array, before[0])


def test_parameters_that_are_replaced(simulated):
    """Their addresses are part of the graph: it is recorded again, once."""

    def each(model, optimizer, i):
        if i in (3, 5, 7):
            p = model.predictor.l1.W
            p.array = p.array.copy()

    compare(classifier, BATCH, OPTIMIZERS["sgd"], backend=device.NAME, steps=10, each=each)
    (step,) = simulated
    assert (step.recorded, len(step.moving)) == (3, 3)


def test_nothing_is_allocated_in_replays(simulated):
    _, model, optimizer = train(
        classifier, BATCH, OPTIMIZERS["adam"], static=True, steps=4, backend=device.NAME
    )
    rng = np.random.RandomState(0)
    names = ("bytes", "graphs", "modules", "streams")
    before = [device.setting(name).value for name in names]
    launched = device.setting("graph_launches").value
    for _ in range(200):
        optimizer.update(model, *BATCH(rng))
    assert [device.setting(name).value for name in names] == before
    assert device.setting("graph_launches").value == launched + 200
    assert model.schedule_manager.statistics.replays == 203


def test_recurrent_networks_of_small_ops():
    batch = data(labels(10, 3, 4), labels(10, 3, 4))
    with device.simulated(chained=True) as made:
        compare(Recurrent, batch, OPTIMIZERS["adam"], backend=device.NAME, steps=6)
    assert is_one_graph(made[0])


def test_what_is_let_go_is_given_back(simulated):
    gc.collect()
    names = ("bytes", "graphs", "modules", "streams")
    before = [device.setting(name).value for name in names]
    train(classifier, BATCH, OPTIMIZERS["adam"], static=True, steps=4, backend=device.NAME)
    assert [device.setting(name).value for name in names] != before
    simulated.clear()
    gc.collect()
    assert [device.setting(name).value for name in names] == before


@pytest.mark.parametrize("chained", [False, True])
def test_calls_that_ask(chained):
    """Each way is a schedule of its own; a run that has to turn back leaves nothing behind."""

    def f(net, x):
        h = net.l(x)
        if F.sum(h * h).array > 1:
            h = h * 0.5
        return F.tanh(h) if h.array[0, 0] > 0 else F.dropout(h)

    np.random.seed(0)
    plain = Net(f, l=L.Linear(4, 3))
    with device.simulated(chained) as made:
        static = sdbr.static_graph(plain.copy("copy"), backend=device.NAME, on_dynamic="raise")
        rng = np.random.RandomState(1)
        for i in range(30):
            x = (rng.randn(5, 4) * rng.choice([0.1, 1, 3])).astype("f")
            for net in (plain, static):
                np.random.seed(i)
                net.cleargrads()
                F.sum(net(chainer.Variable(x))).backward()
            for got, want in zip(static.params(), plain.params(), strict=True):
                assert_near(got.grad, want.grad, GRADIENTS, got.name)
    statistics = static.schedule_manager.statistics
    assert statistics.define_by_run_calls == 0
    assert statistics.replays > 15 and statistics.traces > 2
    assert any("question" in x.others for x in made)


def test_calls_and_backwards(simulated):
    """By hand: the forward and the backward are graphs of their own."""
    plain = Net(lambda net, x: F.tanh(net.l(x)), l=L.Linear(4, 3))
    static = sdbr.static_graph(plain.copy("copy"), backend=device.NAME, on_dynamic="raise")
    for i in range(4):
        x = np.random.RandomState(i).randn(5, 4).astype("f")
        for net in (plain, static):
            net.cleargrads()
            F.sum(net(chainer.Variable(x)) ** 2).backward()
        for got, want in zip(static.params(), plain.params(), strict=True):
            assert_near(got.grad, want.grad, GRADIENTS, got.name)
    assert static.schedule_manager.statistics.replays == 3
    assert {(x.program.name, len(x.parts), len(x.others)) for x in simulated} == {
        ("forward", 1, 0),
        ("backward", 1, 0),
    }
