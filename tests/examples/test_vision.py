"""Classifiers with side effects, an autoencoder that samples, and adversarial networks."""

from __future__ import annotations

import sdbr

import chainer
import chainer.distributions as D
import chainer.functions as F
import chainer.links as L
import numpy as np
import pytest
from chainer import optimizers, reporter, training
from chainer.dataset import convert
from chainer.training import extensions

from tests.tolerances import DOUBLE_LONG

from .harness import DTYPES, ITERATIONS, both, parameters


def images(n, size, seed=3):
    rng = np.random.RandomState(seed)
    return rng.rand(n, size).astype(chainer.get_dtype()), rng.randint(0, 4, n).astype("i")


class Counting(chainer.Chain):
    """Two layers, and code that has to run in every call."""

    def __init__(self, static):
        super().__init__()
        with self.init_scope():
            self.hidden = L.Linear(None, 12)
            self.out = L.Linear(12, 4)
        self.seen = 0

    @sdbr.static_code
    def count(self):
        self.seen += 1

    def forward(self, x):
        self.count()
        return self.out(F.relu(self.hidden(x)))


@pytest.mark.parametrize("part", ["predictor", "classifier"])
@DTYPES
def test_classifier_with_a_side_effect_in_a_trainer(dtype, part, tmp_path):
    """The optimizer is Chainer's own for the predictor, static for the whole classifier."""

    def train(static):
        predictor = Counting(static)
        if part == "predictor":
            static(predictor)
        model = L.Classifier(predictor)
        optimizer = optimizers.Adam()
        if part == "classifier":
            model, optimizer = static(model), static.optimizer(optimizer)
        optimizer.setup(model)
        data = chainer.datasets.TupleDataset(*images(30, 6))
        test = chainer.datasets.TupleDataset(*images(8, 6, seed=4))
        iterator = chainer.iterators.SerialIterator(data, 6)
        updater = training.StandardUpdater(iterator, optimizer, device=-1)
        trainer = training.Trainer(updater, (ITERATIONS, "iteration"), out=str(tmp_path))
        trainer.extend(
            extensions.Evaluator(
                chainer.iterators.SerialIterator(test, 4, repeat=False, shuffle=False),
                model,
                device=-1,
            ),
            trigger=(5, "iteration"),
        )
        log: list = []

        @training.make_extension(trigger=(1, "iteration"), priority=-100)
        def watch(trainer):
            observed = {
                k: getattr(v, "array", v)
                for k, v in sorted(trainer.observation.items())
                if not k.startswith("validation") or trainer.updater.iteration % 5 == 0
            }
            log.append({"seen": predictor.seen, **observed, **parameters(model)})

        trainer.extend(watch)
        trainer.run()
        return log

    static = both(train, dtype)
    statistics = static.statistics()
    assert statistics.calls == ITERATIONS + 4
    assert (statistics.traces, statistics.replays) == (2, ITERATIONS + 2)  # training and test
    assert statistics.steps == (ITERATIONS - 1 if part == "classifier" else 0)
    assert static.python_ops() == {"static_code Counting.count"}


class Variational(chainer.Chain):
    """An encoder to a normal distribution, a decoder from a sample of it, a weighted penalty."""

    def __init__(self, n_in, n_latent):
        super().__init__()
        with self.init_scope():
            self.hidden = L.Linear(n_in, 9)
            self.mean = L.Linear(9, n_latent)
            self.log_scale = L.Linear(9, n_latent)
            self.decode = L.Linear(n_latent, 9)
            self.logit = L.Linear(9, n_in)
        self.weight = 0.0
        self.zeros = np.zeros(n_latent, chainer.get_dtype())
        self.ones = np.ones(n_latent, chainer.get_dtype())
        self.register_persistent("zeros")
        self.register_persistent("ones")

    def distributions(self, x):
        h = F.tanh(self.hidden(x))
        q = D.Independent(D.Normal(self.mean(h), log_scale=self.log_scale(h)))
        z = q.sample(2)
        h = F.tanh(self.decode(z, n_batch_axes=2))
        p = D.Independent(
            D.Bernoulli(logit=self.logit(h, n_batch_axes=2)), reinterpreted_batch_ndims=1
        )
        prior = D.Independent(D.Normal(self.zeros, scale=self.ones), reinterpreted_batch_ndims=1)
        likelihood = F.mean(p.log_prob(F.broadcast_to(x[None], (2, *x.shape))))
        return likelihood, F.mean(chainer.kl_divergence(q, prior))

    def gaussian(self, x):
        h = F.tanh(self.hidden(x))
        mean, log_variance = self.mean(h), self.log_scale(h)
        y = self.logit(F.tanh(self.decode(F.gaussian(mean, log_variance))))
        likelihood = -F.bernoulli_nll(x, y) / len(x)
        return likelihood, F.gaussian_kl_divergence(mean, log_variance) / len(x)

    def forward(self, x):
        likelihood, divergence = self.parts(x)
        loss = self.weight * divergence - likelihood
        reporter.report({"loss": loss, "likelihood": likelihood}, self)
        reporter.report({"divergence": divergence}, self)
        return loss


