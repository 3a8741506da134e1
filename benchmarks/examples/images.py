"""Classifiers, an autoencoder that samples, adversarial networks."""

from __future__ import annotations

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np
from chainer import optimizers

from benchmarks.examples.example import BOTH, Example, Static, updates


def images(n: int, *shape: int):
    """Batches of random images and labels."""
    rng = np.random.RandomState(1)
    return lambda: (rng.rand(n, *shape).astype("f"), rng.randint(0, 10, n).astype("i"))


class MLP(chainer.Chain):
    def __init__(self, n_units: int, n_out: int):
        super().__init__()
        with self.init_scope():
            self.l1 = L.Linear(None, n_units)
            self.l2 = L.Linear(n_units, n_units)
            self.l3 = L.Linear(n_units, n_out)

    def forward(self, x):
        return self.l3(F.relu(self.l2(F.relu(self.l1(x)))))


class Layers(chainer.ChainList):
    """Links and functions one after another."""

    def __init__(self, *steps):
        super().__init__(*[s for s in steps if isinstance(s, chainer.Link)])
        self.steps = steps

    def forward(self, x):
        for step in self.steps:
            x = step(x)
        return x


def predictor_only(make, data):
    """Chainer's static examples: the predictor is static, loss and update are Chainer's."""

    def prepare(static: Static):
        batch = images(*data)
        model = L.Classifier(static(make()))
        optimizer = optimizers.Adam().setup(model)
        return (lambda: optimizer.update(model, *batch())), [model]

    return prepare


def classifier(make, data, rule=optimizers.Adam):
    return lambda static: updates(static, L.Classifier(make()), rule(), images(*data))


def pooled(x):
    return F.max_pooling_2d(x, 2)


def block(n: int) -> Layers:
    return Layers(L.Convolution2D(None, n, 3, pad=1, nobias=True), L.BatchNormalization(n), F.relu)


def vgg() -> Layers:
    """Blocks of convolutions with batch normalization, and dropout."""
    steps: list = []
    for n in (32, 64, 128):
        steps += [block(n), lambda x: F.dropout(x, 0.3), block(n), pooled]
    return Layers(*steps, L.Linear(None, 128), F.relu, F.dropout, L.Linear(128, 10))


def alex() -> Layers:
    """Local response normalization, overlapping pools, two wide layers with dropout."""

    def pool(x):
        return F.max_pooling_2d(F.local_response_normalization(x), 3, 2)

    return Layers(
        L.Convolution2D(None, 48, 11, 4), F.relu, pool, L.Convolution2D(None, 96, 5, pad=2), F.relu,
        pool, L.Convolution2D(None, 96, 3, pad=1), F.relu, L.Linear(None, 512), F.relu, F.dropout,
        L.Linear(512, 512), F.relu, F.dropout, L.Linear(512, 10),
    )  # fmt: skip


def network_in_network() -> Layers:
    def mlp(n, size, stride=1, pad=0):
        return L.MLPConvolution2D(None, (n, n, n), size, stride, pad)

    return Layers(
        mlp(48, 11, 4), F.relu, pooled, mlp(96, 5, pad=2), F.relu, pooled, F.dropout,
        mlp(10, 3, pad=1), lambda x: F.reshape(F.average_pooling_2d(x, x.shape[2:]), (-1, 10)),
    )  # fmt: skip


def inceptions() -> Layers:
    return Layers(
        L.Convolution2D(None, 32, 7, 2, 3), F.relu, pooled,
        L.Inception(None, 16, 16, 32, 8, 16, 16), L.Inception(None, 32, 32, 48, 8, 24, 16), pooled,
        L.Inception(None, 32, 32, 64, 8, 24, 24),
        lambda x: F.average_pooling_2d(x, x.shape[2:]), F.dropout, L.Linear(None, 10),
    )  # fmt: skip


