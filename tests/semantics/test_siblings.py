"""Row 6: results of one call that depend on one another, and gradients between them."""

from __future__ import annotations

import sdbr
from sdbr.call.autograd import PartOfCall, SeveralParts, StaticCall

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.comparison import BACKENDS, assert_all_near, assert_near, copy_of, gradients_of
from tests.harness.models import Net, floats
from tests.tolerances import RESULTS, ROUNDINGS, SUMS

BATCHES = [floats(5, 4)(np.random.RandomState(i)) for i in range(12)]


def network():
    """A trunk that is stored, two heads, one of them on top of the other."""

    def forward(self, x):
        self.h = F.tanh(self.trunk(x))
        a = self.a(self.h)
        hidden = F.exp(self.b(self.h))
        return a, F.sum(hidden * a, axis=1), hidden * 2

    return Net(forward, trunk=L.Linear(4, 6), a=L.Linear(6, 3), b=L.Linear(6, 3))


def pair(make, **options):
    np.random.seed(0)
    plain = make()
    np.random.seed(0)
    return plain, sdbr.static_graph(make(), on_dynamic="raise", **options)


def compare(plain, static, iteration, times=5) -> None:
    """``iteration(model, i)`` leaves the same with both; all but the first call are replays."""
    for i in range(times):
        want = iteration(plain, i)
        assert_all_near(iteration(static, i), want, SUMS, f"iteration {i}")
    statistics = static.schedule_manager.statistics
    assert statistics.define_by_run_calls == 0 and statistics.python_ops == 0
    assert statistics.traces == 1 and statistics.replays == times - 1


def normal(i, *shape):
    return np.random.RandomState(50 + i).randn(*shape).astype("f")


def retained(model, x, a, b, c, i):
    F.sum(b * b).backward(retain_grad=True)


def retained_in_turn(model, x, a, b, c, i):
    F.sum(a).backward(retain_grad=True)
    F.sum(b).backward(retain_grad=True)
    F.sum(c).backward(retain_grad=True)


def retained_then_plain(model, x, a, b, c, i):
    F.sum(b).backward(retain_grad=True)
    F.sum(c).backward()
    F.sum(model.h).backward()


def given_on_siblings(model, x, a, b, c, i):
    a.grad, c.grad, model.h.grad = normal(i, 5, 3), normal(i + 1, 5, 3), normal(i + 2, 5, 6)
    F.sum(b * b).backward()


def from_within(model, x, a, b, c, i):
    model.h.grad = normal(i, 5, 6)
    model.h.backward()
    a.grad = normal(i, 5, 3)
    a.backward(retain_grad=True)


def at_once(model, x, a, b, c, i):
    a.grad, b.grad = normal(i, 5, 3), normal(i, 5)
    chainer.backward([a, b])


def met_outside(model, x, a, b, c, i):
    F.sum(F.sin(model.h) @ F.sin(model.h).T + F.expand_dims(b, 1)).backward(retain_grad=True)


def cut_within(model, x, a, b, c, i):
    model.h.unchain()
    F.sum(b * b).backward()
    F.sum(c).backward()


def cut_as_node(model, x, a, b, c, i):
    a.node.unchain()
    F.sum(b * b).backward()


def cut_beside(model, x, a, b, c, i):
    F.sum(a).unchain_backward()
    F.sum(b).backward()


def cut_all(model, x, a, b, c, i):
    (F.sum(b) + F.sum(c)).unchain_backward()
    F.sum(a).backward()
    F.sum(c).backward()


def grad_within(model, x, a, b, c, i):
    (g,) = chainer.grad([b], [model.h])
    h, a.grad_var = chainer.grad([b, c], [model.h, a], [None, chainer.Variable(normal(i, 5, 3))])
    model.h.grad_var = h + g
    F.sum(b).backward()


def grad_retained(model, x, a, b, c, i):
    x.grad_var, a.grad_var = chainer.grad([F.sum(b) + F.sum(c * a)], [x, a], retain_grad=True)


def grad_given(model, x, a, b, c, i):
    more = [chainer.Variable(normal(i, 5, 3)), None]
    a.grad_var, x.grad_var = chainer.grad([b], [a, x], grad_inputs=more)


