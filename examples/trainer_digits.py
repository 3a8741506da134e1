"""The same network under Chainer's Trainer: nothing but the two decorated lines is different.

python examples/trainer_digits.py
"""

import tempfile

import sdbr  # first: makes Chainer importable

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np
from chainer import training
from chainer.training import extensions
from sklearn.datasets import load_digits


def main() -> None:
    """Train for 20 epochs, with evaluation and a report after each fifth."""
    x, t = load_digits(return_X_y=True)
    np.random.seed(0)
    pairs = chainer.datasets.TupleDataset((x / 16).astype(np.float32), t.astype(np.int32))
    train, test = chainer.datasets.split_dataset_random(pairs, len(x) - 360, seed=0)
    train_batches = chainer.iterators.SerialIterator(train, 64)
    test_batches = chainer.iterators.SerialIterator(test, 120, repeat=False, shuffle=False)

    network = chainer.Sequential(L.Linear(None, 128), F.relu, L.Linear(None, 10))
    model = sdbr.static_graph(L.Classifier(network))
    optimizer = sdbr.static_optimizer(chainer.optimizers.Adam())
    optimizer.setup(model)

    with tempfile.TemporaryDirectory() as out:
        updater = training.StandardUpdater(train_batches, optimizer)
        trainer = training.Trainer(updater, (20, "epoch"), out)
        trainer.extend(extensions.Evaluator(test_batches, model), trigger=(5, "epoch"))
        trainer.extend(extensions.LogReport(trigger=(5, "epoch")))
        columns = ["epoch", "main/loss", "main/accuracy", "validation/main/accuracy"]
        trainer.extend(extensions.PrintReport(columns), trigger=(5, "epoch"))
        trainer.run()
    print(model.schedule_manager.statistics)


if __name__ == "__main__":
    main()
