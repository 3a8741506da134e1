"""Several calls, several backwards, what the user keeps of them, and gradients that accumulate."""

from __future__ import annotations

import gc
import re

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.comparison import BACKENDS, assert_all_near, assert_near, copy_of, gradients_of
from tests.harness.models import MLP, Net, floats
from tests.semantics.test_state import X, mlp, pair

RNG = np.random.RandomState(0)
BATCHES = [floats(5, 4)(RNG) for _ in range(6)]


def both(plain, static, iteration, times=4):
    """Run ``iteration(model, i)`` on both models and compare what it returns: dicts of arrays."""
    for i in range(times):
        want, got = iteration(plain, i), iteration(static, i)
        assert_all_near(got, want, 1e-4, f"iteration {i}")


# --- several calls and backwards ----------------------------------------------------------------
@pytest.mark.parametrize("backend", BACKENDS)
def test_several_calls_then_one_backward(backend):
    plain, static = pair(mlp, backend=backend)

    def iteration(model, i):
        model.cleargrads()
        ys = [model(x + i) for x in BATCHES]
        loss = sum(F.sum(y * y) * (k + 1) for k, y in enumerate(ys))
        loss.backward()
        return gradients_of(model)

    both(plain, static, iteration)
    statistics = static.schedule_manager.statistics
    assert (statistics.traces, statistics.replays) == (1, 23)


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_accumulate_over_calls(backend):
    plain, static = pair(mlp, backend=backend)

    def iteration(model, i):
        if i != 2:
            model.cleargrads()  # in iteration 2 they pile up
        for x in BATCHES:
            F.sum(model(x) ** 2).backward()
        return gradients_of(model)

    both(plain, static, iteration)


@pytest.mark.parametrize("backend", BACKENDS)
def test_zerograds_and_loss_scale(backend):
    plain, static = pair(mlp, backend=backend)

    def iteration(model, i):
        for p in model.params():
            p.grad = np.zeros_like(p.array)
        F.sum(model(X) ** 2).backward(loss_scale=4.0)
        return gradients_of(model)

    both(plain, static, iteration)


@pytest.mark.parametrize("backend", BACKENDS)
def test_two_backwards_through_one_call(backend):
    def forward(self, x):
        h = self.l(x)
        return F.sum(F.tanh(h)), F.sum(F.relu(h) ** 2)

    plain, static = pair(lambda: Net(forward, l=L.Linear(4, 3)), backend=backend)

    def iteration(model, i):
        x = chainer.Variable(BATCHES[i])
        a, b = model(x)
        model.cleargrads()
        a.backward()
        first = gradients_of(model)
        model.cleargrads()
        b.backward()
        second = gradients_of(model)
        model.cleargrads()
        (a + 2 * b).backward()
        return {
            **{f"1{k}": g for k, g in first.items()},
            **{f"2{k}": g for k, g in second.items()},
            **{f"3{k}": g for k, g in gradients_of(model).items()},
            "x": copy_of(x.grad),
        }

    both(plain, static, iteration)
    assert static.schedule_manager.statistics.replays == 3


@pytest.mark.parametrize("backend", BACKENDS)
def test_grad_of_any_subset(backend):
    def forward(self, x, y):
        a = self.l(x)
        return {"a": F.tanh(a), "b": F.sum(a * y, axis=1), "c": F.exp(y)}

    plain, static = pair(lambda: Net(forward, l=L.Linear(4, 4)), backend=backend)

    def iteration(model, i):
        x, y = chainer.Variable(BATCHES[i]), chainer.Variable(BATCHES[i + 1])
        out = model(x, y)
        result = {}
        wanted = {"x": x, "y": y, "W": model.l.W, "b": model.l.b}
        for names in (["a"], ["b"], ["c"], ["a", "c"], ["a", "b", "c"]):
            seeds = [
                chainer.Variable(np.full_like(out[n].array, k + 0.5)) for k, n in enumerate(names)
            ]
            grads = chainer.grad(
                [out[n] for n in names], list(wanted.values()), seeds, set_grad=False
            )
            for key, g in zip(wanted, grads, strict=True):
                result[f"{names}{key}"] = copy_of(None if g is None else g.array)
        return result

    both(plain, static, iteration)
    assert static.schedule_manager.statistics.replays == 3