WAYS = [
    retained, retained_in_turn, retained_then_plain, given_on_siblings, from_within, at_once,
    met_outside, cut_within, cut_as_node, cut_beside, cut_all, grad_within, grad_retained,
    grad_given,
]  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_ways_through(way, backend):
    def iteration(model, i):
        x = chainer.Variable(BATCHES[i])
        a, b, c = model(x)
        model.cleargrads()
        way(model, x, a, b, c, i)
        found = {"x": x, "a": a, "b": b, "c": c, "h": model.h}
        return {**{k: copy_of(y.grad) for k, y in found.items()}, **gradients_of(model)}

    compare(*pair(network, backend=backend), iteration)


def test_a_plain_backward_is_one_native_call():
    _, static = pair(network)
    for i in range(3):
        a, b, c = static(BATCHES[i])
        before = static.schedule_manager.statistics.native_calls
        static.cleargrads()
        (F.sum(a) + F.sum(b * b) + F.sum(c)).backward()
    assert type(a.creator_node) is SeveralParts
    assert static.schedule_manager.statistics.native_calls == before + 1
    b.grad = np.ones_like(b.array)
    b.backward(retain_grad=True)
    assert type(a.creator_node) is SeveralParts and static.h.grad is not None
    assert static.schedule_manager.statistics.native_calls == before + 2
    chainer.grad([b], [static.h])
    assert {type(y.creator_node) for y in (a, b, c, static.h)} == {PartOfCall}
    b.grad = np.ones_like(b.array)
    b.backward(retain_grad=True)
    # The part between `static.h` and `b`, twice, and what is before it.
    assert static.schedule_manager.statistics.native_calls > before + 4


def test_one_result_needs_no_parts():
    static = sdbr.static_graph(Net(lambda s, x: F.tanh(s.l(x)), l=L.Linear(4, 4)))
    for i in range(3):
        y = static(BATCHES[i])
    assert type(y.creator_node) is StaticCall


@pytest.mark.parametrize("backend", BACKENDS)
def test_results_of_one_function(backend):
    """Chainer adds what lies on an output that nothing else has reached."""

    def forward(self, x):
        a, b, c = F.split_axis(self.l(x), 3, axis=1)
        return a, b, b * c

    def iteration(model, i):
        x = chainer.Variable(BATCHES[i])
        a, b, c = model(x)
        model.cleargrads()
        b.grad, c.grad = normal(i, 5, 2), normal(i + 1, 5, 2)
        (F.sum(a * a) if i % 2 else F.sum(c * c)).backward()
        found = {"x": x, "a": a, "b": b, "c": c}
        return {**{k: copy_of(y.grad) for k, y in found.items()}, **gradients_of(model)}

    compare(*pair(lambda: Net(forward, l=L.Linear(4, 6)), backend=backend), iteration)


@pytest.mark.parametrize("backend", BACKENDS)
def test_leaves_that_the_call_makes(backend):
    """A Variable around an argument, and one whose history the call has cut."""

    def forward(self, x):
        self.x = chainer.Variable(x)
        self.h = F.tanh(self.l(self.x))
        self.h.unchain()
        return F.sum(self.m(self.h) * self.x, axis=1)

    def iteration(model, i):
        y = model(BATCHES[i])
        model.cleargrads()
        F.sum(y * y).backward()
        return {"x": copy_of(model.x.grad), "h": copy_of(model.h.grad), **gradients_of(model)}

    make = lambda: Net(forward, l=L.Linear(4, 4), m=L.Linear(4, 4))  # noqa: E731
    compare(*pair(make, backend=backend), iteration)


def test_a_whole_step_gives_no_gradient_to_what_it_hands_out():
    """So it is none where define-by-run leaves one."""

    def forward(self, x):
        self.x = chainer.Variable(x)
        return F.sum(self.l(self.x) ** 2)

    static = sdbr.static_graph(Net(forward, l=L.Linear(4, 4)))
    optimizer = sdbr.static_optimizer(chainer.optimizers.SGD(0.01)).setup(static)
    for i in range(3):
        optimizer.update(static, BATCHES[i])
        assert static.x.grad is not None
    assert static.schedule_manager.statistics.steps == 0
    assert "hands out wants a gradient" in str(sdbr.explain(static))


