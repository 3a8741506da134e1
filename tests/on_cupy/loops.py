"""Loops as users write them, on a GPU: each gives all that can be seen on its way."""

from __future__ import annotations

import io

import chainer
import chainer.functions as F
import chainer.links as L
import cupy
import numpy as np
from chainer import optimizer_hooks as hooks
from chainer import optimizers

from .programs import normal, seen, state, whole

LOOPS: dict = {}


def loop(replays: int):
    """A program, and how many replays it has at least."""

    def note(function):
        LOOPS[function.__name__] = function, replays
        return function

    return note


def linear(n, m):
    return lambda: L.Linear(n, m)


def data(n, k, classes=3):
    """A batch of `n`, the `k`-th."""
    return normal(n, 4, seed=100 * k + n), whole(classes, n, seed=100 * k + n)


def classify(self, x, t):
    return F.softmax_cross_entropy(self.b(F.relu(self.a(x))), t)


def drop(self, x, t):
    return F.softmax_cross_entropy(self.b(F.dropout(F.relu(self.a(x)), 0.3)), t)


def reporting(self, x, t):
    y = self.b(F.tanh(self.a(x)))
    self.loss = F.softmax_cross_entropy(y, t)
    self.accuracy = F.accuracy(y, t)
    chainer.report({"loss": self.loss, "accuracy": self.accuracy}, self)
    return self.loss


def two(way, forward):
    return way.model(forward, a=linear(4, 5), b=linear(5, 3))


def by_hand(way, model, optimizer, batches):
    """Cleared gradients, loss, backward, update; what is there after each."""
    found = []
    for batch in batches:
        model.cleargrads()
        loss = model(*batch)
        loss.backward()
        optimizer.update()
        found.append((seen(loss), state(model), optimizer.t))
    return found


def whole_steps(way, model, optimizer, batches):
    """The same in one."""
    found = []
    for batch in batches:
        optimizer.update(model, *batch)
        found.append((state(model), optimizer.t))
    return found


def drawn():
    """Where both generators stand."""
    return seen(cupy.random.rand(2)), np.random.rand(2).tolist()


# --- batches of several sizes --------------------------------------------------------------------


@loop(12)
def epochs_with_a_last_smaller_batch(way):
    model = two(way, classify)
    optimizer = way.optimizer(optimizers.Adam(), model)
    batches = [data(n, k) for k, n in enumerate([8, 8, 8, 5] * 4)]
    return whole_steps(way, model, optimizer, batches), drawn()


@loop(12)
def the_same_by_hand(way):
    model = two(way, classify)
    optimizer = way.optimizer(optimizers.MomentumSGD(), model)
    batches = [data(n, k) for k, n in enumerate([8, 8, 8, 5] * 4)]
    return by_hand(way, model, optimizer, batches), drawn()


@loop(6)
def every_batch_of_another_size(way):
    model = two(way, classify)
    optimizer = way.optimizer(optimizers.SGD(0.1), model)
    return whole_steps(way, model, optimizer, [data(n, n) for n in range(6, 16)])


@loop(8)
def a_batch_of_one_and_one_of_none_between(way):
    model = two(way, lambda self, x: F.sigmoid(self.b(F.relu(self.a(x)))))
    return [seen(model(normal(n, 4, seed=n))) for n in (6, 7, 1, 8, 0, 9, 1, 6, 7, 0, 8, 9)]


@loop(14)
def dropout_in_batches_of_several_sizes(way):
    model = two(way, drop)
    optimizer = way.optimizer(optimizers.Adam(), model)
    cupy.random.seed(3)
    batches = [data(n, k) for k, n in enumerate([8, 8, 5, 8, 8, 5, 7, 7, 6] * 2)]
    return whole_steps(way, model, optimizer, batches), drawn()


@loop(8)
def batch_normalization_with_a_last_smaller_batch(way):
    model = way.model(
        lambda self, x, t: F.softmax_cross_entropy(self.b(F.relu(self.n(self.a(x)))), t),
        a=lambda: L.Linear(4, 5, nobias=True), n=lambda: L.BatchNormalization(5), b=linear(5, 3),
    )  # fmt: skip
    optimizer = way.optimizer(optimizers.SGD(0.1), model)
    return whole_steps(way, model, optimizer, [data(n, k) for k, n in enumerate([8, 8, 6, 7] * 3)])


