"""Sequences: masks, padding, recurrent state."""

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np

from tests.leaks.programs._kit import Embedding, Recurrent, forward, loss, sequences, table, words


class Cell(chainer.Chain):
    """A plain recurrent net by hand."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.x = L.Linear(4, 5)
            self.h = L.Linear(5, 5)
            self.out = L.Linear(5, 3)

    def step(self, h, x):
        return F.tanh(self.x(x) + self.h(h))


def sequence_labels(run, n):
    return run.array(n, 5, 4), run.labels(n, 3)


def word_labels(run, n):
    return words(run, n)[0], run.labels(n, 3)


def ragged(run, n):
    return ([run.array(k + 1, 4) for k in run.labels(n, 4)],)


def _run(self, x):
    self.lstm.reset_state()
    for i in range(x.shape[1]):
        y = self.out(self.lstm(x[:, i]))
    return y


table(
    globals(),
    forward,
    {
        "lstm_all": _run,
        "lstm_reversed": lambda self, x: _run(self, x[:, ::-1]),
        "lstm_c_too": lambda self, x: (_run(self, x), self.lstm.c, self.lstm.h),
        "lstm_skip_every_second": lambda self, x: _run(self, x[:, ::2]),
        "lstm_initial_from_x": lambda self, x: (
            self.lstm.reset_state(),
            self.lstm.set_state(
                chainer.Variable(np.ones((len(x), 5), "f")), F.tile(x[:, 0, :1], 5)
            ),
            self.out(self.lstm(x[:, 1])),
        )[-1],
        "lstm_truncated_inside": lambda self, x: (
            _run(self, x[:, :3]),
            self.lstm.h.unchain_backward(),
            self.out(self.lstm(x[:, 3])),
        )[-1],
        "lstm_mean_of_h": lambda self, x: (_run(self, x), F.mean(self.lstm.h, axis=0))[-1],
        "lstm_scan_comprehension": lambda self, x: F.stack(
            [self.out(self.lstm(s)) for s in (self.lstm.reset_state() or x.transpose(1, 0, 2))]
        ),
        "lstm_separate": lambda self, x: [self.out(self.lstm(v)) for v in F.separate(x, 1)],
        "lstm_stop_at_sign": lambda self, x: _run(self, x[:, : 1 + int((x[0, :, 0] > 0).sum())]),
        "lstm_h_array_copied": lambda self, x: _keep_h(self, x),
        "lstm_copy_of_state": lambda self, x: _branch(self, x),
        "lstm_state_times_mask": lambda self, x: _masked_state(self, x),
    },
    net=Recurrent,
    inputs=sequences,
)


def _keep_h(self, x):
    y = _run(self, x)
    self.last = self.lstm.h.array.copy()
    return y


def _branch(self, x):
    self.lstm.reset_state()
    self.lstm(x[:, 0])
    c, h = self.lstm.c, self.lstm.h
    a = self.out(self.lstm(x[:, 1]))
    self.lstm.set_state(c, h)
    return a + self.out(self.lstm(x[:, 2]))


def _masked_state(self, x):
    self.lstm.reset_state()
    for i in range(5):
        y = self.lstm(x[:, i])
        keep = (x[:, i, :1] > 0).astype("f")
        self.lstm.set_state(self.lstm.c * keep, self.lstm.h * keep)
    return self.out(y)


table(
    globals(),
    forward,
    {
        "cell_zeros": lambda self, x: _cell(self, x, np.zeros((len(x), 5), "f")),
        "cell_ones_xp": lambda self, x: _cell(self, x, self.xp.ones((len(x), 5), "f")),
        "cell_random_start": lambda self, x: _cell(self, x, np.random.randn(len(x), 5).astype("f")),
        "cell_from_mean": lambda self, x: _cell(self, x, np.tile(x.mean((1, 2))[:, None], 5)),
        "cell_param_start": lambda self, x: _cell(
            self, x, F.broadcast_to(self.out.b[0], (len(x), 5))
        ),
        "cell_none_start": lambda self, x: _cell_none(self, x),
        "cell_carried": lambda self, x: _carried(self, x),
        "cell_carried_array": lambda self, x: _carried_array(self, x),
        "cell_dict_state": lambda self, x: _dict_state(self, x),
        "cell_list_state": lambda self, x: _list_state(self, x),
        "cell_history_list": lambda self, x: _history(self, x),
        "cell_teacher": lambda self, x: _teacher(self, x),
        "cell_feedback_argmax": lambda self, x: _feedback(self, x),
        "cell_masked_where": lambda self, x: _where(self, x),
        "cell_lengths": lambda self, x: _lengths(self, x),
        "cell_generator": lambda self, x: F.stack(list(_scan(self, x))),
        "cell_early_stop": lambda self, x: _early(self, x),
        "cell_act_halting": lambda self, x: _halting(self, x),
        "cell_clip_state": lambda self, x: _clip_state(self, x),
        "cell_bidirectional": lambda self, x: (
            _cell(self, x, np.zeros((len(x), 5), "f"))
            + _cell(self, x[:, ::-1], np.zeros((len(x), 5), "f"))
        ),
    },
    net=Cell,
    inputs=sequences,
    hs=list,
    state=dict,
    steps=0,
)


def _cell(self, x, h):
    for i in range(x.shape[1]):
        h = self.step(h, x[:, i])
    return self.out(h)


def _cell_none(self, x):
    h = None
    for i in range(5):
        h = F.tanh(self.x(x[:, i])) if h is None else self.step(h, x[:, i])
    return self.out(h)


def _carried(self, x):
    h = self.h_last if getattr(self, "h_last", None) is not None else None
    if h is None or len(h) != len(x):
        h = chainer.Variable(np.zeros((len(x), 5), "f"))
    h.unchain()
    h = self.step(h, x[:, 0])
    self.h_last = h
    return self.out(h)


def _carried_array(self, x):
    h = getattr(self, "kept", None)
    if h is None or h.shape[0] != len(x):
        h = np.zeros((len(x), 5), "f")
    h = self.step(h, x[:, 0])
    self.kept = h.array
    return self.out(h)


def _dict_state(self, x):
    h = self.state.get("h")
    if h is None or len(h) != len(x):
        h = np.zeros((len(x), 5), "f")
    h = self.step(h, x[:, 0])
    self.state["h"] = h.array
    return self.out(h)


def _list_state(self, x):
    self.hs = [self.step(np.zeros((len(x), 5), "f"), x[:, 0])]
    for i in range(1, 5):
        self.hs.append(self.step(self.hs[-1], x[:, i]))
    return self.out(self.hs[-1] + self.hs[1])


def _history(self, x):
    y = _cell(self, x, np.zeros((len(x), 5), "f"))
    self.hs.append(y.array.copy())
    return y


def _teacher(self, x):
    h, y = np.zeros((len(x), 5), "f"), x[:, 0]
    for i in range(4):
        h = self.step(h, y)
        y = x[:, i + 1] if np.random.rand() < 0.5 else F.matmul(h, self.x.W)
    return self.out(h)


def _feedback(self, x):
    h, y = np.zeros((len(x), 5), "f"), x[:, 0]
    eye = np.eye(4, dtype="f")
    for _ in range(3):
        h = self.step(h, y)
        y = eye[self.out(h).array.argmax(1)]
    return self.out(h)


def _where(self, x):
    h = chainer.Variable(np.zeros((len(x), 5), "f"))
    for i in range(5):
        new = self.step(h, x[:, i])
        h = F.where(np.broadcast_to(x[:, i, :1] > -0.5, new.shape), new, h)
    return self.out(h)


def _lengths(self, x):
    lengths = np.abs(x[:, 0, 0] * 10).astype("i") % 5 + 1
    hs = []
    h = np.zeros((len(x), 5), "f")
    for i in range(5):
        h = self.step(h, x[:, i])
        hs.append(h)
    hs = F.stack(hs, axis=1)
    return self.out(hs[np.arange(len(x)), lengths - 1])


def _scan(self, x):
    h = np.zeros((len(x), 5), "f")
    for i in range(5):
        h = self.step(h, x[:, i])
        yield self.out(h)


def _early(self, x):
    h = np.zeros((len(x), 5), "f")
    for i in range(5):
        h = self.step(h, x[:, i])
        if float(abs(h.array).mean()) > 0.4:
            break
    self.steps = i
    return self.out(h)


def _halting(self, x):
    h = chainer.Variable(np.zeros((len(x), 5), "f"))
    left = np.ones((len(x), 1), "f")
    total = 0
    for i in range(4):
        h = self.step(h, x[:, i])
        p = F.sigmoid(h[:, :1]) * left
        left = left * (1 - p.array)
        total = total + p * h
    return self.out(total)


def _clip_state(self, x):
    h = np.zeros((len(x), 5), "f")
    for i in range(5):
        h = F.clip(self.step(h, x[:, i]), -0.3, 0.3)
        norm = np.sqrt((h.array**2).sum(1, keepdims=True))
        h = h / np.maximum(norm, 0.5)
    return self.out(h)


table(
    globals(),
    forward,
    {
        "mask_mean": lambda self, x: self.out(
            F.sum(self.embed(x), 1) / (x >= 0).sum(1, keepdims=True).astype("f")
        ),
        "mask_max": lambda self, x: self.out(
            F.max(self.embed(x) - 1e3 * (x < 0)[..., None].astype("f"), axis=1)
        ),
        "mask_softmax": lambda self, x: self.out(_attend(self.embed(x), x >= 0)),
        "mask_where_inf": lambda self, x: self.out(_attend_inf(self.embed(x), x >= 0)),
        "mask_any_padding": lambda self, x: self.out(F.sum(self.embed(x), 1)) * (x < 0).any(),
        "mask_lengths_attribute": lambda self, x: _lengths_kept(self, x),
        "mask_pad_to_longest": lambda self, x: self.out(
            F.sum(F.pad_sequence([self.embed(r[r >= 0]) for r in x]), axis=1)
        ),
        "mask_flat_pick": lambda self, x: self.out(self.embed(x).reshape(-1, 6)[x.ravel() >= 0]),
        "mask_transposed": lambda self, x: self.out(F.sum(self.embed(x.T), axis=0)),
        "mask_clip_then_multiply": lambda self, x: self.out(
            F.sum(self.embed(np.maximum(x, 0)) * (x >= 0)[..., None], axis=1)
        ),
        "mask_bag_of_words": lambda self, x: F.matmul(
            np.stack([np.bincount(r[r >= 0], minlength=10) for r in x]).astype("f"), self.embed.W
        ),
        "mask_position": lambda self, x: self.out(
            F.sum(self.embed(x) * np.linspace(1, 0, 5, dtype="f")[:, None], axis=1)
        ),
        "mask_reverse_each": lambda self, x: self.out(
            self.embed(np.stack([np.r_[r[r >= 0][::-1], r[r < 0]] for r in x]))[:, 0]
        ),
        "mask_ngrams": lambda self, x: self.out(
            F.sum(self.embed(x[:, :-1]) * self.embed(x[:, 1:]), axis=1)
        ),
        "mask_dropout_words": lambda self, x: self.out(
            F.sum(self.embed(np.where(np.random.rand(*x.shape) < 0.2, -1, x).astype("i")), 1)
        ),
        "mask_truncate_nonpad_columns": lambda self, x: self.out(
            F.sum(self.embed(x[:, (x >= 0).any(0)]), axis=1)
        ),
        "mask_shift_right": lambda self, x: self.out(
            F.sum(self.embed(np.hstack([np.zeros((len(x), 1), "i"), x[:, :-1]])), axis=1)
        ),
        "mask_split_words": lambda self, x: self.out(
            F.stack([F.sum(self.embed(w), axis=0) for w in np.split(x, x.shape[1], axis=1)])[0]
        ),
        "mask_weights_from_frequency": lambda self, x: self.out(
            F.sum(
                self.embed(x)
                * (1 / (1 + np.bincount(x[x >= 0], minlength=10)))[x].astype("f")[..., None],
                1,
            )
        ),
        "mask_causal": lambda self, x: _causal(self, x),
    },
    net=Embedding,
    inputs=words,
    lengths=None,
)


def _attend(h, mask):
    a = F.sum(h * h, axis=2) - 1e9 * (1 - mask.astype("f"))
    return F.sum(h * F.broadcast_to(F.softmax(a)[..., None], h.shape), axis=1)


def _attend_inf(h, mask):
    a = F.where(mask, F.sum(h * h, axis=2), np.full(mask.shape, -np.inf, "f"))
    return F.sum(h * F.broadcast_to(F.softmax(a)[..., None], h.shape), axis=1)


def _lengths_kept(self, x):
    self.lengths = (x >= 0).sum(axis=1)
    return self.out(F.sum(self.embed(x), 1) / self.lengths[:, None].astype("f"))


def _causal(self, x):
    h = self.embed(x)
    n = x.shape[1]
    mask = np.tril(np.ones((n, n), bool))
    a = F.where(
        np.broadcast_to(mask, (len(x), n, n)),
        F.matmul(h, h, transb=True),
        np.full((len(x), n, n), -1e9, "f"),
    )
    return self.out(F.sum(F.matmul(F.softmax(a, axis=2), h), axis=1))


@forward(net=Recurrent, inputs=ragged)
def p_ragged_lists(self, xs):
    xs = sorted(xs, key=len, reverse=True)
    hs = []
    for x in xs:
        self.lstm.reset_state()
        for row in x:
            h = self.lstm(row[None])
        hs.append(h)
    return self.out(F.concat(hs, axis=0))


@forward(net=Recurrent, inputs=ragged)
def p_ragged_transposed(self, xs):
    xs = sorted(xs, key=len, reverse=True)
    self.lstm.reset_state()
    for x in F.transpose_sequence(xs):
        h = self.lstm(x)
    return self.out(h)


@forward(net=Recurrent, inputs=ragged)
def p_ragged_padded(self, xs):
    lengths = [len(x) for x in xs]
    block = np.zeros((len(xs), max(lengths), 4), "f")
    for i, x in enumerate(xs):
        block[i, : len(x)] = x
    return _run(self, block) * np.array(lengths, "f")[:, None]


class Deep(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.rnn = L.NStepLSTM(1, 4, 5, 0.0)
            self.gru = L.NStepBiGRU(1, 4, 3, 0.0)
            self.out = L.Linear(5, 3)


@forward(net=Deep, inputs=ragged)
def p_nstep_lists(self, xs):
    h, _, ys = self.rnn(None, None, xs)
    return self.out(h[0]), [self.out(y) for y in ys]


@forward(net=Deep, inputs=ragged)
def p_nstep_concat_split(self, xs):
    ends = np.cumsum([len(x) for x in xs])[:-1]
    _, _, ys = self.rnn(None, None, xs)
    return F.split_axis(self.out(F.concat(ys, axis=0)), ends, 0)


@forward(net=Deep, inputs=ragged)
def p_nstep_bi_last(self, xs):
    h, ys = self.gru(None, xs)
    return F.concat([y[-1][None] for y in ys], axis=0), h


@forward(net=Embedding, inputs=words)
def p_words_to_lists(self, x):
    sentences = [row[row >= 0] for row in x]
    sections = np.cumsum([len(s) for s in sentences[:-1]])
    return F.split_axis(self.out(self.embed(np.concatenate(sentences))), sections, 0)


@loss(net=Embedding, inputs=word_labels)
def p_bag_classifier(self, x, t):
    y = self.out(F.sum(self.embed(x), axis=1) / (x != -1).sum(1)[:, None].astype("f"))
    chainer.report({"acc": F.accuracy(y, t), "pad": (x == -1).mean()}, self)
    return F.softmax_cross_entropy(y, t)


@loss(net=Embedding, inputs=words)
def p_language_model(self, x):
    h = self.embed(np.maximum(x[:, :-1], 0))
    y = F.matmul(h.reshape(-1, 6), self.embed.W, transb=True)
    value = F.softmax_cross_entropy(y, x[:, 1:].reshape(-1), ignore_label=-1)
    chainer.report({"perp": F.exp(value)}, self)
    return value


@loss(net=Embedding, inputs=words)
def p_language_model_per_token(self, x):
    y = F.matmul(self.embed(np.maximum(x[:, :-1], 0)).reshape(-1, 6), self.embed.W, transb=True)
    t = x[:, 1:].reshape(-1)
    return F.sum(F.softmax_cross_entropy(y, t, reduce="no")) / max(1, int((t >= 0).sum()))


@loss(net=Embedding, inputs=words)
def p_skip_gram(self, x):
    middle, around = x[:, 2], x[:, [0, 1, 3, 4]]
    keep = (middle >= 0) & (around >= 0).all(1)
    score = F.sum(self.embed(middle)[:, None] * self.embed(around), axis=2)
    return -F.sum(F.log(F.sigmoid(score)) * keep[:, None]) / len(x)


@loss(net=Recurrent, inputs=sequence_labels)
def p_lstm_classifier_reset_inside(self, x, t):
    return F.softmax_cross_entropy(_run(self, x), t)


@loss(net=Recurrent, inputs=sequence_labels)
def p_lstm_loss_per_step(self, x, t):
    self.lstm.reset_state()
    total = 0
    for i in range(5):
        total += F.softmax_cross_entropy(self.out(self.lstm(x[:, i])), t) / (5 - i)
    return total


@loss(net=Recurrent, inputs=sequence_labels)
def p_ctc_like(self, x, t):
    self.lstm.reset_state()
    ys = [self.out(self.lstm(x[:, i])) for i in range(5)]
    return F.connectionist_temporal_classification(ys, (t.astype("i") % 2 + 1)[:, None], 0)


@loss(net=Recurrent, inputs=sequence_labels)
def p_crf(self, x, t):
    if not hasattr(self, "crf"):
        with self.init_scope():
            self.crf = L.CRF1d(3)
    self.lstm.reset_state()
    ys = [self.out(self.lstm(x[:, i])) for i in range(5)]
    return self.crf(ys, [(t + i).astype("i") % 3 for i in range(5)])


def p_truncated_bptt(run):
    class Model(Recurrent):
        @run.static
        def forward(self, x):
            return self.out(self.lstm(x))

    model = Model()
    optimizer = chainer.optimizers.SGD().setup(model)
    total = 0
    for i in range(12):
        total += F.softmax_cross_entropy(model(run.array(6, 4)), run.labels(6, 3))
        if i % 3 == 2:
            model.cleargrads()
            total.backward()
            total.unchain_backward()
            optimizer.update()
            total = 0
            run.see("model", model)


def p_state_kept_while_evaluating(run):
    class Model(Recurrent):
        @run.static
        def forward(self, x):
            return self.out(self.lstm(x))

    model = Model()
    for _ in range(4):
        y = model(run.array(3, 4))
        other = model.copy()
        other.lstm.reset_state()
        with chainer.using_config("train", False), chainer.no_backprop_mode():
            run.see("other", other(run.array(2, 4)))
        run.see("y", y, model.lstm.h, model.lstm.c)
        run.see("again", model(run.array(3, 4)))


def p_state_saved_and_restored(run):
    model = run.static(_lstm_chain())
    for _ in range(5):
        model(run.array(3, 4))
        c, h = model.lstm.c, model.lstm.h
        y = model(run.array(3, 4))
        model.lstm.set_state(c, h)
        z = model(run.array(3, 4))
        model.cleargrads()
        F.sum(y * z).backward()
        run.see("two ways", y, z, model)


def p_state_edited_outside(run):
    model = run.static(_lstm_chain())
    for i in range(8):
        y = model(run.array(3, 4))
        if i % 2:
            model.lstm.h.array[0] = 0
        if i % 3 == 0:
            model.lstm.c = chainer.Variable(model.lstm.c.array * 0.5)
        run.see("y", y, model.lstm.c)


def p_shrinking_batches(run):
    model = run.static(_lstm_chain())
    for _ in range(4):
        model.lstm.reset_state()
        for n in (4, 4, 3, 2, 2, 1):
            run.see("y", model(run.array(n, 4)), model.lstm.h)


def p_per_user_states(run):
    model = run.static(_lstm_chain())
    states = {}
    for i in range(12):
        user = "abc"[i * i % 3]
        if user in states:
            model.lstm.set_state(*states[user])
        else:
            model.lstm.reset_state()
        run.see(user, model(run.array(1, 4)))
        states[user] = model.lstm.c, model.lstm.h


def p_gru_stateful(run):
    class Model(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.gru = L.StatefulGRU(4, 5)
                self.peep = L.StatefulPeepholeLSTM(5, 3)

        @run.static
        def forward(self, x):
            return self.peep(self.gru(x))

    model = Model()
    for i in range(8):
        if i == 4:
            model.gru.reset_state()
        y = model(run.array(2, 4))
        model.cleargrads()
        F.sum(y).backward(retain_grad=bool(i % 2))
        run.see("model", y, model, model.gru.h, model.peep.c)


def _lstm_chain():
    class Model(Recurrent):
        def forward(self, x):
            return self.out(self.lstm(x))

    return Model()


def p_detach_state_every_call(run):
    model = run.static(_lstm_chain())
    for _ in range(6):
        if model.lstm.h is not None:
            model.lstm.h.unchain_backward()
            model.lstm.c.unchain_backward()
        y = model(run.array(3, 4))
        model.cleargrads()
        F.sum(y * y).backward()
        run.see("y", y, model)


def p_zoneout_lstm(run):
    class Model(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.lstm = L.StatefulZoneoutLSTM(4, 5)

        @run.static
        def forward(self, xs):
            return [self.lstm(x) for x in xs]

    model = Model()
    for _ in range(6):
        model.lstm.reset_state()
        ys = model([run.array(2, 4) for _ in range(3)])
        model.cleargrads()
        F.sum(ys[-1] * ys[0]).backward()
        run.see("ys", ys, model)


def p_decode_greedily_with_static_step(run):
    class Step(Embedding):
        @run.static
        def forward(self, word, h):
            h = F.tanh(self.embed(word) + h)
            return self.out(h), h

    step = Step()
    for i in range(5):
        h = chainer.Variable(np.zeros((2, 6), "f"))
        word = np.array([i, i + 1], "i")
        out = []
        for _ in range(6):
            y, h = step(word, h)
            word = y.array.argmax(1).astype("i")
            out.append(word.tolist())
            if (word == 2).all():
                break
        run.see("decoded", out, h)


def p_lstm_two_directions_shared(run):
    class Model(Recurrent):
        @run.static
        def forward(self, x):
            a = _run(self, x)
            keep = self.lstm.h
            b = _run(self, x[:, ::-1])
            return a + b, keep * self.lstm.h

    model = Model()
    for n in (3, 3, 3, 2, 3):
        y, k = model(run.array(n, 5, 4))
        model.cleargrads()
        (F.sum(y) + F.sum(k)).backward()
        run.see("y", y, k, model)
