"""Steps that the tests of launches on GPUs make, and what holds for all of them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L
from chainer import optimizers
from chainer.optimizer_hooks import GradientClipping, Lasso, WeightDecay

from tests.harness import device
from tests.harness.models import MLP, data, floats, labels
from tests.harness.steps import BATCH, OPTIMIZERS, classifier, train

#: Sentences of three words, and the word behind each.
WORDS = data(labels(10, 3, 4), labels(10, 3, 4))


def with_hooks(rule, *hooks):
    def setup(model):
        optimizer = rule().setup(model)
        for hook in hooks:
            optimizer.add_hook(hook())
        return optimizer

    return setup


RULES = {
    **OPTIMIZERS,
    "amsgrad": with_hooks(lambda: optimizers.Adam(amsgrad=True)),
    "adamw": with_hooks(lambda: optimizers.AdamW(weight_decay_rate=0.01)),
    "adabound": with_hooks(optimizers.AdaBound),
    "rmsprop": with_hooks(lambda: optimizers.RMSprop(0.01)),
    "lasso": with_hooks(optimizers.Adam, lambda: Lasso(1e-3)),
    "clipped": with_hooks(optimizers.Adam, lambda: GradientClipping(0.1), lambda: WeightDecay(0.1)),
}


def is_one_graph(executable):
    """Whether a program runs as one, recorded again only when it was known what moves."""
    return (len(executable.parts), executable.others) == (1, []) and executable.recorded <= 2


class Recurrent(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.embed = L.EmbedID(10, 8, ignore_label=-1)
            self.lstm, self.gru = L.LSTM(8, 12), L.StatefulGRU(12, 12)
            self.out = L.Linear(12, 10)

    def forward(self, x, t):
        self.lstm.reset_state()
        self.gru.reset_state()
        loss = 0
        for i in range(x.shape[1]):
            y = self.out(self.gru(self.lstm(self.embed(x[:, i]))))
            loss += F.softmax_cross_entropy(y, t[:, i])
        chainer.report({"loss": loss}, self)
        return loss


class LSTM(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.embed = L.EmbedID(10, 8)
            self.lstm = L.LSTM(8, 12)
            self.out = L.Linear(12, 10)

    def forward(self, x, t):
        self.lstm.reset_state()
        return sum(
            F.softmax_cross_entropy(self.out(self.lstm(self.embed(x[:, i]))), t[:, i])
            for i in range(x.shape[1])
        )


def large():
    """More rows and columns than a tile of our own kernels has, and odd numbers of them."""
    return L.Classifier(MLP(70, 131, 3))


LARGE = data(floats(37, 70), labels(3, 37))


def check_labels_out_of_range():
    _, model, optimizer = train(
        classifier, BATCH, RULES["clipped"], static=True, steps=4, backend=device.NAME
    )
    x = np.ones((8, 4), "f")
    before = [p.array.copy() for p in model.params()]
    grads = [p.grad.copy() for p in model.params()]
    states = [{k: np.copy(v) for k, v in p.update_rule.state.items()} for p in model.params()]
    with pytest.raises(IndexError, match="index 3 at position 5 is out of range for 3") as caught:
        optimizer.update(model, x, np.array([0, 1, 2, 0, 1, 3, 0, 1], "i"))
    notes = getattr(caught.value, "__notes__", caught.value.args)
    assert "softmax_cross_entropy" in "".join(notes)
    for p, array, grad, state in zip(model.params(), before, grads, states, strict=True):
        np.testing.assert_array_equal(p.array, array)
        np.testing.assert_array_equal(p.grad, grad)
        for k, v in state.items():
            np.testing.assert_array_equal(p.update_rule.state[k], v)
    optimizer.update(model, x, np.zeros(8, "i"))
    assert model.schedule_manager.statistics.replays == 4  # the one that failed is none
    assert not np.array_equal(next(iter(model.params())).array, before[0])


@contextlib.contextmanager
def nobody_runs() -> Iterator[None]:
    """Kernels are launched, and no thread is there to run them."""
    threads = device.setting("threads")
    before, threads.value = threads.value, 0
    try:
        yield
    finally:
        threads.value = before
