"""The updater of Chainer's DCGAN example, convolutional: each step of both networks is native."""

from __future__ import annotations

import chainer
import numpy as np
from chainer import functions as F
from chainer import optimizers, training
from chainer.optimizer_hooks import WeightDecay

from tests.harness.training import Loop, compare
from tests.networks.generators import Discriminator, Generator

BATCH, STEPS = 4, 8


class DCGANUpdater(training.updaters.StandardUpdater):
    """As in the example."""

    def __init__(self, models, **kwargs):
        self.gen, self.dis = models
        super().__init__(**kwargs)

    def loss_dis(self, dis, y_fake, y_real):
        n = len(y_fake)
        loss = F.sum(F.softplus(-y_real)) / n + F.sum(F.softplus(y_fake)) / n
        chainer.report({"loss": loss}, dis)
        return loss

    def loss_gen(self, gen, y_fake):
        loss = F.sum(F.softplus(-y_fake)) / len(y_fake)
        chainer.report({"loss": loss}, gen)
        return loss

    def update_core(self):
        gen_optimizer, dis_optimizer = self.get_optimizer("gen"), self.get_optimizer("dis")
        batch = self.get_iterator("main").next()
        x_real = chainer.Variable(self.converter(batch, self.device)) / 255.0
        xp = chainer.backend.get_array_module(x_real.array)
        y_real = self.dis(x_real)
        z = chainer.Variable(xp.asarray(np.random.uniform(-1, 1, (len(batch), 6)).astype("d")))
        x_fake = self.gen(z)
        y_fake = self.dis(x_fake)
        dis_optimizer.update(self.loss_dis, self.dis, y_fake, y_real)
        gen_optimizer.update(self.loss_gen, self.gen, y_fake)


def updates(loop: Loop):
    """In double precision: behind so many batch normalizations float32 rounds otherwise by much."""
    with chainer.using_config("dtype", np.float64):
        gen, dis = loop.static(Generator()), loop.static(Discriminator())
    of = {}
    for name, model in (("gen", gen), ("dis", dis)):
        of[name] = loop.optimizer(optimizers.Adam(2e-4, beta1=0.5), model)
        of[name].add_hook(WeightDecay(1e-4))
    data = 255 * np.random.RandomState(5).rand(12, 3, 16, 16)
    iterator = chainer.iterators.SerialIterator(data, BATCH, shuffle=False)
    updater = DCGANUpdater((gen, dis), iterator=iterator, optimizer=of)
    reporter = chainer.Reporter()
    reporter.add_observer("gen", gen)
    reporter.add_observer("dis", dis)
    while True:
        observation: dict = {}
        with reporter.scope(observation):
            updater.update()
        assert set(observation) == {"gen/loss", "dis/loss"}
        if loop.is_static and updater.iteration == STEPS:
            for optimizer in of.values():
                counts = optimizer.update_statistics
                assert counts.native_calls == STEPS - counts.traced_updates
                assert counts.mixed_updates == counts.python_updates == 0
        yield observation


def test_every_step_of_both_networks_is_native():
    counts = compare(updates, STEPS)
    # Of the discriminator both calls of an iteration are served by one schedule.
    assert counts["traces"] == 2 and counts["replays"] == 3 * STEPS - 2
    assert counts["define_by_run_calls"] == counts["python_ops"] == 0
    # Two backwards go through y_fake: that of the generator's loss through both networks.
    assert counts["compiled_backwards"] >= 4 * (STEPS - 2)