@pytest.mark.parametrize("backend", BACKENDS)
def test_retain_grad(backend):
    plain, static = pair(mlp, backend=backend)

    def iteration(model, i):
        y = model(BATCHES[i])
        z = y * 2
        model.cleargrads()
        F.sum(z * z).backward(retain_grad=True)
        return {"y": copy_of(y.grad), "z": copy_of(z.grad), **gradients_of(model)}

    both(plain, static, iteration)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_same_array_twice_and_the_last_output_again(backend):
    plain, static = pair(lambda: Net(lambda s, a, b: F.tanh(s.l(a)) + s.l(b), l=L.Linear(4, 4)),
                         backend=backend)  # fmt: skip

    def iteration(model, i):
        x = BATCHES[i]
        y = model(x, x)
        z = model(y, y.array)
        u = chainer.Variable(x)
        w = model(u, u)
        model.cleargrads()
        F.sum(z * z * w).backward()
        return {"z": copy_of(z.array), "u": copy_of(u.grad), **gradients_of(model)}

    both(plain, static, iteration)
    assert static.schedule_manager.statistics.traces == 3


@pytest.mark.parametrize("backend", BACKENDS)
def test_caller_arrays_of_any_layout_are_not_written(backend):
    plain, static = pair(mlp, backend=backend)
    base = np.random.RandomState(5).randn(10, 8).astype("f")
    layouts = [base[:5, :4].copy(), base[::2, ::2], np.asfortranarray(base[:5, :4]), base[5:, 4:]]
    layouts.append(base[:5, :4].copy())
    layouts[-1].flags.writeable = False
    then = [x.copy() for x in layouts]

    def iteration(model, i):
        y = model(layouts[i])
        model.cleargrads()
        F.sum(y * y).backward()
        return {"y": copy_of(y.array), **gradients_of(model)}

    both(plain, static, iteration, len(layouts))
    for x, t in zip(layouts, then, strict=True):
        np.testing.assert_array_equal(x, t)
    assert static.schedule_manager.statistics.replays == 4


# --- activations --------------------------------------------------------------------------------
@pytest.mark.parametrize("backend", BACKENDS)
def test_stale_graph(backend):
    static = sdbr.static_graph(mlp(), backend=backend)
    plain = MLP.forward
    losses = []
    for x in BATCHES[:3]:
        static.cleargrads()
        y = static(x)
        loss = F.sum(y * y)
        loss.backward()
        losses.append(loss)  # kept: its graph lives
    with pytest.raises(sdbr.StaleGraphError) as caught:
        for loss in losses:
            loss.backward()
    # Both calls are named: the one whose graph it was and the one that took it.
    assert re.search(r"call 2 .*test_calls.py.* taken by .*call 3", str(caught.value))
    # From now on each live call keeps its activations.
    static.cleargrads()
    want = []
    losses = []
    for x in BATCHES[:3]:
        y = static(x)
        loss = F.sum(y * y)
        static.cleargrads()
        loss.backward()
        losses.append(loss)
        want.append(gradients_of(static))
    for loss, w in zip(losses, want, strict=True):
        static.cleargrads()
        loss.backward()
        assert_all_near(gradients_of(static), w, 0, "second backward")
    assert_near(static(X).array, plain(static, X).array, 1e-5, "output")


@pytest.mark.parametrize("backend", BACKENDS)
def test_end_forward_gives_activations_back(backend):
    static = sdbr.static_graph(mlp(), backend=backend)
    static(X)
    kept = [static(x) for x in BATCHES[:3]]
    static.schedule_manager.end_forward()
    for x in BATCHES[3:]:
        y = static(x)
        static.cleargrads()
        F.sum(y).backward()
    with pytest.raises(sdbr.StaleGraphError):
        for y in kept:
            F.sum(y).backward()


def test_activations_are_reused_when_nobody_needs_them():
    static = sdbr.static_graph(mlp())
    for _ in range(10):
        static.cleargrads()
        F.sum(static(X)).backward()
    (schedules,) = static.schedule_manager.schedules.values()
    assert len(schedules[0].instances) == 1
    for _ in range(5):
        static(X)  # its graph dies at once
    gc.collect()
    assert len(schedules[0].instances) == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_unchain_backward_cuts_history_across_calls(backend):
    plain, static = pair(
        lambda: Net(lambda s, x: F.tanh(s.l(x)), l=L.Linear(4, 4)), backend=backend
    )

    def iteration(model, i):
        h = model(BATCHES[0])
        h = model(h)
        if i % 2:
            h.unchain_backward()
        y = model(h)
        model.cleargrads()
        F.sum(y * y).backward()
        return gradients_of(model)

    both(plain, static, iteration)


