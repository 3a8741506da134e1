"""F.softmax_cross_entropy of what a static call gives: a static call of its own."""

from __future__ import annotations

import sdbr
from sdbr.call import outside
from sdbr.call.autograd import StaticCall

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer.functions.loss.softmax_cross_entropy import SoftmaxCrossEntropy
from chainer.utils.type_check import InvalidType

from tests.harness.comparison import assert_all_near, assert_near, copy_of, gradients_of
from tests.harness.models import MLP
from tests.harness.nodes import Names
from tests.tolerances import RESULTS, SUMS

RNG = np.random.RandomState(0)
STEPS = 14


def batches(sizes=(6,), labels=lambda n: RNG.randint(0, 3, n).astype("i"), dtype="f"):
    rows = [sizes[i % len(sizes)] for i in range(STEPS)]
    return [(RNG.randn(n, 4).astype(dtype), labels(n)) for n in rows]


def trained(data, loss_of, static, dtype="f"):
    np.random.seed(0)
    with chainer.using_config("dtype", np.dtype(dtype)):
        net, optimizer = MLP(4, 8, 3), chainer.optimizers.Adam()
        if static:
            net, optimizer = sdbr.static_graph(net), sdbr.static_optimizer(optimizer)
        optimizer.setup(net)
        found = []
        for x, t in data:
            loss = loss_of(net(x), t)
            net.cleargrads()
            loss.backward()
            optimizer.update()
            found.append((copy_of(loss.array), gradients_of(net)))
    return net, loss, found


def plain(y, t, **options):
    return F.softmax_cross_entropy(y, t, **options)


def with_ignored(n):
    return np.where(np.arange(n) % 3, RNG.randint(0, 3, n), -1).astype("i")


CASES = {
    "plain": (plain, {}),
    "not normalized": (lambda y, t: plain(y, t, normalize=False), {"labels": with_ignored}),
    "ignored": (plain, {"labels": with_ignored}),
    "another ignored": (lambda y, t: plain(y, t, ignore_label=2), {}),
    "each": (lambda y, t: F.sum(plain(y, t, reduce="no") ** 2), {}),
    "no cache": (lambda y, t: plain(y, t, cache_score=False), {}),
    "Variable": (lambda y, t: plain(y, chainer.Variable(t)), {}),
    "int64": (plain, {"labels": lambda n: RNG.randint(0, 3, n)}),
    "double": (plain, {"dtype": "d"}),
    "sizes": (plain, {"sizes": (6, 3)}),
    "on the way": (lambda y, t: plain(F.tanh(y) * 2, t) + F.mean(y**2), {}),
}


@pytest.mark.parametrize("name", CASES)
def test_training_is_as_define_by_run(name):
    loss_of, options = CASES[name]
    data, dtype = batches(**options), options.get("dtype", "f")
    net, _, got = trained(data, loss_of, True, dtype)
    _, _, want = trained(data, loss_of, False, dtype)
    for i, ((loss, g), (w, h)) in enumerate(zip(got, want, strict=True)):
        assert_near(loss, w, RESULTS, f"step {i}: loss")
        assert_all_near(g, h, SUMS, f"step {i}")
    assert net.schedule_manager.statistics.define_by_run_calls == 0
    (manager,) = outside.managers()
    statistics = manager.statistics
    # Losses of calls that are traced are Chainer's, and so are the first others.
    expected = STEPS - net.schedule_manager.statistics.traces - outside.WAITS
    assert statistics.calls == expected and statistics.replays == expected - statistics.traces
    assert statistics.replays >= expected - 2
    assert statistics.python_ops == 0 and statistics.define_by_run_calls == 0
    assert statistics.compiled_backwards > 0


def replayed():
    """A net and its last results, and a loss that is static by now."""
    net, loss, _ = trained(batches(), plain, True)
    assert type(loss.creator_node) is StaticCall
    net.cleargrads()
    x, t = batches()[0]
    return net, net(x), t


def test_the_graph_goes_through_it():
    net, y, t = replayed()
    loss = plain(y, t)
    assert loss.creator_node.inputs == (y.node,)
    loss.backward(retain_grad=True)
    (g,) = chainer.grad([plain(y, t)], [y])
    again = plain(chainer.Variable(y.array), t)
    assert type(again.creator_node) is SoftmaxCrossEntropy  # of no static call
    alone = chainer.Variable(y.array)
    plain(alone, t).backward()
    assert_near(y.grad, alone.grad, SUMS, "retained")
    assert_near(g.array, alone.grad, SUMS, "asked for")
    once = gradients_of(net)
    loss.backward()
    assert_all_near(gradients_of(net), {k: 2 * g for k, g in once.items()}, SUMS, "twice")
    loss.unchain_backward()
    assert loss.creator_node is None and y.creator_node is None


@pytest.mark.parametrize(
    "options", [{"class_weight": np.ones(3, "f")}, {"enable_double_backprop": True}]
)
def test_other_losses_are_chainers(options):
    _, y, t = replayed()
    assert type(plain(y, t, **options).creator_node) is not StaticCall


def test_hooks_see_chainers_function():
    _, y, t = replayed()
    with Names() as hook:
        plain(y, t)
    assert hook.seen == ["SoftmaxCrossEntropy"]


@pytest.mark.parametrize("entry", [{"use_static_graph": False}, {"sdbr_backend": "off"}])
def test_what_switches_static_calls_off(entry):
    _, y, t = replayed()
    (name, value), = entry.items()  # fmt: skip
    with chainer.using_config(name, value):
        loss = plain(y, t)
    assert type(loss.creator_node) is SoftmaxCrossEntropy


def test_labels_that_are_no_classes():
    _, y, t = replayed()
    wrong = t.copy()
    wrong[2] = 3
    with pytest.raises(IndexError):
        plain(chainer.Variable(y.array), wrong)
    with pytest.raises(IndexError):
        plain(y, wrong)
    with pytest.raises(InvalidType, match=r"Expect: x.shape\[0\] == t.shape\[0\]"):
        plain(y, t[:2])
    assert type(plain(y, t).creator_node) is StaticCall


def test_no_more_kinds_than_there_is_room_for(monkeypatch):
    _, y, t = replayed()
    monkeypatch.setattr(outside, "KEPT", 2)
    for label in range(4, 9):
        for _ in range(outside.WAITS + 2):
            loss = plain(y, t, ignore_label=label)
        assert (type(loss.creator_node) is StaticCall) == (label == 4)
    assert len(outside.managers()) == 2
    assert type(plain(y, t).creator_node) is StaticCall


def test_explain_names_the_loss_that_is_outside():
    net, _, _ = trained(batches() * 2, plain, True)
    (manager,) = sdbr.explain(net).to_dict()["managers"]
    step = manager["step"]
    assert step["way"].endswith("the loss outside of the static call")
    assert step["instead"]


def test_a_second_derivative_is_refused_as_in_chainer():
    _, y, t = replayed()
    loss = plain(y, t)
    assert type(loss.creator_node) is StaticCall
    (g,) = chainer.grad([loss], [y], enable_double_backprop=True)
    with pytest.raises(RuntimeError, match=r"softmax_cross_entropy.*enable_double_backprop=True"):
        chainer.grad([F.sum(g * g)], [y])
