"""Row 10: programs as people write them, whose links hold arrays that the call writes in place."""

from __future__ import annotations

import warnings

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.comparison import assert_near
from tests.harness.twins import statistics_of
from tests.tolerances import GRADIENTS, RESULTS

N, D, H, M, K = 6, 4, 5, 8, 3
CALLS = 9


def layer(rng, n_in, n_out):
    made = L.Linear(n_in, n_out, initialW=(0.5 * rng.randn(n_out, n_in)).astype("f"))
    made.b.array[...] = 0.1 * rng.randn(n_out)
    return made


class Normalizer(chainer.Link):
    """Running mean and variance of what it is given, in place."""

    def __init__(self, size, decay=0.9):
        super().__init__()
        self.decay = decay
        self.add_persistent("mean", np.zeros(size, "f"))
        self.add_persistent("var", np.ones(size, "f"))
        self.add_persistent("seen", np.zeros((), "i"))

    def forward(self, x):
        array = getattr(x, "array", x)
        if chainer.config.train:
            self.mean *= self.decay
            self.mean += (1 - self.decay) * array.mean(axis=0)
            self.var[...] = self.decay * self.var + (1 - self.decay) * array.var(axis=0)
            self.seen += 1
        return (x - self.mean) / np.sqrt(self.var + 1e-2)


class Ring(chainer.Link):
    """The last rows that it was given."""

    def __init__(self, rng, rows, size):
        super().__init__()
        self.add_persistent("rows", 0.1 * rng.randn(rows, size).astype("f"))

    def push(self, rows):
        n = len(rows)
        self.rows[n:] = self.rows[:-n].copy()
        self.rows[:n] = rows


class Model(chainer.Chain):
    """Some layers, and some of everything that a model may hold."""

    def __init__(self, program):
        super().__init__()
        rng = np.random.RandomState(5)
        with self.init_scope():
            self.l1, self.l2 = layer(rng, D, H), layer(rng, H, K)
            self.slow1, self.slow2 = layer(rng, D, H), layer(rng, H, K)
            self.bn = L.BatchNormalization(H)
            self.norm = Normalizer(D)
            self.inner = Normalizer(H)
            self.ring = Ring(rng, M, H)
            self.embed = L.EmbedID(K, H, initialW=rng.randn(K, H).astype("f"))
        self.memory = rng.randn(M, H).astype("f")
        self.keys = rng.randn(M, H).astype("f")
        self.values = rng.randint(0, K, M).astype("i")
        self.age = np.arange(M, dtype="f")
        self.usage = np.full(M, 0.5, "f")
        self.centers = rng.randn(K, H).astype("f")
        self.counts = np.ones(K, "f")
        self.seen = np.zeros(K, "i")
        self.confusion = np.zeros((K, K), "i")
        self.total = np.zeros((), "d")
        self.peak = np.full(D, -9, "f")
        self.low, self.high = np.full(D, 9, "f"), np.full(D, -9, "f")
        self.u = rng.randn(H).astype("f")
        self.state = np.zeros((N, H), "f")
        self.trace = np.zeros((H, D), "f")
        self.mask = np.ones(H, "f")
        self.cov = np.eye(D, dtype="f")
        self.history = np.zeros(4, "f")
        self.frames = np.zeros((N, 3, D), "f")
        self.noise = np.zeros((N, D), "f")
        self.bias = np.zeros(K, "d")
        self.wide = np.zeros((K, 3), "f")
        self.done = np.zeros(N, bool)
        self.step, self.tau = 0, 0.05
        self.program = program

    def forward(self, x, t):
        return self.program(self, x, t)


PROGRAMS = []


def program(f):
    PROGRAMS.append(f)
    return f


def head(self, x, t):
    return F.softmax_cross_entropy(self.l2(F.tanh(self.l1(x))), t)


# --- statistics -----------------------------------------------------------------------------------
@program
def normalized_inputs(self, x, t):
    return head(self, self.norm(x), t)


@program
def normalized_inside(self, x, t):
    h = self.inner(self.l1(x))
    return F.softmax_cross_entropy(self.l2(F.relu(h)), t)


