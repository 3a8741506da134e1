"""Language models, word vectors, translation, trees, memories and taggers."""

from __future__ import annotations

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np
import pytest
from chainer import optimizers, reporter
from chainer.dataset import concat_examples

from .harness import DTYPES, ITERATIONS, both, parameters

VOCABULARY = 11


def words(rng, *shape):
    return rng.randint(1, VOCABULARY, shape).astype("i")


class LanguageModel(chainer.Chain):
    """Two LSTM layers that keep their state from word to word."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.embed = L.EmbedID(VOCABULARY, 6)
            self.l1 = L.LSTM(6, 6)
            self.l2 = L.LSTM(6, 6)
            self.out = L.Linear(6, VOCABULARY)

    def reset_state(self):
        self.l1.reset_state()
        self.l2.reset_state()

    def forward(self, x):
        h = self.l1(F.dropout(self.embed(x)))
        return self.out(F.dropout(self.l2(F.dropout(h))))


class Unrolled(chainer.Chain):
    """The same over a list of words, as the static language model of Chainer has it."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.slice = LanguageModel()

    def forward(self, xs):
        return [self.slice(x) for x in xs]


@pytest.mark.parametrize("unrolled", [False, True], ids=["step by step", "unrolled"])
@DTYPES
def test_language_model_with_truncated_backprop(dtype, unrolled):
    length = 4

    def train(static):
        model = static(Unrolled() if unrolled else L.Classifier(LanguageModel()))
        net = model.slice if unrolled else model.predictor
        optimizer = static.optimizer(optimizers.SGD(0.5)).setup(model)
        optimizer.add_hook(chainer.optimizer_hooks.GradientClipping(5))
        rng = np.random.RandomState(2)
        for i in range(ITERATIONS + 2):
            if i == ITERATIONS:
                net.reset_state()
            xs, ts = list(words(rng, length, 5)), list(words(rng, length, 5))
            losses = map(*((F.softmax_cross_entropy, model(xs)) if unrolled else (model, xs)), ts)
            loss = sum(losses, 0)
            model.cleargrads()
            loss.backward()
            loss.unchain_backward()
            optimizer.update()
            yield {"loss": loss.array, "h": net.l1.h.array, **parameters(model)}
        # Evaluation: a copy, which has a state of its own.
        evaluator = model.copy()
        (evaluator.slice if unrolled else evaluator.predictor).reset_state()
        with chainer.using_config("train", False), chainer.no_backprop_mode():
            x = words(rng, 5)
            y = evaluator([x])[0] if unrolled else evaluator(x, x)
            yield {"evaluated": y.array, "h": net.l1.h.array}

    static = both(train, dtype)
    statistics = static.statistics()
    calls = (ITERATIONS + 2) * (1 if unrolled else length)
    # With and without a state from before; after the reset that of the start serves again.
    assert (statistics.traces, statistics.replays) == (2, calls - 2)


class WordVectors(chainer.Chain):
    def __init__(self, loss, skip_gram):
        super().__init__()
        self.skip_gram = skip_gram
        with self.init_scope():
            self.embed = L.EmbedID(VOCABULARY, 5)
            self.loss = loss

    def forward(self, x, contexts):
        e = self.embed(contexts)
        if self.skip_gram:
            n, m, units = e.shape
            x = F.reshape(F.broadcast_to(x[:, None], (n, m)), (n * m,))
            loss = self.loss(F.reshape(e, (n * m, units)), x)
        else:
            loss = self.loss(F.sum(e, axis=1) * (1.0 / contexts.shape[1]), x)
        reporter.report({"loss": loss}, self)
        return loss


