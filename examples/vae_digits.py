"""A variational autoencoder of digits.

    python examples/vae_digits.py [--explain]

Look at the Python ops in the end: one in each step, NumPy's normal draw, which has no native code
because NumPy's generator keeps a spare number of its own. Everything else, both networks, the
loss, the backward and Adam, is the rest of one native call, and the draws are those that plain
Chainer makes from the same seed: so are the losses. `beta` grows in the first steps; a float that
changes from step to step costs no new trace (there is one trace for all values).
"""

import sdbr  # first: makes Chainer importable

import chainer
import chainer.functions as F
import chainer.links as L
import common
import numpy as np

N_LATENT = 8


class VAE(chainer.Chain):
    """Rows of 64 pixels to a Gaussian in the latent space, and back."""

    def __init__(self, n_hidden: int = 256):
        super().__init__()
        self.beta = 0.0
        with self.init_scope():
            self.encoder = L.Linear(64, n_hidden)
            self.mean = L.Linear(n_hidden, N_LATENT)
            self.ln_var = L.Linear(n_hidden, N_LATENT)
            self.decoder1 = L.Linear(N_LATENT, n_hidden)
            self.decoder2 = L.Linear(n_hidden, n_hidden)
            self.decoder3 = L.Linear(n_hidden, 64)

    def encode(self, x):
        h = F.leaky_relu(self.encoder(x))
        return self.mean(h), self.ln_var(h)

    def decode(self, z):
        """Logits of the pixels."""
        return self.decoder3(F.leaky_relu(self.decoder2(F.leaky_relu(self.decoder1(z)))))

    def forward(self, x):
        """The loss: what the pixels cost, and how far the Gaussians are from the prior."""
        mean, ln_var = self.encode(x)
        z = F.gaussian(mean, ln_var)
        self.pixels = F.bernoulli_nll(x, self.decode(z)) / len(x)
        self.divergence = F.gaussian_kl_divergence(mean, ln_var) / len(x)
        self.loss = self.pixels + self.beta * self.divergence
        return self.loss


def train(steps):
    """Train; return the model, test images, what it makes of them, and new ones."""
    x_train, _, x_test, _ = (a.reshape(len(a), -1) for a in common.digits())
    model = sdbr.static_graph(VAE())
    optimizer = sdbr.static_optimizer(chainer.optimizers.Adam()).setup(model)

    batches = common.random_batches(64, x_train)
    for i in steps:
        model.beta = min(1.0, (i + 1) / 500)
        optimizer.update(model, *next(batches))
        steps.log(model.loss)
    steps.say(f"a test image costs {float(evaluate(model, x_test)):.2f} nats")

    with chainer.using_config("train", False), chainer.no_backprop_mode():
        mean, _ = model.encode(x_test[:20])
        again = F.sigmoid(model.decode(mean)).array
        new = F.sigmoid(model.decode(np.random.randn(40, N_LATENT).astype(np.float32))).array
    return model, x_test[:20], again, new


def evaluate(model, x):
    """The loss of images that were not trained on."""
    with chainer.using_config("train", False), chainer.no_backprop_mode():
        return model(x).array


def draw(axes, trained):
    """Images, the same decoded, and new ones."""
    _, images, again, new = trained
    rows = np.concatenate([images[:10], again[:10], images[10:], again[10:], new])
    common.show_tiles(axes, rows, 10, "images and what is made of them; 4 rows of new ones")


if __name__ == "__main__":
    common.main(train, draw, steps=12000, plain=1000, quick=20)