@pytest.mark.parametrize("backend", BACKENDS)
def test_unchain_inside_the_call(backend):
    def forward(self, x):
        h = self.a(x)
        k = self.b(x)
        k.unchain_backward()
        return F.sum(F.tanh(h) * k)

    plain, static = pair(lambda: Net(forward, a=L.Linear(4, 3), b=L.Linear(4, 3)), backend=backend)

    def iteration(model, i):
        model.cleargrads()
        model(BATCHES[i]).backward()
        return gradients_of(model)

    both(plain, static, iteration)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "cut",
    [
        lambda h: h.array,
        lambda h: chainer.Variable(h.array),
        lambda h: chainer.as_variable(h.array),
        lambda h: h.data.copy(),
        lambda h: F.identity(chainer.Variable(h.array, requires_grad=False)),
    ],
    ids=["array", "Variable", "as_variable", "copy", "no grad"],
)
def test_gradients_stop_where_the_array_is_taken(cut, backend):
    def forward(self, x):
        return F.mean_squared_error(self.a(x), cut(self.b(x))) + F.sum(cut(self.c.W) * self.c.W)

    plain, static = pair(
        lambda: Net(forward, a=L.Linear(4, 3), b=L.Linear(4, 3), c=L.Linear(2, 2)), backend=backend
    )

    def iteration(model, i):
        model.cleargrads()
        loss = model(BATCHES[i])
        loss.backward()
        assert model.b.W.grad is None
        return {"loss": copy_of(loss.array), **gradients_of(model)}

    both(plain, static, iteration)
    assert static.schedule_manager.statistics.replays == 3


# --- what the user keeps ------------------------------------------------------------------------
class Keeper:
    """Things kept and what they held when they were."""

    def __init__(self):
        self.things = []

    def keep(self, *things):
        self.things += [(t, copy_of(getattr(t, "array", t))) for t in things]

    def check(self):
        assert len({then.tobytes() for _, then in self.things}) > len(self.things) // 2
        for thing, then in self.things:
            np.testing.assert_array_equal(getattr(thing, "array", thing), then)


def two_outputs(self, x):
    h = F.tanh(self.l(x))
    self.h = h
    chainer.report({"mean": F.mean(h)}, self)
    return h, F.sum(h, axis=1), h.array * 2


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("backprop", [True, False])
def test_kept_outputs_never_change(backend, backprop):
    static = sdbr.static_graph(Net(two_outputs, l=L.Linear(4, 3)), backend=backend)
    keeper = Keeper()
    reporter = chainer.Reporter()
    reporter.add_observer("main", static)
    with chainer.using_config("enable_backprop", backprop), chainer.using_config("train", backprop):
        for i in range(12):
            with reporter.scope({}):
                h, s, double = static(BATCHES[i % 6] + i)
                keeper.keep(*reporter.observation.values())
            keeper.keep(h if i % 2 else h.array[1:, ::2], s.array, double)
            if i % 3 == 0:
                keeper.keep(static.h)
            if i % 4 == 0:
                keeper.keep(static.h.array.T)
            del h, s, double
    keeper.check()
    assert static.schedule_manager.statistics.replays == 11