@loop(8)
def gradients_over_two_batches_of_several_sizes(way):
    model = two(way, classify)
    optimizer = way.optimizer(optimizers.SGD(0.1), model)
    found = []
    for k in range(6):
        model.cleargrads()
        for n in (6, 6 + k % 3):
            model(*data(n, k)).backward()
        optimizer.update()
        found.append(state(model))
    return found


@loop(7)
def labels_that_do_not_count(way):
    model = two(way, classify)
    optimizer = way.optimizer(optimizers.Adam(), model)
    batches = []
    for k, n in enumerate([6, 6, 8, 7, 7, 9, 8, 6, 9]):
        x, t = data(n, k)
        t[k % n] = -1
        batches.append((x, t))
    return whole_steps(way, model, optimizer, batches)


@loop(6)
def one_loss_for_each_row(way):
    model = two(way, lambda self, x, t: F.softmax_cross_entropy(self.b(self.a(x)), t, reduce="no"))
    found = []
    for k, n in enumerate([5, 6, 7, 8, 7, 6, 5, 9]):
        model.cleargrads()
        losses = model(*data(n, k))
        F.sum(losses * normal(n, seed=k)).backward()
        found.append((seen(losses), state(model)))
    return found


# --- sequences -----------------------------------------------------------------------------------


def step_of_lstm(self, x):
    self.h = self.lstm(x)
    return self.out(self.h)


def recurrent(way, forward=step_of_lstm):
    return way.model(forward, lstm=lambda: L.LSTM(4, 5), out=linear(5, 3))


@loop(12)
def sequences_of_several_lengths(way):
    model = recurrent(way)
    optimizer = way.optimizer(optimizers.Adam(), model)
    found = []
    for k, length in enumerate([3, 4, 2, 4, 3]):
        model.lstm.reset_state()
        model.cleargrads()
        loss = 0
        for i in range(length):
            loss += F.softmax_cross_entropy(
                model(normal(6, 4, seed=10 * k + i)), whole(3, 6, seed=i)
            )
        loss.backward()
        optimizer.update()
        found.append((seen(loss), state(model), seen(model.lstm.h), seen(model.lstm.c)))
    return found


def unrolled(self, x, t):
    self.lstm.reset_state()
    loss = 0
    for i in range(x.shape[1]):
        loss += F.softmax_cross_entropy(self.out(self.lstm(x[:, i])), t[:, i])
    return loss


@loop(6)
def lengths_that_come_again(way):
    model = recurrent(way, unrolled)
    optimizer = way.optimizer(optimizers.SGD(0.1), model)
    batches = [
        (normal(6, n, 4, seed=k), whole(3, 6, n, seed=k)) for k, n in enumerate([3, 2, 4] * 3)
    ]
    return whole_steps(way, model, optimizer, batches)


@loop(7)
def a_long_text_cut_into_pieces(way):
    """Its history goes back to the last cut."""
    model = recurrent(way)
    optimizer = way.optimizer(optimizers.SGD(0.1), model)
    loss, found = 0, []
    for i in range(12):
        loss += F.softmax_cross_entropy(model(normal(4, 4, seed=i)), whole(3, 4, seed=i))
        if i % 3 == 2:
            model.cleargrads()
            loss.backward()
            loss.unchain_backward()
            optimizer.update()
            found.append((seen(loss), state(model)))
            loss = 0
    return found


def words(self, x):
    return self.out(F.mean(F.tanh(self.embed(x)), axis=1))


@loop(7)
def sentences_of_several_lengths(way):
    model = way.model(words, embed=lambda: L.EmbedID(20, 5), out=linear(5, 3))
    optimizer = way.optimizer(optimizers.Adam(), model)
    found = []
    for k, n in enumerate([4, 6, 5, 7, 6, 4, 8, 5, 7, 8]):
        model.cleargrads()
        y = model(whole(20, 6, n, seed=k))
        F.softmax_cross_entropy(y, whole(3, 6, seed=k)).backward()
        optimizer.update()
        found.append((seen(y), state(model)))
    return found


