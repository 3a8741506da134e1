"""What happens while a call, its backward or its update is under way."""

from __future__ import annotations

import gc
import threading
import weakref

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.comparison import BACKENDS, assert_all_near, assert_near, copy_of, gradients_of
from tests.harness.models import MLP, Net, floats, labels

X = floats(5, 4)(np.random.RandomState(0))
T = labels(3, 5)(np.random.RandomState(1))


def twins(make, **options):
    np.random.seed(0)
    plain = make()
    return plain, sdbr.static_graph(plain.copy(mode="copy"), **options)


# --- between forward and backward ---------------------------------------------------------------
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "change", [lambda w: w[:, :2].copy(), lambda w: w.astype("d"), lambda w: w[None]]
)
def test_a_parameter_of_another_shape_before_the_backward(change, backend):
    """The error names the parameter and both shapes; gradients stay as they were."""
    plain, static = twins(lambda: MLP(4, 8, 3), backend=backend, on_dynamic="raise")
    for k in range(6):
        w = static.l2.W.array
        static.cleargrads()
        loss = F.sum(static(X + k) ** 2)
        if k in (2, 4):
            static.l2.W.array = change(w)
            with pytest.raises(sdbr.SdbrError, match=r"parameter W .*float32\[8, 8\].*another"):
                loss.backward()
            static.l2.W.array = w
            assert all(g is None for g in gradients_of(static).values())
            continue
        loss.backward()
        plain.cleargrads()
        F.sum(plain(X + k) ** 2).backward()
        assert_all_near(gradients_of(static), gradients_of(plain), 1e-4, f"call {k}")
    assert static.schedule_manager.statistics.replays >= 3


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_input_of_another_shape_before_the_backward(backend):
    static = sdbr.static_graph(lambda x: F.sum(x * x), backend=backend, on_dynamic="raise")
    for k in range(4):
        x = chainer.Variable(X)
        y = static(x)
        if k == 2:
            x.array = X[:2]
            with pytest.raises((sdbr.SdbrError, ValueError), match=r"shape|size"):
                y.backward()
            continue
        y.backward()
        assert_near(x.grad, 2 * X, 1e-5, "gradient")
    assert static.schedule_manager.statistics.replays == 3


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_that_do_not_fit(backend):
    """As in define-by-run a gradient of another shape or dtype is refused where it is set."""
    static = sdbr.static_graph(lambda x: F.tanh(x), backend=backend, on_dynamic="raise")
    for k in range(4):
        x = chainer.Variable(X)
        y = static(x)
        for wrong in (np.ones((2, 2), "f"), np.ones_like(X, dtype="d"), "ones"):
            with pytest.raises((ValueError, TypeError)):
                y.grad = wrong
        if k == 2:
            with pytest.raises(sdbr.SdbrError, match=r"set y\.grad before"):
                y.backward()
            continue
        y.grad = np.broadcast_to(np.float32(2), X.shape)
        y.backward()
        assert_near(x.grad, 2 * (1 - np.tanh(X) ** 2), 1e-4, "gradient")


# --- things that go away ------------------------------------------------------------------------
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_link_freed_by_code_of_the_call(backend):
    """The last reference to the model goes while its schedule runs; its memory stays till then."""

    @sdbr.static_code
    def drop(inputs):
        if doomed:
            kept.clear()
            gc.collect()

    def forward(self, x):
        h = F.relu(self.l(x))
        drop(inputs=[h.array])
        return F.sum(h * 2)

    np.random.seed(0)
    kept = [sdbr.static_graph(Net(forward, l=L.Linear(4, 3)), backend=backend)]
    alive, doomed = weakref.ref(kept[0]), False
    weight, bias = copy_of(kept[0].l.W.array), copy_of(kept[0].l.b.array)
    for _ in range(3):
        kept[0](X)
    doomed = True
    loss = kept[0](X)
    want = (np.maximum(X @ weight.T + bias, 0) * 2).sum()
    assert_near(loss.array, np.array(want, "f"), 1e-5, "loss")
    loss.backward()
    del loss
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_child_removed_by_code_of_the_call(backend):
    """The call that removes it ends as it was traced; the next raises as define-by-run does."""

    @sdbr.static_code
    def remove(link):
        if doomed:
            del link.l2

    def forward(self, x):
        h = self.l1(x)
        remove(self)
        return self.l2(h)

    doomed = False
    static = sdbr.static_graph(Net(forward, l1=L.Linear(4, 3), l2=L.Linear(3, 2)), backend=backend)
    want = copy_of(static(X).array)
    static(X)
    link, doomed = static.l2, True
    assert_near(static(X).array, want, 1e-5, "output")
    doomed = False
    with pytest.raises(AttributeError, match="l2"):
        static(X)
    with static.init_scope():
        static.l2 = link
    for _ in range(3):
        assert_near(static(X).array, want, 1e-5, "output")