class FullSoftmax(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.out = L.Linear(5, VOCABULARY)

    def forward(self, h, t):
        return F.softmax_cross_entropy(self.out(h), t)


def hierarchical():
    counts = {i: 3 + i * i % 7 for i in range(VOCABULARY)}
    tree = L.BinaryHierarchicalSoftmax
    return tree(5, tree.create_huffman_tree(counts))


LOSSES = {
    "hierarchical softmax": hierarchical,
    "negative sampling": lambda: L.NegativeSampling(5, [3 + i for i in range(VOCABULARY)], 3),
    "softmax": FullSoftmax,
}


@pytest.mark.parametrize("skip_gram", [True, False], ids=["skip-gram", "bag of words"])
@pytest.mark.parametrize("loss", list(LOSSES))
def test_word_vectors(loss, skip_gram):
    dtype = "float32"  # in which the hierarchical softmax works

    def train(static):
        model = static(WordVectors(LOSSES[loss](), skip_gram))
        optimizer = static.optimizer(optimizers.SGD(0.05)).setup(model)
        rng = np.random.RandomState(2)
        for _ in range(ITERATIONS + 2):
            window = rng.randint(1, 3)  # its size changes
            x, contexts = words(rng, 6), words(rng, 6, 2 * window)
            optimizer.update(model, x, contexts)
            yield {"draw": np.random.rand(), **parameters(model)}

    static = both(train, dtype)
    statistics = static.statistics()
    assert statistics.traces <= 2
    assert statistics.steps == statistics.replays == ITERATIONS + 2 - statistics.traces


class Translator(chainer.Chain):
    """Encoder and decoder over lists of sentences of different length."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.embed_x = L.EmbedID(VOCABULARY, 4)
            self.embed_y = L.EmbedID(VOCABULARY, 4)
            self.encoder = L.NStepLSTM(1, 4, 4, 0.1)
            self.decoder = L.NStepLSTM(1, 4, 4, 0.1)
            self.out = L.Linear(4, VOCABULARY)

    def embedded(self, embed, xs):
        sections = np.cumsum([len(x) for x in xs[:-1]])
        return F.split_axis(embed(F.concat(xs, axis=0)), sections, 0)

    def forward(self, xs, ys):
        xs = [x[::-1] for x in xs]
        end = np.array([0], "i")
        inputs = [F.concat([end, y], axis=0) for y in ys]
        targets = F.concat([F.concat([y, end], axis=0) for y in ys], axis=0)
        hx, cx, _ = self.encoder(None, None, self.embedded(self.embed_x, xs))
        _, _, hs = self.decoder(hx, cx, self.embedded(self.embed_y, inputs))
        scores = self.out(F.concat(hs, axis=0))
        loss = F.sum(F.softmax_cross_entropy(scores, targets, reduce="no")) / len(xs)
        chainer.report({"loss": loss}, self)
        chainer.report({"perplexity": np.exp(loss.array * len(xs) / len(targets))}, self)
        return loss


@DTYPES
def test_translation_of_batches_with_few_shapes(dtype):
    shapes = [((4, 3, 3), (2, 4, 3)), ((5, 2, 2), (3, 3, 1))]

    def train(static):
        model = static(Translator())
        optimizer = static.optimizer(optimizers.SGD(0.2)).setup(model)
        r = chainer.Reporter()
        r.add_observer("main", model)
        rng = np.random.RandomState(2)
        for i in range(ITERATIONS + 4):
            of_x, of_y = shapes[i % 2]
            observation: dict = {}
            with r.scope(observation):
                loss = model([words(rng, n) for n in of_x], [words(rng, n) for n in of_y])
            model.cleargrads()
            loss.backward()
            optimizer.update()
            observed = {k: getattr(v, "array", v) for k, v in observation.items()}
            yield {"loss": loss.array, **observed, **parameters(model)}

    static = both(train, dtype)
    statistics = static.statistics()
    assert statistics.traces <= 4
    assert statistics.replays == ITERATIONS + 4 - statistics.traces
    assert statistics.define_by_run_calls == 0


class Tree(chainer.Chain):
    """Scores for every node of a binary tree: which nodes there are, differs from tree to tree."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.embed = L.EmbedID(VOCABULARY, 5)
            self.join = L.Linear(10, 5)
            self.score = L.Linear(5, 3)

    def leaf(self, word):
        return self.embed(word)

    def node(self, left, right):
        return F.tanh(self.join(F.concat((left, right))))

    def loss_of(self, v, label):
        return F.softmax_cross_entropy(self.score(v), label)

    def walk(self, tree, counts):
        label, *below = tree
        if len(below) == 1:
            loss, v = 0, self.leaf(np.array(below, "i"))
        else:
            left_loss, left = self.walk(below[0], counts)
            right_loss, right = self.walk(below[1], counts)
            loss, v = left_loss + right_loss, self.node(left, right)
        if counts is not None:
            counts["right"] += int(self.score(v).array.argmax() == label)
        return loss + self.loss_of(v, np.array([label], "i")), v

    def forward(self, *trees):
        return sum(self.walk(tree, None)[0] for tree in trees)


def random_tree(rng, depth):
    label = int(rng.randint(3))
    if depth == 0 or rng.rand() < 0.3:
        return (label, int(rng.randint(VOCABULARY)))
    return (label, random_tree(rng, depth - 1), random_tree(rng, depth - 1))


@DTYPES
def test_trees_whose_parts_are_static(dtype):
    def train(static):
        class Parts(Tree):
            leaf, node, loss_of = (
                static(f) if static.on else f for f in (Tree.leaf, Tree.node, Tree.loss_of)
            )

        model = Parts()
        optimizer = optimizers.AdaGrad(0.1).setup(model)
        rng = np.random.RandomState(2)
        for _ in range(ITERATIONS):
            counts = {"right": 0}
            loss = sum(model.walk(random_tree(rng, 3), counts)[0] for _ in range(3))
            model.cleargrads()
            loss.backward()
            optimizer.update()
            yield {"loss": loss.array, **counts, **parameters(model)}
        if static.on:
            managers = model._sdbr_managers.values()
            assert len(managers) == 3
            for manager in managers:
                assert manager.statistics.traces == 1
                assert manager.statistics.replays >= 4 * ITERATIONS

    both(train, dtype)


@DTYPES
def test_trees_that_come_again_are_static_as_a_whole(dtype):
    """A nest of numbers is part of the key."""
    rng = np.random.RandomState(4)
    trees = [random_tree(rng, 3) for _ in range(3)]

    def train(static):
        model = static(Tree())
        optimizer = static.optimizer(optimizers.SGD(0.1)).setup(model)
        for i in range(ITERATIONS + 2):
            optimizer.update(model, trees[i % 3])
            yield parameters(model)

    static = both(train, dtype)
    assert static.statistics().traces == 3
    assert static.statistics().replays == ITERATIONS - 1


def position_encoding(embed, sentences):
    e = embed(sentences)
    n_words, n_units = e.shape[-2:]
    length = np.maximum(np.sum((sentences != 0).astype(e.dtype), axis=-1), 1)[..., None, None]
    k = np.arange(1, n_units + 1, dtype=e.dtype) / n_units
    i = np.arange(1, n_words + 1, dtype=e.dtype)[:, None]
    return F.sum(((1 - i / length) - k * (1 - 2.0 * i / length)) * e, axis=-2)


def sum_of_words(embed, sentences):
    return F.sum(embed(sentences), axis=-2)


class Memory:
    """No link: holds links, and keeps Variables for the time of a call."""

    def __init__(self, read, write, order):
        self.read, self.write, self.order = read, write, order

    def store(self, encode, sentences):
        self.m, self.c = encode(self.read, sentences), encode(self.write, sentences)

    def query(self, u):
        size = self.m.shape[1]
        when = self.order(np.arange(size - 1, -1, -1, dtype="i"))
        m = self.m + F.broadcast_to(when, self.m.shape)
        p = F.softmax(F.matmul(m, F.expand_dims(u, -1)))
        return F.squeeze(F.matmul(F.swapaxes(self.c, 2, 1), p), -1) + u


class MemoryNetwork(chainer.Chain):
    def __init__(self, encode):
        super().__init__()
        with self.init_scope():
            self.embeds = chainer.ChainList(*[L.EmbedID(VOCABULARY, 6) for _ in range(3)])
            self.order = L.EmbedID(4, 6)
        self.memories = [Memory(self.embeds[i], self.embeds[i + 1], self.order) for i in (0, 1)]
        self.encode = encode

    def forward(self, sentences, question):
        for memory in self.memories:
            memory.store(self.encode, sentences)
        u = self.encode(self.embeds[0], question)
        for memory in self.memories:
            u = memory.query(u)
        return F.linear(u, self.embeds[2].W)


@pytest.mark.parametrize("encode", [sum_of_words, position_encoding])
@DTYPES
def test_memory_network(dtype, encode):
    def train(static):
        model = static(L.Classifier(MemoryNetwork(encode), label_key="answer"))
        optimizer = static.optimizer(optimizers.Adam()).setup(model)
        rng = np.random.RandomState(2)
        for _ in range(ITERATIONS + 2):
            sentences = words(rng, 3, 4, 5)
            sentences[rng.rand(*sentences.shape) < 0.3] = 0
            optimizer.update(
                model, sentences=sentences, question=words(rng, 3, 5), answer=words(rng, 3)
            )
            yield {"loss": model.loss.array, "accuracy": model.accuracy.array, **parameters(model)}
            for embed in model.predictor.embeds:  # the padding is no word
                embed.W.array[0, :] = 0

    static = both(train, dtype)
    assert static.statistics().traces == 1  # what an earlier call has left in the memories: unread
    assert static.statistics().steps == ITERATIONS + 1


class TextClassifier(chainer.Chain):
    """Sentences padded to the longest inside the call; a convolution over the words."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.embed = L.EmbedID(VOCABULARY, 4, ignore_label=-1)
            self.conv = L.Convolution2D(4, 5, (3, 1), pad=(1, 0))
            self.out = L.Linear(5, 3)

    def forward(self, xs, ts):
        x = concat_examples(xs, padding=-1)
        e = F.transpose(F.dropout(self.embed(x), 0.3), (0, 2, 1))[:, :, :, None]
        h = F.max(F.relu(self.conv(e)), axis=2)
        y, t = self.out(F.squeeze(h, 2)), F.concat(ts, axis=0)
        loss = F.softmax_cross_entropy(y, t)
        reporter.report({"loss": loss, "accuracy": F.accuracy(y, t)}, self)
        return loss


@pytest.mark.filterwarnings("ignore:Passing more than 2 positional:DeprecationWarning")
@DTYPES
def test_text_classification_with_padding(dtype):
    def train(static):
        model = static(TextClassifier())
        optimizer = static.optimizer(optimizers.Adam()).setup(model)
        rng = np.random.RandomState(2)
        for _ in range(ITERATIONS + 1):
            optimizer.update(
                model, [words(rng, n) for n in (6, 4, 7)], list(rng.randint(0, 3, (3, 1), "i"))
            )
            yield parameters(model)

    static = both(train, dtype)
    assert static.statistics().traces == 1
    assert static.statistics().replays == ITERATIONS


class Tagger(chainer.Chain):
    """A conditional random field; counts of right labels are reported."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.feature = L.EmbedID(VOCABULARY, 4)
            self.crf = L.CRF1d(4)

    def forward(self, xs, ts):
        hs = [self.feature(x) for x in xs]
        loss = self.crf(hs, ts, transpose=True)
        _, paths = self.crf.argmax(hs, transpose=True)
        right = total = 0
        for t, path in zip(ts, paths, strict=True):
            right += np.sum(t == path)
            total += len(t)
        reporter.report({"loss": loss, "right": right, "total": total}, self)
        return loss


@DTYPES
def test_tagging_with_a_conditional_random_field(dtype):
    def train(static):
        model = static(Tagger())
        optimizer = static.optimizer(optimizers.Adam()).setup(model)
        r = chainer.Reporter()
        r.add_observer("main", model)
        rng = np.random.RandomState(2)
        for _ in range(ITERATIONS + 1):
            xs = [words(rng, n) for n in (4, 3, 3)]
            observation: dict = {}
            with r.scope(observation):
                optimizer.update(model, xs, [x % 4 for x in xs])
            observed = {k: float(getattr(v, "array", v)) for k, v in observation.items()}
            yield {**observed, **parameters(model)}

    static = both(train, dtype)
    assert static.statistics().traces <= 2
    assert static.statistics().define_by_run_calls == 0


class Put(chainer.Function):
    """Writes rows into the very array it is given, and hands that out."""

    def forward(self, inputs):
        stack, place, rows = inputs
        stack[np.arange(len(place)), place] = rows
        return (stack,)

    def backward(self, inputs, grads):
        place, (g,) = inputs[1], grads
        taken = g[np.arange(len(place)), place]
        g[np.arange(len(place)), place] = 0
        return g, None, taken


class Take(chainer.Function):
    """Gives rows of a stack, and the stack on."""

    def forward(self, inputs):
        stack, place = inputs
        return stack[np.arange(len(place)), place], stack

    def backward(self, inputs, grads):
        stack, place = inputs
        g, rest = grads
        rest = np.zeros_like(stack) if rest is None else rest
        if g is not None:
            rest[np.arange(len(place)), place] += g
        return rest, None


class StackedTree(Tree):
    """Trees of one shape side by side: their nodes lie in one array, which is written in place."""

    def forward(self, words, labels, lefts, rights):
        n, n_leaves = words.shape
        stack = np.zeros((n, 2 * n_leaves, 5), chainer.get_dtype())
        loss = right = 0
        for i in range(n_leaves):
            stack = Put()(stack, np.full(n, i, "i"), self.embed(words[:, i]))
        for i in range(n_leaves - 1):
            left, stack = Take()(stack, lefts[:, i])
            other, stack = Take()(stack, rights[:, i])
            v = self.node(left, other)
            y = self.score(v)
            loss += F.softmax_cross_entropy(y, labels[:, i]) * n
            right += (np.argmax(y.array, axis=1) == labels[:, i]).sum()
            stack = Put()(stack, np.full(n, n_leaves + i, "i"), v)
        reporter.report({"loss": loss, "right": right}, self)
        return loss / n


@DTYPES
def test_trees_side_by_side_in_an_array_written_in_place(dtype):
    def train(static):
        model = static(StackedTree())
        optimizer = static.optimizer(optimizers.SGD(0.1)).setup(model)
        r = chainer.Reporter()
        r.add_observer("main", model)
        rng = np.random.RandomState(2)
        for _ in range(ITERATIONS):
            # Each inner node joins two that are there: which ones, differs from tree to tree.
            order = np.array([rng.permutation(4 + i)[:2] for i in range(3) for _ in range(3)], "i")
            lefts, rights = order.reshape(3, 3, 2).transpose(2, 1, 0)
            observation: dict = {}
            with r.scope(observation):
                optimizer.update(
                    model, words(rng, 3, 4), rng.randint(0, 3, (3, 3)).astype("i"), lefts, rights
                )
            observed = {k: float(getattr(v, "array", v)) for k, v in observation.items()}
            yield {**observed, **parameters(model)}

    static = both(train, dtype)
    assert static.statistics().define_by_run_calls == 0
    assert static.statistics().replays >= ITERATIONS - 2
