"""Networks that read sequences: PTB's LSTM, seq2seq, a Transformer's encoder block."""

from __future__ import annotations

import itertools

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np

from .harness import Calls, Network

N_VOCABULARY = 20


class LstmLanguage(chainer.Chain):
    """Chainer's PTB example."""

    def __init__(self, n_vocabulary=N_VOCABULARY, n_units=8):
        super().__init__()
        with self.init_scope():
            self.embed = L.EmbedID(n_vocabulary, n_units)
            self.l1 = L.LSTM(n_units, n_units)
            self.l2 = L.LSTM(n_units, n_units)
            self.l3 = L.Linear(n_units, n_vocabulary)

    def reset_state(self):
        self.l1.reset_state()
        self.l2.reset_state()

    def forward(self, x):
        h = self.l1(F.dropout(self.embed(x), 0.5))
        h = self.l2(F.dropout(h, 0.5))
        return self.l3(F.dropout(h, 0.5))


class OneWord(chainer.Chain):
    """The loss of one position."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.predictor = LstmLanguage()

    def forward(self, x, t):
        self.loss = F.softmax_cross_entropy(self.predictor(x), t)
        return self.loss


class Unrolled(OneWord):
    """The loss of a window that begins with an empty state."""

    def forward(self, x, t):
        self.predictor.reset_state()
        total = 0
        for i in range(x.shape[1]):
            total += F.softmax_cross_entropy(self.predictor(x[:, i]), t[:, i])
        self.loss = total / x.shape[1]
        return self.loss


class PtbUnrolled(Network):
    def make(self):
        return Unrolled()

    def data(self, i):
        x = self.random.randint(0, N_VOCABULARY, (3, 6)).astype(np.int32)
        return x[:, :-1].copy(), x[:, 1:].copy()


class PtbStateful(Network):
    """Truncated back-propagation: one static call per word, the state is carried on."""

    traces = (2,)  # the first word finds no state
    styles = (Calls,)

    def make(self):
        return OneWord()

    def iterate(self, i):
        total = 0
        words = self.random.randint(0, N_VOCABULARY, (4, 3)).astype(np.int32)
        for x, t in itertools.pairwise(words):
            total += self.model(x, t)
        self.model.cleargrads()
        total.backward()
        total.unchain_backward()
        self.optimizer.update()
        return [total.array]


class Seq2seqChain(chainer.Chain):
    """Chainer's example: an encoder and a decoder of NStepLSTM on ragged lists."""

    def __init__(self, n_layers=2, n_source=15, n_target=12, n_units=6):
        super().__init__()
        with self.init_scope():
            self.embed_x = L.EmbedID(n_source, n_units)
            self.embed_y = L.EmbedID(n_target, n_units)
            self.encoder = L.NStepLSTM(n_layers, n_units, n_units, 0.1)
            self.decoder = L.NStepLSTM(n_layers, n_units, n_units, 0.1)
            self.W = L.Linear(n_units, n_target)

    def forward(self, xs, ys):
        xs = [x[::-1] for x in xs]
        eos = np.zeros(1, np.int32)
        ys_in = [F.concat([eos, y], axis=0) for y in ys]
        ys_out = [F.concat([y, eos], axis=0) for y in ys]
        exs = sequence_embed(self.embed_x, xs)
        eys = sequence_embed(self.embed_y, ys_in)
        hx, cx, _ = self.encoder(None, None, exs)
        _, _, os = self.decoder(hx, cx, eys)
        concat_os = F.concat(os, axis=0)
        concat_ys_out = F.concat(ys_out, axis=0)
        losses = F.softmax_cross_entropy(self.W(concat_os), concat_ys_out, reduce="no")
        self.loss = F.sum(losses) / len(xs)
        return self.loss


def sequence_embed(embed, xs):
    """Embed all sequences at once."""
    ends = np.cumsum([len(x) for x in xs[:-1]])
    return F.split_axis(embed(F.concat(xs, axis=0)), ends, 0)


class Seq2seq(Network):
    """Two sets of lengths in turn; NumPy adds up lengths in user code."""

    traces = (2,)
    iterations = 7
    LENGTHS = (((3, 5, 2), (4, 1, 3)), ((2, 2, 6), (1, 4, 2)))

    def make(self):
        return Seq2seqChain()

    def data(self, i):
        sources, targets = self.LENGTHS[i % 2]
        xs = [self.random.randint(1, 15, n).astype(np.int32) for n in sources]
        ys = [self.random.randint(1, 12, n).astype(np.int32) for n in targets]
        return xs, ys


class Attention(chainer.Chain):
    """Self-attention with several heads, on (batch, length, units)."""

    def __init__(self, n_units, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.scale = (n_units // n_heads) ** -0.5
        with self.init_scope():
            self.qkv = L.Linear(n_units, 3 * n_units)
            self.out = L.Linear(n_units, n_units)

    def forward(self, x):
        n, length, units = x.shape
        h = self.qkv(x, n_batch_axes=2)
        h = h.reshape((n, length, 3, self.n_heads, units // self.n_heads))
        q, k, v = F.separate(h.transpose((2, 0, 3, 1, 4)), axis=0)
        weights = F.softmax(F.matmul(q, k, transb=True) * self.scale, axis=3)
        h = F.matmul(F.dropout(weights, 0.1), v).transpose((0, 2, 1, 3))
        return self.out(h.reshape((n, length, units)), n_batch_axes=2)


class EncoderBlock(chainer.Chain):
    """Attention and two layers, each normalized before and added to its input."""

    def __init__(self, n_units, n_heads):
        super().__init__()
        with self.init_scope():
            self.ln1 = L.LayerNormalization(n_units)
            self.ln2 = L.LayerNormalization(n_units)
            self.attention = Attention(n_units, n_heads)
            self.ff1 = L.Linear(n_units, 4 * n_units)
            self.ff2 = L.Linear(4 * n_units, n_units)

    def forward(self, x):
        units = x.shape[2]
        h = self.ln1(x.reshape((-1, units))).reshape(x.shape)
        x = x + F.dropout(self.attention(h), 0.1)
        h = self.ln2(x.reshape((-1, units)))
        h = self.ff2(gelu(self.ff1(h))).reshape(x.shape)
        return x + F.dropout(h, 0.1)


def gelu(x):
    """Half of x times 1 + erf(x / sqrt(2))."""
    return 0.5 * x * (1 + F.erf(x * 0.5**0.5))


class EncoderChain(chainer.Chain):
    """Embedding, positions, blocks, one class per word."""

    def __init__(self, n_units=8, n_heads=2, length=5):
        super().__init__()
        with self.init_scope():
            self.embed = L.EmbedID(N_VOCABULARY, n_units)
            self.position = chainer.Parameter(chainer.initializers.Normal(0.1), (length, n_units))
            self.blocks = chainer.ChainList(*(EncoderBlock(n_units, n_heads) for _ in range(2)))
            self.ln = L.LayerNormalization(n_units)
            self.out = L.Linear(n_units, N_VOCABULARY)

    def forward(self, x, t):
        h = self.embed(x)
        h = h + F.broadcast_to(self.position, h.shape)
        for block in self.blocks:
            h = block(h)
        y = self.out(self.ln(h.reshape((-1, h.shape[2]))))
        self.loss = F.softmax_cross_entropy(y, t.reshape(-1))
        return self.loss


class TransformerEncoder(Network):
    def make(self):
        return EncoderChain()

    def data(self, i):
        x = self.random.randint(0, N_VOCABULARY, (2, 3, 5)).astype(np.int32)
        return x[0], x[1]
