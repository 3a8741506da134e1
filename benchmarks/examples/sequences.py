"""Language models, word vectors, memories, sentences in lists, trees, sound."""

from __future__ import annotations

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np
from chainer import optimizers
from chainer.dataset import concat_examples

from benchmarks.examples.example import BOTH, Example, Static, updates

WORDS = 1000


def words(rng, *shape: int):
    return rng.randint(0, WORDS, shape).astype("i")


def sentences(n: int, lengths):
    """Lists of sentences; ``lengths(rng)`` gives one length at a time."""
    rng = np.random.RandomState(1)
    return lambda: [words(rng, lengths(rng)) for _ in range(n)]


def same(rng) -> int:
    return 12


def other(rng) -> int:
    return rng.randint(5, 15)


# --- language models ----------------------------------------------------------------------------
class Language(chainer.Chain):
    """Two layers of LSTM that keep their state from word to word."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.embed = L.EmbedID(WORDS, 200)
            self.l1 = L.LSTM(200, 200)
            self.l2 = L.LSTM(200, 200)
            self.out = L.Linear(200, WORDS)

    def reset_state(self):
        self.l1.reset_state()
        self.l2.reset_state()

    def forward(self, x):
        h = F.dropout(self.l1(F.dropout(self.embed(x))))
        return self.out(F.dropout(self.l2(h)))


class Unrolled(Language):
    """All steps in one call, as Chainer's static example has them."""

    def forward(self, *xs):
        self.reset_state()
        return [Language.forward(self, x) for x in xs]


def ptb_unrolled(static: Static):
    model = static(Unrolled())
    optimizer = optimizers.SGD(1.0).setup(model)
    rng = np.random.RandomState(1)

    def step():
        xs = words(rng, 11, 20)
        ys = model(*xs[:-1])
        loss = sum(F.softmax_cross_entropy(y, t) for y, t in zip(ys, xs[1:], strict=True))
        model.cleargrads()
        loss.backward()
        optimizer.update()

    return step, [model]


def ptb(static: Static):
    """Truncated backpropagation: one call per word, one update every ten."""
    model = static(L.Classifier(Language()))
    model.compute_accuracy = False
    optimizer = optimizers.SGD(1.0).setup(model)
    optimizer.add_hook(chainer.optimizer_hooks.GradientClipping(5))
    rng = np.random.RandomState(1)

    def step():
        loss = sum(model(words(rng, 20), words(rng, 20)) for _ in range(10))
        model.cleargrads()
        loss.backward()
        loss.unchain_backward()
        optimizer.update()

    return step, [model]


# --- word vectors -------------------------------------------------------------------------------
class WordVectors(chainer.Chain):
    def __init__(self, loss, skip_gram: bool):
        super().__init__()
        self.skip_gram = skip_gram
        with self.init_scope():
            self.embed = L.EmbedID(WORDS, 100)
            self.loss = loss

    def forward(self, x, contexts):
        e = self.embed(contexts)
        if not self.skip_gram:
            return self.loss(F.sum(e, axis=1) / contexts.shape[1], x)
        n, width, size = e.shape
        x = F.reshape(F.broadcast_to(x[:, None], (n, width)), (-1,))
        return self.loss(F.reshape(e, (-1, size)), x)


