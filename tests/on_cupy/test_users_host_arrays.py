"""Arrays of the host in calls on a GPU: sent there, brought back, and what NumPy makes of them."""

import chainer
import chainer.functions as F
import cupy
import numpy as np
import pytest
from chainer.backends import cuda

from .users import CALLS, D, K, N, assert_replayed, collected, compared, host, there

program, PROGRAMS = collected()
WEIGHTS = np.linspace(0.5, 1.5, K).astype("f")
MEAN, STD = np.full(D, 0.1), np.full(D, 1.5)


def pictures(i):
    rng = np.random.RandomState(i)
    return rng.randint(0, 256, (N, D)).astype("u1"), rng.randint(0, K, N)


def doubles(i):
    return np.random.RandomState(i).randn(N, D), host(i)[1].astype("i8")


def with_gaps(i):
    rng = np.random.RandomState(i)
    return rng.randn(D, 2 * N).astype("f").T[::2], rng.randint(0, K, (N, 2)).astype("i")[:, 0]


def mixed(i):
    """Pictures on the GPU, labels on the host."""
    x, t = host(i)
    return cupy.asarray(x), t


def several(i):
    x, t = host(i)
    return x, t, host(i + 50)[0], (np.arange(N) + i) % K


# --- sent inside of the call ------------------------------------------------------------------
@program(host)
def by_asarray(self, x, t):
    return F.softmax_cross_entropy(self.o(self.xp.asarray(x)), self.xp.asarray(t))


@program(host)
def by_to_gpu(self, x, t):
    return F.softmax_cross_entropy(self.o(cuda.to_gpu(x)), cuda.to_gpu(t, 0))


@program(host)
def by_the_device(self, x, t):
    x, t = self.device.send((x, t))
    return F.softmax_cross_entropy(self.o(x), t)


@program(host)
def by_converter(self, x, t):
    x = chainer.dataset.to_device(self.device, x)
    t = chainer.dataset.to_device("@cupy:0", t)
    return F.softmax_cross_entropy(self.o(x), t)


@program(host)
def as_a_variable_that_moves(self, x, t):
    v = chainer.Variable(x)
    v.to_gpu()
    w = chainer.Variable(self.xp.asarray(x))
    return F.softmax_cross_entropy(self.o(v + w), self.xp.array(t))


@program(host, python=1)
def by_a_function(self, x, t):
    x = F.copy(x, self.device)
    return F.softmax_cross_entropy(self.o(x), self.xp.asarray(t))


@program(host)
def copies_and_contiguous_ones(self, x, t):
    a, b = self.xp.array(x, copy=True), self.xp.asarray(x)
    a[0] = 0
    b *= 2
    return F.sum(self.l(a) * self.l(b)) + F.sum(self.l(self.xp.ascontiguousarray(b)))


@program(host)
def into_an_array(self, x, t):
    buffer = cupy.empty((N, D), "f")
    buffer.set(x)
    buffer[0] *= 2
    return F.sum(self.l(buffer) ** 2)


@program(host)
def into_an_attribute(self, x, t):
    self.memory[:N] = self.xp.asarray(x)
    return F.sum(self.l(self.memory) ** 2)


@program(pictures)
def scaled_pictures(self, x, t):
    x = self.xp.asarray(x).astype("f") / 255
    return F.softmax_cross_entropy(self.o(x), self.xp.asarray(t).astype("i"))


@program(doubles)
def cast_while_sent(self, x, t):
    x = self.xp.asarray(x, dtype="f")
    return F.softmax_cross_entropy(self.o(x), self.xp.asarray(t, dtype=np.int32))


@program(with_gaps)
def arrays_with_gaps(self, x, t):
    return F.softmax_cross_entropy(self.o(self.xp.asarray(x)), self.xp.asarray(t))


@program(several)
def four_arrays(self, x, t, y, u):
    x, t, y, u = [self.xp.asarray(a) for a in (x, t, y, u)]
    return F.softmax_cross_entropy(self.o(x), t) + F.softmax_cross_entropy(self.o(y), u)


@program(mixed)
def labels_of_the_host(self, x, t):
    t = self.xp.asarray(t)
    chainer.report({"accuracy": F.accuracy(self.o(x), t)}, self)
    return F.softmax_cross_entropy(self.o(x), t)


@program(mixed)
def brought_together_by_index(self, x, t):
    return F.sum(self.l(x[np.arange(N) % 3])) + F.sum(self.o(x)[np.arange(N), t])


@program(host)
def only_some_of_them(self, x, t):
    return F.sum(self.l(self.xp.asarray(x)) ** 2)


