"""Denormal numbers: which of them count as zeros, and that audits and user code know."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import ClassVar

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.models import Net
from tests.harness.steps import updated
from tests.tolerances import GRADIENTS, RESULTS

TINY = np.float32(1e-40)  # below the smallest normal number


@pytest.mark.parametrize("threads", [1, 2])
def test_denormals_are_kept_or_flushed(threads):
    model = sdbr.static_graph(Net(lambda self, x: x * 0.5 + 0.0))
    x = np.full((512, 512), TINY)
    settings = ((False, TINY / 2), (True, 0.0), ("auto", TINY / 2), (False, TINY / 2))
    with chainer.using_config("sdbr_num_threads", threads), chainer.no_backprop_mode():
        for flush, want in settings:
            with chainer.using_config("sdbr_flush_denormals", flush):
                for _ in range(3):  # the first is traced: define-by-run keeps them
                    y = model(chainer.Variable(x)).array
                np.testing.assert_array_equal(y, np.full_like(x, want))
        # The mode ends with the call.
        np.testing.assert_array_equal(x * np.float32(0.5), np.full_like(x, TINY / 2))
    assert model.schedule_manager.statistics.replays == 9


class Seen(chainer.FunctionNode):
    """Notes whether denormals are there in its forward and its backward."""

    seen: ClassVar[list[bool]] = []

    def forward(self, inputs):
        self.seen.append(bool((np.full(4, TINY) * np.float32(0.5)).all()))
        return (inputs[0] * 2,)

    def backward(self, indexes, gys):
        self.seen.append(bool((np.full(4, TINY) * np.float32(0.5)).all()))
        return (gys[0] * 2,)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("flush", [False, "auto"])
def test_by_default_gradients_are_flushed_and_results_are_not(flush, threads):
    """Not even masks: the forward is read as it is; and code of users keeps its mode."""
    Seen.seen.clear()
    model = sdbr.static_graph(
        Net(lambda self, x: F.relu(Seen().apply((x * 0.5,))[0]) * 0.25), on_dynamic="raise"
    )
    statistics = model.schedule_manager.statistics
    tiny = np.finfo("f").tiny
    with (
        chainer.using_config("sdbr_num_threads", threads),
        chainer.using_config("sdbr_flush_denormals", flush),
    ):
        for scale in (2, 2, 1e30):
            x = chainer.Variable(np.full((512, 512), TINY))
            y = model(x)
            y.grad = np.full((512, 512), np.float32(scale) * tiny)
            y.backward()
            np.testing.assert_array_equal(y.array, x.array / 4)  # a denormal, whose mask is one
            flushed = flush == "auto" and statistics.replays and scale == 2
            want = 0 if flushed else np.float32(scale) * tiny / 4
            np.testing.assert_array_equal(x.grad, np.full_like(x.array, want))
    assert len(Seen.seen) == 6 and all(Seen.seen)
    assert statistics.replays == 2


def test_what_depends_on_the_size_of_a_denormal_is_exact_by_default():
    """In the forward, and where a backward divides by what the forward has made."""

    def forward(self, x):
        return F.sum(F.log(x * 1e-19) + F.sqrt(x * 1e-19) + F.sign(x) + 1e-4 / x)

    plain, static = Net(forward), sdbr.static_graph(Net(forward), on_dynamic="raise")
    for k in (3, 4, 5):
        x, y = (chainer.Variable(np.full((4, 5), k * 1e-20, "f")) for _ in range(2))
        want, got = plain(x), static(y)
        np.testing.assert_allclose(got.array, want.array, rtol=RESULTS)
        want.backward()
        got.backward()
        assert np.isfinite(x.grad).all()  # it divides by x * x
        np.testing.assert_allclose(y.grad, x.grad, rtol=GRADIENTS)
    assert static.schedule_manager.statistics.replays == 2


@pytest.mark.parametrize("whole", [False, True], ids=["in parts", "whole step"])
@pytest.mark.parametrize("flush", [False, "auto"])
def test_what_only_decays_ends_at_zero(flush, whole):
    """Moments and running averages of what is dead."""

    def make():
        links = {"l": L.Linear(4, 3), "bn": L.BatchNormalization(3)}
        return Net(lambda self, x: F.sum(self.bn(self.l(x)) ** 2), **links)

    with chainer.using_config("sdbr_flush_denormals", flush):
        np.random.seed(0)
        model = sdbr.static_graph(make(), on_dynamic="raise")
        optimizer = sdbr.static_optimizer(chainer.optimizers.Adam()).setup(model)
        x = np.random.RandomState(0).randn(6, 4).astype("f")
        x[:, 0] = 0
        for k in range(4):
            if k == 1:
                model.l.W.update_rule.state["m"][:, 0] = TINY
                model.bn.avg_mean[...] = TINY
                model.l.W.array[...], model.l.b.array[...] = 0, 0
            updated(optimizer, model, whole, x)
            if k == 1:
                means = model.bn.avg_mean.copy()
    moments = model.l.W.update_rule.state["m"][:, 0]
    assert (moments == 0).all() == (flush == "auto")
    assert (means == 0).all() == (flush == "auto")
    statistics = model.schedule_manager.statistics
    assert (statistics.steps if whole else statistics.replays) == 3


def test_audits_know_of_what_is_flushed():
    """A gradient that has become zero may have been multiplied by large numbers since."""

    def forward(self, x):
        return F.sum(x * 1e4 * 1e-9 * 1e-9 * 1e-9 * 1e-9 * 1e-5)

    model = sdbr.static_graph(Net(forward), on_dynamic="raise")
    x = np.ones((3, 4), "f")
    with chainer.using_config("sdbr_audit", 1e9):
        for _ in range(4):
            v = chainer.Variable(x)
            model(v).backward()
    audits = model.schedule_manager.audits
    assert (audits.passed, audits.failed, audits.gradients) == (3, 0, 3)
    with chainer.using_config("sdbr_audit", "off"):
        v = chainer.Variable(x)
        model(v).backward()
    assert not v.grad.any()  # 1e-37 in define-by-run
    assert model.schedule_manager.statistics.replays == 4


def test_flush_denormals_takes_a_bool():
    model = sdbr.static_graph(Net(lambda self, x: x * 2))
    x = chainer.Variable(np.ones(3, "f"))
    wrong = pytest.raises(sdbr.BackendError, match="expected True, False or 'auto', got 'yes'")
    with wrong, chainer.using_config("sdbr_flush_denormals", "yes"):
        model(x)
    model(x)


@pytest.mark.parametrize("text, setting", [("0", False), ("1", True), ("", "auto")])
def test_flush_denormals_from_the_environment(text, setting):
    code = "import sdbr, chainer; print(repr(chainer.config.sdbr_flush_denormals))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "SDBR_FLUSH_DENORMALS": text},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert done.stdout.strip() == repr(setting)