@pytest.mark.parametrize("backend", BACKENDS)
def test_second_derivatives_between_results(backend):
    def forward(self, x):
        self.h = F.tanh(self.l(x))
        return F.sum(self.h**3)

    def iteration(model, i):
        y = model(BATCHES[i])
        (g,) = chainer.grad([y], [model.h], enable_double_backprop=True)
        model.cleargrads()
        (y + F.sum(g * g)).backward()
        return {"g": copy_of(g.array), **gradients_of(model)}

    plain, static = pair(
        lambda: Net(forward, l=L.Linear(4, 4)), backend=backend, enable_double_backprop=True
    )
    for i in range(4):
        want = iteration(plain, i)
        assert_all_near(iteration(static, i), want, SUMS, f"iteration {i}")
    assert static.schedule_manager.statistics.replays == 3


def test_a_second_derivative_where_nobody_holds_what_is_needed():
    def forward(self, x):
        shared = F.tanh(self.l(x))
        self.h = shared * 2
        return F.sum(shared * self.h)

    static = sdbr.static_graph(Net(forward, l=L.Linear(4, 4)), enable_double_backprop=True)
    for i in range(2):
        y = static(BATCHES[i])
        if i:
            with pytest.raises(sdbr.SdbrError, match="does not hand out"):
                chainer.grad([y], [static.h, static.l.W], enable_double_backprop=True)


def test_results_that_nobody_holds_beside_one_with_a_gradient():
    """Found by `make fuzz`: the second report takes the place of the first."""

    def forward(self, x):
        y = self.l(x)
        chainer.report({"loss": F.sum(y)}, self)
        chainer.report({"loss": F.mean(y)}, self)
        return y

    grads, x = [], normal(0, 2, 4)
    for make in (lambda net: net, sdbr.static_graph):
        np.random.seed(0)
        net = make(Net(forward, l=L.Linear(4, 3)))
        for i in range(4):
            reports = chainer.Reporter()
            reports.add_observer("main", net)
            net.cleargrads()
            with reports.scope({}):
                y = net(x + np.float32(i))
                y.grad = np.full_like(y.array, 0.5)
                F.sum(F.tanh(y)).backward()
            grads.append(net.l.W.grad.copy())
    assert net.schedule_manager.statistics.replays >= 2
    for want, got in zip(grads[:4], grads[4:], strict=True):
        assert_near(got, want, RESULTS, "gradient")


def test_several_results_without_a_way_to_an_argument():
    """Found by `make fuzz`: the call has cut its own history, and is taken apart all the same."""

    def forward(self, x):
        h = self.l(x)
        u = F.sin(h)
        u.unchain_backward()
        y = F.tanh(h) + u
        return y, F.sin(y)

    seen = []
    for make in (lambda net: net, sdbr.static_graph):
        np.random.seed(0)
        net = make(Net(forward, l=L.Linear(4, 3)))
        for i in range(4):
            net.cleargrads()
            x = chainer.Variable(normal(i, 2, 4))
            y, z = net(x)
            (F.sum(y) + F.sum(z)).backward(retain_grad=True)
            seen.append([y.grad, z.grad, x.grad, net.l.W.grad])
    assert net.schedule_manager.statistics.replays >= 2
    for want, got in zip(seen[:4], seen[4:], strict=True):
        assert got[2:] == want[2:] == [None, None]
        for a, b in zip(got[:2], want[:2], strict=True):
            assert_near(a, b, RESULTS, "gradient of a result")


def test_gradient_of_an_output_that_depends_on_nothing():
    @sdbr.static_graph
    def f(x):
        y = F.tanh(x)
        return y, chainer.Variable(y.array) * 2 + F.sum(x) * 0, F.broadcast_to(F.sum(y), (3,))

    for wanted in ((0, 1), (1,), (1, 2), (0, 2), (2,)):
        gradients = []
        for function in (f, f._sdbr_function):
            x = chainer.Variable(np.linspace(-1, 1, 6).reshape(2, 3).astype("f"))
            ys = [function(x)[i] for i in wanted]
            sum(F.sum(y * y) for y in ys).backward()
            gradients.append(x.grad)
        np.testing.assert_allclose(*gradients, 1e-5, ROUNDINGS)
    assert f.schedule_manager.statistics.replays > 5