@program
def normalized_twice(self, x, t):
    h = self.inner(F.tanh(self.l1(self.norm(x))))
    return F.softmax_cross_entropy(self.l2(h), t)


@program
def welford(self, x, t):
    self.total += len(x)
    delta = x.mean(0) - self.norm.mean
    self.norm.mean += delta * np.float32(0.1)
    self.norm.var += 0.1 * (delta**2 - self.norm.var)
    return head(self, x - self.norm.mean, t)


@program
def range_seen(self, x, t):
    np.minimum(self.low, x.min(0), out=self.low)
    np.maximum(self.high, x.max(0), out=self.high)
    return head(self, (x - self.low) / (self.high - self.low + 1), t)


@program
def peak_seen(self, x, t):
    self.peak[...] = np.maximum(self.peak, abs(x).max(0))
    return head(self, x / (self.peak + 1), t)


@program
def loss_history(self, x, t):
    loss = head(self, x, t)
    self.history[:-1] = self.history[1:]
    self.history[-1] = loss.array
    return loss


@program
def loss_against_history(self, x, t):
    loss = head(self, x, t)
    before = self.history.mean()
    self.history[1:] = self.history[:-1].copy()
    self.history[0] = loss.array
    return loss * (1 + before)


@program
def covariance(self, x, t):
    c = x - x.mean(0)
    self.cov *= 0.9
    self.cov += 0.1 * c.T.dot(c) / N
    return head(self, F.matmul(x, self.cov), t)


@program
def class_counts(self, x, t):
    np.add.at(self.counts, t, 1)
    weight = self.counts.sum() / self.counts
    y = self.l2(F.tanh(self.l1(x)))
    return F.mean(F.softmax_cross_entropy(y, t, reduce="no") * weight[t])


@program
def class_counts_by_one_hot(self, x, t):
    self.counts *= 0.99
    self.counts += np.eye(K, dtype="f")[t].sum(0)
    return F.softmax_cross_entropy(self.l2(self.l1(x)) - np.log(self.counts), t)


@program
def confusion_matrix(self, x, t):
    y = self.l2(F.tanh(self.l1(x)))
    np.add.at(self.confusion, (t, y.array.argmax(1)), 1)
    return F.softmax_cross_entropy(y, t)


@program
def accuracy_by_class(self, x, t):
    y = self.l2(F.tanh(self.l1(x)))
    right = y.array.argmax(axis=1) == t
    for k in range(K):
        self.counts[k] += right[t == k].sum()
    return F.softmax_cross_entropy(y, t) / self.counts.sum()


@program
def samples_seen(self, x, t):
    self.total += x.shape[0]
    self.seen[t[0]] += 1
    return head(self, x, t)


@program
def reported_statistics(self, x, t):
    self.norm.mean[...] = 0.9 * self.norm.mean + 0.1 * x.mean(0)
    loss = head(self, x - self.norm.mean, t)
    chainer.report({"loss": loss, "mean": self.norm.mean.mean(), "all": self.norm.mean}, self)
    return loss


@program
def bias_that_balances(self, x, t):
    y = self.l2(F.tanh(self.l1(x))) + self.bias.astype("f")
    load = F.softmax(y).array.mean(0)
    self.bias += 0.01 * np.sign(load.mean() - load)
    return F.softmax_cross_entropy(y, t)


# --- memory ---------------------------------------------------------------------------------------
def attend(self, h):
    w = F.softmax(F.matmul(h, self.memory, transb=True))
    return w, F.matmul(w, self.memory)


@program
def memory_read_then_written(self, x, t):
    h = F.tanh(self.l1(x))
    w, r = attend(self, h)
    self.memory += 0.1 * w.array.T.dot(h.array)
    return F.softmax_cross_entropy(self.l2(h + r), t)


@program
def memory_written_then_read(self, x, t):
    h = F.tanh(self.l1(x))
    self.memory[0] = h.array.mean(0)
    _, r = attend(self, h)
    return F.softmax_cross_entropy(self.l2(h + r), t)


