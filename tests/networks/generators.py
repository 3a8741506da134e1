"""Networks that make images and sounds: DCGAN, VAE, U-Net, a WaveNet-like stack."""

from __future__ import annotations

import chainer
import chainer.distributions as D
import chainer.functions as F
import chainer.links as L
import numpy as np

from .harness import Calls, Network


class Generator(chainer.Chain):
    """DCGAN's generator for images of 16 by 16."""

    def __init__(self, n_hidden=6, ch=8, bottom=2):
        super().__init__()
        self.shape = (ch, bottom, bottom)
        with self.init_scope():
            self.l0 = L.Linear(n_hidden, ch * bottom * bottom, nobias=True)
            self.dc1 = L.Deconvolution2D(ch, ch // 2, 4, 2, 1, nobias=True)
            self.dc2 = L.Deconvolution2D(ch // 2, ch // 4, 4, 2, 1, nobias=True)
            self.dc3 = L.Deconvolution2D(ch // 4, 3, 4, 2, 1)
            self.bn0 = L.BatchNormalization(ch * bottom * bottom)
            self.bn1 = L.BatchNormalization(ch // 2)
            self.bn2 = L.BatchNormalization(ch // 4)

    def forward(self, z):
        h = F.reshape(F.relu(self.bn0(self.l0(z))), (len(z), *self.shape))
        h = F.relu(self.bn1(self.dc1(h)))
        h = F.relu(self.bn2(self.dc2(h)))
        return F.sigmoid(self.dc3(h))


class Discriminator(chainer.Chain):
    """DCGAN's discriminator, without the noise that its example adds."""

    def __init__(self, ch=8):
        super().__init__()
        with self.init_scope():
            self.c0 = L.Convolution2D(3, ch // 2, 3, 1, 1)
            self.c1 = L.Convolution2D(ch // 2, ch, 4, 2, 1, nobias=True)
            self.c2 = L.Convolution2D(ch, ch, 3, 1, 1, nobias=True)
            self.c3 = L.Convolution2D(ch, ch, 4, 2, 1, nobias=True)
            self.l4 = L.Linear(4 * 4 * ch, 1)
            self.bn1 = L.BatchNormalization(ch, use_gamma=False)
            self.bn2 = L.BatchNormalization(ch, use_gamma=False)
            self.bn3 = L.BatchNormalization(ch, use_gamma=False)

    def forward(self, x):
        h = F.leaky_relu(self.c0(x))
        h = F.leaky_relu(self.bn1(self.c1(h)))
        h = F.leaky_relu(self.bn2(self.c2(h)))
        h = F.leaky_relu(self.bn3(self.c3(h)))
        return self.l4(h)


class FoolingLoss(chainer.Chain):
    """What the generator is trained with."""

    def __init__(self, generator, discriminator):
        super().__init__()
        with self.init_scope():
            self.generator = generator
            self.discriminator = discriminator

    def forward(self, z):
        y = self.discriminator(self.generator(z))
        self.loss = F.sum(F.softplus(-y)) / len(z)
        return self.loss


class TellingLoss(FoolingLoss):
    """What the discriminator is trained with."""

    def forward(self, z, x):
        fake = self.discriminator(self.generator(z).data)
        real = self.discriminator(x)
        self.loss = (F.sum(F.softplus(-real)) + F.sum(F.softplus(fake))) / len(z)
        return self.loss


class Dcgan(Network):
    """Both losses are static; each optimizer updates its own network."""

    traces = (1, 1)

    def build(self):
        generator, discriminator = Generator(), Discriminator()
        self.fooling = self.style.model(FoolingLoss(generator, discriminator))
        self.telling = self.style.model(TellingLoss(generator, discriminator))
        self.add(self.fooling, self.telling)
        adam = chainer.optimizers.Adam
        self.of_generator = self.style.optimizer(adam(2e-4, 0.5, eps=1e-2)).setup(generator)
        self.of_discriminator = self.style.optimizer(adam(2e-4, 0.5, eps=1e-2)).setup(discriminator)

    def iterate(self, i):
        z = self.random.uniform(-1, 1, (4, 6)).astype(np.float32)
        x = self.random.uniform(0, 1, (4, 3, 16, 16)).astype(np.float32)
        return [
            self.style.train(self.of_discriminator, self.telling, z, x),
            self.style.train(self.of_generator, self.fooling, z),
        ]


class DcganExample(Dcgan):
    """As in the example: the networks are static, the losses between them are not."""

    traces = (1, 2)  # the discriminator sees a real batch and a made one
    styles = (Calls,)

    def build(self):
        self.generator = self.style.model(Generator())
        self.discriminator = self.style.model(Discriminator())
        self.add(self.generator, self.discriminator)
        self.optimizers = [
            chainer.optimizers.Adam(2e-4, 0.5, eps=1e-2).setup(model) for model in self.models
        ]

    def iterate(self, i):
        z = self.random.uniform(-1, 1, (4, 6)).astype(np.float32)
        real = self.discriminator(self.random.rand(4, 3, 16, 16).astype(np.float32))
        made = self.generator(z)
        fake = self.discriminator(made)
        telling = (F.sum(F.softplus(-real)) + F.sum(F.softplus(fake))) / len(z)
        fooling = F.sum(F.softplus(-fake)) / len(z)
        self.discriminator.cleargrads()
        telling.backward()
        self.optimizers[1].update()
        self.generator.cleargrads()
        fooling.backward()
        self.optimizers[0].update()
        made.unchain_backward()
        return [telling.array, fooling.array]


class VaeChain(chainer.Chain):
    """An autoencoder that samples with ``F.gaussian``."""

    def __init__(self, n_in=12, n_hidden=8, n_latent=3):
        super().__init__()
        with self.init_scope():
            self.enc = L.Linear(n_in, n_hidden)
            self.mu = L.Linear(n_hidden, n_latent)
            self.ln_var = L.Linear(n_hidden, n_latent)
            self.dec1 = L.Linear(n_latent, n_hidden)
            self.dec2 = L.Linear(n_hidden, n_in)

    def forward(self, x):
        h = F.tanh(self.enc(x))
        mu, ln_var = self.mu(h), self.ln_var(h)
        z = F.gaussian(mu, ln_var)
        y = self.dec2(F.tanh(self.dec1(z)))
        reconstruction = F.bernoulli_nll(x, y) / len(x)
        self.loss = reconstruction + F.gaussian_kl_divergence(mu, ln_var) / len(x)
        return self.loss


class Vae(Network):
    """Its normal draw is NumPy's."""

    python_ops = ("Gaussian",)

    def make(self):
        return VaeChain()

    def data(self, i):
        return (self.random.rand(5, 12).astype(np.float32),)


class ElboChain(VaeChain):
    """The same with distributions, as in Chainer's example."""

    def forward(self, x):
        h = F.tanh(self.enc(x))
        q = D.Normal(loc=self.mu(h), log_scale=self.ln_var(h))
        z = q.sample(2)
        y = self.dec2(F.tanh(self.dec1(z.reshape((-1, z.shape[-1])))))
        p = D.Independent(D.Bernoulli(logit=y.reshape((2, *x.shape))))
        prior = D.Independent(
            D.Normal(np.zeros((len(x), 3), np.float32), np.ones((len(x), 3), np.float32))
        )
        reconstruction = F.mean(p.log_prob(F.broadcast_to(x[None], (2, *x.shape))))
        penalty = F.mean(chainer.kl_divergence(D.Independent(q), prior))
        self.loss = penalty - reconstruction
        return self.loss


class VaeOfDistributions(Vae):
    """Its draw is one of NumPy in Chainer's own code."""

    python_ops = ("numpy standard_normal",)

    def make(self):
        return ElboChain()

    def data(self, i):
        return ((self.random.rand(5, 12) < 0.5).astype(np.float32),)


class Double(chainer.Chain):
    """Two convolutions with batch normalization."""

    def __init__(self, n_in, n_out):
        super().__init__()
        with self.init_scope():
            self.conv1 = L.Convolution2D(n_in, n_out, 3, pad=1, nobias=True)
            self.conv2 = L.Convolution2D(n_out, n_out, 3, pad=1, nobias=True)
            self.bn1 = L.BatchNormalization(n_out)
            self.bn2 = L.BatchNormalization(n_out)

    def forward(self, x):
        return F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))))


class UNetChain(chainer.Chain):
    """Two levels down, two up: one by deconvolution, one by resizing."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.down1 = Double(3, 4)
            self.down2 = Double(4, 6)
            self.bottom = Double(6, 8)
            self.up2 = L.Deconvolution2D(8, 6, 2, stride=2)
            self.join2 = Double(12, 6)
            self.up1 = L.Convolution2D(6, 4, 3, pad=1)
            self.join1 = Double(8, 4)
            self.out = L.Convolution2D(4, 3, 1)

    def forward(self, x, t):
        one = self.down1(x)
        two = self.down2(F.max_pooling_2d(one, 2))
        h = self.bottom(F.max_pooling_2d(two, 2))
        h = self.join2(F.concat([two, self.up2(h)]))
        h = self.up1(F.resize_images(h, one.shape[2:]))
        h = self.join1(F.concat([one, h]))
        self.loss = F.softmax_cross_entropy(self.out(h), t)
        return self.loss


class UNet(Network):
    def make(self):
        return UNetChain()

    def data(self, i):
        x = self.random.standard_normal((2, 3, 16, 16)).astype(np.float32)
        return x, self.random.randint(-1, 3, (2, 16, 16)).astype(np.int32)


class Residual(chainer.Chain):
    """A gated dilated convolution with a way around it."""

    def __init__(self, dilation, channels):
        super().__init__()
        self.dilation = dilation
        with self.init_scope():
            self.conv = L.Convolution1D(channels, 2 * channels, 2, pad=dilation, dilate=dilation)
            self.res = L.Convolution1D(channels, channels, 1)
            self.skip = L.Convolution1D(channels, channels, 1)

    def forward(self, x):
        h = self.conv(x)[:, :, : x.shape[2]]
        gate, value = F.split_axis(h, 2, axis=1)
        h = F.tanh(value) * F.sigmoid(gate)
        return x + self.res(h), self.skip(h)


class WaveNetChain(chainer.Chain):
    """Embedded samples, a dilated stack, two convolutions of width 1."""

    def __init__(self, n_levels=16, channels=6):
        super().__init__()
        with self.init_scope():
            self.embed = L.EmbedID(n_levels, channels)
            self.stack = chainer.ChainList(*(Residual(2**i, channels) for i in range(4)))
            self.proj1 = L.Convolution1D(channels, channels, 1)
            self.proj2 = L.Convolution1D(channels, n_levels, 1)

    def forward(self, x, t):
        h = F.swapaxes(self.embed(x), 1, 2)
        skips = 0
        for layer in self.stack:
            h, skip = layer(h)
            skips += skip
        y = self.proj2(F.relu(self.proj1(F.relu(skips))))
        self.loss = F.softmax_cross_entropy(y, t)
        return self.loss


class WaveNet(Network):
    def make(self):
        return WaveNetChain()

    def data(self, i):
        x = self.random.randint(0, 16, (2, 33)).astype(np.int32)
        return x[:, :-1].copy(), x[:, 1:].copy()
