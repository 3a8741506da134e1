"""A DCGAN of digits, under Chainer's Trainer, with the updater that one writes for it.

    python examples/dcgan_digits.py [--explain]

Look at what is decorated: the networks and the optimizers. The updater knows nothing of it: three
calls of networks, their backwards and two updates are native, each by itself, and only the losses
between them are Chainer's. No step is whole, and ``--explain`` says why: made images are judged
once, and "several losses go back through one call". Where that matters, give each network a static
loss of its own, as `wgan_gp_digits.py` does.

A GAN carries rounding far: after some hundred steps losses in float32 are others than those of
plain Chainer, as they are when one weight is another in its last bit.
"""

import tempfile

import sdbr  # first: makes Chainer importable

import chainer
import chainer.functions as F
import chainer.links as L
import common
import numpy as np
from chainer import training
from chainer.training import extensions

N_LATENT = 16


class Generator(chainer.Chain):
    """Latent vectors to images of 8 by 8: a map of 2 by 2, doubled twice."""

    def __init__(self, n_maps: int = 16):
        super().__init__()
        self.shape = (2 * n_maps, 2, 2)
        with self.init_scope():
            self.l0 = L.Linear(N_LATENT, 8 * n_maps, nobias=True)
            self.bn0 = L.BatchNormalization(8 * n_maps)
            self.dc1 = L.Deconvolution2D(2 * n_maps, n_maps, 4, 2, 1, nobias=True)
            self.bn1 = L.BatchNormalization(n_maps)
            self.dc2 = L.Deconvolution2D(n_maps, 1, 4, 2, 1)

    def forward(self, z):
        h = F.reshape(F.relu(self.bn0(self.l0(z))), (len(z), *self.shape))
        return F.sigmoid(self.dc2(F.relu(self.bn1(self.dc1(h)))))


class Discriminator(chainer.Chain):
    """Images to a number: how real each is."""

    def __init__(self, n_maps: int = 16):
        super().__init__()
        with self.init_scope():
            self.c0 = L.Convolution2D(1, n_maps, 3, 1, 1)
            self.c1 = L.Convolution2D(n_maps, 2 * n_maps, 4, 2, 1, nobias=True)
            self.bn1 = L.BatchNormalization(2 * n_maps)
            self.c2 = L.Convolution2D(2 * n_maps, 2 * n_maps, 4, 2, 1, nobias=True)
            self.bn2 = L.BatchNormalization(2 * n_maps)
            self.out = L.Linear(8 * n_maps, 1)

    def forward(self, x):
        h = F.leaky_relu(self.c0(x))
        h = F.leaky_relu(self.bn1(self.c1(h)))
        return self.out(F.leaky_relu(self.bn2(self.c2(h))))


def latent(n: int) -> np.ndarray:
    return np.random.uniform(-1, 1, (n, N_LATENT)).astype(chainer.get_dtype())


class Updater(training.updaters.StandardUpdater):
    """One step of each network, for one batch."""

    def __init__(self, gen: Generator, dis: Discriminator, **kwargs):
        super().__init__(**kwargs)
        self.gen, self.dis = gen, dis

    def loss_dis(self, dis, y_real, y_fake):
        loss = F.mean(F.softplus(-y_real)) + F.mean(F.softplus(y_fake))
        chainer.report({"loss": loss}, dis)
        return loss

    def loss_gen(self, gen, y_fake):
        loss = F.mean(F.softplus(-y_fake))
        chainer.report({"loss": loss}, gen)
        return loss

    def update_core(self):
        batch = self.get_iterator("main").next()
        y_real = self.dis(self.converter(batch, self.device))
        x_fake = self.gen(latent(len(batch)))
        y_fake = self.dis(x_fake)
        self.get_optimizer("dis").update(self.loss_dis, self.dis, y_real, y_fake)
        self.get_optimizer("gen").update(self.loss_gen, self.gen, y_fake)


def train(steps):
    """Train; return both networks, and images: real ones, made ones."""
    images = common.digits()[0]
    gen, dis = sdbr.static_graph(Generator()), sdbr.static_graph(Discriminator())
    optimizers = {}
    for name, model in (("gen", gen), ("dis", dis)):
        adam = sdbr.static_optimizer(chainer.optimizers.Adam(3e-4, beta1=0.5))
        optimizers[name] = adam.setup(model)
        optimizers[name].add_hook(chainer.optimizer_hooks.WeightDecay(1e-4))

    iterator = chainer.iterators.SerialIterator(images, 64)
    updater = Updater(gen, dis, iterator=iterator, optimizer=optimizers)
    with tempfile.TemporaryDirectory() as out:
        trainer = training.Trainer(updater, (len(steps), "iteration"), out)
        trainer.extend(extensions.LogReport(trigger=(20, "epoch")))
        columns = ["epoch", "gen/loss", "dis/loss"]
        trainer.extend(extensions.PrintReport(columns), trigger=(20, "epoch"))
        trainer.extend(extensions.ProgressBar(update_interval=100))
        trainer.extend(lambda trainer: steps.count(trainer, "gen/loss"), trigger=(1, "iteration"))
        trainer.run()

    with chainer.using_config("train", False), chainer.no_backprop_mode():
        made = gen(latent(60)).array
    return gen, dis, images[:20], made


def draw(axes, trained):
    """Two rows of digits, six of made ones."""
    *_, real, made = trained
    common.show_tiles(axes, np.concatenate([real, made]), 10, "2 rows of digits, 6 of made ones")


if __name__ == "__main__":
    common.main(train, draw, steps=3000, plain=100, quick=12)