def test_links_freed_in_another_thread():
    models = [sdbr.static_graph(MLP(4, 8, 3)) for _ in range(20)]
    want = [copy_of(m(X).array) for m in models]
    results: list = []
    ready = [threading.Event() for _ in models]

    def work():
        for i in range(len(models)):
            model = models[i]
            results.append([copy_of(model(X).array) for _ in range(3)])
            del model
            ready[i].set()

    def free():
        for i in range(len(models)):
            ready[i].wait(60)
            models[i] = None
            gc.collect()

    threads = [threading.Thread(target=f) for f in (work, free)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for got, expected in zip(results, want, strict=True):
        for y in got:
            assert_near(y, expected, 1e-5, "output")


def test_a_schedule_cleared_while_it_runs():
    @sdbr.static_code
    def clear(inputs):
        if clearing:
            static.schedule_manager.clear()

    def f(x):
        y = F.relu(x) * 2
        clear(inputs=[y.array])
        return F.sum(y)

    clearing, static = False, sdbr.static_graph(f)
    for k in range(6):
        clearing = k == 3
        x = chainer.Variable(X)
        y = static(x)
        y.backward()
        assert_near(y.array, np.array((np.maximum(X, 0) * 2).sum(), "f"), 1e-5, "loss")
        assert_near(x.grad, np.where(X > 0, np.float32(2), np.float32(0)), 1e-5, "gradient")
    assert static.schedule_manager.statistics.traces == 2


def test_a_static_call_inside_its_own_replay():
    """static_code may call the very chain that runs; it gets activations of its own."""

    @sdbr.static_code
    def again(inputs):
        if depth and depth[-1] < 3:
            depth.append(depth[-1] + 1)
            seen.append(float(static(inputs[0]).array))

    def f(x):
        again(inputs=[x])
        return F.sum(F.tanh(x))

    static, depth, seen = sdbr.static_graph(f), [], []
    want = float(np.tanh(X).sum())
    static(X)
    for _ in range(3):
        depth[:] = [0]
        seen.clear()
        assert float(static(X).array) == pytest.approx(want, rel=1e-5)
        assert seen == pytest.approx([want] * 3, rel=1e-5)


# --- size ---------------------------------------------------------------------------------------
def test_a_chain_of_5000_ops():
    def f(x):
        for i in range(2500):
            x = F.tanh(x) + (0.5 if i % 2 else -0.5)
        return F.sum(x)

    static = sdbr.static_graph(f, on_dynamic="raise")
    for k in range(3):
        found = []
        for function in (f, static):
            x = chainer.Variable(X + k)
            y = function(x)
            y.backward()
            found.append((copy_of(y.array), copy_of(x.grad)))
        assert_near(found[1][0], found[0][0], 1e-4, "output")
        assert_near(found[1][1], found[0][1], 1e-3, "gradient")
    assert static.schedule_manager.statistics.replays == 2
    assert len(static.schedule_manager.static_schedule.trace.nodes) == 5001
    assert len(str(sdbr.explain(static)).splitlines()) <= 40


def test_a_thousand_arguments():
    static = sdbr.static_graph(lambda *xs, **more: sum(xs) + sum(more.values()))
    xs = [np.full(2, i, "f") for i in range(500)]
    more = {f"x{i}": np.full(2, i, "f") for i in range(500)}
    for _ in range(3):
        assert_near(static(*xs, **more), np.full(2, 2 * sum(range(500)), "f"), 1e-5, "sum")


# --- Sequential ---------------------------------------------------------------------------------
def test_sequential_with_functions_of_all_sorts():
    """Lambdas, methods, functools.partial and bare callables in a Sequential."""
    import functools

    class Doubler:
        def __call__(self, x):
            return x * 2

    np.random.seed(0)
    plain = chainer.Sequential(
        L.Linear(4, 8),
        lambda x: x * 0.5,
        F.relu,
        functools.partial(F.leaky_relu, slope=0.3),
        Doubler(),
        L.Linear(8, 2),
    )
    static = sdbr.static_graph(plain.copy(mode="copy"))
    for k in range(4):
        assert_near(static(X + k).array, plain(X + k).array, 1e-5, "output")
    assert static.schedule_manager.statistics.replays == 3
    with pytest.raises(chainer.utils.type_check.InvalidType):
        static(X[:, :3])
    assert_near(static(X).array, plain(X).array, 1e-5, "output")


# --- the update ---------------------------------------------------------------------------------
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
                optimizer.update(model, X + k)
            got, want = (dict(m.namedparams()) for m in (static, plain))
            for name in want:
                assert_near(got[name].array, want[name].array, 1e-5, name)
    assert static.schedule_manager.statistics.steps == 3


def test_a_loss_that_is_no_scalar():
    """An error, nothing is updated, and a scalar loss works afterwards."""

    def forward(self, x, reduce):
        y = self.l(x) ** 2
        return F.sum(y) if reduce else y

    plain, static = twins(lambda: Net(forward, l=L.Linear(4, 3)))
    optimizer = sdbr.static_optimizer(chainer.optimizers.SGD()).setup(static)
    for _ in range(3):
        optimizer.update(static, X, True)
    for _ in range(3):
        before = copy_of(static.l.W.array)
        t = optimizer.t
        # Chainer fails somewhere inside a function, where a gradient is None.
        with pytest.raises((AttributeError, TypeError)):
            chainer.optimizers.SGD().setup(plain).update(plain, X, False)
        with pytest.raises((AttributeError, TypeError, sdbr.SdbrError)) as caught:
            optimizer.update(static, X, False)
        np.testing.assert_array_equal(static.l.W.array, before)
        assert optimizer.t == t
    assert "set y.grad before" in str(caught.value)  # of the replays
    optimizer.update(static, X, True)
    assert optimizer.t == t + 1


@pytest.mark.parametrize("returned", [None, 3.0, "loss", [1, 2]])
def test_a_loss_that_is_no_variable(returned):
    _, static = twins(lambda: Net(lambda self, x: returned, l=L.Linear(4, 3)))
    optimizer = sdbr.static_optimizer(chainer.optimizers.SGD()).setup(static)
    for _ in range(3):
        with pytest.raises(AttributeError, match="backward"):
            optimizer.update(static, X)
    assert optimizer.t == 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_reporter_that_does_not_know_the_model(backend):
    """KeyError as in define-by-run, where the forward fails: nothing is updated."""
    with chainer.using_config("sdbr_backend", backend):
        plain, static = twins(lambda: L.Classifier(MLP(4, 8, 3)), backend=backend)
        optimizers = [
            chainer.optimizers.Adam().setup(plain),
            sdbr.static_optimizer(chainer.optimizers.Adam()).setup(static),
        ]
        for k in range(6):
            for model, optimizer in zip((plain, static), optimizers, strict=True):
                if k in (3, 4):
                    before = copy_of(model.predictor.l1.W.array)
                    with chainer.Reporter().scope({}), pytest.raises(KeyError):
                        optimizer.update(model, X, T)
                    np.testing.assert_array_equal(model.predictor.l1.W.array, before)
                    assert optimizer.t == 3
                    continue
                reporter = chainer.Reporter()
                reporter.add_observer("main", model)
                seen: dict = {}
                with reporter.scope(seen):
                    optimizer.update(model, X, T)
                assert sorted(seen) == ["main/accuracy", "main/loss"]
        for p, q in zip(plain.params(), static.params(), strict=True):
            assert_near(q.array, p.array, 1e-4, p.name)
    assert static.schedule_manager.statistics.steps == 3
