"""Two networks against each other, and models of densities."""

from __future__ import annotations

import math

import chainer
import numpy as np
from chainer import functions as F
from chainer import links as L

from benchmarks.wild.way import MLP, Program, Way, floats, ring


class Generator(chainer.Chain):
    """Images from noise."""

    def __init__(self) -> None:
        super().__init__()
        with self.init_scope():
            self.l0 = L.Linear(8, 16 * 2 * 2)
            self.bn0 = L.BatchNormalization(16)
            self.dc1 = L.Deconvolution2D(16, 8, 4, stride=2, pad=1)
            self.bn1 = L.BatchNormalization(8)
            self.dc2 = L.Deconvolution2D(8, 1, 4, stride=2, pad=1)

    def forward(self, z):
        """Images of 8 by 8."""
        h = F.relu(self.bn0(F.reshape(self.l0(z), (-1, 16, 2, 2))))
        return F.tanh(self.dc2(F.relu(self.bn1(self.dc1(h)))))


class Discriminator(chainer.Chain):
    """A number for each image."""

    def __init__(self) -> None:
        super().__init__()
        with self.init_scope():
            self.c0 = L.Convolution2D(1, 8, 4, stride=2, pad=1)
            self.c1 = L.Convolution2D(8, 16, 4, stride=2, pad=1)
            self.l2 = L.Linear(16 * 2 * 2, 1)

    def forward(self, x):
        """Logits; noise is added while training."""
        if chainer.config.train:
            x = x + 0.05 * np.random.randn(*x.shape).astype(chainer.config.dtype)
        return self.l2(F.leaky_relu(self.c1(F.leaky_relu(self.c0(x)))))


def _pair(way: Way, generator, discriminator, rate: float = 1e-4):
    gen, dis = way.graph(generator), way.graph(discriminator)
    adam = chainer.optimizers.Adam
    return gen, dis, way.optimizer(adam(rate, 0.5), gen), way.optimizer(adam(rate, 0.5), dis)


def dcgan(way: Way) -> Program:
    """One backward for each of two networks; the fake images are used twice."""
    gen, dis, gen_opt, dis_opt = _pair(way, Generator(), Discriminator())
    data = ring(lambda rng: (floats(rng, 8, 1, 8, 8), floats(rng, 8, 8)))

    def step(i):
        real, z = data[i % 16]
        y_real = dis(real)
        fake = gen(z)
        y_fake = dis(fake)
        gen_loss = F.mean(F.softplus(-y_fake))
        dis_loss = F.mean(F.softplus(-y_real)) + F.mean(F.softplus(y_fake))
        gen.cleargrads()
        gen_loss.backward()
        gen_opt.update()
        fake.unchain_backward()
        dis.cleargrads()
        dis_loss.backward()
        dis_opt.update()
        return gen_loss, dis_loss

    return Program(step, (gen, dis))


def lsgan(way: Way) -> Program:
    """Least squares; the generator learns only every second time."""
    gen, dis, gen_opt, dis_opt = _pair(way, MLP(8, 32, 16), MLP(16, 32, 1))
    data = ring(lambda rng: (floats(rng, 32, 16), floats(rng, 32, 8)))

    def step(i):
        real, z = data[i % 16]
        fake = gen(z)
        loss = 0.5 * F.mean((dis(real) - 1) ** 2) + 0.5 * F.mean(dis(fake.array) ** 2)
        dis.cleargrads()
        loss.backward()
        dis_opt.update()
        if i % 2:
            gen_loss = 0.5 * F.mean((dis(fake) - 1) ** 2)
            gen.cleargrads()
            gen_loss.backward()
            gen_opt.update()
        return loss

    return Program(step, (gen, dis))


