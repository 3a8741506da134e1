"""trainer_digits: the case through Chainer's own training loop."""

from __future__ import annotations

import tempfile

from sdbr.training import StandardUpdater

import chainer
import chainer.links as L
import numpy as np
from chainer import training
from chainer.training import extensions

from benchmarks.cases.base import Case
from benchmarks.peers.chainer_peer import ChainerRunner


class Trained(ChainerRunner):
    """n iterations of a Trainer with StandardUpdater and LogReport over L.Classifier."""

    def __init__(self, case: Case, style: str):
        super().__init__(case, style)
        model = self.static(L.Classifier(self.network(case.weights())))
        self.with_optimizer(chainer.optimizers.Adam(), model)
        x = case.inputs().reshape(-1, case.sizes[0])
        self.dataset = chainer.datasets.TupleDataset(x, case.labels().ravel())
        fed = case.name == "trainer_fed" and style.startswith("sdbr")
        self.updater = StandardUpdater if fed else training.StandardUpdater
        self.directory = tempfile.TemporaryDirectory()

    def trainer(self, n: int) -> training.Trainer:
        """Return a new trainer: one cannot be run twice."""
        iterator = chainer.iterators.SerialIterator(self.dataset, self.case.batch)
        updater = self.updater(iterator, self.optimizer)
        trainer = training.Trainer(updater, (n, "iteration"), self.directory.name)
        trainer.extend(extensions.LogReport(trigger=(1, "epoch")))
        return trainer

    def run(self, part: str, n: int) -> None:
        self.trainer(n).run()

    def check(self, part: str) -> list[float]:
        self.reset()
        np.random.seed(self.case.seed)
        losses = []
        trainer = self.trainer(self.case.check_steps)
        trainer.extend(
            lambda trainer: losses.append(float(trainer.observation["main/loss"].array)),
            name="losses",
            trigger=(1, "iteration"),
        )
        trainer.run()
        return losses