class Softmax(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.out = L.Linear(100, WORDS)

    def forward(self, h, t):
        return F.softmax_cross_entropy(self.out(h), t)


LOSSES = {
    "hierarchical softmax": lambda: L.BinaryHierarchicalSoftmax(
        100, L.BinaryHierarchicalSoftmax.create_huffman_tree(dict.fromkeys(range(WORDS), 1))
    ),
    "negative sampling": lambda: L.NegativeSampling(100, [1] * WORDS, 5),
    "softmax": Softmax,
}


def word2vec(loss: str, skip_gram: bool):
    def prepare(static: Static):
        rng = np.random.RandomState(1)
        return updates(
            static, WordVectors(LOSSES[loss](), skip_gram), optimizers.Adam(),
            lambda: (words(rng, 100), words(rng, 100, 6)),
        )  # fmt: skip

    return prepare


# --- a network with memories --------------------------------------------------------------------
def sum_of_words(embed, x):
    return F.sum(embed(x), axis=-2)


def by_position(embed, x):
    e = embed(x)
    n, size = e.shape[-2:]
    length = np.maximum(np.sum((x != 0).astype("f"), axis=-1), 1)[..., None, None]
    k = np.arange(1, size + 1, dtype="f") / size
    i = np.arange(1, n + 1, dtype="f")[:, None]
    return F.sum(((1 - i / length) - k * (1 - 2.0 * i / length)) * e, axis=-2)


class Memories(chainer.Chain):
    """Three hops over sentences."""

    def __init__(self, encode):
        super().__init__()
        self.encode = encode
        with self.init_scope():
            self.embeds = chainer.ChainList(*[L.EmbedID(WORDS, 20) for _ in range(4)])
            self.order = L.EmbedID(10, 20)

    def forward(self, story, question):
        u = self.encode(self.embeds[0], question)
        when = self.order(np.arange(9, -1, -1, dtype="i"))
        for read, write in zip(self.embeds[:3], self.embeds[1:], strict=True):
            m = self.encode(read, story)
            m = m + F.broadcast_to(when, m.shape)
            p = F.softmax(F.squeeze(F.matmul(m, F.expand_dims(u, -1)), -1))
            c = F.swapaxes(self.encode(write, story), 2, 1)
            u = u + F.squeeze(F.matmul(c, F.expand_dims(p, -1)), -1)
        return F.linear(u, self.embeds[3].W)


def memnn(encode):
    def prepare(static: Static):
        rng = np.random.RandomState(1)
        return updates(
            static, L.Classifier(Memories(encode)), optimizers.Adam(),
            lambda: (words(rng, 100, 10, 7), words(rng, 100, 7), words(rng, 100)),
        )  # fmt: skip

    return prepare


# --- sentences in lists -------------------------------------------------------------------------
def embedded(embed, xs):
    places = np.cumsum([len(x) for x in xs[:-1]])
    return F.split_axis(F.dropout(embed(F.concat(xs, axis=0))), places, 0)


class Recurrent(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.embed = L.EmbedID(WORDS, 100)
            self.rnn = L.NStepLSTM(1, 100, 100, 0.4)
            self.out = L.Linear(100, 5)

    def forward(self, xs, ts):
        h, _, _ = self.rnn(None, None, embedded(self.embed, xs))
        return F.softmax_cross_entropy(self.out(F.dropout(h[-1], 0.4)), ts)


class Convolutional(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.embed = L.EmbedID(WORDS, 100, ignore_label=-1)
            self.convs = chainer.ChainList(
                *[L.Convolution2D(100, 33, (k, 1), pad=(k // 2, 0)) for k in (3, 4, 5)]
            )
            self.out = L.Linear(99, 5)

    def forward(self, xs, ts):
        x = concat_examples(xs, padding=-1)
        e = F.transpose(F.dropout(self.embed(x), 0.4), (0, 2, 1))[:, :, :, None]
        h = F.concat([F.max(F.relu(conv(e)), axis=2) for conv in self.convs])
        return F.softmax_cross_entropy(self.out(F.dropout(F.squeeze(h, 2), 0.4)), ts)


class Bag(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.embed = L.EmbedID(WORDS, 100, ignore_label=-1)
            self.hidden = L.Linear(100, 100)
            self.out = L.Linear(100, 5)

    def forward(self, xs, ts):
        e = self.embed(concat_examples(xs, padding=-1))
        h = F.sum(e, axis=1) / np.array([len(x) for x in xs], "f")[:, None]
        return F.softmax_cross_entropy(self.out(F.tanh(self.hidden(h))), ts)


def text(model, lengths):
    def prepare(static: Static):
        batch, rng = sentences(32, lengths), np.random.RandomState(2)
        return updates(
            static, model(), optimizers.Adam(),
            lambda: (batch(), rng.randint(0, 5, 32).astype("i")),
        )  # fmt: skip

    return prepare


class Translator(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.embed_x = L.EmbedID(WORDS, 100)
            self.embed_y = L.EmbedID(WORDS, 100)
            self.encoder = L.NStepLSTM(2, 100, 100, 0.1)
            self.decoder = L.NStepLSTM(2, 100, 100, 0.1)
            self.out = L.Linear(100, WORDS)

    def forward(self, xs, ys):
        end = np.array([0], "i")
        inputs = [F.concat([end, y], axis=0) for y in ys]
        targets = F.concat([F.concat([y, end], axis=0) for y in ys], axis=0)
        h, c, _ = self.encoder(None, None, embedded(self.embed_x, [x[::-1] for x in xs]))
        _, _, hs = self.decoder(h, c, embedded(self.embed_y, inputs))
        loss = F.softmax_cross_entropy(self.out(F.concat(hs, axis=0)), targets, reduce="no")
        return F.sum(loss) / len(xs)


class Tagger(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.feature = L.EmbedID(WORDS, 20)
            self.crf = L.CRF1d(20)

    def forward(self, xs, ts):
        return self.crf([self.feature(x) for x in xs], ts, transpose=True)


def seq2seq(lengths):
    def prepare(static: Static):
        xs, ys = sentences(16, lengths), sentences(16, lengths)
        return updates(static, Translator(), optimizers.Adam(), lambda: (xs(), ys()))

    return prepare


def tagging(static: Static):
    def batch():
        xs = sorted(draw(), key=len, reverse=True)
        return xs, [x % 20 for x in xs]

    draw = sentences(16, other)
    return updates(static, Tagger(), optimizers.Adam(), batch)


class Caption(chainer.Chain):
    """Features of an image, and then the words under it."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.image = L.Linear(512, 100)
            self.embed = L.EmbedID(WORDS, 100)
            self.rnn = L.NStepLSTM(1, 100, 100, 0.5)
            self.out = L.Linear(100, WORDS)

    def forward(self, features, captions):
        h, c, _ = self.rnn(None, None, F.split_axis(self.image(features), len(captions), 0))
        _, _, hs = self.rnn(h, c, [self.embed(x[:-1]) for x in captions])
        return F.softmax_cross_entropy(
            self.out(F.concat(hs, axis=0)), F.concat([x[1:] for x in captions], axis=0)
        )


def captions(static: Static):
    rng, xs = np.random.RandomState(2), sentences(16, same)
    return updates(
        static, Caption(), optimizers.Adam(), lambda: (rng.rand(16, 512).astype("f"), xs())
    )


# --- trees --------------------------------------------------------------------------------------
class Tree(chainer.Chain):
    """Scores for every node of a binary tree."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.embed = L.EmbedID(WORDS, 30)
            self.join = L.Linear(60, 30)
            self.score = L.Linear(30, 5)

    def leaf(self, word):
        return self.embed(word)

    def node(self, left, right):
        return F.tanh(self.join(F.concat((left, right))))

    def label(self, v, t):
        return F.softmax_cross_entropy(self.score(v), t)

    def walk(self, tree):
        t, *below = tree
        if len(below) == 1:
            loss, v = 0, self.leaf(np.array(below, "i"))
        else:
            (left_loss, left), (right_loss, right) = map(self.walk, below)
            loss, v = left_loss + right_loss, self.node(left, right)
        return loss + self.label(v, np.array([t], "i")), v


def _tree(rng, depth: int):
    if depth == 0 or rng.rand() < 0.2:
        return int(rng.randint(5)), int(rng.randint(WORDS))
    return int(rng.randint(5)), _tree(rng, depth - 1), _tree(rng, depth - 1)


def recursive(static: Static):
    """The parts are static; which of them run differs from tree to tree."""

    class Parts(Tree):
        leaf, node, label = (
            static(f) if static.on else f for f in (Tree.leaf, Tree.node, Tree.label)
        )

    model, rng = Parts(), np.random.RandomState(1)
    static.methods_of(model)
    optimizer = optimizers.AdaGrad(0.1).setup(model)

    def step():
        loss = sum(model.walk(_tree(rng, 4))[0] for _ in range(4))
        model.cleargrads()
        loss.backward()
        optimizer.update()

    return step, [model]


# --- sound --------------------------------------------------------------------------------------
class Wave(chainer.Chain):
    """Dilated convolutions that look back only, with gates."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.embed = L.Convolution2D(64, 32, (2, 1), pad=(1, 0))
            self.dilated = chainer.ChainList(
                *[L.DilatedConvolution2D(32, 64, (2, 1), pad=(2**i, 0), dilate=(2**i, 1))
                  for i in range(6)]
            )  # fmt: skip
            self.past = chainer.ChainList(*[L.Convolution2D(32, 32, 1) for _ in range(6)])
            self.out = L.Convolution2D(32, 64, 1)

    def forward(self, x, t):
        n = x.shape[2]
        h, total = self.embed(x)[:, :, :n], 0
        for dilated, past in zip(self.dilated, self.past, strict=True):
            a, b = F.split_axis(dilated(h)[:, :, :n], 2, axis=1)
            z = past(F.tanh(a) * F.sigmoid(b))
            h, total = h + z, total + z
        return F.softmax_cross_entropy(self.out(F.relu(total)), t)


def wavenet(static: Static):
    rng = np.random.RandomState(1)
    return updates(
        static, Wave(), optimizers.Adam(1e-3),
        lambda: (rng.rand(2, 64, 256, 1).astype("f"), rng.randint(0, 64, (2, 256, 1)).astype("i")),
    )  # fmt: skip


EXAMPLES = [
    Example("static PTB", "the network", ptb_unrolled),
    Example("ptb", "model", ptb),
    *(
        Example(f"word2vec, {kind}, {loss}", "`forward`, optimizer", word2vec(loss, skip_gram))
        for kind, skip_gram in (("skip-gram", True), ("CBOW", False))
        for loss in LOSSES
    ),
    Example("memnn, bow", BOTH, memnn(sum_of_words)),
    Example("memnn, pe", BOTH, memnn(by_position)),
    Example("sentiment, recursive", "`leaf`, `node`, `label`", recursive),
    Example("text_classification rnn, one length", BOTH, text(Recurrent, same)),
    Example("text_classification cnn, one length", BOTH, text(Convolutional, same)),
    Example("text_classification bow, one length", BOTH, text(Bag, same)),
    Example("seq2seq, one length", BOTH, seq2seq(same)),
    Example("image_captioning, NStepLSTM model", BOTH, captions),
    Example("wavenet", BOTH, wavenet),
    Example("text_classification rnn, lengths differ", BOTH, text(Recurrent, other)),
    Example("seq2seq, lengths differ", BOTH, seq2seq(other)),
    Example("pos, lengths differ", BOTH, tagging),
]