@loop(5)
def padded_words_are_ignored(way):
    model = way.model(words, embed=lambda: L.EmbedID(20, 5, ignore_label=-1), out=linear(5, 3))
    found = []
    for k, n in enumerate([4, 6, 5, 7, 6, 4, 5, 7]):
        x = whole(20, 6, n, seed=k)
        x[:, n - 2 :] = -1
        model.cleargrads()
        y = model(x)
        F.sum(y * y).backward()
        found.append((seen(y), state(model)))
    return found


@loop(10)
def a_gru_with_state(way):
    model = way.model(
        lambda self, x: self.out(self.gru(x)), gru=lambda: L.StatefulGRU(4, 5), out=linear(5, 2)
    )
    found = []
    for k in range(3):
        model.gru.reset_state()
        found += [seen(model(normal(5, 4, seed=5 * k + i))) for i in range(5)]
    return found


@loop(5)
def many_lengths_at_once(way):
    """Sequences of their own lengths, joined."""
    model = way.model(
        lambda self, xs: self.out(F.relu(self.a(F.concat(xs, axis=0)))),
        a=linear(4, 5),
        out=linear(5, 2),
    )
    lengths = [(3, 2), (4, 3), (3, 2), (4, 3), (5, 2), (3, 2), (4, 3), (5, 2)]
    return [
        seen(model([normal(n, 4, seed=10 * k + n) for n in several]))
        for k, several in enumerate(lengths)
    ]


# --- evaluation between training -----------------------------------------------------------------


@loop(14)
def evaluation_after_each_epoch(way):
    model = two(way, drop)
    optimizer = way.optimizer(optimizers.Adam(), model)
    found = []
    cupy.random.seed(3)
    for epoch in range(4):
        for k in range(3):
            optimizer.update(model, *data(6, 3 * epoch + k))
        with chainer.using_config("train", False), chainer.no_backprop_mode():
            found += [seen(model(*data(n, 50 + n))) for n in (6, 4)]
        found.append(state(model))
    return found, drawn()


@loop(13)
def a_classifier_that_is_asked_between(way):
    model = L.Classifier(two(way, lambda self, x: self.b(F.dropout(F.relu(self.a(x))))))
    model.to_device("@cupy:0")
    optimizer = way.optimizer(optimizers.Adam(), model)
    found = []
    cupy.random.seed(3)
    for k in range(8):
        optimizer.update(model, *data(6, k))
        found.append((seen(model.loss), seen(model.accuracy), state(model)))
        with chainer.using_config("train", False):
            found.append(int(model.predictor(data(1 + k % 2, k)[0]).array.argmax()))
    return found, drawn()


@loop(9)
def statistics_in_tests_are_those_of_training(way):
    model = way.model(
        lambda self, x: self.b(self.n(self.a(x))),
        a=linear(4, 5), n=lambda: L.BatchNormalization(5), b=linear(5, 2),
    )  # fmt: skip
    model.cleargrads()
    found = []
    for k in range(12):
        with chainer.using_config("train", k % 3 != 2):
            found.append(seen(model(normal(6, 4, seed=k))))
        found.append(state(model))
    return found


@loop(6)
def reports_go_to_the_reporter(way):
    model = two(way, reporting)
    optimizer = way.optimizer(optimizers.SGD(0.1), model)
    reporter = chainer.Reporter()
    reporter.add_observer("main", model)
    found = []
    for k in range(8):
        observed: dict = {}
        with reporter.scope(observed):
            optimizer.update(model, *data(6 + k % 2, k))
        found.append((seen(observed), seen(model.loss), seen(model.accuracy), state(model)))
    return found


@loop(8)
def the_best_is_kept(way):
    """Early stopping: parameters are copied and put back."""
    model = two(way, classify)
    optimizer = way.optimizer(optimizers.SGD(0.5), model)
    best, kept, found = None, None, []
    for k in range(10):
        optimizer.update(model, *data(6, k))
        with chainer.no_backprop_mode():
            loss = float(model(*data(6, 77)).array)
        if best is None or loss < best:
            best, kept = loss, [p.array.copy() for p in model.params()]
        found.append(loss)
    for p, array in zip(model.params(), kept, strict=True):
        p.array[...] = array
    return found, state(model), seen(model(*data(6, 77)))


# --- dropout and other draws ---------------------------------------------------------------------


