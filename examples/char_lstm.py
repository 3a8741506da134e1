"""A language model of characters: a stateful LSTM, trained by truncated backprop through time.

    python examples/char_lstm.py [--explain]

The text is that of Python's own reference, which comes with Python (pydoc_data.topics).

Look at how the state goes from step to step: `L.LSTM` keeps it as Variables, and the call takes
their arrays alone. So the backward ends where the call began, and every step but the first few is
a whole one: 32 time steps forward and backward and the update in one native call. With the history
cut outside (``loss.unchain_backward()``, as in Chainer's own example) forward, backward and update
are three native calls; ``--explain`` would say so.
"""

import pydoc_data.topics

import sdbr  # first: makes Chainer importable

import chainer
import chainer.functions as F
import chainer.links as L
import common
import numpy as np

LENGTH = 32  # time steps to an update
STREAMS = 32  # places of the text that are read side by side


class CharLSTM(chainer.Chain):
    """Characters to scores of the next one."""

    def __init__(self, n_characters: int, n_units: int = 128):
        super().__init__()
        with self.init_scope():
            self.embed = L.EmbedID(n_characters, n_units)
            self.lstm = L.LSTM(n_units, n_units)
            self.out = L.Linear(n_units, n_characters)

    def forward(self, characters, following):
        """The loss, of arrays (time, streams)."""
        if self.lstm.h is not None:  # the state stays, its history does not
            c, h = self.lstm.c.array, self.lstm.h.array
            self.lstm.set_state(chainer.Variable(c), chainer.Variable(h))
        loss = 0
        for x, t in zip(characters, following, strict=True):
            loss += F.softmax_cross_entropy(self.score(x), t)
        self.loss = loss / len(characters)
        return self.loss

    def score(self, x):
        return self.out(self.lstm(self.embed(x)))

    @sdbr.static_graph
    def next(self, x):
        """Probabilities of the next character, (streams, characters)."""
        return F.softmax(self.score(x))


def read() -> tuple[str, np.ndarray]:
    """The characters that there are, and the text as their numbers."""
    topics = pydoc_data.topics.topics
    text = "".join(topics[name] for name in sorted(topics)).encode("ascii", "replace").decode()
    characters = "".join(sorted(set(text)))
    codes = np.searchsorted(list(characters), list(text)).astype(np.int32)
    return characters, codes


def write(model, characters: str, start: str, n: int) -> str:
    """Let the model go on from `start`."""
    rng = np.random.RandomState(0)  # not the global one, which training draws from
    model.lstm.reset_state()
    text = start
    with chainer.using_config("train", False), chainer.no_backprop_mode():
        for i in range(len(start) + n - 1):
            code = np.array([characters.index(text[i])], np.int32)
            p = model.next(code).array[0].astype(float) ** 1.5  # rather the likely ones
            if i + 1 == len(text):
                text += characters[rng.choice(len(p), p=p / p.sum())]
    return text


def train(steps):
    """Train; return the model, its static method `next`, and some text that it wrote."""
    characters, codes = read()
    model = sdbr.static_graph(CharLSTM(len(characters)))
    optimizer = sdbr.static_optimizer(chainer.optimizers.Adam(alpha=3e-3)).setup(model)
    optimizer.add_hook(chainer.optimizer_hooks.GradientClipping(5))

    streams = codes[: len(codes) // STREAMS * STREAMS].reshape(STREAMS, -1).T
    for i in steps:
        at = i * LENGTH % (len(streams) - LENGTH)
        optimizer.update(model, streams[at : at + LENGTH], streams[at + 1 : at + LENGTH + 1])
        steps.log(model.loss)
    return model, write(model, characters, "The ", 600)


def draw(axes, trained):
    """What the model wrote."""
    axes.text(0, 1, trained[-1], family="monospace", size=8, va="top", wrap=True)
    axes.set_axis_off()


if __name__ == "__main__":
    common.main(train, draw, steps=1500, plain=60, quick=10)
