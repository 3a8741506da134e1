"""Whole steps on a GPU without a GPU: one graph, whose numbers are those of define-by-run."""

import gc

import sdbr
from sdbr.backends.cuda.chains import MOST
from sdbr.ops.table import OPS

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L
from chainer import optimizers
from chainer.optimizer_hooks import WeightDecay

from tests.harness import device
from tests.harness.comparison import assert_near
from tests.harness.launched import (
    RULES,
    WORDS,
    Recurrent,
    check_labels_out_of_range,
    is_one_graph,
)
from tests.harness.models import MLP, MODELS, Net, data, floats, labels
from tests.harness.steps import BATCH, OPTIMIZERS, classifier, compare, train
from tests.tolerances import GRADIENTS


@pytest.fixture
def simulated():
    with device.simulated() as made:
        yield made


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
        WORDS,
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


def three(net, x):
    """Of several lengths."""
    rows = [net.l(x), net.m(x[:5]), net.l(x * 2)]
    return F.sum(F.tanh(F.concat(rows, axis=0)))


def two_times_two(net, x):
    """The second copies take what the first ones have put there."""
    y = F.concat([net.l(x), net.m(x)], axis=0)
    return F.sum(F.tanh(F.concat([y, y], axis=0)) ** 2)


@pytest.mark.parametrize("chained", [False, True])
@pytest.mark.parametrize("rows", [7, 402])
@pytest.mark.parametrize(("of", "copies"), [(three, [3]), (two_times_two, [2, 2])])
def test_copies_that_follow_each_other_are_one_kernel(of, copies, rows, chained):
    """Also of more elements than a team does at a time."""

    def make():
        return Net(of, l=L.Linear(4, 3), m=L.Linear(4, 3))

    with device.simulated(chained) as made:
        settings = {"backend": device.NAME, "steps": 4}
        compare(make, data(floats(rows, 4)), OPTIMIZERS["sgd"], **settings)
    (step,) = made
    names = [OPS[int(opcode)].name for opcode in step.program.opcodes]
    units = [{names[i] for i in unit.ops} for unit in step.units[0]]
    sizes = [len(u.ops) for u, of in zip(step.units[0], units, strict=True) if of == {"copy"}]
    assert sizes[: len(copies)] == copies


def test_recurrent_networks_of_small_ops():
    with device.simulated(chained=True) as made:
        compare(Recurrent, WORDS, OPTIMIZERS["adam"], backend=device.NAME, steps=6)
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