def wgan_gp(way: Way) -> Program:
    """A penalty on the gradient of the critic at points between real and fake."""
    gen = way.graph(MLP(8, 32, 16))
    critic = way.graph(MLP(16, 32, 1), enable_double_backprop=True)
    gen_opt = way.optimizer(chainer.optimizers.Adam(1e-4), gen)
    critic_opt = way.optimizer(chainer.optimizers.Adam(1e-4), critic)
    data = ring(lambda rng: (floats(rng, 32, 16), floats(rng, 32, 8)))

    def step(i):
        real, z = data[i % 16]
        fake = gen(z)
        share = np.random.uniform(size=(32, 1)).astype(real.dtype)
        between = chainer.Variable(share * real + (1 - share) * fake.array)
        (grad,) = chainer.grad([critic(between)], [between], enable_double_backprop=True)
        norm = F.sqrt(F.batch_l2_norm_squared(grad) + 1e-8)
        penalty = 10 * F.mean((norm - 1) ** 2)
        loss = F.mean(critic(fake.array)) - F.mean(critic(real)) + penalty
        critic.cleargrads()
        loss.backward()
        critic_opt.update()
        if i % 5 == 4:
            gen_loss = -F.mean(critic(fake))
            gen.cleargrads()
            gen_loss.backward()
            gen_opt.update()
        return loss

    return Program(step, (gen, critic))


def clipped_wgan(way: Way) -> Program:
    """Weights are clipped in NumPy after each update."""
    gen, dis, gen_opt, dis_opt = _pair(way, MLP(8, 32, 16), MLP(16, 32, 1))
    data = ring(lambda rng: (floats(rng, 32, 16), floats(rng, 32, 8)))

    def step(i):
        real, z = data[i % 16]
        for p in dis.params():
            np.clip(p.array, -0.1, 0.1, out=p.array)
        fake = gen(z)
        loss = F.mean(dis(fake)) - F.mean(dis(real))
        for link in (gen, dis):
            link.cleargrads()
        loss.backward()
        dis_opt.update()
        for p in gen.params():
            p.grad *= -1
        gen_opt.update()
        return loss

    return Program(step, (gen, dis))


class VAE(chainer.Chain):
    """Its weight of the KL divergence grows with the calls that it counts."""

    def __init__(self, counts: bool) -> None:
        super().__init__()
        with self.init_scope():
            self.encoder = L.Linear(24, 32)
            self.mu = L.Linear(32, 4)
            self.ln_var = L.Linear(32, 4)
            self.decoder = MLP(4, 32, 24)
        self.beta = 0.0
        self.counts = counts

    def forward(self, x):
        """The loss, and its parts as reports."""
        h = F.tanh(self.encoder(x))
        mu, ln_var = self.mu(h), self.ln_var(h)
        y = self.decoder(F.gaussian(mu, ln_var))
        rec = F.bernoulli_nll(x, y) / len(x)
        kl = F.gaussian_kl_divergence(mu, ln_var) / len(x)
        if self.counts:
            self.beta = min(1.0, self.beta + 0.01)
        loss = rec + self.beta * kl
        chainer.report({"loss": loss, "rec": rec, "kl": kl, "beta": self.beta}, self)
        return loss


def _vae(way: Way, counts: bool) -> Program:
    model = way.graph(VAE(counts))
    optimizer = way.optimizer(chainer.optimizers.Adam(1e-3), model)
    data = ring(lambda rng: (floats(rng, 32, 24) > 0).astype(chainer.config.dtype))

    def step(i):
        if not counts:
            model.beta = min(1.0, i / 100)
        optimizer.update(model, data[i % 16])
        return model.beta

    return Program(step, (model,))


def vae(way: Way) -> Program:
    """The loop anneals an attribute."""
    return _vae(way, False)


def vae_counts(way: Way) -> Program:
    """The model anneals its own attribute."""
    return _vae(way, True)