@program
def erase_and_add(self, x, t):
    h = F.tanh(self.l1(x))
    w, r = attend(self, h)
    a = w.array.mean(0)[:, None]
    self.memory *= 1 - 0.5 * a
    self.memory += a * h.array.mean(0)
    return F.softmax_cross_entropy(self.l2(r), t)


@program
def oldest_slots(self, x, t):
    h = F.tanh(self.l1(x))
    oldest = np.argsort(-self.age)[:N]
    self.memory[oldest] = h.array
    self.age += 1
    self.age[oldest] = 0
    return F.softmax_cross_entropy(self.l2(h + attend(self, h)[1]), t)


@program
def least_used_slots(self, x, t):
    h = F.tanh(self.l1(x))
    w, r = attend(self, h)
    self.usage[...] = 0.95 * self.usage + w.array.sum(0)
    i = self.usage.argsort()[:2]
    self.memory[i] = h.array[:2]
    self.usage[i] = self.usage.max()
    return F.softmax_cross_entropy(self.l2(h + r), t)


@program
def key_value_memory(self, x, t):
    h = F.tanh(self.l1(x))
    near = self.keys.dot(h.array.T).argmax(0)
    hint = np.eye(K, dtype="f")[self.values[near]]
    self.keys[near] = 0.5 * (self.keys[near] + h.array)
    self.values[near] = t
    return F.softmax_cross_entropy(self.l2(h) + hint, t)


@program
def ring_of_rows(self, x, t):
    h = self.l1(x)
    self.ring.push(h.array[:2])
    return F.softmax_cross_entropy(self.l2(h + self.ring.rows.mean(0)), t)


@program
def negatives_from_a_ring(self, x, t):
    h = F.normalize(self.l1(x))
    scores = F.matmul(h, self.ring.rows, transb=True)
    self.ring.push(h.array[:3])
    return F.mean(F.logsumexp(scores, axis=1))


@program
def ring_by_a_counter(self, x, t):
    h = self.l1(x)
    self.memory[self.step % 2] = h.array[0]
    self.step += 1
    return F.softmax_cross_entropy(self.l2(h + self.memory.mean(0)), t)


@program
def state_of_an_agent(self, x, t):
    self.state[...] = 0.5 * self.state + self.l1(x).array
    return F.softmax_cross_entropy(self.l2(F.tanh(self.l1(x) + self.state)), t)


@program
def state_that_is_reset(self, x, t):
    self.state[t == 0] = 0
    h = F.tanh(self.l1(x) + self.state)
    self.state[...] = h.array
    return F.softmax_cross_entropy(self.l2(h), t)


@program
def stacked_frames(self, x, t):
    self.frames[:, :-1] = self.frames[:, 1:]
    self.frames[:, -1] = x
    return head(self, self.frames.mean(axis=1), t)


@program
def stacked_frames_rolled(self, x, t):
    self.frames[...] = np.roll(self.frames, -1, axis=1)
    self.frames[:, -1, :] = x
    return head(self, self.frames.reshape(N, -1)[:, :D], t)


@program
def fast_weights(self, x, t):
    h = F.tanh(self.l1(x))
    y = h + 0.1 * F.matmul(x, self.trace.T)
    self.trace *= 0.9
    self.trace += 0.1 * h.array.T.dot(x)
    return F.softmax_cross_entropy(self.l2(y), t)


@program
def hebbian(self, x, t):
    h = self.l1(x).array
    self.trace[:] = 0.9 * self.trace + 0.1 * (h[:, :, None] * x[:, None]).mean(0)
    return F.softmax_cross_entropy(self.l2(F.tanh(F.linear(x, self.trace) + self.l1(x))), t)


@program
def nearest_neighbours(self, x, t):
    h = F.tanh(self.l1(x))
    d = ((h.array[:, None] - self.keys) ** 2).sum(2)
    y = self.l2(h) + np.eye(K, dtype="f")[self.values[d.argmin(1)]]
    self.keys[:N], self.values[:N] = h.array, t
    return F.softmax_cross_entropy(y, t)


@program
def targets_kept_by_sample(self, x, t):
    y = self.l2(F.tanh(self.l1(x)))
    self.wide[...] = 0.7 * self.wide
    self.wide[t] += 0.3 * F.softmax(y).array
    return F.softmax_cross_entropy(y, t) + F.sum((F.softmax(y) - self.wide[t]) ** 2)


