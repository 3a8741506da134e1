"""Sequences: ragged batches, recurrences with state, decoders that stop by what they see."""

from __future__ import annotations

import random

import chainer
import numpy as np
from chainer import functions as F
from chainer import links as L

from benchmarks.wild.way import Program, Way, floats, labels, ring

WORDS = 50
END = 0


def _sentences(rng: np.random.RandomState, n: int, longest: int) -> list[np.ndarray]:
    return [labels(rng, WORDS, k) for k in rng.randint(2, longest, n)]


class Tagger(chainer.Chain):
    """A label for each sentence of a list."""

    def __init__(self) -> None:
        super().__init__()
        with self.init_scope():
            self.embed = L.EmbedID(WORDS, 16)
            self.lstm = L.NStepLSTM(1, 16, 16, 0.1)
            self.out = L.Linear(16, 4)

    def forward(self, xs, t):
        """The loss of a batch."""
        sections = np.cumsum([len(x) for x in xs[:-1]])
        embedded = F.split_axis(self.embed(F.concat(xs, axis=0)), sections, 0)
        h, _, _ = self.lstm(None, None, embedded)
        return F.softmax_cross_entropy(self.out(h[-1]), t)


def ragged_lstm(way: Way) -> Program:
    """Lists of sequences, of other lengths each time."""
    model = way.graph(Tagger())
    optimizer = way.optimizer(chainer.optimizers.Adam(1e-3), model)
    data = ring(lambda rng: (_sentences(rng, 6, 12), labels(rng, 4, 6)), 400)
    return Program(lambda i: optimizer.update(model, *data[i % 400]) or (), (model,))


class Padded(chainer.Chain):
    """The mean of the words of padded sentences."""

    def __init__(self) -> None:
        super().__init__()
        with self.init_scope():
            self.embed = L.EmbedID(WORDS, 16, ignore_label=-1)
            self.out = L.Linear(16, 4)

    def forward(self, xs, t):
        """Pads, embeds, divides by lengths."""
        block = F.pad_sequence(xs, padding=-1).array
        count = (block >= 0).sum(axis=1, keepdims=True).astype(chainer.config.dtype)
        loss = F.softmax_cross_entropy(self.out(F.sum(self.embed(block), axis=1) / count), t)
        chainer.report({"loss": loss}, self)
        return loss


def bag_of_words(way: Way) -> Program:
    """Sequences padded inside of the call."""
    model = way.graph(Padded())
    optimizer = way.optimizer(chainer.optimizers.Adam(1e-3), model)
    data = ring(lambda rng: (_sentences(rng, 16, 12), labels(rng, 4, 16)), 400)
    return Program(lambda i: optimizer.update(model, *data[i % 400]) or (), (model,))


class Seq2Seq(chainer.Chain):
    """An encoder, a decoder with attention over what is no padding."""

    def __init__(self, own: float = 0.0) -> None:
        super().__init__()
        with self.init_scope():
            self.embed_x, self.embed_y = L.EmbedID(WORDS, 16), L.EmbedID(WORDS, 16)
            self.encoder, self.decoder = L.StatelessGRU(16, 16), L.StatelessGRU(32, 16)
            self.out = L.Linear(16, WORDS)
        self.own = own

    def encode(self, x):
        """The states at all places."""
        h = np.zeros((len(x), 16), chainer.config.dtype)
        states = []
        for t in range(x.shape[1]):
            h = self.encoder(h, self.embed_x(x[:, t]))
            states.append(h)
        return F.stack(states, axis=1), h

    def attend(self, states, h, mask):
        """What the decoder looks at."""
        score = F.sum(states * F.broadcast_to(h[:, None], states.shape), axis=2) + mask
        return F.sum(states * F.broadcast_to(F.softmax(score)[:, :, None], states.shape), axis=1)

    def forward(self, x, y):
        """The loss of a batch; its own words are fed back now and then."""
        mask = np.zeros(x.shape, chainer.config.dtype)
        mask[x == END] = -1e4
        states, h = self.encode(x)
        loss, word = 0, y[:, 0]
        for t in range(1, y.shape[1]):
            seen = F.concat((self.embed_y(word), self.attend(states, h, mask)))
            h = self.decoder(h, seen)
            logits = self.out(h)
            loss += F.softmax_cross_entropy(logits, y[:, t])
            if self.own and random.random() < self.own:
                word = logits.array.argmax(axis=1).astype("i")
            else:
                word = y[:, t]
        return loss / (y.shape[1] - 1)


