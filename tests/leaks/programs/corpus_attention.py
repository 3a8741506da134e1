"""Attention, caches, beam search, sampling from a model."""

import functools
import heapq

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np

from tests.leaks.programs._kit import Embedding, forward, loss, sequences, table, words

MASKS = {}


class Attention(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.q = L.Linear(4, 6)
            self.k = L.Linear(4, 6, nobias=True)  # its gradient would be noise
            self.v = L.Linear(4, 6)
            self.o = L.Linear(6, 4)

    def heads(self, link, x, n=2):
        b, t, _ = x.shape
        h = link(x.reshape(-1, 4)).reshape(b, t, n, -1)
        return F.transpose(h, (0, 2, 1, 3))

    def attend(self, x, bias=None, n=2):
        b, t, _ = x.shape
        q, k, v = (self.heads(link, x, n) for link in (self.q, self.k, self.v))
        a = F.matmul(q, k, transb=True) / np.sqrt(q.shape[-1]).astype("f")
        if bias is not None:
            a = a + F.broadcast_to(bias, a.shape)
        self.weights = F.softmax(a, axis=3)
        h = F.transpose(F.matmul(self.weights, v), (0, 2, 1, 3)).reshape(b * t, -1)
        return self.o(h).reshape(b, t, -1)


def query_keys(run, n):
    return run.array(n, 4), run.array(n, 5, 4)


def with_lengths(run, n):
    return run.array(n, 5, 4), (run.labels(n, 5) + 1).tolist()


def with_mask(run, n):
    return run.array(n, 5, 4), run.array(n, 5) > -1


table(
    globals(),
    forward,
    {
        "self_attention": lambda self, x: self.attend(x),
        "one_head": lambda self, x: self.attend(x, n=1),
        "causal_tri": lambda self, x: self.attend(x, (1 - np.tri(5, dtype="f")) * -1e9),
        "causal_triu_indices": lambda self, x: self.attend(x, _upper(x.shape[1])),
        "causal_cached_global": lambda self, x: self.attend(x, _global_mask(x.shape[1])),
        "causal_cached_attribute": lambda self, x: self.attend(
            x, _attribute_mask(self, x.shape[1])
        ),
        "relative_positions": lambda self, x: self.attend(
            x, -abs(np.arange(5, dtype="f")[:, None] - np.arange(5, dtype="f"))
        ),
        "bias_from_data": lambda self, x: self.attend(
            x, -1e3 * (x[:, None, None, :, 0] > 1).astype("f")
        ),
        "weights_returned": lambda self, x: (self.attend(x), self.weights),
        "weights_array_kept": lambda self, x: _weights_kept(self, x),
        "entropy_of_weights": lambda self, x: (
            self.attend(x),
            F.sum(self.weights * F.log(self.weights + 1e-6)),
        )[1],
        "hard_attention_argmax": lambda self, x: (self.attend(x), F.max(self.weights, axis=3))[1],
        "sparse_top2": lambda self, x: _top2(self, x),
        "window_band": lambda self, x: self.attend(
            x, -1e9 * (1 - np.tri(5, k=1, dtype="f") * np.tri(5, k=1, dtype="f").T)
        ),
        "two_layers": lambda self, x: self.attend(self.attend(x)),
        "residual_norm": lambda self, x: F.layer_normalization(
            (x + self.attend(x)).reshape(-1, 4), np.array([1, 2, 3, 4], "f"), np.ones(4, "f")
        ),
        "dropout_on_weights": lambda self, x: (
            self.attend(x),
            F.matmul(F.dropout(self.weights, 0.2), self.heads(self.v, x)),
        )[1],
        "head_dropout_by_hand": lambda self, x: self.attend(
            x, np.where(np.random.rand(1, 2, 1, 1) < 0.2, -5, 0).astype("f")
        ),
        "einsum": lambda self, x: F.einsum("bqd,bkd->bqk", self.attend(x), x),
        "chunks_of_rows": lambda self, x: F.concat(
            [self.attend(x[i : i + 2]) for i in range(0, len(x), 2)], axis=0
        ),
        "memory_grows_in_call": lambda self, x: _grow(self, x),
        "kv_cache_attribute": lambda self, x: _kv(self, x),
        "kv_cache_list": lambda self, x: _kv_list(self, x),
        "positional_encoding": lambda self, x: self.attend(x + _positions(x.shape[1], 4)),
        "positional_encoding_cached": lambda self, x: self.attend(
            x + _positions_cached(x.shape[1], 4)
        ),
        "rotary": lambda self, x: self.attend(_rotate(x)),
        "alibi_slopes": lambda self, x: self.attend(
            x, -np.array([0.5, 0.25], "f")[None, :, None, None] * np.arange(5, dtype="f")
        ),
        "softmax_temperature_attribute": lambda self, x: F.softmax(
            self.attend(x) / self.temperature, axis=2
        ),
        "temperature_decayed": lambda self, x: _decayed(self, x),
        "linear_attention": lambda self, x: F.matmul(
            F.elu(self.heads(self.q, x)) + 1,
            F.matmul(self.heads(self.k, x), self.heads(self.v, x), transa=True),
        ),
    },
    net=Attention,
    inputs=sequences,
    cache=None,
    past=list,
    temperature=1.0,
    mask=dict,
)


def _upper(n):
    mask = np.zeros((n, n), "f")
    mask[np.triu_indices(n, 1)] = -1e9
    return mask


def _global_mask(n):
    if n not in MASKS:
        MASKS[n] = _upper(n)
    return MASKS[n]


def _attribute_mask(self, n):
    if n not in self.mask:
        self.mask[n] = _upper(n)
    return self.mask[n]


def _weights_kept(self, x):
    y = self.attend(x)
    self.kept = self.weights.array.mean(axis=(0, 1))
    return y


def _top2(self, x):
    self.attend(x)
    w = self.weights
    edge = np.sort(w.array, axis=3)[..., -2:-1]
    return F.matmul(w * (w.array >= edge), self.heads(self.v, x))


def _grow(self, x):
    keys = []
    out = []
    for i in range(5):
        keys.append(self.k(x[:, i]))
        k = F.stack(keys, axis=1)
        a = F.softmax(F.matmul(k, self.q(x[:, i])[..., None])[..., 0])
        out.append(F.sum(F.broadcast_to(a[..., None], k.shape) * k, axis=1))
    return F.stack(out, axis=1)


def _kv(self, x):
    k = self.k(x[:, 0])[:, None]
    if self.cache is not None and self.cache.shape[0] == len(x):
        k = F.concat([self.cache, k], axis=1)[:, -3:]
    self.cache = k.array
    return F.sum(k * F.broadcast_to(self.q(x[:, 1])[:, None], k.shape), axis=2)


def _kv_list(self, x):
    self.past.append(self.k(x[:, 0]).array.mean(0))
    return self.q(x[:, 1]) * np.mean(self.past[-2:], axis=0)


def _positions(n, d):
    rate = 1 / 100 ** (np.arange(d) / d)
    return np.sin(np.arange(n)[:, None] * rate).astype("f")


@functools.lru_cache
def _positions_cached(n, d):
    return _positions(n, d)


def _rotate(x):
    angle = np.arange(5, dtype="f")[:, None] * np.array([1, 0.1], "f")
    a, b = x[..., :2], x[..., 2:]
    return np.concatenate(
        [a * np.cos(angle) - b * np.sin(angle), a * np.sin(angle) + b * np.cos(angle)], -1
    )


def _decayed(self, x):
    self.temperature *= 0.9
    return F.softmax(self.attend(x) / self.temperature, axis=2)


@forward(net=Attention, inputs=query_keys)
def p_cross_attention(self, x, ks):
    q, k, v = self.q(x), self.k(ks.reshape(-1, 4)), self.v(ks.reshape(-1, 4))
    k, v = k.reshape(len(x), 5, 6), v.reshape(len(x), 5, 6)
    a = F.softmax(F.batch_matmul(k, q)[..., 0])
    return F.batch_matmul(v, a, transa=True)[..., 0]


@forward(net=Attention, inputs=query_keys)
def p_pointer(self, x, ks):
    score = F.batch_matmul(self.k(ks, n_batch_axes=2), self.q(x))[..., 0]
    picked = score.array.argmax(axis=1)
    return score, ks[np.arange(len(x)), picked]


@forward(net=Attention, inputs=query_keys)
def p_pointer_gather_variable(self, x, ks):
    h = self.k(ks, n_batch_axes=2)
    score = F.batch_matmul(h, self.q(x))[..., 0]
    return h[np.arange(len(x)), F.argmax(score, axis=1).array]


@forward(net=Attention, inputs=query_keys)
def p_memory_read_write(self, x, ks):
    memory = chainer.Variable(np.eye(3, 6, dtype="f") * np.ones((len(x), 1, 1), "f"))
    for i in range(3):
        address = F.softmax(
            F.sum(memory * F.broadcast_to(self.q(x)[:, None], memory.shape), axis=2)
        )
        memory = memory + F.matmul(address[..., None], self.v(ks[:, i])[:, None])
    return memory


@forward(net=Attention, inputs=with_lengths)
def p_lengths_list_mask(self, x, lengths):
    bias = np.zeros((len(x), 1, 1, 5), "f")
    for i, n in enumerate(lengths):
        bias[i, ..., n:] = -1e9
    return self.attend(x, bias)


@forward(net=Attention, inputs=with_lengths)
def p_lengths_compare(self, x, lengths):
    mask = np.arange(5)[None] < np.array(lengths)[:, None]
    return self.attend(x, np.where(mask, 0, -1e9).astype("f")[:, None, None])


@forward(net=Attention, inputs=with_mask)
def p_bool_mask_argument(self, x, mask):
    return self.attend(x, (1 - mask[:, None, None].astype("f")) * -1e9)


@forward(net=Attention, inputs=with_mask)
def p_bool_mask_all(self, x, mask):
    if mask.all():
        return self.attend(x)
    return self.attend(x, np.where(mask, 0, -1e9).astype("f")[:, None, None])


@forward(net=Attention, inputs=with_mask)
def p_bool_mask_where_variable(self, x, mask):
    y = self.attend(x)
    return F.where(np.broadcast_to(mask[..., None], y.shape), y, np.zeros(y.shape, "f"))


@forward(net=Embedding, inputs=words)
def p_copy_mechanism(self, x):
    h = F.sum(self.embed(x), axis=1)
    p = F.softmax(F.matmul(h, self.embed.W, transb=True))
    copy = np.zeros((len(x), 10), "f")
    np.add.at(copy, (np.arange(len(x))[:, None], np.maximum(x, 0)), 0.2)
    return 0.5 * p + 0.5 * copy


@forward(net=Embedding, inputs=words)
def p_vocabulary_of_batch(self, x):
    vocabulary, inverse = np.unique(np.maximum(x, 0), return_inverse=True)
    return self.out(F.sum(self.embed(vocabulary)[inverse.reshape(x.shape)], axis=1))


@forward(net=Embedding, inputs=words)
def p_greedy_inside(self, x):
    word = np.maximum(x[:, 0], 0)
    ys = []
    for _ in range(4):
        y = F.matmul(self.embed(word), self.embed.W, transb=True)
        word = y.array.argmax(1).astype("i")
        ys.append(y)
    return F.stack(ys)


@forward(net=Embedding, inputs=words)
def p_greedy_with_stop(self, x):
    word = np.maximum(x[:, 0], 0)
    out = []
    for _ in range(4):
        word = F.matmul(self.embed(word), -self.embed.W, transb=True).array.argmax(1).astype("i")
        out.append(word)
        if (word == 0).any():
            break
    return np.stack(out)


@forward(net=Embedding, inputs=words)
def p_sample_inside(self, x):
    word = np.maximum(x[:, 0], 0)
    for _ in range(3):
        p = F.softmax(F.matmul(self.embed(word), self.embed.W, transb=True)).array.astype("d")
        word = np.array([np.random.choice(10, p=q / q.sum()) for q in p], "i")
    return self.out(self.embed(word))


@forward(net=Embedding, inputs=words)
def p_gumbel_max_inside(self, x):
    y = F.matmul(self.embed(np.maximum(x[:, 0], 0)), self.embed.W, transb=True)
    word = F.argmax(y + self.xp.random.gumbel(size=y.shape).astype("f"), axis=1)
    return self.out(self.embed(word))


@forward(net=Embedding, inputs=words)
def p_top_k_filter(self, x):
    y = F.matmul(self.embed(np.maximum(x[:, 0], 0)), self.embed.W, transb=True)
    edge = np.sort(y.array, axis=1)[:, -3][:, None]
    return F.softmax(F.where(y.array >= edge, y, np.full(y.shape, -1e9, "f")))


@forward(net=Embedding, inputs=words)
def p_nucleus_filter(self, x):
    p = F.softmax(F.matmul(self.embed(np.maximum(x[:, 0], 0)), self.embed.W, transb=True))
    order = np.argsort(-p.array, axis=1)
    total = np.cumsum(np.take_along_axis(p.array, order, 1), axis=1)
    keep = np.zeros(p.shape, "f")
    np.put_along_axis(keep, order, (total < 0.8).astype("f"), axis=1)
    return p * keep


@forward(net=Embedding, inputs=words)
def p_beam_inside(self, x):
    beams = [(0.0, [int(max(x[0, 0], 0))])]
    for _ in range(3):
        longer = []
        for score, path in beams:
            y = F.matmul(self.embed(np.array(path[-1:], "i")), self.embed.W, transb=True)
            logs = F.log_softmax(y).array[0]
            longer += [(score + float(logs[w]), [*path, int(w)]) for w in np.argsort(-logs)[:2]]
        beams = heapq.nlargest(2, longer)
    return [path for _, path in beams], beams[0][0]


@forward(net=Embedding, inputs=words)
def p_forbid_repeated_words(self, x):
    y = F.matmul(F.sum(self.embed(x), axis=1), self.embed.W, transb=True)
    bad = np.zeros(y.shape, "f")
    for i, row in enumerate(x):
        for w in set(row[row >= 0].tolist()):
            bad[i, w] = -1e9
    return F.softmax(y + bad)


class Step(Embedding):
    def forward(self, word, h):
        h = F.tanh(self.embed(word) + h)
        return F.log_softmax(F.matmul(h, self.embed.W, transb=True)), h


def p_beam_search_around(run):
    step = run.static(Step())
    for start in range(4):
        beams = [(0.0, [start], np.zeros((1, 6), "f"))]
        for _ in range(4):
            longer = []
            for score, path, h in beams:
                y, h = step(np.array(path[-1:], "i"), h)
                for w in np.argsort(-y.array[0])[:2]:
                    longer.append((score + float(y.array[0, w]), [*path, int(w)], h.array))
            beams = sorted(longer, key=lambda b: -b[0])[:2]
        run.see("beams", beams)


def p_beam_search_batched(run):
    step = run.static(Step())
    for start in range(5):
        word, h = np.array([start, start + 1], "i"), np.zeros((2, 6), "f")
        score = np.zeros(2, "f")
        for _ in range(4):
            with chainer.no_backprop_mode():
                y, h = step(word, h)
            total = (score[:, None] + y.array).ravel()
            best = np.argsort(-total)[:2]
            score, word = total[best], (best % 10).astype("i")
            h = h[best // 10]
        run.see("best", word, score, h)


def p_sampling_around(run):
    step = run.static(Step())
    for i in range(5):
        word, h, out = np.array([i], "i"), np.zeros((1, 6), "f"), []
        while len(out) < 6 and word[0] != 0:
            y, h = step(word, h)
            p = np.exp(y.array[0].astype("d"))
            word = np.random.choice(10, size=1, p=p / p.sum()).astype("i")
            out.append(int(word[0]))
        run.see("sampled", out)


def p_results_kept_from_every_call(run):
    step = run.static(Step())
    h = np.zeros((2, 6), "f")
    kept = []
    for i in range(8):
        y, h = step(np.array([i, 9 - i], "i"), h)
        kept.append((y, h))
    run.see("kept", kept)
    F.sum(sum(y for y, _ in kept)).backward()
    run.see("model", step)


def p_encoder_once_decoder_often(run):
    class Translator(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.encoder = L.Linear(4, 6)
                self.decoder = L.Linear(6, 6)

        @run.static
        def encode(self, x):
            self.memory = F.tanh(self.encoder(x))
            return self.memory

        @run.static
        def decode(self, h):
            a = F.softmax(F.matmul(h, self.memory, transb=True))
            return F.tanh(self.decoder(F.matmul(a, self.memory)))

    model = Translator()
    for i in range(6):
        model.encode(run.array(5, 4))
        h = chainer.Variable(run.array(2, 6))
        for _ in range(3 if i != 4 else 1):
            h = model.decode(h)
        model.cleargrads()
        F.sum(h * h).backward()
        run.see("h", h, model)


def p_scheduled_sampling_around(run):
    step = run.static(Step())
    optimizer = chainer.optimizers.SGD(0.1).setup(step)
    for epoch in range(5):
        x = run.labels((3, 5), 10)
        h, total = np.zeros((3, 6), "f"), 0
        word = x[:, 0]
        for i in range(1, 5):
            y, h = step(word, h)
            total -= F.sum(F.select_item(y, x[:, i]))
            truth = np.random.rand(3) < 1 / (1 + epoch)
            word = np.where(truth, x[:, i], y.array.argmax(1)).astype("i")
        step.cleargrads()
        total.backward()
        optimizer.update()
        run.see("total", total, step)


@loss(net=Embedding, inputs=words)
def p_masked_language_model(self, x):
    x = np.maximum(x, 0)
    hide = np.random.rand(*x.shape) < 0.3
    h = F.sum(self.embed(np.where(hide, -1, x).astype("i")), axis=1)
    y = F.matmul(h, self.embed.W, transb=True)
    t = np.where(hide, x, -1).astype("i")
    return sum(F.softmax_cross_entropy(y, t[:, i]) for i in range(5))


@loss(net=Embedding, inputs=words)
def p_masked_by_position_draw(self, x):
    x = np.maximum(x, 0)
    i = np.random.randint(5)
    t = x[:, i].copy()
    x[:, i] = 0
    y = F.matmul(F.sum(self.embed(x), axis=1), self.embed.W, transb=True)
    return F.softmax_cross_entropy(y, t)


@loss(net=Attention, inputs=query_keys)
def p_contrastive(self, x, ks):
    q, k = self.q(x), self.k(ks[:, 0])
    q, k = F.normalize(q), F.normalize(k)
    logits = F.matmul(q, k, transb=True) / 0.1
    t = np.arange(len(x), dtype="i")
    chainer.report({"hits": (logits.array.argmax(1) == t).mean()}, self)
    return F.softmax_cross_entropy(logits, t)


@loss(net=Attention, inputs=query_keys, queue=None)
def p_contrastive_queue(self, x, ks):
    q, k = F.normalize(self.q(x)), F.normalize(self.k(ks[:, 0]))
    if self.queue is None:
        self.queue = np.zeros((4, 6), "f")
    logits = F.concat([F.matmul(q, k, transb=True), F.matmul(q, self.queue, transb=True)])
    self.queue = np.concatenate([k.array[:2], self.queue[:-2]])
    return F.softmax_cross_entropy(logits, np.arange(len(x), dtype="i"))


@loss(net=Attention, inputs=query_keys)
def p_triplet_semi_hard(self, x, ks):
    a, b = self.q(x), self.k(ks[:, 0])
    d = F.sum((a[:, None] - F.broadcast_to(b[None], (len(x), *b.shape))) ** 2, axis=2)
    hard = (d.array + 1e3 * np.eye(len(x), dtype="f")).argmin(axis=1)
    positive = F.sum((a - b) ** 2, axis=1)
    return F.mean(F.relu(positive - F.select_item(d, hard.astype("i")) + 0.2))
