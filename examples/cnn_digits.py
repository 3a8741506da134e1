"""A convolutional network on digits: convolution, batch normalization, pooling, dropout.

    python examples/cnn_digits.py [--explain]

Look at the counts in the end. All calls but the first are whole steps: forward, loss, backward
and update in one native call, with the running averages of the batch normalization and the draws
of the dropout as define-by-run makes them, and no Python op inside. ``--explain`` says the same
in detail ("whole step") and lists the ops. Losses of plain Chainer from the same seed are the
dashed line in the picture: they lie on those of the static training.
"""

import sdbr  # first: makes Chainer importable

import chainer
import chainer.functions as F
import chainer.links as L
import common
import numpy as np


class Block(chainer.Chain):
    """A convolution of 3 x 3, normalized."""

    def __init__(self, n_in: int, n_out: int):
        super().__init__()
        with self.init_scope():
            self.conv = L.Convolution2D(n_in, n_out, 3, pad=1, nobias=True)
            self.norm = L.BatchNormalization(n_out)

    def forward(self, x):
        return F.relu(self.norm(self.conv(x)))


class CNN(chainer.Chain):
    """Digits of 8 x 8 pixels to ten classes."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.block1 = Block(1, 16)
            self.block2 = Block(16, 32)
            self.fc = L.Linear(32 * 2 * 2, 10)

    def forward(self, x):
        h = F.max_pooling_2d(self.block1(x), 2)
        h = F.max_pooling_2d(self.block2(h), 2)
        return self.fc(F.dropout(h, 0.3))


def train(steps):
    """Train; return the model and its confusion matrix on the test images."""
    x_train, t_train, x_test, t_test = common.digits()
    # The loss is part of what is decorated, and the optimizer is static: so a step is one call.
    model = sdbr.static_graph(L.Classifier(CNN()))
    optimizer = sdbr.static_optimizer(chainer.optimizers.Adam(alpha=2e-3)).setup(model)
    optimizer.add_hook(chainer.optimizer_hooks.WeightDecay(1e-4))

    batches = common.random_batches(64, x_train, t_train)
    for _ in steps:
        optimizer.update(model, *next(batches))
        steps.log(model.loss)

    # Another mode is another schedule. The predictor alone is not decorated: plain Chainer.
    with chainer.using_config("train", False), chainer.no_backprop_mode():
        model(x_test, t_test)
    steps.say(f"test accuracy {float(model.accuracy.array):.4f}")
    confusion = np.zeros((10, 10), int)
    np.add.at(confusion, (t_test, model.y.array.argmax(axis=1)), 1)
    return model, confusion


def draw(axes, trained):
    """The confusion matrix."""
    _, confusion = trained
    axes.imshow(confusion, cmap="Blues")
    for (i, j), n in np.ndenumerate(confusion):
        if n:
            axes.text(j, i, n, ha="center", va="center", color="white" if n > 20 else "black")
    axes.set(xlabel="predicted", ylabel="digit", xticks=range(10), yticks=range(10))
    axes.set_title("test images")


if __name__ == "__main__":
    common.main(train, draw, steps=1500, plain=300, quick=12)
