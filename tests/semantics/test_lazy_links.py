"""Row 5: links that get their shapes in the first call write their parameters then only."""

import sdbr

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np
import pytest

from tests.tolerances import RESULTS


class Net(chainer.Chain):
    def __init__(self, link):
        super().__init__()
        with self.init_scope():
            self.link = link()
            self.out = L.Linear(None, 2)

    def forward(self, x):
        if hasattr(self.link, "reset_state"):
            self.link.reset_state()
        return F.sum(self.out(self.link(x)) ** 2)


LINKS = {
    "Linear": lambda: L.Linear(None, 4),
    "LSTM": lambda: L.LSTM(None, 4),
    "BatchNormalization": lambda: L.BatchNormalization(axis=0),
    "StatefulPeepholeLSTM": lambda: L.StatefulPeepholeLSTM(5, 4),
    "StatefulZoneoutLSTM": lambda: L.StatefulZoneoutLSTM(5, 4),
    "GRU": lambda: L.StatefulGRU(5, 4),
    "LayerNormalization": lambda: L.LayerNormalization(),
    "Maxout": lambda: L.Maxout(None, 4, 2),
}


@pytest.mark.parametrize("name", LINKS)
def test_first_call_initialises_and_later_ones_replay(name):
    results = []
    for static in (False, True):
        np.random.seed(0)
        net = Net(LINKS[name])
        if static:
            net = sdbr.static_graph(net, on_dynamic="raise")
        optimizer = chainer.optimizers.SGD(0.01).setup(net)
        found = []
        for i in range(6):
            loss = net(np.random.RandomState(i).randn(3, 5).astype("f"))
            net.cleargrads()
            loss.backward()
            optimizer.update()
            found.append(float(loss.array))
        results.append(found)
    np.testing.assert_allclose(results[1], results[0], rtol=RESULTS)
    assert net.schedule_manager.statistics.replays >= 4