@loop(8)
def a_mask_that_is_drawn_by_hand(way):
    model = two(way, lambda self, x: self.b(self.a(x)) * (cupy.random.rand(6, 3, dtype="f") > 0.5))
    cupy.random.seed(3)
    return [seen(model(normal(6, 4, seed=k))) for k in range(10)], drawn()


@loop(8)
def noise_on_the_input(way):
    model = two(
        way, lambda self, x, t: F.softmax_cross_entropy(self.b(self.a(F.gaussian(x, x * 0))), t)
    )
    optimizer = way.optimizer(optimizers.Adam(), model)
    cupy.random.seed(3)
    return whole_steps(way, model, optimizer, [data(6, k) for k in range(10)]), drawn()


@loop(8)
def two_dropouts_in_turn_with_user_draws(way):
    def forward(self, x):
        h = F.dropout(self.a(x), 0.4)
        h = h + cupy.random.normal(0, 1, (6, 5), "f")
        return F.dropout(self.b(h), 0.2)

    model = two(way, forward)
    cupy.random.seed(3)
    found = []
    for k in range(10):
        model.cleargrads()
        y = model(normal(6, 4, seed=k))
        F.sum(y * y).backward()
        found.append((seen(y), state(model), seen(cupy.random.randint(0, 100, 3))))
    return found, drawn()


@loop(8)
def draws_outside_between_the_steps(way):
    """Shuffled indices choose the batch."""
    model = two(way, drop)
    optimizer = way.optimizer(optimizers.Adam(), model)
    xs, ts = data(20, 0)
    cupy.random.seed(3)
    found = []
    for _ in range(10):
        chosen = cupy.random.permutation(20)[:6]
        optimizer.update(model, xs[chosen], ts[chosen])
        found.append((seen(chosen), state(model)))
    return found, drawn()


@loop(5)
def several_samples_of_one_input(way):
    """Monte Carlo dropout: the same data each time."""
    model = two(way, lambda self, x: F.softmax(self.b(F.dropout(self.a(x), 0.5))))
    x = normal(6, 4, seed=1)
    cupy.random.seed(3)
    with chainer.no_backprop_mode():
        return [seen(model(x)) for _ in range(9)], drawn()


# --- optimizers ----------------------------------------------------------------------------------


@loop(8)
def a_rate_that_falls(way):
    model = two(way, classify)
    optimizer = way.optimizer(optimizers.MomentumSGD(0.5), model)
    found = []
    for k in range(10):
        optimizer.lr *= 0.8
        found += whole_steps(way, model, optimizer, [data(6, k)])
    return found


@loop(8)
def hooks_on_the_gradients(way):
    model = two(way, classify)
    optimizer = way.optimizer(optimizers.SGD(0.5), model)
    optimizer.add_hook(hooks.WeightDecay(0.01))
    optimizer.add_hook(hooks.GradientClipping(0.5))
    return whole_steps(way, model, optimizer, [data(5 + k % 2, k) for k in range(10)])


@loop(4)
def a_layer_that_is_frozen_half_way(way):
    model = two(way, classify)
    optimizer = way.optimizer(optimizers.Adam(), model)
    found = whole_steps(way, model, optimizer, [data(6, k) for k in range(4)])
    model.a.disable_update()
    found += whole_steps(way, model, optimizer, [data(6, k) for k in range(4)])
    model.a.enable_update()
    return found + whole_steps(way, model, optimizer, [data(6, k) for k in range(4)])


@loop(4)
def another_rule(way):
    model = two(way, classify)
    optimizer = way.optimizer(optimizers.AdaGrad(), model)
    return whole_steps(way, model, optimizer, [data(6, k) for k in range(8)])


@loop(8)
def two_optimizers_for_two_models(way):
    """A generator and who judges it."""
    one = two(way, lambda self, z: F.tanh(self.b(self.a(z))))
    other = way.model(
        lambda self, x: self.b(F.leaky_relu(self.a(x))), a=linear(3, 5), b=linear(5, 1)
    )
    rules = [way.optimizer(optimizers.Adam(), model) for model in (one, other)]
    found = []
    for k in range(6):
        fake, real = one(normal(6, 4, seed=k)), normal(6, 3, seed=k)
        judged, judged_real = other(fake), other(real)
        for model, rule, loss in (
            (one, rules[0], F.sum(F.softplus(-judged)) / 6),
            (other, rules[1], F.sum(F.softplus(judged)) / 6 + F.sum(F.softplus(-judged_real)) / 6),
        ):
            model.cleargrads()
            loss.backward()
            rule.update()
        found.append((state(one), state(other), seen(fake)))
    return found