class Residual(chainer.Chain):
    def __init__(self, n: int, stride: int = 1):
        super().__init__()
        with self.init_scope():
            self.one = L.Convolution2D(None, n // 4, 1, stride, nobias=True)
            self.bn_one = L.BatchNormalization(n // 4)
            self.two = L.Convolution2D(None, n // 4, 3, 1, 1, nobias=True)
            self.bn_two = L.BatchNormalization(n // 4)
            self.three = L.Convolution2D(None, n, 1, nobias=True)
            self.bn_three = L.BatchNormalization(n)
            self.past = L.Convolution2D(None, n, 1, stride, nobias=True)

    def forward(self, x):
        h = F.relu(self.bn_one(self.one(x)))
        h = F.relu(self.bn_two(self.two(h)))
        return F.relu(self.bn_three(self.three(h)) + self.past(x))


def residuals() -> Layers:
    return Layers(
        block(32), pooled, Residual(64), Residual(64), Residual(128, 2), Residual(128),
        lambda x: F.average_pooling_2d(x, x.shape[2:]), L.Linear(None, 10),
    )  # fmt: skip


class Variational(chainer.Chain):
    """The negative evidence lower bound; ``beta`` is a number that may be annealed."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.encode = L.Linear(784, 500)
            self.mean = L.Linear(500, 20)
            self.log_variance = L.Linear(500, 20)
            self.decode = L.Linear(20, 500)
            self.logit = L.Linear(500, 784)
        self.beta = 1.0

    def forward(self, x):
        h = F.tanh(self.encode(x))
        mean, log_variance = self.mean(h), self.log_variance(h)
        y = self.logit(F.tanh(self.decode(F.gaussian(mean, log_variance))))
        loss = F.bernoulli_nll(x, y) / len(x)
        loss += self.beta * F.gaussian_kl_divergence(mean, log_variance) / len(x)
        chainer.report({"loss": loss}, self)
        return loss


def vae(static: Static):
    batch = images(100, 784)
    return updates(static, Variational(), optimizers.Adam(), lambda: (batch()[0],))


def down(n: int) -> L.Convolution2D:
    """To half the size. No bias: before a batch normalization its gradient is rounding alone."""
    return L.Convolution2D(None, n, 4, 2, 1, nobias=True)


def up(n: int) -> L.Deconvolution2D:
    """To twice the size, without a bias as well."""
    return L.Deconvolution2D(None, n, 4, 2, 1, nobias=True)


def generator(n: int) -> Layers:
    first = L.Linear(None, 4 * 4 * 2 * n, nobias=True)
    return Layers(
        first, L.BatchNormalization(4 * 4 * 2 * n), F.relu,
        lambda x: F.reshape(x, (len(x), 2 * n, 4, 4)),
        up(n), L.BatchNormalization(n), F.relu, up(n // 2), L.BatchNormalization(n // 2), F.relu,
        L.Deconvolution2D(None, 3, 4, 2, 1), F.sigmoid,
    )  # fmt: skip


def noisy(x):
    return x + (0.2 * np.random.randn(*x.shape)).astype("f")


def discriminator(n: int) -> Layers:
    return Layers(
        noisy, L.Convolution2D(None, n // 2, 4, 2, 1), F.leaky_relu, noisy,
        down(n), L.BatchNormalization(n), F.leaky_relu, noisy,
        down(2 * n), L.BatchNormalization(2 * n), F.leaky_relu, L.Linear(None, 1),
    )  # fmt: skip


def dcgan(static: Static):
    """Two backwards through the same calls, one for each optimizer."""
    gen, dis = static(generator(64)), static(discriminator(64))
    rules = [optimizers.Adam(2e-4, 0.5).setup(link) for link in (dis, gen)]
    batch = images(16, 3, 32, 32)

    def step():
        real = dis(batch()[0])
        fake = dis(gen(np.random.uniform(-1, 1, (16, 100)).astype("f")))
        rules[0].update(lambda: F.mean(F.softplus(-real)) + F.mean(F.softplus(fake)))
        rules[1].update(lambda: F.mean(F.softplus(-fake)))

    return step, [gen, dis]


class Translator(chainer.Chain):
    """From image to image, with the activations of each size handed over."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.down = chainer.ChainList(*[down(32) for _ in range(3)])
            self.norm = chainer.ChainList(*[L.BatchNormalization(32) for _ in range(3)])
            self.up = chainer.ChainList(*[L.Deconvolution2D(None, 32, 4, 2, 1) for _ in range(3)])
            self.out = L.Convolution2D(None, 3, 3, 1, 1)

    def forward(self, x):
        kept = [x]
        for conv, norm in zip(self.down, self.norm, strict=True):
            kept.append(F.leaky_relu(norm(conv(kept[-1]))))
        h = kept.pop()
        for conv in self.up:
            h = F.concat((F.dropout(F.relu(conv(h))), kept.pop()))
        return self.out(h)


def pix2pix(static: Static):
    gen, dis = static(Translator()), static(discriminator(32))
    rules = [optimizers.Adam(2e-4, 0.5).setup(link) for link in (dis, gen)]
    batch = images(4, 3, 64, 64)

    def step():
        x, t = batch()[0], batch()[0]
        made = gen(x)
        real, fake = dis(F.concat((x, t))), dis(F.concat((x, made)))
        rules[0].update(lambda: F.mean(F.softplus(-real)) + F.mean(F.softplus(fake)))
        rules[1].update(lambda: 100 * F.mean_absolute_error(made, t) + F.mean(F.softplus(-fake)))

    return step, [gen, dis]


MNIST, CIFAR, LARGE = (100, 784), (16, 3, 32, 32), (4, 3, 112, 112)

EXAMPLES = [
    Example("static MNIST, MLP", "the predictor", predictor_only(lambda: MLP(1000, 10), MNIST)),
    Example("static CIFAR, VGG", "the predictor", predictor_only(vgg, CIFAR)),
    Example("mnist", BOTH, classifier(lambda: MLP(1000, 10), MNIST)),
    Example("glance", BOTH, classifier(lambda: MLP(10, 10), (100, 112))),
    Example("vae", "the loss, optimizer", vae),
    Example("dcgan", "`forward` of both networks", dcgan),
    Example("pix2pix", "`forward` of both networks", pix2pix),
    Example("cifar, VGG", BOTH, classifier(vgg, CIFAR)),
    Example("imagenet, AlexNet", BOTH, classifier(alex, LARGE, optimizers.MomentumSGD)),
    Example("imagenet, NIN", BOTH, classifier(network_in_network, LARGE, optimizers.MomentumSGD)),
    Example("imagenet, GoogLeNet", BOTH, classifier(inceptions, LARGE, optimizers.MomentumSGD)),
    Example(
        "imagenet, ResNet", BOTH, classifier(residuals, (4, 3, 64, 64), optimizers.MomentumSGD)
    ),
]
