"""Row 18: functions whose backward does more than give gradients."""

from __future__ import annotations

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.comparison import BACKENDS, assert_all_near, copy_of, gradients_of, state_of
from tests.harness.models import Net, floats
from tests.tolerances import GRADIENTS, SUMS

BATCHES = [floats(5, 4)(np.random.RandomState(i)) for i in range(12)]


class Again(chainer.FunctionNode):
    """Runs a function again in its backward."""

    def __init__(self, f, on=lambda: True):
        self.f, self.on = f, on

    def forward(self, inputs):
        self.retain_inputs((0,))
        with chainer.no_backprop_mode():
            return (self.f(chainer.Variable(inputs[0])).array,)

    def backward(self, indexes, gys):
        if not self.on():
            return gys
        x = chainer.Variable(self.get_retained_inputs()[0].array)
        with chainer.force_backprop_mode():
            y = self.f(x)
        self.go(y, gys[0])
        return (x.grad_var,)

    def go(self, y, gy):
        y.grad_var = gy
        y.backward()


class OldAgain(chainer.Function):
    def __init__(self, f):
        self.f = f

    def forward(self, inputs):
        with chainer.no_backprop_mode():
            return (self.f(chainer.Variable(inputs[0])).array,)

    def backward(self, inputs, gys):
        x = chainer.Variable(inputs[0])
        with chainer.force_backprop_mode():
            y = self.f(x)
        y.grad = gys[0]
        y.backward()
        return (x.grad,)


KINDS = {
    "node": lambda f, x: Again(f).apply((x,))[0],
    "old": lambda f, x: OldAgain(f)(x),
    "forget": F.forget,
}


def inside_first(self, x):
    """Nothing but what is inside has a gradient."""
    return F.sum(self.kind(lambda a: F.tanh(self.a(a)), chainer.Variable(x)) ** 2)


def inside_last(self, x):
    return F.sum(self.kind(lambda a: F.tanh(self.a(a)) * a, self.b(x)) ** 2)


def in_turn(self, x):
    h = self.kind(lambda a: F.tanh(self.a(a)), chainer.Variable(x))
    self.h = self.b(F.relu(h))
    return F.sum(self.kind(lambda a: F.sigmoid(self.c(a)), self.h) ** 2)


def shared_before(self, x):
    """Chainer adds both gradients: that of the function comes first."""
    return F.sum(self.kind(lambda a: F.tanh(self.a(a)), self.a(x)) ** 2)


def shared_after(self, x):
    """Chainer loses the gradient of the function."""
    return F.sum(self.a(self.kind(lambda a: F.tanh(self.a(a)), self.b(x))) ** 2)


#: ``F.forget`` is a Python op where a parameter is used beside it; the first trace shows it.
SHARED = (shared_before, shared_after)

PLACES = [inside_first, inside_last, in_turn, shared_before, shared_after]


def make(place, kind):
    np.random.seed(0)
    net = Net(place, a=L.Linear(4, 4), b=L.Linear(4, 4), c=L.Linear(4, 4))
    object.__setattr__(net, "kind", KINDS[kind])
    return net


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_calls(place, kind, backend):
    plain = make(place, kind)
    static = sdbr.static_graph(make(place, kind), on_dynamic="raise", backend=backend)

    def iteration(model, i):
        x = (
            chainer.Variable(BATCHES[i])
            if i % 2 and place not in (inside_first, in_turn)
            else BATCHES[i]
        )
        loss = model(x)
        if i != 2:
            model.cleargrads()
        loss.backward(loss_scale=4.0 if i == 3 else None)
        record = gradients_of(model)
        if place is in_turn:
            loss.cleargrad()
            record["g"] = copy_of(chainer.grad([loss], [model.h])[0].array)
            record |= {f"{k} then": g for k, g in gradients_of(model).items()}
        return record

    for i in range(7):
        want = iteration(plain, i)
        assert_all_near(iteration(static, i), want, SUMS, f"iteration {i}")
    statistics = static.schedule_manager.statistics
    assert statistics.define_by_run_calls == 0 and statistics.replays >= 4


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_steps(place, kind):
    models = [make(place, kind), sdbr.static_graph(make(place, kind), on_dynamic="raise")]
    optimizers = [chainer.optimizers.MomentumSGD(0.01).setup(model) for model in models]
    sdbr.static_optimizer(optimizers[1])
    for i in range(5):
        for model, optimizer in zip(models, optimizers, strict=True):
            optimizer.update(model, BATCHES[i])
        assert_all_near(
            gradients_of(models[1]), gradients_of(models[0]), GRADIENTS, f"gradients {i}"
        )
        assert_all_near(state_of(models[1]), state_of(models[0]), SUMS, f"state {i}")
    statistics = models[1].schedule_manager.statistics
    traces = 1 + (kind == "forget" and place in SHARED)
    assert statistics.define_by_run_calls == 0
    assert (statistics.traces, statistics.replays) == (traces, 5 - traces)
    if kind == "forget" and place not in SHARED:
        assert statistics.steps == 4 and statistics.python_ops == 0
    else:
        assert statistics.steps == 0
        assert "may write gradients itself" in str(sdbr.explain(models[1]))


