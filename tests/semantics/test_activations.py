"""Row 7: several calls, several backwards, activations that live as long as their graphs."""

from __future__ import annotations

import gc
import tracemalloc
import weakref

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.comparison import BACKENDS, assert_all_near, copy_of, gradients_of
from tests.harness.models import MLP, Net, floats
from tests.harness.twins import SIX, X, both, mlp, pair
from tests.tolerances import BESIDE, SUMS


# --- several calls and backwards ----------------------------------------------------------------
@pytest.mark.parametrize("backend", BACKENDS)
def test_several_calls_then_one_backward(backend):
    plain, static = pair(mlp, backend=backend)

    def iteration(model, i):
        model.cleargrads()
        ys = [model(x + i) for x in SIX]
        loss = sum(F.sum(y * y) * (k + 1) for k, y in enumerate(ys))
        loss.backward()
        return gradients_of(model)

    both(plain, static, iteration)
    statistics = static.schedule_manager.statistics
    assert (statistics.traces, statistics.replays) == (1, 23)


@pytest.mark.parametrize("backend", BACKENDS)
def test_two_backwards_through_one_call(backend):
    def forward(self, x):
        h = self.l(x)
        return F.sum(F.tanh(h)), F.sum(F.relu(h) ** 2)

    plain, static = pair(lambda: Net(forward, l=L.Linear(4, 3)), backend=backend)

    def iteration(model, i):
        x = chainer.Variable(SIX[i])
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
def test_the_same_array_twice_and_the_last_output_again(backend):
    plain, static = pair(lambda: Net(lambda s, a, b: F.tanh(s.l(a)) + s.l(b), l=L.Linear(4, 4)),
                         backend=backend)  # fmt: skip

    def iteration(model, i):
        x = SIX[i]
        y = model(x, x)
        z = model(y, y.array)
        u = chainer.Variable(x)
        w = model(u, u)
        model.cleargrads()
        F.sum(z * z * w).backward()
        return {"z": copy_of(z.array), "u": copy_of(u.grad), **gradients_of(model)}

    both(plain, static, iteration)
    assert static.schedule_manager.statistics.traces == 3


# --- activations --------------------------------------------------------------------------------
def critic_steps(critic, generator, i):
    """A backward through the second of three calls, and one more through all of them."""
    real, noise = SIX[i % 6], SIX[(i + 1) % 6]
    fake = generator(noise)
    on_real = critic(real)
    on_fake = critic(fake)
    generator.cleargrads()
    F.sum(F.softplus(-on_fake)).backward()
    record = gradients_of(generator)
    between = 0.3 * real + 0.7 * fake.array
    on_both = critic(between)
    critic.cleargrads()
    penalty = F.sum(on_both * on_both)
    (F.sum(F.softplus(-on_real)) + F.sum(F.softplus(on_fake)) + penalty).backward()
    return {**record, **{f"critic{k}": g for k, g in gradients_of(critic).items()}}


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_critic_whose_call_two_losses_share(backend):
    plain, static = pair(mlp, backend=backend)
    other, generator = pair(lambda: MLP(4, 6, 4), seed=1, backend=backend)
    for i in range(5):
        want, got = critic_steps(plain, other, i), critic_steps(static, generator, i)
        assert_all_near(got, want, SUMS, f"iteration {i}")
    # A call on an array and one on a Variable that wants a gradient are two keys.
    statistics = static.schedule_manager.statistics
    assert (statistics.traces, statistics.replays, statistics.define_by_run_calls) == (2, 13, 0)
    assert generator.schedule_manager.statistics.replays == 4


@pytest.mark.parametrize("backend", BACKENDS)
def test_backwards_after_other_calls_and_backwards(backend):
    """Every loss that lives can go back again, in any order, whatever has been called since."""
    plain, static = pair(lambda: MLP(4, 8, 3, ratio=0.5), backend=backend)

    def iteration(model, i):
        np.random.seed(i)
        losses, record = [], {}
        for x in SIX[:4]:
            model.cleargrads()
            y = model(x)
            loss = F.sum(y * y)
            loss.backward()
            losses.append(loss)
        for k in (0, 3, 1, 1, 2, 0):
            model.cleargrads()
            losses[k].backward(retain_grad=k == 1)
            record.update({f"{len(record)} of {k} {n}": g for n, g in gradients_of(model).items()})
        return record

    both(plain, static, iteration)
    statistics = static.schedule_manager.statistics
    assert (statistics.traces, statistics.replays) == (1, 15)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("is_static", [False, True], ids=["plain optimizer", "static optimizer"])
