"""A function, an optimizer and a hook of one's own, in a training of digits.

    python examples/own_parts.py [--explain]

Look at the Python ops in the end: four in each step, the forward and the backward of `Rectified`
at both places. They run within the native call that makes forward, loss and backward. The update
comes after it, parameter by parameter as in Chainer, since neither the rule of `Lion` nor the hook
has native code; ``--explain`` names them in the line "whole step: forward and backward; then the
update, for ...". (An audit runs such a step in parts, so that Python runs once; it is not counted
as whole.) What is yours runs as you have written it and takes, with what it costs to call it, nine
tenths of the time: what can be made of Chainer's functions, rules and hooks is faster, and a rule
like this one, which is elementwise, is native by `sdbr.update_rule`.
"""

import sdbr  # first: makes Chainer importable

import chainer
import chainer.links as L
import common
import numpy as np


class Rectified(chainer.FunctionNode):
    """ReLU, but units that are off learn as well: no function of Chainer's has both slopes."""

    def forward(self, inputs):
        (x,) = inputs
        self.slope = np.where(x > 0, 1, 0.1).astype(x.dtype)
        return (np.maximum(x, 0),)

    def backward(self, target_input_indexes, grad_outputs):
        (gy,) = grad_outputs
        return (gy * self.slope,)


def rectified(x):
    (y,) = Rectified().apply((x,))
    return y


class LionRule(chainer.optimizer.UpdateRule):
    """Each element moves by the same, whichever way momentum and gradient together point."""

    def init_state(self, param):
        self.state["m"] = np.zeros_like(param.array)

    def update_core_cpu(self, param):
        g, m, hyper = param.grad, self.state["m"], self.hyperparam
        if g is None:
            return
        param.array -= hyper.lr * np.sign(hyper.beta1 * m + (1 - hyper.beta1) * g)
        m *= hyper.beta2
        m += (1 - hyper.beta2) * g


class Lion(chainer.optimizer.GradientMethod):
    """The sign of momentum, as an optimizer."""

    def __init__(self, lr: float = 3e-4, beta1: float = 0.9, beta2: float = 0.99):
        super().__init__()
        self.hyperparam.lr, self.hyperparam.beta1, self.hyperparam.beta2 = lr, beta1, beta2

    lr = chainer.optimizer.HyperparameterProxy("lr")

    def create_update_rule(self):
        return LionRule(self.hyperparam)


class Centralization:
    """A hook: what a unit gets through its weights sums up to zero."""

    name, call_for_each_param, timing = "Centralization", True, "pre"

    def __call__(self, rule, param):
        if param.grad is not None and param.ndim > 1:
            param.grad -= param.grad.mean(axis=1, keepdims=True)


class Network(chainer.Chain):
    """Three layers."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l1, self.l2, self.l3 = L.Linear(64, 128), L.Linear(128, 128), L.Linear(128, 10)

    def forward(self, x):
        return self.l3(rectified(self.l2(rectified(self.l1(x)))))


def train(steps):
    """Train; return the model and its first layer."""
    x_train, t_train, x_test, t_test = common.digits()
    model = sdbr.static_graph(L.Classifier(Network()))
    optimizer = sdbr.static_optimizer(Lion()).setup(model)
    optimizer.add_hook(Centralization())

    batches = common.random_batches(64, x_train.reshape(-1, 64), t_train)
    for _ in steps:
        optimizer.lr *= 0.999
        optimizer.update(model, *next(batches))
        steps.log(model.loss)
    with chainer.using_config("train", False), chainer.no_backprop_mode():
        model(x_test.reshape(-1, 64), t_test)
    steps.say(f"accuracy on test images {float(model.accuracy.array):.3f}")
    return model, model.predictor.l1.W.array


def draw(axes, trained):
    """What units of the first layer look for."""
    common.show_tiles(axes, trained[-1][:60], 10, "weights of the first layer")


if __name__ == "__main__":
    common.main(train, draw, steps=2000, plain=500, quick=20)