@loop(5)
def a_target_that_follows(way):
    """Deep Q: a copy of the model is used, and renewed every third step."""
    model = two(way, lambda self, x: self.b(F.relu(self.a(x))))
    target = model.copy(mode="copy")
    optimizer = way.optimizer(optimizers.Adam(), model)
    found = []
    for k in range(9):
        x = normal(6, 4, seed=k)
        with chainer.no_backprop_mode():
            wanted = target(x).array.max(axis=1)
        model.cleargrads()
        loss = F.mean_squared_error(F.max(model(x), axis=1), wanted)
        loss.backward()
        optimizer.update()
        if k % 3 == 2:
            target.copyparams(model)
        found.append((seen(loss), state(model), seen(wanted)))
    return found


# --- what else programs do -----------------------------------------------------------------------


@loop(6)
def saved_and_loaded_in_between(way):
    model = two(way, classify)
    optimizer = way.optimizer(optimizers.Adam(), model)
    found = whole_steps(way, model, optimizer, [data(6, k) for k in range(4)])
    file = io.BytesIO()
    chainer.serializers.save_npz(file, model)
    found += whole_steps(way, model, optimizer, [data(6, k) for k in range(3)])
    file.seek(0)
    chainer.serializers.load_npz(file, model)
    return found + whole_steps(way, model, optimizer, [data(6, k) for k in range(3)])


@loop(6)
def to_the_host_and_back(way):
    model = two(way, classify)
    optimizer = way.optimizer(optimizers.MomentumSGD(), model)
    found = []
    for k in range(12):
        on_host = k % 6 > 3
        model.to_device("@numpy" if on_host else "@cupy:0")
        batch = [x.get() if on_host else x for x in data(6, k)]
        optimizer.update(model, *batch)
        found.append(
            [
                None if a is None else cupy.asnumpy(a)
                for p in model.params()
                for a in (p.array, p.grad)
            ]
        )
    return found


@loop(8)
def gradients_of_the_input(way):
    model = two(way, lambda self, x: F.sum(F.tanh(self.b(self.a(x)))))
    found = []
    for k, n in enumerate([6, 6, 7, 8, 7, 6, 8, 9, 9, 6]):
        x = chainer.Variable(normal(n, 4, seed=k))
        y = model(x)
        y.backward()
        found.append((seen(y), seen(x.grad), seen(chainer.grad([model(x)], [x])[0])))
    return found


@loop(5)
def a_scale_that_is_annealed(way):
    model = two(way, lambda self, x: self.b(self.a(x)) * self.scale + F.sum(x) * self.scale**2)
    found = []
    for k in range(8):
        model.scale = 1.0 / (k + 1)
        found.append(seen(model(normal(6, 4, seed=k))))
    return found


@loop(5)
def ways_by_a_value(way):
    def forward(self, x):
        h = self.a(x)
        return self.b(h * 2) if h.array.sum() > 0 else self.b(F.relu(h)) - 1

    model = two(way, forward)
    return [seen(model(normal(6, 4, seed=k) - k % 2)) for k in range(10)]


@loop(6)
def results_that_are_kept_and_written_to(way):
    model = two(way, lambda self, x: self.b(F.sigmoid(self.a(x))))
    kept, found = [], []
    for k in range(8):
        y = model(normal(6, 4, seed=k))
        kept.append(y)
        y.array[0] = k
        model.cleargrads()
        F.sum(y * y).backward()
        found.append(state(model))
    return found, [seen(y) for y in kept]


@loop(5)
def several_backwards_through_one_call(way):
    model = two(way, lambda self, x: (self.b(self.a(x)), F.sum(self.a(x))))
    found = []
    for k in range(7):
        model.cleargrads()
        y, s = model(normal(6, 4, seed=k))
        F.sum(y).backward()
        found.append(state(model))
        s.backward()
        found.append(state(model))
    return found