def test_a_backward_after_an_update(backend, is_static):
    """The activations are those of the call, the parameters those of the backward."""
    plain, static = pair(mlp, backend=backend)
    optimizers = {id(model): chainer.optimizers.Adam(0.05) for model in (plain, static)}
    if is_static:
        sdbr.static_optimizer(optimizers[id(static)])
    for model in (plain, static):
        optimizers[id(model)].setup(model)
    kept = {id(plain): [], id(static): []}

    def iteration(model, i):
        losses = kept[id(model)]
        losses.append(F.sum(model(SIX[i]) ** 2))
        record = {}
        for loss in losses:
            model.cleargrads()
            loss.backward()
            record.update({f"{len(record)} {n}": g for n, g in gradients_of(model).items()})
            optimizers[id(model)].update()
        return record

    both(plain, static, iteration)
    assert static.schedule_manager.statistics.replays == 3


def test_a_second_backward_of_an_audited_call():
    plain, static = pair(mlp, backend="cython")

    def iteration(model, i):
        a, b = F.sum(model(SIX[i]) ** 2), F.sum(model(SIX[i + 1]) ** 2)
        model.cleargrads()
        for loss in (a, b, a, a + b):
            loss.backward()
        return gradients_of(model)

    with chainer.using_config("sdbr_audit", 1e9):
        both(plain, static, iteration)
    assert static.schedule_manager.statistics.replays == 7
    audits = static.schedule_manager.audits
    assert (audits.passed, audits.failed, audits.noisy) == (7, 0, 0)
    assert audits.gradients == 17  # the traced call's are define-by-run's


@pytest.mark.parametrize("backend", BACKENDS)
def test_end_forward_gives_activations_back(backend):
    static = sdbr.static_graph(mlp(), backend=backend)
    static(X)
    kept = [static(x) for x in SIX[:3]]
    static.schedule_manager.end_forward()
    for x in SIX[3:]:
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


def test_an_ordinary_loop_needs_two_sets_of_activations():
    """One for the call that runs, one for the loss that is still bound: as define-by-run."""
    static = sdbr.static_graph(mlp())
    for k in range(30):
        loss = F.sum(static(SIX[k % 6]) ** 2)
        static.cleargrads()
        loss.backward()
    assert static.schedule_manager.statistics.replays == 29
    (schedules,) = static.schedule_manager.schedules.values()
    assert len(schedules[0].instances) == 2
    assert not schedules[0].forward.arenas  # a backward works in that of the older one


def peak_of_a_loop(model, x) -> int:
    """Bytes at most, once the loop goes round evenly; the last loss stays bound."""
    tracemalloc.start()
    try:
        for k in range(30):
            if k == 25:
                gc.collect()
                tracemalloc.reset_peak()
            y = model(x)
            loss = F.sum(y * y)
            model.cleargrads()
            loss.backward()
            del y
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.alone
def test_an_ordinary_loop_needs_no_more_memory_than_define_by_run():
    plain, static = pair(lambda: MLP(64, 512, 64))
    x = floats(1024, 64)(np.random.RandomState(0))
    want = peak_of_a_loop(plain, x)
    got = peak_of_a_loop(static, x)
    assert static.schedule_manager.statistics.replays == 29
    assert got <= want + BESIDE


def test_activations_that_nobody_needs_any_more_go():
    static = sdbr.static_graph(mlp())
    kept = [static(X) for _ in range(40)]
    (schedules,) = static.schedule_manager.schedules.values()
    assert len(schedules[0].instances) == 39
    del kept
    for _ in range(600):
        static(X)
    assert static.schedule_manager.statistics.replays == 639
    assert len(schedules[0].instances) == 2


# --- histories that the call does not take --------------------------------------------------------
class Cut(chainer.Chain):
    """State of which the call takes the array alone."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l = L.Linear(4, 3)
        self.h = chainer.Variable(np.ones((5, 3), "f"))

    def forward(self, x):
        h = chainer.Variable(self.h.array)
        self.h = F.tanh(self.l(x) + h)
        return F.sum(self.h**2)


def test_graphs_of_earlier_calls_are_gone_where_state_is_read_as_an_array():
    plain, static = pair(Cut)
    graphs = {plain: [], static: []}

    def iteration(model, i):
        model.cleargrads()
        model(SIX[i]).backward()
        gc.collect()
        graphs[model].append(weakref.ref(model.h.creator_node))
        return {**gradients_of(model), "h": copy_of(model.h.array)}

    both(plain, static, iteration)
    for model in (plain, static):
        assert [graph() is not None for graph in graphs[model][:-1]] == [False] * (
            len(graphs[model]) - 1
        )
    assert static.schedule_manager.statistics.replays == len(graphs[static]) - 1 >= 3


def test_the_history_of_an_argument_is_gone_where_it_is_read_as_an_array():
    link = L.Linear(4, 3)

    @sdbr.static_graph(on_dynamic="raise")
    def follow(x, h):
        return F.tanh(link(x) + h.array)

    h = chainer.Variable(np.ones((5, 3), "f"))
    graphs = []
    for x in SIX:
        h = follow(x, h)
        F.sum(h).backward()
        graphs.append(weakref.ref(h.creator_node))
    gc.collect()
    assert [graph() is not None for graph in graphs] == [False] * 5 + [True]
    assert follow.schedule_manager.statistics.replays >= 4