# --- computed by NumPy before they are sent ---------------------------------------------------
@program(host, python=8)
def normalized_before(self, x, t):
    x = ((x - MEAN) / STD).astype("f")
    weights = np.where(t > 0, 1, 0.5).astype("f")
    loss = F.softmax_cross_entropy(self.o(self.xp.asarray(x)), self.xp.asarray(t), reduce="no")
    return F.sum(loss * self.xp.asarray(weights))


@program(host, python=None)
def augmented_before(self, x, t):
    x = x.copy()
    x[::2] = x[::2, ::-1]
    x[0] = 0
    x += np.random.normal(0, 0.1, x.shape).astype("f")
    return F.sum(self.l(self.xp.asarray(x)) ** 2)


@program(host, python=None)
def one_hot_before(self, x, t):
    onehot = np.zeros((N, K), "f")
    onehot[np.arange(N), t] = 1
    return F.mean_squared_error(self.o(self.xp.asarray(x)), self.xp.asarray(onehot))


@program(host, python=None)
def order_of_the_host(self, x, t):
    order = np.random.permutation(N)
    x, t = x[order], t[order]
    return F.softmax_cross_entropy(self.o(self.xp.asarray(x)), self.xp.asarray(t))


@program(host, python=None, ways=4)
def as_many_as_the_host_says(self, x, t):
    n = int((t > 0).sum())
    x = self.xp.asarray(x)
    return F.sum(self.l(x)) * n


@program(host, python=None, ways=2)
def deciding_on_the_host(self, x, t):
    x = self.xp.asarray(x) if x.sum() > 0 else self.xp.asarray(-x)
    return F.sum(self.l(x) ** 2)


@program(host, python=None)
def number_of_the_host(self, x, t):
    scale, most = float(x.std()), x.max()
    return F.sum(self.l(self.xp.asarray(x))) * scale + F.sum(self.o(self.xp.asarray(x) * most))


# --- attributes and globals -------------------------------------------------------------------
@program(there)
def weights_of_a_global(self, x, t):
    loss = F.softmax_cross_entropy(self.o(x), t, reduce="no")
    return F.sum(loss * self.xp.asarray(WEIGHTS)[t])


@program(there)
def table_of_an_attribute(self, x, t):
    return F.sum(F.matmul(self.l(x), self.xp.asarray(self.table).T) ** 2)


@program(host, python=None)
def counted_on_the_host(self, x, t):
    np.add.at(self.seen, t, 1)
    weights = self.xp.asarray((1 / (self.seen + 1)).astype("f"))
    loss = F.softmax_cross_entropy(self.o(self.xp.asarray(x)), self.xp.asarray(t), reduce="no")
    return F.sum(loss * weights[self.xp.asarray(t)])


@program(there, python=None)
def statistics_of_the_host(self, x, t):
    h = self.l(x)
    self.seen[...] = 0.9 * self.seen + 0.1 * h.array[:, :K].mean(axis=0).get()
    return F.sum(h**2)


@program(host, python=5)
def one_buffer_sent_twice(self, x, t):
    buffer = np.zeros((N, D), "f")
    buffer[...] = x
    first = self.xp.asarray(buffer)
    buffer *= 2
    return F.sum(self.l(first) * self.l(self.xp.asarray(buffer)))


@program(host, python=5)
def an_attribute_sent_before_and_after(self, x, t):
    before = self.xp.asarray(self.table)
    self.table[t] += 1
    return F.sum(self.l(self.xp.asarray(x))[:K] * before * self.xp.asarray(self.table))


@program(host)
def under_forget(self, x, t):
    table = self.xp.asarray(self.table)
    h = F.forget(lambda y: F.tanh(self.l(y)), chainer.Variable(self.xp.asarray(x)))
    return F.sum(F.matmul(h, table.T))


@program(host, python=None)
def drawn_on_both(self, x, t):
    h = F.dropout(self.l(self.xp.asarray(x) + cupy.random.rand(N, D, dtype="f")), 0.5)
    if h.array.get().max() > 100:
        h = h * 2
    return F.sum(h * self.xp.asarray(np.random.rand(N, 1).astype("f")))


@program(host, python=None)
def samples_one_by_one(self, x, t):
    x, t = chainer.dataset.concat_examples(list(zip(x, t, strict=True)), device=self.device)
    return F.softmax_cross_entropy(self.o(x), t)


@program(host)
def set_into_arrays(self, x, t):
    given = cupy.empty((N, D), "f")
    given.set(x)
    self.memory[:N].set(x)
    return F.sum(self.l(given) * self.l(self.memory[:N]))


