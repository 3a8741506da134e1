"""Row 16: modes, switches of the configuration, history that is cut."""

from __future__ import annotations

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.comparison import BACKENDS, assert_all_near, copy_of, gradients_of
from tests.harness.models import Net
from tests.harness.twins import SIX, X, both, mlp, pair, statistics_of
from tests.tolerances import SUMS


def test_use_static_graph_off():
    static = sdbr.static_graph(mlp())
    with chainer.using_config("use_static_graph", False):
        for _ in range(3):
            static(X)
    assert statistics_of(static).define_by_run_calls == 3
    assert statistics_of(static).traces == 0


def test_force_test_define_by_run():
    static = sdbr.static_graph(mlp(), force_test_define_by_run=True)
    for train in (True, True, False, False):
        with chainer.using_config("train", train):
            static(X)
    assert statistics_of(static).define_by_run_calls == 2
    assert statistics_of(static).replays == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_unchain_backward_cuts_history_across_calls(backend):
    plain, static = pair(
        lambda: Net(lambda s, x: F.tanh(s.l(x)), l=L.Linear(4, 4)), backend=backend
    )

    def iteration(model, i):
        h = model(SIX[0])
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
        model(SIX[i]).backward()
        return gradients_of(model)

    both(plain, static, iteration)


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
                y = model(SIX[i % 6])
                model.cleargrads()
                if backprop:
                    F.sum(y * y).backward()
                assert (y.creator is not None) == backprop
            got.append({
                "y": copy_of(y.array), "mean": copy_of(model.n.avg_mean),
                **gradients_of(model),
            })  # fmt: skip
        assert_all_near(got[1], got[0], SUMS, f"call {i}")
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
        loss = model(SIX[i])
        loss.backward()
        return {"loss": copy_of(loss.array), **gradients_of(model)}

    both(plain, static, iteration)
    assert static.a.W.grad is None and static.b.W.grad is not None
    assert static.schedule_manager.statistics.replays == 3
