"""Row 7: several calls, several backwards, activations that live as long as their graphs."""

from __future__ import annotations

import gc
import re

import sdbr

import chainer
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.comparison import BACKENDS, assert_all_near, assert_near, copy_of, gradients_of
from tests.harness.models import MLP, Net
from tests.harness.twins import SIX, X, both, mlp, pair
from tests.tolerances import RESULTS


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
@pytest.mark.parametrize("backend", BACKENDS)
def test_stale_graph(backend):
    static = sdbr.static_graph(mlp(), backend=backend)
    plain = MLP.forward
    losses = []
    for x in SIX[:3]:
        static.cleargrads()
        y = static(x)
        loss = F.sum(y * y)
        loss.backward()
        losses.append(loss)  # kept: its graph lives
    with pytest.raises(sdbr.StaleGraphError) as caught:
        for loss in losses:
            loss.backward()
    # Both calls are named: the one whose graph it was and the one that took it.
    assert re.search(r"call 2 .*test_activations.py.* taken by .*call 3", str(caught.value))
    # From now on each live call keeps its activations.
    static.cleargrads()
    want = []
    losses = []
    for x in SIX[:3]:
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
    assert_near(static(X).array, plain(static, X).array, RESULTS, "output")


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