# --- centers, codebooks, prototypes ---------------------------------------------------------------
@program
def center_loss(self, x, t):
    h = self.l1(x)
    loss = F.mean((h - self.centers[t]) ** 2)
    np.subtract.at(self.centers, t, 0.1 * (self.centers[t] - h.array))
    return loss + F.softmax_cross_entropy(self.l2(h), t)


@program
def prototypes(self, x, t):
    h = self.l1(x)
    onehot = (t[:, None] == np.arange(K)).astype("f")
    sums = onehot.T.dot(h.array)
    self.centers[...] = 0.9 * self.centers + 0.1 * sums / (onehot.sum(0)[:, None] + 1)
    return F.softmax_cross_entropy(-F.sum((h[:, None] - self.centers) ** 2, axis=2), t)


@program
def vector_quantized(self, x, t):
    z = self.l1(x)
    code = ((z.array[:, None] - self.memory) ** 2).sum(2).argmin(1)
    onehot = np.eye(M, dtype="f")[code]
    q = self.memory[code]
    self.usage *= 0.9
    self.usage += 0.1 * onehot.sum(0)
    self.keys *= 0.9
    self.keys += 0.1 * onehot.T.dot(z.array)
    self.memory[...] = self.keys / (self.usage[:, None] + 1e-2)
    return F.mean((z - q) ** 2) + F.softmax_cross_entropy(self.l2(z + (q - z.array)), t)


@program
def online_k_means(self, x, t):
    h = self.l1(x)
    for row in h.array:
        k = ((self.centers - row) ** 2).sum(1).argmin()
        self.centers[k] += 0.1 * (row - self.centers[k])
    return F.softmax_cross_entropy(self.l2(h - self.centers.mean(0)), t)


@program
def self_organizing_map(self, x, t):
    h = self.l1(x).array[0]
    d = ((self.memory - h) ** 2).sum(1)
    near = np.exp(-abs(np.arange(M) - d.argmin())).astype("f")
    self.memory += 0.1 * near[:, None] * (h - self.memory)
    return F.softmax_cross_entropy(self.l2(self.l1(x) + self.memory[0]), t)


# --- weights --------------------------------------------------------------------------------------
def slow(self, x):
    with chainer.no_backprop_mode():
        return F.softmax(self.slow2(F.tanh(self.slow1(x)))).array


@program
def mean_teacher(self, x, t):
    y = self.l2(F.tanh(self.l1(x)))
    consistency = F.mean((F.softmax(y) - slow(self, x)) ** 2)
    for p, q in ((self.slow1, self.l1), (self.slow2, self.l2)):
        p.W.array[...] = 0.95 * p.W.array + 0.05 * q.W.array
        p.b.array[...] = 0.95 * p.b.array + 0.05 * q.b.array
    return F.softmax_cross_entropy(y, t) + consistency


@program
def soft_target_update_with_tau(self, x, t):
    loss = F.mean((F.softmax(self.l2(F.tanh(self.l1(x)))) - slow(self, x)) ** 2)
    for p, q in zip(self.slow1.params(), self.l1.params(), strict=True):
        p.array *= 1 - self.tau
        p.array += self.tau * q.array
    return loss


@program
def target_by_copyto(self, x, t):
    for p, q in zip(self.slow2.params(), self.l2.params(), strict=True):
        np.copyto(p.array, q.array)
    return F.mean((self.l2(F.tanh(self.l1(x))) - slow(self, x)) ** 2)


@program
def target_every_third_call(self, x, t):
    if self.step % 3 == 0:
        self.slow1.W.array[...] = self.l1.W.array
    self.step += 1
    return F.mean((F.softmax(self.l2(F.tanh(self.l1(x)))) - slow(self, x)) ** 2)


@program
def clipped_weights(self, x, t):
    for p in self.l1.params():
        np.clip(p.array, -0.4, 0.4, out=p.array)
    return head(self, x, t)


@program
def clipped_after(self, x, t):
    loss = head(self, x, t)
    for p in self.l2.params():
        p.array[...] = np.clip(p.array, -0.4, 0.4)
    return loss