# --- brought back -----------------------------------------------------------------------------
@program(there, python=1)
def returned_from_the_gpu(self, x, t):
    y = self.o(x)
    return F.softmax_cross_entropy(y, t), y.array.get()


@program(there, python=None)
def accuracy_of_the_host(self, x, t):
    y = self.o(x)
    guess = cuda.to_cpu(y.array).argmax(axis=1)
    chainer.report({"accuracy": float((guess == cuda.to_cpu(t)).mean())}, self)
    return F.softmax_cross_entropy(y, t)


@program(host, python=None)
def accuracy_by_a_function_of_the_host(self, x, t):
    y = self.o(self.xp.asarray(x))
    with chainer.no_backprop_mode():
        accuracy = F.accuracy(chainer.Variable(cupy.asnumpy(y.array)), t)
    chainer.report({"accuracy": accuracy}, self)
    return F.softmax_cross_entropy(y, self.xp.asarray(t))


@program(there, python=1)
def kept_on_the_host(self, x, t):
    y = self.o(x)
    self.h = F.softmax(y).array.get()
    return F.softmax_cross_entropy(y, t)


@program(there, python=None)
def there_and_back(self, x, t):
    y = self.l(x)
    mask = (cuda.to_cpu(y.array) > 0).astype("f")
    mask[0] = 1
    return F.sum(y * self.xp.asarray(mask)), mask


@program(there, python=None)
def scheduled_sampling(self, x, t):
    y = self.o(x)
    guess = y.array.argmax(axis=1).astype("i").get()
    coin = np.random.rand(N) < 0.5
    t = np.where(coin, guess, t.get())
    return F.softmax_cross_entropy(self.o(self.l(x)), self.xp.asarray(t))


@program(there, python=None, ways=CALLS)
def greedy_words(self, x, t):
    h, words = x[:1], []
    for _ in range(3):
        h = F.tanh(self.l(h))
        word = int(cuda.to_cpu(self.o(h).array).argmax())
        if word == 0:
            break
        words.append(word)
    return F.sum(h), words


@program(there, python=None)
def best_of_a_beam(self, x, t):
    scores = F.log_softmax(self.o(x)).array.get()
    order = np.argsort(-scores, axis=1)[:, :2]
    best = self.xp.asarray(order[:, 0].astype("i"))
    second = self.xp.asarray(order[:, 1])
    return F.sum(F.select_item(self.o(self.l(x)), best)) + F.sum(self.l(x[second]))


@program(there, python=None)
def epsilon_greedy(self, x, t):
    q = self.o(x)
    greedy = cupy.asnumpy(q.array.argmax(axis=1))
    other = np.random.randint(0, K, N)
    a = np.where(np.random.rand(N) < self.eps, other, greedy).astype("i")
    return F.sum(F.select_item(q, self.xp.asarray(a))), a


@program(there, python=None)
def numbers_by_get(self, x, t):
    loss = F.softmax_cross_entropy(self.o(x), t)
    value = loss.array.get()
    chainer.report({"loss": float(value), "largest": float(x.get().max())}, self)
    return loss * float(value)


@program(there, python=None)
def per_class(self, x, t):
    y = self.o(x)
    guess, truth = y.array.argmax(axis=1).get(), t.get()
    hits = np.zeros((K, K), "i")
    np.add.at(hits, (truth, guess), 1)
    self.h = hits
    return F.softmax_cross_entropy(y, t)


@program(there, python=None)
def exponential_average_of_the_loss(self, x, t):
    loss = F.softmax_cross_entropy(self.o(x), t)
    self.eps = 0.9 * self.eps + 0.1 * float(loss.array.get())
    return loss


@program(there, python=None)
def arrays_made_on_both(self, x, t):
    zeros, ones = np.zeros((N, D), "f"), cupy.ones((N, D), "f")
    positions = np.arange(D, dtype="f")
    return F.sum(self.l(x + self.xp.asarray(zeros + positions) + ones)), zeros, ones


@pytest.mark.parametrize(("forward", "given", "python", "ways"), PROGRAMS)
def test_calls(forward, given, python, ways):
    _, statistics, said = compared(forward, given)
    assert_replayed(statistics, said, python, ways)


ALONE = {returned_from_the_gpu, there_and_back, greedy_words, epsilon_greedy, arrays_made_on_both}


@pytest.mark.parametrize(
    ("forward", "given", "python", "ways"),
    [entry for entry in PROGRAMS if entry.values[0] not in ALONE],
)
def test_steps(forward, given, python, ways):
    _, statistics, said = compared(forward, given, chainer.optimizers.Adam)
    assert_replayed(statistics, said, python, ways)
    assert statistics.steps == statistics.replays