@pytest.mark.parametrize("parts", ["distributions", "gaussian"])
@DTYPES
def test_variational_autoencoder_with_an_annealed_weight(dtype, parts):
    def train(static):
        model = Variational(7, 3)
        model.parts = getattr(model, parts)
        model = static(model)
        model.parts = getattr(model, parts)
        optimizer = static.optimizer(optimizers.Adam()).setup(model)
        r = chainer.Reporter()
        r.add_observer("main", model)
        rng = np.random.RandomState(1)
        for i in range(ITERATIONS + 2):
            model.weight = min(1.0, 0.125 * i)
            observation: dict = {}
            with r.scope(observation):
                optimizer.update(model, (rng.rand(5, 7) > 0.5).astype(dtype))
            yield {**{k: v.array for k, v in observation.items()}, **parameters(model)}

    static = both(train, dtype)
    statistics = static.statistics()
    # The weight is a number of the chain: it may change without a new trace.
    assert statistics.traces <= 2
    assert statistics.steps == statistics.replays == ITERATIONS + 2 - statistics.traces


class Generator(chainer.Chain):
    def __init__(self):
        super().__init__()
        w = chainer.initializers.Normal(0.2)
        with self.init_scope():
            self.first = L.Linear(4, 2 * 3 * 3, initialW=w)
            self.bn = L.BatchNormalization(2 * 3 * 3)
            self.up = L.Deconvolution2D(2, 1, 4, 2, 1, initialW=w)

    def forward(self, z):
        h = F.reshape(F.relu(self.bn(self.first(z))), (len(z), 2, 3, 3))
        return F.sigmoid(self.up(h))


class Discriminator(chainer.Chain):
    def __init__(self):
        super().__init__()
        w = chainer.initializers.Normal(0.2)
        with self.init_scope():
            self.conv = L.Convolution2D(1, 3, 4, 2, 1, initialW=w)
            self.bn = L.BatchNormalization(3, use_gamma=False)
            self.out = L.Linear(None, 1, initialW=w)

    def noisy(self, h):
        """Noise in training only, drawn by the user's own code."""
        if not chainer.config.train:
            return h
        return h + (0.1 * np.random.randn(*h.shape)).astype(h.dtype)

    def forward(self, x):
        h = F.leaky_relu(self.noisy(self.bn(self.conv(self.noisy(x)))))
        return self.out(h)


class AdversarialUpdater(training.updaters.StandardUpdater):
    """Two optimizers, each with a backward through the same calls."""

    def __init__(self, generator, discriminator, **kwargs):
        self.generator, self.discriminator = generator, discriminator
        super().__init__(**kwargs)

    def loss_dis(self, fake, real):
        loss = F.mean(F.softplus(-real)) + F.mean(F.softplus(fake))
        chainer.report({"loss": loss}, self.discriminator)
        return loss

    def loss_gen(self, fake):
        loss = F.mean(F.softplus(-fake))
        chainer.report({"loss": loss}, self.generator)
        return loss

    def update_core(self):
        x = chainer.Variable(self.converter(self.get_iterator("main").next())) / 255.0
        real = self.discriminator(x)
        z = np.random.uniform(-1, 1, (len(x), 4)).astype(x.dtype)
        fake = self.discriminator(self.generator(chainer.Variable(z)))
        self.get_optimizer("dis").update(self.loss_dis, fake, real)
        self.get_optimizer("gen").update(self.loss_gen, fake)


def test_adversarial_networks_with_two_optimizers_and_two_backwards():
    """In double precision: biases before a batch normalization have gradients of noise only."""

    def train(static):
        generator, discriminator = static(Generator()), static(Discriminator())
        rules = {}
        for name, model in (("gen", generator), ("dis", discriminator)):
            rules[name] = static.optimizer(optimizers.MomentumSGD(0.05)).setup(model)
            rules[name].add_hook(chainer.optimizer_hooks.WeightDecay(1e-4))
        data = (255 * np.random.RandomState(5).rand(12, 1, 6, 6)).astype(chainer.get_dtype())
        updater = AdversarialUpdater(
            generator,
            discriminator,
            iterator=chainer.iterators.SerialIterator(data, 4, shuffle=False),
            optimizer=rules,
            converter=convert.concat_examples,
        )
        r = chainer.Reporter()
        r.add_observer("gen", generator)
        r.add_observer("dis", discriminator)
        for _ in range(ITERATIONS):
            observation: dict = {}
            with r.scope(observation):
                updater.update()
            losses = {k: v.array for k, v in observation.items()}
            state = parameters(generator, discriminator)
            yield {
                **losses,
                **{k: v for k, v in state.items() if k not in ("0/first/b", "1/conv/b")},
            }
        with chainer.using_config("train", False), chainer.no_backprop_mode():
            for _ in range(2):
                z = np.random.uniform(-1, 1, (3, 4)).astype("d")
                yield {"image": generator(z).array}

    static = both(train, "float64", tolerance=DOUBLE_LONG)
    generator, discriminator = static.statistics(0), static.statistics(1)
    assert (generator.traces, generator.replays) == (2, ITERATIONS)
    assert (discriminator.traces, discriminator.replays) == (1, 2 * ITERATIONS - 1)