@program
def max_norm(self, x, t):
    w = self.l1.W.array
    norm = np.sqrt((w**2).sum(axis=1, keepdims=True))
    w *= np.minimum(1, 1 / (norm + 1e-6))
    return head(self, x, t)


@program
def weights_masked(self, x, t):
    self.l1.W.array *= self.mask[:, None]
    self.mask[abs(self.l1.W.array).sum(1) < 0.6] = 0
    return head(self, x, t)


@program
def spectral_normalization(self, x, t):
    w = self.l2.W.array
    v = self.u.dot(w.T)
    v /= np.sqrt((v**2).sum()) + 1e-6
    self.u[...] = v.dot(w)
    self.u /= np.sqrt((self.u**2).sum()) + 1e-6
    sigma = (self.u.dot(w.T) * v).sum()
    return F.softmax_cross_entropy(F.linear(F.tanh(self.l1(x)), self.l2.W / sigma, self.l2.b), t)


@program
def padding_embedding(self, x, t):
    self.embed.W.array[0] = 0
    return F.softmax_cross_entropy(self.l2(self.embed(t) + self.l1(x)), t)


@program
def embedding_normalized(self, x, t):
    self.embed.W.array /= np.sqrt((self.embed.W.array**2).sum(1, keepdims=True))
    return F.softmax_cross_entropy(self.l2(self.embed(t) * self.l1(x)), t)


@program
def noisy_weights(self, x, t):
    self.noise[...] = np.random.randn(N, D)
    self.l1.W.array[...] += 0.01 * np.random.randn(H, D).astype("f")
    return head(self, x + 0.1 * self.noise, t)


@program
def weights_averaged(self, x, t):
    self.step += 1
    self.slow1.W.array[...] += (self.l1.W.array - self.slow1.W.array) / self.step
    return head(self, x, t) + 0.01 * F.sum(self.slow1(x) ** 2)


@program
def orthogonal(self, x, t):
    w = self.l1.W.array
    w += 0.01 * (w - w.dot(w.T).dot(w))
    return head(self, x, t)


# --- around a forward -----------------------------------------------------------------------------
@program
def statistics_of_batch_normalization(self, x, t):
    self.bn.avg_mean *= 0.5
    h = self.bn(F.tanh(self.l1(x)))
    return F.softmax_cross_entropy(self.l2(h + self.bn.avg_mean), t)


@program
def mask_by_hand(self, x, t):
    self.mask[...] = np.random.rand(H) > 0.3
    return F.softmax_cross_entropy(self.l2(self.l1(x) * self.mask), t)


@program
def flags(self, x, t):
    self.done |= x[:, 0] > 1
    alive = (~self.done).astype("f")
    self.done[t == 2] = False
    return F.mean(F.softmax_cross_entropy(self.l2(self.l1(x)), t, reduce="no") * alive)


@program
def buffer_for_noise(self, x, t):
    self.noise *= 0.8
    self.noise += 0.2 * np.random.standard_normal((N, D)).astype("f")
    return head(self, x + self.noise, t)


@program
def written_where_it_matters(self, x, t):
    y = self.l2(F.tanh(self.l1(x)))
    np.copyto(self.state[:, :K], y.array, where=y.array > self.state[:, :K])
    return F.softmax_cross_entropy(y + self.state[:, :K], t)