class Coupling(chainer.Chain):
    """One half scales and moves the other one."""

    def __init__(self, flip: bool) -> None:
        super().__init__()
        with self.init_scope():
            self.net = MLP(3, 16, 6)
        self.flip = flip

    def forward(self, x):
        """The image and the logarithm of the determinant."""
        a, b = F.split_axis(x, 2, axis=1)
        if self.flip:
            a, b = b, a
        log_scale, move = F.split_axis(self.net(a), 2, axis=1)
        log_scale = F.tanh(log_scale)
        b = b * F.exp(log_scale) + move
        return F.concat((b, a) if self.flip else (a, b)), F.sum(log_scale, axis=1)

    def back(self, y):
        """Where it came from."""
        a, b = F.split_axis(y, 2, axis=1)
        if self.flip:
            a, b = b, a
        log_scale, move = F.split_axis(self.net(a), 2, axis=1)
        b = (b - move) * F.exp(-F.tanh(log_scale))
        return F.concat((b, a) if self.flip else (a, b))


class Flow(chainer.Chain):
    """Couplings; that they can be undone is checked now and then."""

    def __init__(self) -> None:
        super().__init__()
        with self.init_scope():
            self.parts = chainer.ChainList(*[Coupling(bool(i % 2)) for i in range(3)])
            self.w = chainer.Parameter(np.eye(6, dtype=chainer.config.dtype))

    def forward(self, x):
        """The negative log-likelihood of a batch."""
        z, log_det = x, 0
        for part in self.parts:
            z, d = part(z)
            log_det += d
        back = z
        for part in reversed(list(self.parts)):
            back = part.back(back)
        assert float(abs(back.array - x).max()) < 1e-2, "cannot be undone"
        z = F.matmul(z, self.w)
        log_det += F.log(F.absolute(F.det(self.w)))
        return F.mean(0.5 * F.sum(z**2, axis=1) + 3 * math.log(2 * math.pi) - log_det)


def flow(way: Way) -> Program:
    """A density by invertible layers, with an assertion on computed values."""
    model = way.graph(Flow())
    optimizer = way.optimizer(chainer.optimizers.Adam(1e-3), model)
    data = ring(lambda rng: floats(rng, 32, 6))
    return Program(lambda i: optimizer.update(model, data[i % 16]) or (), (model,))


class Quantized(chainer.Chain):
    """An autoencoder whose codes are the nearest of a table."""

    def __init__(self) -> None:
        super().__init__()
        with self.init_scope():
            self.encoder, self.decoder = MLP(24, 32, 8), MLP(8, 32, 24)
            self.codes = L.EmbedID(16, 8)

    def forward(self, x):
        """The loss; which codes were used is reported as a number."""
        z = self.encoder(x)
        distances = ((z.array[:, None] - self.codes.W.array[None]) ** 2).sum(axis=2)
        chosen = distances.argmin(axis=1).astype("i")
        e = self.codes(chosen)
        straight = z + (e.array - z.array)
        loss = F.mean_squared_error(self.decoder(straight), x)
        loss += F.mean((e - z.array) ** 2) + 0.25 * F.mean((z - e.array) ** 2)
        chainer.report({"loss": loss, "used": len(np.unique(chosen))}, self)
        return loss


def vq_vae(way: Way) -> Program:
    """The nearest codes by NumPy, and how many of them in the report."""
    model = way.graph(Quantized())
    optimizer = way.optimizer(chainer.optimizers.Adam(1e-3), model)
    data = ring(lambda rng: floats(rng, 32, 24))
    return Program(lambda i: optimizer.update(model, data[i % 16]) or (), (model,))


class Denoising(chainer.Chain):
    """Sees its inputs with holes."""

    def __init__(self) -> None:
        super().__init__()
        with self.init_scope():
            self.encoder, self.decoder = L.Linear(24, 12), L.Linear(12, 24)

    def forward(self, x):
        """How far it is off."""
        corrupt = x.copy()
        corrupt[np.random.rand(*x.shape) < 0.3] = 0
        return F.mean_squared_error(self.decoder(F.sigmoid(self.encoder(corrupt))), x)


def denoising(way: Way) -> Program:
    """A copy of the batch is written in place."""
    model = way.graph(Denoising())
    optimizer = way.optimizer(chainer.optimizers.Adam(1e-3), model)
    data = ring(lambda rng: floats(rng, 32, 24))
    return Program(lambda i: optimizer.update(model, data[i % 16]) or (), (model,))
