"""What building takes grows with the network and not faster: counted in lines, not in time."""

from __future__ import annotations

import sys
from pathlib import Path

import sdbr
import sdbr.program

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.models import Net
from tests.harness.unwatched import traced_all_the_same

LIBRARY = str(Path(sdbr.__file__).parent)


def lines(call) -> int:
    """How many the library's own Python functions run in a call; one of a loop at each turn."""
    n = 0

    def inside(frame, event, arg):
        nonlocal n
        n += event == "line"
        return inside

    def enter(frame, event, arg):
        return inside if frame.f_code.co_filename.startswith(LIBRARY) else None

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        with traced_all_the_same():
            call()
    finally:
        sys.settrace(before)
    return n


def mlp(n):
    links = {f"l{i}": L.Linear(4, 4) for i in range(n)}

    def forward(net, x, t):
        for name in links:
            x = F.relu(net[name](x))
        return F.softmax_cross_entropy(x, t)

    return Net(forward, **links), (np.ones((2, 4), "f"), np.zeros(2, "i"))


def unrolled(n_layers):
    """LSTMs on one another, with a loss at each step."""

    def make(n):
        cells = {f"rnn{i}": L.LSTM(3, 3) for i in range(n_layers)}

        def forward(net, xs, ts):
            loss = 0
            for name in cells:
                net[name].reset_state()
            for t in range(n):
                h = xs[t]
                for name in cells:
                    h = net[name](h)
                loss += F.softmax_cross_entropy(net.out(h), ts[t])
            return loss

        return Net(forward, out=L.Linear(3, 3), **cells), (
            np.ones((n, 2, 3), "f"),
            np.zeros((n, 2), "i"),
        )

    return make


def translation(n):
    """An LSTM that reads, and one that goes on from its state."""

    def forward(net, xs, ys):
        net.reads.reset_state()
        for t in range(n):
            net.reads(net.embed(xs[t]))
        net.writes.set_state(net.reads.c, net.reads.h)
        loss = 0
        for t in range(n - 1):
            loss += F.softmax_cross_entropy(net.out(net.writes(net.embed(ys[t]))), ys[t + 1])
        return loss

    links = {"embed": L.EmbedID(5, 3), "reads": L.LSTM(3, 3), "writes": L.LSTM(3, 3)}
    words = np.zeros((n, 2), "i")
    return Net(forward, out=L.Linear(3, 5), **links), (words, words)


def factors(n):
    """The same function of the same array, with another number each time."""

    def forward(net, x, t):
        h = net.out(x)
        loss = F.softmax_cross_entropy(h, t)
        for i in range(n):
            loss += F.sum(h * (2.0 + i))
        return loss

    return Net(forward, out=L.Linear(4, 4)), (np.ones((2, 4), "f"), np.zeros(2, "i"))


@pytest.mark.parametrize(
    ("make", "whole"),
    [
        pytest.param(factors, True, id="factors"),
        pytest.param(mlp, True, id="mlp"),
        pytest.param(unrolled(1), False, id="lstm in parts"),
        pytest.param(unrolled(2), True, id="two lstms"),
        pytest.param(translation, True, id="translation"),
    ],
)
def test_work_grows_with_the_network(make, whole):
    """Twice as many steps or layers are twice as much work; the cost of any program is left out."""
    counts = []
    for n in (8, 8, 16, 32):  # the very first one fills what is looked up once in a process
        net, batch = make(n)
        model = sdbr.static_graph(net, on_dynamic="raise")
        optimizer = chainer.optimizers.SGD().setup(model)
        if whole:
            optimizer = sdbr.static_optimizer(optimizer)

        def step(model=model, optimizer=optimizer, batch=batch):
            optimizer.update(model, *batch)

        step()
        counts.append(lines(step))
        assert model.schedule_manager.statistics.replays == 1
    first, second = np.diff(counts[1:])
    assert second <= 2 * 1.05 * first, counts
