"""Rows 3 and 4: arrays of the user are never written, and what they were given never changes."""

from __future__ import annotations

import copy
import types

import sdbr
from sdbr.call._table import Table

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.comparison import BACKENDS, copy_of, gradients_of
from tests.harness.models import Net
from tests.harness.twins import SIX, both, mlp, pair
from tests.tolerances import RESULTS


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
                h, s, double = static(SIX[i % 6] + i)
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
        x = chainer.Variable(SIX[i % 6] + i)
        y = static(x)
        static.cleargrads()
        F.sum(y * y).backward()
        keeper.keep(x.grad, static.l1.W.grad, static.l2.W.grad[1:, ::3], static.l3.b.grad_var)
        (g,) = chainer.grad([static(x)], [x], [chainer.Variable(y.array)])
        keeper.keep(g)
    keeper.check()


def test_an_array_kept_from_the_compiled_path_survives_a_call_on_the_slower_one():
    """Both ways bind outputs of one instance; neither may take what the user still holds."""
    static = sdbr.static_graph(lambda x, scale=None: F.tanh(x))
    fast = [chainer.Variable(np.full((3, 2), i, "f")) for i in range(8)]
    for x in fast[:3]:
        static(x)
    manager = static.schedule_manager
    for i, x in enumerate(fast[3:]):
        kept = static(x).array  # the graph is gone, the array is not
        runners, manager.runners = manager.runners, Table()
        other = static(fast[i]).array
        manager.runners = runners
        static(fast[i])
        static(fast[0])
        np.testing.assert_allclose(kept, np.tanh(x.array), rtol=RESULTS)
        np.testing.assert_allclose(other, np.tanh(fast[i].array), rtol=RESULTS)
    assert manager.statistics.traces == 1


V = chainer.Variable
#: Two things of which the second shows a copy of what the first does, or a view.
PAIRS = {
    "copy": lambda h: (h, h.array.copy()),
    "copy before": lambda h: (h.array.copy(), h),
    "copies": lambda h: (h.array.copy(), h.array.copy()),
    "astype": lambda h: (h, h.array.astype("f")),
    "np.array": lambda h: (h, np.array(h.array)),
    "Variable of a copy": lambda h: (h, V(h.array.copy())),
    "deepcopy": lambda h: (h, copy.deepcopy(h)),
    "copy of another shape": lambda h: (h, h.array.reshape(-1).copy()),
    "same": lambda h: (h, h.array),
    "Variable of the same": lambda h: (V(h.array), h),
    "view": lambda h: (h, h.array.reshape(-1)),
    "asarray": lambda h: (h, np.asarray(h.array)),
}


def kept_in_a_link(net, pair):
    net.kept, result = pair
    return result


def kept_in_a_list(net, pair):
    net.kept = [pair[0]]
    return pair[1]


def kept_outside(net, pair):
    net.outside.kept, result = pair
    return result


PLACES = {
    "results": lambda net, pair: pair,
    "a link": kept_in_a_link,
    "a list": kept_in_a_list,
    "an object": kept_outside,
}


def share(net, result, place):
    kept = {"a link": net.kept, "a list": net.kept, "an object": net.outside.kept}.get(place)
    one, other = result if kept is None else (kept[0] if place == "a list" else kept, result)
    return np.shares_memory(getattr(one, "array", one), getattr(other, "array", other))


@pytest.mark.parametrize("backprop", [True, False])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", PAIRS)
def test_a_copy_has_memory_of_its_own(name, place, backprop):
    """Whoever writes to one of the two changes the other where define-by-run does."""

    def make():
        net = Net(
            lambda self, x: PLACES[place](self, PAIRS[name](F.tanh(self.l(x)))), l=L.Linear(4, 3)
        )
        net.kept, net.outside = None, types.SimpleNamespace(kept=None)
        return net

    plain, static = make(), sdbr.static_graph(make())
    with chainer.using_config("enable_backprop", backprop):
        for _ in range(4):
            got, want = static(V(SIX[0])), plain(V(SIX[0]))
            assert share(static, got, place) == share(plain, want, place)
    assert static.schedule_manager.statistics.replays >= 2
