"""Stateful links step by step: one static call per step, gradients through all of them."""

from __future__ import annotations

import sdbr

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np
import pytest

from tests.harness.comparison import copy_of, state_of
from tests.tolerances import SUMS

from .harness import assert_near, random_state

LINKS = {
    "LSTM": lambda: L.LSTM(3, 4),
    "LSTM of unknown size": lambda: L.LSTM(4),
    "StatefulGRU": lambda: L.StatefulGRU(3, 4),
    "GRU": lambda: L.GRU(3, 4),
    "StatefulPeepholeLSTM": lambda: L.StatefulPeepholeLSTM(3, 4),
    "StatefulMGU": lambda: L.StatefulMGU(3, 4),
    "StatefulZoneoutLSTM": lambda: L.StatefulZoneoutLSTM(3, 4),
}
STEPS = 4
SEQUENCES = 5


class Net(chainer.Chain):
    def __init__(self, make):
        super().__init__()
        with self.init_scope():
            self.rnn = make()
            self.out = L.Linear(4, 2)

    def forward(self, x):
        return self.out(self.rnn(x))


def make_net(name, static):
    np.random.seed(5)
    net = Net(LINKS[name])
    return sdbr.static_graph(net, on_dynamic="raise") if static else net


def sequences(rng):
    return [chainer.Variable(rng.standard_normal((3, 3)).astype("f")) for _ in range(STEPS)]


def remember(net, loss, xs) -> dict:
    found = {f"grad {n}": copy_of(p.grad) for n, p in sorted(net.namedparams())}
    found.update({f"x{i}": copy_of(x.grad) for i, x in enumerate(xs)})
    found.update(state_of(net))
    found["loss"] = copy_of(loss.array)
    return found


def from_the_beginning(net, rng):
    """A new state for each sequence; one backward through all its steps."""
    optimizer = chainer.optimizers.SGD(0.05).setup(net)
    for _ in range(SEQUENCES):
        net.rnn.reset_state()
        xs = sequences(rng)
        loss = sum(F.sum(net(x) ** 2) for x in xs)
        net.cleargrads()
        loss.backward()
        yield remember(net, loss, xs)
        optimizer.update()


def truncated(net, rng):
    """The state goes on from sequence to sequence, its history does not."""
    optimizer = chainer.optimizers.SGD(0.05).setup(net)
    net.rnn.reset_state()
    for _ in range(SEQUENCES):
        xs = sequences(rng)
        loss = sum(F.sum(net(x) ** 2) for x in xs)
        net.cleargrads()
        loss.backward()
        loss.unchain_backward()
        yield remember(net, loss, xs)
        optimizer.update()


def set_by_hand(net, rng):
    """The state comes from outside, with a gradient of its own."""
    net.rnn.reset_state()
    for _ in range(SEQUENCES):
        states = [chainer.Variable(rng.standard_normal((3, 4)).astype("f")) for _ in "hc"]
        for name, state in zip("hc", states, strict=True):
            if hasattr(net.rnn, name):
                setattr(net.rnn, name, state)
        xs = sequences(rng)
        loss = sum(F.sum(net(x) ** 2) for x in xs)
        net.cleargrads()
        loss.backward()
        yield remember(net, loss, [*xs, *states])


def in_test_mode(net, rng):
    with chainer.using_config("train", False), chainer.no_backprop_mode():
        for i in range(SEQUENCES):
            if i % 2 == 0:
                net.rnn.reset_state()
            xs = sequences(rng)
            loss = sum(F.sum(net(x) ** 2) for x in xs)
            yield remember(net, loss, xs)


WAYS = (from_the_beginning, truncated, set_by_hand, in_test_mode)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", LINKS)
def test_step_by_step(name, way):
    found, random = {}, {}
    for static in (False, True):
        net = make_net(name, static)
        found[static] = list(way(net, np.random.default_rng(1)))
        random[static] = random_state()
    assert random[True] == random[False]
    for i, (got, want) in enumerate(zip(found[True], found[False], strict=True)):
        assert list(got) == list(want)
        for part in want:
            assert_near(got[part], want[part], SUMS, f"sequence {i}: {part}")
    statistics = net.schedule_manager.statistics
    assert statistics.define_by_run_calls == 0
    # Traced: the first step (no state yet) and the second; the first again if sizes were unknown.
    assert statistics.traces <= 3
    assert statistics.replays == SEQUENCES * STEPS - statistics.traces