@loop(5)
def images_in_batches_of_several_sizes(way):
    model = way.model(
        lambda self, x, t: F.softmax_cross_entropy(
            self.b(F.max_pooling_2d(F.relu(self.a(x)), 2)), t
        ),
        a=lambda: L.Convolution2D(1, 3, 3), b=lambda: L.Linear(12, 3),
    )  # fmt: skip
    optimizer = way.optimizer(optimizers.SGD(0.1), model)
    batches = [
        (normal(n, 1, 6, 6, seed=k), whole(3, n, seed=k))
        for k, n in enumerate([5, 6, 7, 8, 7, 6, 5, 9])
    ]
    return whole_steps(way, model, optimizer, batches)


@loop(5)
def regression_with_weights_of_examples(way):
    model = two(way, lambda self, x, y, w: F.mean((self.b(self.a(x)) - y) ** 2 * w))
    optimizer = way.optimizer(optimizers.RMSprop(), model)
    batches = [
        (normal(n, 4, seed=k), normal(n, 3, seed=k + 50), abs(normal(n, 1, seed=k + 90)))
        for k, n in enumerate([5, 6, 7, 6, 5, 8, 7])
    ]
    return whole_steps(way, model, optimizer, batches)


# --- draws that functions of the user's make -----------------------------------------------------


class Times(chainer.FunctionNode):
    """Its input times what a function gives for it."""

    def __init__(self, factor):
        self.factor = factor

    def forward(self, xs):
        return (xs[0] * self.factor(xs[0]),)

    def backward(self, indexes, gys):
        return (gys[0] * 2,)


def with_a_node(way, factor):
    model = two(way, lambda self, x: F.sum(self.b(Times(factor).apply((self.a(x),))[0])))
    found = []
    for k in range(7):
        model.cleargrads()
        y = model(normal(6, 4, seed=k))
        y.backward()
        found.append((seen(y), state(model)))
    return found


@loop(5)
def a_function_with_a_generator_of_its_own(way):
    rng = cupy.random.RandomState(4)
    found = with_a_node(way, lambda x: rng.rand(*x.shape, dtype="f"))
    return found, seen(rng.rand(2)), drawn()


@loop(5)
def a_function_with_a_generator_whose_state_is_on_the_device(way):
    rng = cupy.random.default_rng(4)
    found = with_a_node(way, lambda x: rng.standard_normal(x.shape, dtype="f"))
    return found, seen(rng.random(2)), seen(rng.integers(0, 9, 3))


@loop(5)
def a_function_that_shuffles(way):
    def shuffled(x):
        order = cupy.arange(len(x))
        cupy.random.shuffle(order)
        return x[order]

    cupy.random.seed(1)
    return with_a_node(way, shuffled), drawn()


@loop(4)
def a_function_that_draws_and_raises(way):
    def factor(x):
        drawn = cupy.random.rand(*x.shape, dtype="f")
        if float(abs(x).max()) > 50:
            raise ValueError("large")
        return drawn

    model = two(way, lambda self, x: Times(factor).apply((F.dropout(self.a(x)),))[0])
    cupy.random.seed(1)
    found = []
    for k in range(8):
        try:
            found.append(seen(model(normal(6, 4, seed=k) * (1000 if k in (2, 5) else 1))))
        except ValueError as error:
            found.append(str(error))
        found.append(drawn())
    return found


@loop(5)
def draws_that_choose_rows(way):
    model = two(
        way,
        lambda self, x: (
            self.b(self.a(x))[cupy.random.permutation(6)]
            + cupy.random.choice(5, (6, 1)).astype("f")
        ),
    )
    cupy.random.seed(1)
    return [seen(model(normal(6, 4, seed=k))) for k in range(8)], drawn()


@loop(5)
def draws_around_what_is_computed(way):
    model = two(way, lambda self, x: cupy.random.normal(self.b(self.a(x)).array, 1.0, (6, 3), "f"))
    cupy.random.seed(1)
    return [seen(model(normal(6, 4, seed=k))) for k in range(8)], drawn()


@loop(6)
def a_way_that_is_chosen_before_a_dropout(way):
    def forward(self, x):
        h = self.a(x)
        return F.dropout(self.b(h) * 2) if h.array.sum() > 0 else F.dropout(self.b(h))

    model = two(way, forward)
    cupy.random.seed(1)
    return [seen(model(normal(6, 4, seed=k) * (-1) ** k)) for k in range(10)], drawn()
