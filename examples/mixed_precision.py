"""Mixed precision: activations and gradients in float16, updates in float32.

    python examples/mixed_precision.py [--explain]

``chainer.config.dtype = chainer.mixed16`` makes links of float16 parameters, with batch
normalization in float32; ``use_fp32_update`` keeps float32 copies that are updated; the loss is
scaled while gradients are float16, so that small ones do not vanish, and the scale is adjusted.

Look at ``--explain``: a step is one native call, the question whether all gradients are finite and
the update of the copies included. On a CPU this saves memory, not time: native code computes in
float32 and rounds what it gives, and plain Chainer computes in float16 by NumPy, which is slow. So
losses of both differ by roundings to float16.
"""

import sdbr  # first: makes Chainer importable

import chainer
import chainer.functions as F
import chainer.links as L
import common
import numpy as np


class CNN(chainer.Chain):
    """Digits of 8 x 8 pixels to ten classes."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.conv1 = L.Convolution2D(1, 16, 3, pad=1)
            self.norm = L.BatchNormalization(16)
            self.conv2 = L.Convolution2D(16, 32, 3, pad=1)
            self.fc = L.Linear(32 * 2 * 2, 10)

    def forward(self, x):
        h = F.max_pooling_2d(F.relu(self.norm(self.conv1(x))), 2)
        h = F.max_pooling_2d(F.relu(self.conv2(h)), 2)
        return self.fc(h)


def train(steps):
    """Train; return the model, its dtypes, and the loss scale of each step."""
    x_train, t_train, x_test, t_test = common.digits()
    with chainer.using_config("dtype", chainer.mixed16):  # for all that is made in here
        model = sdbr.static_graph(L.Classifier(CNN()))
        optimizer = chainer.optimizers.MomentumSGD(lr=0.05)
        optimizer.use_fp32_update()
        optimizer.loss_scaling()  # dynamic: halved where a gradient overflows
        optimizer = sdbr.static_optimizer(optimizer).setup(model)

        scales = []
        batches = common.random_batches(64, x_train.astype(np.float16), t_train)
        for _ in steps:
            optimizer.update(model, *next(batches))
            steps.log(model.loss)
            scales.append(optimizer._loss_scale)

        with chainer.using_config("train", False), chainer.no_backprop_mode():
            model(x_test.astype(np.float16), t_test)
    steps.say(f"test accuracy {float(model.accuracy.array):.4f}")
    return model, scales


def draw(axes, trained):
    """The loss scale, and what is kept in which dtype."""
    model, scales = trained
    axes.semilogy(scales)
    axes.set(xlabel="step", title="loss scale")
    dtypes = [f"{name} {p.dtype}" for name, p in sorted(model.namedparams())]
    axes.text(0.5, 0.1, "\n".join(dtypes), transform=axes.transAxes, size=8, va="bottom")


if __name__ == "__main__":
    common.main(train, draw, steps=600, plain=60, quick=12)