@program
def through_views(self, x, t):
    upper, lower = self.memory[: M // 2], self.memory[M // 2 :]
    upper += 0.1 * self.l1(x).array[: M // 2]
    lower[...] = upper * 0.5
    left = self.memory.T[:2]
    left *= 0.9
    return F.softmax_cross_entropy(self.l2(self.l1(x) + self.memory.sum(0)), t)


@program
def number_taken_before(self, x, t):
    first, most = float(self.age[0]), self.age.max()
    self.age -= 0.1 * x.mean()
    return head(self, x, t) * (1 + 0.1 * first + 0.01 * most)


@program
def branch_on_what_was_written(self, x, t):
    self.history[0] += abs(x).mean()
    loss = head(self, x, t)
    if self.history[0] > 2:
        self.history[0] = 0
        return loss * 0.5
    return loss


@program
def early_return(self, x, t):
    self.counts[0] += 1
    if not chainer.config.train:
        return head(self, x, t)
    self.counts[1] += x.max()
    return head(self, x, t) / self.counts[1]


@program
def handed_out_with_the_loss(self, x, t):
    self.centers[...] = 0.9 * self.centers + 0.1 * self.l1(x).array[:K]
    return F.mean((self.l1(x)[:K] - self.centers) ** 2) + head(self, x, t)


@program
def in_a_loop_over_time(self, x, t):
    loss = 0
    for i in range(3):
        h = F.tanh(self.l1(x) + self.state)
        self.state[...] = h.array
        self.usage[i] += h.array.mean()
        loss += F.softmax_cross_entropy(self.l2(h), t)
    return loss


@program
def helper_and_lambda(self, x, t):
    blend = lambda a, b, k: np.add((1 - k) * a, k * b, out=a)  # noqa: E731
    blend(self.norm.mean, x.mean(0), 0.1)
    blend(self.norm.var, x.var(0), 0.1)
    return head(self, (x - self.norm.mean) / np.sqrt(self.norm.var), t)


#: Two ways each: one more trace.
BRANCHING = [target_every_third_call, branch_on_what_was_written]


def given(i: int):
    rng = np.random.RandomState(i)
    return rng.randn(N, D).astype("f"), rng.permutation(N).astype("i") % K


def arrays_of(model) -> dict:
    found = {}
    for path, link in model.namedlinks():
        for name, thing in vars(link).items():
            if type(thing) is np.ndarray:
                found[f"{path} {name}"] = thing
    found.update((name, p.array) for name, p in model.namedparams())
    return found


def run(model, optimizer, whole: bool):
    """All that can be seen of some iterations, one after the other."""
    for i in range(CALLS):
        np.random.seed(i)
        found, reporter = {}, chainer.Reporter()
        reporter.add_observer("main", model)
        with reporter.scope({}), chainer.using_config("train", i != 5):
            if whole:
                optimizer.update(model, *given(i))
            else:
                loss = model(*given(i))
                found["loss"] = loss.array.copy()
                model.cleargrads()
                loss.backward()
                for name, p in model.namedparams():
                    if p.grad is not None:
                        found["grad " + name] = p.grad.copy()
                if i % 3 == 2:
                    optimizer.update()
        for name, thing in reporter.observation.items():
            found["reported " + name] = np.array(getattr(thing, "array", thing))
            found["itself " + name] = np.array(thing is model.norm.mean)
        found.update((name, x.copy()) for name, x in arrays_of(model).items())
        found["drawn"] = np.random.rand(1)
        yield found


@pytest.mark.parametrize("audit", ["off", 1.0])
@pytest.mark.parametrize("whole", [False, True], ids=["calls", "steps"])
@pytest.mark.parametrize("forward", PROGRAMS, ids=lambda f: f.__name__)
def test_programs(forward, whole, audit):
    plain, static = Model(forward), sdbr.static_graph(Model(forward))
    one = chainer.optimizers.MomentumSGD(0.01).setup(plain)
    other = sdbr.static_optimizer(chainer.optimizers.MomentumSGD(0.01)).setup(static)
    before = arrays_of(static)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", sdbr.SdbrWarning)
        with chainer.using_config("sdbr_audit", audit):
            pairs = zip(run(plain, one, whole), run(static, other, whole), strict=True)
            for i, (want, have) in enumerate(pairs):
                assert want.keys() == have.keys()
                for name, x in want.items():
                    bound = RESULTS if name == "loss" and not i else GRADIENTS
                    assert_near(have[name], x, bound, f"call {i}: {name}")
    after = arrays_of(static)
    assert all(after[name] is x for name, x in before.items())
    said = [str(w.message) for w in caught if issubclass(w.category, sdbr.SdbrWarning)]
    statistics, audits = statistics_of(static), static.schedule_manager.audits
    assert not audits.failed
    replays = CALLS - 2 - (forward in BRANCHING)
    assert (statistics.steps if whole else statistics.replays) == replays
    assert not said