@pytest.mark.parametrize("backend", BACKENDS)
def test_kept_gradients_never_change(backend):
    static = sdbr.static_graph(mlp(), backend=backend)
    keeper = Keeper()
    for i in range(8):
        x = chainer.Variable(BATCHES[i % 6] + i)
        y = static(x)
        static.cleargrads()
        F.sum(y * y).backward()
        keeper.keep(x.grad, static.l1.W.grad, static.l2.W.grad[1:, ::3], static.l3.b.grad_var)
        (g,) = chainer.grad([static(x)], [x], [chainer.Variable(y.array)])
        keeper.keep(g)
    keeper.check()


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_are_plain_distinct_arrays(backend):
    static = sdbr.static_graph(mlp(), backend=backend)
    for _ in range(3):
        static.cleargrads()
        F.sum(static(X)).backward()
    grads = [p.grad for p in static.params()]
    for i, g in enumerate(grads):
        assert type(g) is np.ndarray and g.flags.writeable and g.flags.c_contiguous
        for other in [*grads[:i], *(p.array for p in static.params())]:
            assert not np.shares_memory(g, other)


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradient_set_by_the_user_is_not_written(backend):
    plain, static = pair(mlp, backend=backend)
    mine = []

    def iteration(model, i):
        g = np.full_like(model.l1.W.array, 3)
        model.cleargrads()
        model.l1.W.grad = g
        mine.append(g)
        F.sum(model(BATCHES[i]) ** 2).backward()
        return gradients_of(model)

    both(plain, static, iteration)
    for g in mine:
        np.testing.assert_array_equal(g, 3)


@pytest.mark.parametrize("backend", BACKENDS)
def test_changed_batch_size_and_back_does_not_retrace(backend):
    plain, static = pair(mlp, backend=backend)

    def iteration(model, i):
        x = BATCHES[i % 6][: 5 - i % 3]
        y = model(x)
        model.cleargrads()
        F.sum(y * y).backward()
        return {"y": copy_of(y.array), **gradients_of(model)}

    both(plain, static, iteration, 9)
    statistics = static.schedule_manager.statistics
    assert (statistics.traces, statistics.replays) == (3, 6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_mode_switches(backend):
    def forward(self, x):
        return F.dropout(self.n(self.l(x)), 0.4)

    plain, static = pair(
        lambda: Net(forward, l=L.Linear(4, 3, nobias=True), n=L.BatchNormalization(3)),
        backend=backend,
    )
    modes = [(True, True), (False, False), (False, True), (True, False)] * 3
    for i, (train, backprop) in enumerate(modes):
        got = []
        for model in (plain, static):
            np.random.seed(i)
            with (
                chainer.using_config("train", train),
                chainer.using_config("enable_backprop", backprop),
            ):
                y = model(BATCHES[i % 6])
                model.cleargrads()
                if backprop:
                    F.sum(y * y).backward()
                assert (y.creator is not None) == backprop
            got.append({
                "y": copy_of(y.array), "mean": copy_of(model.n.avg_mean),
                **gradients_of(model),
            })  # fmt: skip
        assert_all_near(got[1], got[0], 1e-4, f"call {i}")
    statistics = static.schedule_manager.statistics
    assert (statistics.traces, statistics.replays) == (4, 8)


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_backprop_and_force_backprop_inside_the_call(backend):
    def forward(self, x):
        with chainer.no_backprop_mode():
            a = self.a(x)
            with chainer.force_backprop_mode():
                b = self.b(x)
        return F.sum(F.tanh(self.c(x)) * a * b)

    plain, static = pair(
        lambda: Net(forward, a=L.Linear(4, 3), b=L.Linear(4, 3), c=L.Linear(4, 3)), backend=backend
    )

    def iteration(model, i):
        model.cleargrads()
        loss = model(BATCHES[i])
        loss.backward()
        return {"loss": copy_of(loss.array), **gradients_of(model)}

    both(plain, static, iteration)
    assert static.a.W.grad is None and static.b.W.grad is not None
    assert static.schedule_manager.statistics.replays == 3


def test_an_array_kept_from_the_compiled_path_survives_a_call_on_the_slower_one():
    """Both ways bind outputs of one instance; neither may take what the user still holds."""
    static = sdbr.static_graph(lambda x, scale=None: F.tanh(x))
    fast = [chainer.Variable(np.full((3, 2), i, "f")) for i in range(8)]
    for x in fast[:3]:
        static(x)
    manager = static.schedule_manager
    for i, x in enumerate(fast[3:]):
        kept = static(x).array  # the graph is gone, the array is not
        runners, manager.runners = manager.runners, []
        other = static(fast[i]).array
        manager.runners = runners
        static(fast[i])
        static(fast[0])
        np.testing.assert_allclose(kept, np.tanh(x.array), rtol=1e-5)
        np.testing.assert_allclose(other, np.tanh(fast[i].array), rtol=1e-5)
    assert manager.statistics.traces == 1