def test_a_harmless_backward_is_part_of_a_step():
    class Scaled(chainer.FunctionNode):
        def forward(self, inputs):
            return (inputs[0] * 2,)

        def backward(self, indexes, gys):
            return (gys[0] * 2,)

    net = Net(lambda s, x: F.sum(s.l(Scaled().apply((s.l(x),))[0])), l=L.Linear(4, 4))
    static = sdbr.static_graph(net)
    optimizer = sdbr.static_optimizer(chainer.optimizers.SGD(0.01)).setup(static)
    for i in range(3):
        optimizer.update(static, BATCHES[i])
    assert static.schedule_manager.statistics.steps == 2


def test_a_backward_that_runs_one_now_and_then():
    """It reaches it in no way that can be seen before: the step says so and updates nothing."""
    on = [False]
    hidden = {"go": Again.go}

    class Hidden(Again):
        def backward(self, indexes, gys):
            if on[0]:
                x = chainer.Variable(self.get_retained_inputs()[0].array)
                with chainer.force_backprop_mode():
                    hidden["go"](self, self.f(x), gys[0])
            return gys

        go = None

    net = Net(
        lambda s, x: F.sum(Hidden(s.a).apply((s.b(x),))[0] ** 2), a=L.Linear(4, 4), b=L.Linear(4, 4)
    )
    static = sdbr.static_graph(net)
    optimizer = sdbr.static_optimizer(chainer.optimizers.SGD(0.01)).setup(static)
    for i in range(3):
        optimizer.update(static, BATCHES[i])
    assert static.schedule_manager.statistics.steps == 2
    on[0], before = True, state_of(static)
    with pytest.raises(sdbr.NotStaticError, match="runs a backward of its own now and then"):
        optimizer.update(static, BATCHES[4])
    assert_all_near(state_of(static), before, 0, "state")
    optimizer.update(static, BATCHES[4])
    assert static.schedule_manager.statistics.define_by_run_calls == 1


def test_every_backward_of_a_user_runs():
    """What it does is not known: it runs where nothing below it wants a gradient, too."""
    noted = []

    class Noting(chainer.FunctionNode):
        def forward(self, inputs):
            return inputs

        def backward(self, indexes, gys):
            noted.append(gys[0].array.sum())
            return gys

    def forward(self, x):
        (x,) = Noting().apply((chainer.Variable(x),))
        return self.l(x), F.sum(x)

    static = sdbr.static_graph(Net(forward, l=L.Linear(4, 4)), on_dynamic="raise")
    for i in range(4):
        y, s = static(BATCHES[i])
        s.backward(retain_grad=i == 2)
        assert len(noted) == 2 * i + 1 and noted[-1] == 20
        chainer.grad([y], [static.l.W])  # does not lead through it
        assert len(noted) == 2 * i + 1
        F.sum(y).backward()
        assert len(noted) == 2 * i + 2
    assert static.schedule_manager.statistics.replays == 3
