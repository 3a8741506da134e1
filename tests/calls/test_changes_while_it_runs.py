"""What the code of a call does to its link, its schedules and itself while it runs."""

from __future__ import annotations

import gc
import weakref

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.comparison import BACKENDS, assert_near, copy_of
from tests.harness.models import Net
from tests.harness.twins import POINTS
from tests.tolerances import RESULTS


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
        kept[0](POINTS)
    doomed = True
    loss = kept[0](POINTS)
    want = (np.maximum(POINTS @ weight.T + bias, 0) * 2).sum()
    assert_near(loss.array, np.array(want, "f"), RESULTS, "loss")
    loss.backward()
    del loss
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_child_removed_by_code_of_the_call(backend):
    """The very call raises, and the next, as define-by-run does."""

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
    want = copy_of(static(POINTS).array)
    static(POINTS)
    link, doomed = static.l2, True
    with pytest.raises(AttributeError, match="l2"), pytest.warns(sdbr.SdbrWarning, match="'l2'"):
        static(POINTS)
    doomed = False
    with pytest.raises(AttributeError, match="l2"):
        static(POINTS)
    with static.init_scope():
        static.l2 = link
    for _ in range(3):
        assert_near(static(POINTS).array, want, RESULTS, "output")


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
        x = chainer.Variable(POINTS)
        y = static(x)
        y.backward()
        assert_near(y.array, np.array((np.maximum(POINTS, 0) * 2).sum(), "f"), RESULTS, "loss")
        assert_near(x.grad, np.where(POINTS > 0, np.float32(2), np.float32(0)), RESULTS, "gradient")
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
    want = float(np.tanh(POINTS).sum())
    static(POINTS)
    for _ in range(3):
        depth[:] = [0]
        seen.clear()
        assert float(static(POINTS).array) == pytest.approx(want, rel=RESULTS)
        assert seen == pytest.approx([want] * 3, rel=RESULTS)
