"""A Wasserstein GAN with a gradient penalty, on digits: gradients of gradients in a whole step.

    python examples/wgan_gp_digits.py [--explain]

Look at where `chainer.grad` stands: inside of the static call. There the gradient of the critic is
one more piece of the schedule, the penalty is differentiated as everything else, and a critic's
step is one native call. (Taken outside, of what a static critic returned, it works with
``static_graph(..., enable_double_backprop=True)``, as separate calls.) The generator's step is
one call as well. In it the critic gets gradients that nobody wants: the critic's own step clears
them first, and its optimizer alone updates it. There are two steps of the critic to one of the
generator; times are those of all three.
"""

import sdbr  # first: makes Chainer importable

import chainer
import chainer.functions as F
import chainer.links as L
import common
import numpy as np

N_LATENT = 16
BATCH = 64


class Perceptron(chainer.Chain):
    """Three layers."""

    def __init__(self, n_in: int, n_out: int, n_hidden: int = 128):
        super().__init__()
        with self.init_scope():
            self.l1, self.l2 = L.Linear(n_in, n_hidden), L.Linear(n_hidden, n_hidden)
            self.l3 = L.Linear(n_hidden, n_out)

    def forward(self, x):
        return self.l3(F.leaky_relu(self.l2(F.leaky_relu(self.l1(x)))))


class CriticLoss(chainer.Chain):
    """How well the critic tells images from made ones; its slope should be one in between."""

    def __init__(self, critic: Perceptron, generator: Perceptron):
        super().__init__()
        self.generator = generator  # outside of init_scope: no child, not updated
        with self.init_scope():
            self.critic = critic

    def forward(self, real, z, mix):
        with chainer.no_backprop_mode():
            fake = F.sigmoid(self.generator(z)).array
        between = chainer.Variable(mix * real + (1 - mix) * fake)
        (slope,) = chainer.grad([self.critic(between)], [between], enable_double_backprop=True)
        penalty = F.mean((F.sqrt(F.batch_l2_norm_squared(slope)) - 1) ** 2)
        self.distance = F.mean(self.critic(real) - self.critic(fake))
        return 10 * penalty - self.distance


class GeneratorLoss(chainer.Chain):
    """What the critic says of made images."""

    def __init__(self, critic: Perceptron, generator: Perceptron):
        super().__init__()
        self.critic = critic
        with self.init_scope():
            self.generator = generator

    def forward(self, z):
        return -F.mean(self.critic(F.sigmoid(self.generator(z))))


def latent(n: int) -> np.ndarray:
    return np.random.randn(n, N_LATENT).astype(np.float32)


def train(steps):
    """Train; return both losses, and images: real ones, made ones."""
    images = common.digits()[0].reshape(-1, 64)
    generator, critic = Perceptron(N_LATENT, 64), Perceptron(64, 1)
    critic_loss = sdbr.static_graph(CriticLoss(critic, generator))
    generator_loss = sdbr.static_graph(GeneratorLoss(critic, generator))
    critic_optimizer, generator_optimizer = (
        sdbr.static_optimizer(chainer.optimizers.Adam(3e-4, beta1=0.5, beta2=0.9)).setup(loss)
        for loss in (critic_loss, generator_loss)
    )

    batches = common.random_batches(BATCH, images)
    for _ in steps:
        for _ in range(2):
            (real,) = next(batches)
            mix = np.random.rand(BATCH, 1).astype(np.float32)
            critic_optimizer.update(critic_loss, real, latent(BATCH), mix)
        generator_optimizer.update(generator_loss, latent(BATCH))
        steps.log(critic_loss.distance)

    with chainer.using_config("train", False), chainer.no_backprop_mode():
        made = F.sigmoid(generator(latent(60))).array
    return critic_loss, generator_loss, images[:20], made


def draw(axes, trained):
    """Two rows of digits, six of made ones."""
    *_, real, made = trained
    common.show_tiles(axes, np.concatenate([real, made]), 10, "2 rows of digits, 6 of made ones")


if __name__ == "__main__":
    common.main(train, draw, steps=10000, plain=200, quick=12)
