"""Chainer's Trainer with a static step: extensions, reports and evaluation as ever.

    python examples/trainer_digits.py [--explain]

Look at what differs from any Chainer script: two decorated lines, and the updater. Extensions see
iterations as before; the Evaluator calls the same static model in another mode, which is another
schedule. `sdbr.training.StandardUpdater` takes batches from arrays by index, as `updater.feed`
says; Chainer's own works as well. Times are those of whole iterations, the Trainer included:
for small networks it is what is left.
"""

import tempfile

import sdbr  # first: makes Chainer importable
from sdbr.training import StandardUpdater

import chainer
import chainer.functions as F
import chainer.links as L
import common
from chainer import training
from chainer.training import extensions


def train(steps):
    """Train; return the model and what was reported."""
    x_train, t_train, x_test, t_test = common.digits()
    train = chainer.datasets.TupleDataset(x_train.reshape(-1, 64), t_train)
    test = chainer.datasets.TupleDataset(x_test.reshape(-1, 64), t_test)

    network = chainer.Sequential(L.Linear(64, 128), F.relu, L.Linear(128, 128), F.relu)
    network.append(L.Linear(128, 10))
    model = sdbr.static_graph(L.Classifier(network))
    optimizer = sdbr.static_optimizer(chainer.optimizers.Adam()).setup(model)

    updater = StandardUpdater(chainer.iterators.SerialIterator(train, 64), optimizer)
    evaluation = chainer.iterators.SerialIterator(test, 120, repeat=False, shuffle=False)
    with tempfile.TemporaryDirectory() as out:
        trainer = training.Trainer(updater, (len(steps), "iteration"), out)
        trainer.extend(extensions.Evaluator(evaluation, model), trigger=(5, "epoch"))
        trainer.extend(extensions.LogReport(trigger=(5, "epoch")))
        columns = ["epoch", "main/loss", "main/accuracy", "validation/main/accuracy"]
        trainer.extend(extensions.PrintReport(columns), trigger=(5, "epoch"))
        trainer.extend(extensions.ProgressBar(update_interval=200))
        trainer.extend(lambda trainer: steps.count(trainer), trigger=(1, "iteration"))
        trainer.run()
        log = trainer.get_extension("LogReport").log
    steps.say(updater.feed)
    return model, log


def draw(axes, trained):
    """Accuracies."""
    log = trained[-1]
    for name in ("main/accuracy", "validation/main/accuracy"):
        axes.plot([x["epoch"] for x in log], [x[name] for x in log], label=name)
    axes.set(xlabel="epoch", ylim=(0.9, 1.005))
    axes.legend(loc="lower right")


if __name__ == "__main__":
    common.main(train, draw, steps=2300, plain=460, quick=46)