def _seq2seq(way: Way, own: float) -> Program:
    random.seed(0)
    model = way.graph(Seq2Seq(own))
    optimizer = way.optimizer(chainer.optimizers.Adam(1e-3), model)
    data = ring(lambda rng: (labels(rng, WORDS, 8, 5), labels(rng, WORDS, 8, 5)))
    return Program(lambda i: optimizer.update(model, *data[i % 16]) or (), (model,))


def attention(way: Way) -> Program:
    """A mask written in place."""
    return _seq2seq(way, 0.0)


def scheduled_sampling(way: Way) -> Program:
    """Python's random numbers decide at each word."""
    return _seq2seq(way, 0.3)


class Decoder(Seq2Seq):
    """Goes on until all sentences have ended."""

    def forward(self, x):
        """Words, as long as there are any to come."""
        mask = np.zeros(x.shape, chainer.config.dtype)
        mask[x == END] = -1e4
        states, h = self.encode(x)
        word = x[:, 0]
        over = np.zeros(len(x), bool)
        words = []
        while not over.all() and len(words) < 12:
            h = self.decoder(h, F.concat((self.embed_y(word), self.attend(states, h, mask))))
            word = self.out(h).array.argmax(axis=1).astype("i")
            over |= word % 7 == END
            words.append(word)
        return words


def greedy_decoding(way: Way) -> Program:
    """A while loop with a condition on what is computed."""
    model = way.graph(Decoder())
    data = ring(lambda rng: labels(rng, WORDS, 4, 5), 400)

    def step(i):
        with chainer.no_backprop_mode(), chainer.using_config("train", False):
            return len(model(data[i % 400]))

    return Program(step, (model,))


def beam_search(way: Way) -> Program:
    """A static step of the decoder, called for as many hypotheses as there are."""
    embed, cell, out = L.EmbedID(WORDS, 16), L.StatelessGRU(16, 16), L.Linear(16, WORDS)

    def advance(h, words):
        h = cell(h, embed(words))
        return h, F.log_softmax(out(h))

    advance = way.graph(advance)
    data = ring(lambda rng: floats(rng, 1, 16), 400)

    def step(i):
        with chainer.no_backprop_mode():
            beams = [(0.0, [END], data[i % 400])]
            done: list = []
            for _ in range(6):
                h, logp = advance(
                    np.concatenate([b[2] for b in beams]), np.array([b[1][-1] for b in beams], "i")
                )
                candidates = []
                for k, (score, words, _) in enumerate(beams):
                    for w in np.argsort(-logp.array[k])[:3]:
                        found = (
                            score + float(logp.array[k, w]),
                            [*words, int(w)],
                            h.array[k : k + 1],
                        )
                        (done if w % 7 == END else candidates).append(found)
                beams = sorted(candidates, key=lambda b: -b[0])[:3]
                if not beams:
                    break
        return max(b[0] for b in done + beams)

    return Program(step, (embed, cell, out))


class LanguageModel(chainer.Chain):
    """One step of a recurrence that keeps its state."""

    def __init__(self) -> None:
        super().__init__()
        with self.init_scope():
            self.embed, self.lstm, self.out = (
                L.EmbedID(WORDS, 16),
                L.LSTM(16, 32),
                L.Linear(32, WORDS),
            )

    def reset_state(self):
        """A new sequence begins."""
        self.lstm.reset_state()

    def forward(self, x):
        """Logits of the next words."""
        return self.out(F.dropout(self.lstm(self.embed(x)), 0.2))


def truncated_bptt(way: Way) -> Program:
    """Some steps, one backward, a history that is cut, a state that is forgotten now and then."""
    model = way.graph(LanguageModel())
    optimizer = way.optimizer(chainer.optimizers.SGD(0.1), model)
    optimizer.add_hook(chainer.optimizer.GradientClipping(5))
    data = ring(lambda rng: labels(rng, WORDS, 6, 8))

    def step(i):
        if i % 20 == 0:
            model.reset_state()
        words, loss = data[i % 16], 0
        for t in range(5):
            loss += F.softmax_cross_entropy(model(words[t]), words[t + 1])
        model.cleargrads()
        loss.backward()
        loss.unchain_backward()
        optimizer.update()
        return loss

    return Program(step, (model,))


