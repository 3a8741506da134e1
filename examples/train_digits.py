"""Train a digit classifier with a static step: the ten lines that matter, on real data.

python examples/train_digits.py
"""

import sdbr  # first: makes Chainer importable

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np
from sklearn.datasets import load_digits


class MLP(chainer.Chain):
    """Two hidden layers, written as for any Chainer."""

    def __init__(self, n_units: int, n_out: int):
        super().__init__()
        with self.init_scope():
            self.l1 = L.Linear(None, n_units)
            self.l2 = L.Linear(None, n_units)
            self.l3 = L.Linear(None, n_out)

    def forward(self, x):
        return self.l3(F.relu(self.l2(F.relu(self.l1(x)))))


def main() -> None:
    """Train for 30 epochs and print the test accuracy."""
    x, t = load_digits(return_X_y=True)
    x, t = (x / 16).astype(np.float32), t.astype(np.int32)
    np.random.seed(0)
    order = np.random.permutation(len(x))
    train, test = order[360:], order[:360]

    # The largest static piece, loss included; with the optimizer it is one native call per step.
    model = sdbr.static_graph(L.Classifier(MLP(128, 10)))
    optimizer = sdbr.static_optimizer(chainer.optimizers.Adam())
    optimizer.setup(model)

    for epoch in range(1, 31):
        np.random.shuffle(train)
        losses = []
        for i in range(0, len(train) - 63, 64):
            batch = train[i : i + 64]
            optimizer.update(model, x[batch], t[batch])
            losses.append(float(model.loss.array))
        if epoch % 10 == 0:
            print(f"epoch {epoch}: loss {np.mean(losses):.4f}")

    with chainer.using_config("train", False), chainer.no_backprop_mode():
        model(x[test], t[test])
    print(f"test accuracy {float(model.accuracy.array):.4f}")
    print(model.schedule_manager.statistics)


if __name__ == "__main__":
    main()
