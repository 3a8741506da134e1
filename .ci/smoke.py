"""Smoke test of an installed sdbr: import it, train a small chain statically, ask the doctor."""

import subprocess
import sys
from pathlib import Path

import sdbr

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np


class Net(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l1 = L.Linear(3, 8)
            self.l2 = L.Linear(8, 2)

    @sdbr.static_graph
    def forward(self, x, t):
        return F.softmax_cross_entropy(self.l2(F.relu(self.l1(x))), t)


def train(backend):
    """Five steps; returns the losses and how often the chain was replayed."""
    np.random.seed(0)
    net = Net()
    optimizer = sdbr.static_optimizer(chainer.optimizers.Adam()).setup(net)
    rng = np.random.default_rng(1)
    losses = []
    with chainer.using_config("sdbr_backend", backend):
        for _ in range(5):
            x = rng.standard_normal((4, 3)).astype(np.float32)
            t = rng.integers(0, 2, 4).astype(np.int32)
            loss = net(x, t)
            net.cleargrads()
            loss.backward()
            optimizer.update()
            losses.append(float(loss.array))
    return losses, net.schedule_manager.statistics.replays


def main():
    source = Path(__file__).resolve().parent.parent
    package = Path(sdbr.__file__).resolve()
    assert source not in package.parents, f"{package} is the source tree, not an installation"
    reference, _ = train("off")
    losses, replays = train("auto")
    assert replays == 4, f"{replays} of 4 calls were replays"
    np.testing.assert_allclose(losses, reference, rtol=1e-5)
    subprocess.run([sys.executable, "-m", "sdbr", "doctor"], check=True)
    print(f"smoke test passed: {package.parent}")


if __name__ == "__main__":
    main()