class SkipGram(chainer.Chain):
    """Words and their neighbours, by negative sampling."""

    def __init__(self) -> None:
        super().__init__()
        counts = np.arange(1, WORDS + 1)
        with self.init_scope():
            self.embed = L.EmbedID(WORDS, 16)
            self.loss = L.NegativeSampling(16, counts, 5)

    def forward(self, x, contexts):
        """The loss of a batch."""
        e = self.embed(contexts)
        batch, n, units = e.shape
        x = F.broadcast_to(x[:, None], (batch, n))
        return self.loss(F.reshape(e, (batch * n, units)), F.reshape(x, (batch * n,)))


def word2vec(way: Way) -> Program:
    """Draws of a sampler."""
    model = way.graph(SkipGram())
    optimizer = way.optimizer(chainer.optimizers.Adam(1e-3), model)
    data = ring(lambda rng: (labels(rng, WORDS, 32), labels(rng, WORDS, 32, 4)))
    return Program(lambda i: optimizer.update(model, *data[i % 16]) or (), (model,))


class Acoustic(chainer.Chain):
    """Frames to letters; lengths are counted from the padding."""

    def __init__(self) -> None:
        super().__init__()
        with self.init_scope():
            self.conv, self.out = L.Convolution1D(8, 16, 3, pad=1), L.Linear(16, 8)

    def forward(self, x, t):
        """The loss of a batch."""
        h = F.transpose(F.relu(self.conv(x)), (2, 0, 1))
        frames = [self.out(part) for part in h]
        lengths = (t >= 0).sum(axis=1).astype("i")
        t = np.where(t < 0, 0, t).astype("i")
        full = np.full(len(t), len(frames), "i")
        return F.connectionist_temporal_classification(frames, t, 0, full, lengths)


def ctc(way: Way) -> Program:
    """Connectionist temporal classification."""
    model = way.graph(Acoustic())
    optimizer = way.optimizer(chainer.optimizers.Adam(1e-3), model)

    def make(rng):
        t = 1 + labels(rng, 7, 4, 4)
        for row, n in zip(t, rng.randint(1, 5, 4), strict=True):
            row[n:] = -1
        return floats(rng, 4, 8, 10), t

    data = ring(make)
    return Program(lambda i: optimizer.update(model, *data[i % 16]) or (), (model,))


class Transformer(chainer.Chain):
    """One block with a causal mask; accuracy as a number."""

    def __init__(self) -> None:
        super().__init__()
        with self.init_scope():
            self.embed, self.place = L.EmbedID(WORDS, 16), L.EmbedID(8, 16)
            self.q, self.k, self.v = (L.Linear(16, 16) for _ in range(3))
            self.norm, self.out = L.LayerNormalization(16), L.Linear(16, WORDS)

    def forward(self, x, t):
        """The loss of a batch."""
        batch, n = x.shape
        e = self.embed(x) + F.broadcast_to(self.place(np.arange(n, dtype="i")), (batch, n, 16))
        q, k, v = (f(e, n_batch_axes=2) for f in (self.q, self.k, self.v))
        score = F.matmul(q, k, transb=True) / 4
        seen = np.tril(np.ones((n, n), bool))
        score = F.where(np.broadcast_to(seen, score.shape), score, np.full_like(score.array, -1e4))
        h = F.reshape(e + F.matmul(F.softmax(score, axis=2), v), (batch * n, 16))
        y = self.out(self.norm(h))
        t = t.ravel()
        loss = F.softmax_cross_entropy(y, t, ignore_label=-1)
        right = (y.array.argmax(axis=1) == t).sum() / max(1, (t >= 0).sum())
        chainer.report({"loss": loss, "accuracy": right, "perp": np.exp(loss.array)}, self)
        return loss


def transformer(way: Way) -> Program:
    """Masks made by NumPy, accuracy and perplexity by NumPy."""
    model = way.graph(Transformer())
    optimizer = way.optimizer(chainer.optimizers.Adam(1e-3), model)
    data = ring(lambda rng: (labels(rng, WORDS, 8, 8), labels(rng, WORDS, 8, 8) - 1))
    return Program(lambda i: optimizer.update(model, *data[i % 16]) or (), (model,))
