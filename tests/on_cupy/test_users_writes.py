"""What users write in place on a GPU: buffers, masks, statistics, augmentations, kernels."""

import chainer
import chainer.functions as F
import cupy
import numpy as np
import pytest
from chainer.backends import cuda

from .users import CALLS, D, K, N, assert_replayed, collected, compared

program, PROGRAMS = collected()

ADD = cupy.ElementwiseKernel("T x, T a", "T y", "y += a * x", "add_scaled")
MOMENTS = cupy.ElementwiseKernel(
    "T x, T rate", "T m, T v", "m += rate * (x - m); v += rate * (x * x - v)", "moments"
)
SCATTER = cupy.ElementwiseKernel(
    "T x, raw S t", "raw T y", "atomicAdd(&y[t[i]], x)", "scatter_by_label"
)
NORM = cupy.ReductionKernel("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "norm_of_rows")
RAW = cupy.RawKernel(
    r"""
    extern "C" __global__ void leaky(const float* x, float slope, int n, float* y) {
        int i = blockDim.x * blockIdx.x + threadIdx.x;
        if (i < n) y[i] = x[i] > 0 ? x[i] : slope * x[i];
    }
    """,
    "leaky",
)


# --- replay buffers and rewards ---------------------------------------------------------------
@program()
def ring_of_states(self, x, t):
    self.memory[self.n % 8] = x[0]
    self.n += 1
    return F.sum(self.l(x) * self.memory.mean(axis=0))


@program()
def rows_moved_on(self, x, t):
    self.memory[1:] = self.memory[:-1].copy()
    self.memory[0] = x.mean(axis=0)
    return F.sum(F.matmul(self.l(x), self.memory.T) ** 2)


@program()
def q_target(self, x, t):
    q = self.o(x)
    with chainer.no_backprop_mode():
        best = self.o(x * 0.5).array.max(axis=1)
    y = q.array.copy()
    y[cupy.arange(N), t] = 0.9 * best * (t != 0) + x[:, 0]
    return F.mean_squared_error(q, y)


@program(python=1)
def double_q_target(self, x, t):
    with chainer.no_backprop_mode():
        other = self.o(self.l(x))
        a = other.array.argmax(axis=1)
        target = self.o(x).array[cupy.arange(N), a]
    target *= 0.99
    target[t == 0] = 0
    target += x[:, 1]
    return F.sum(F.huber_loss(F.select_item(self.o(x), t)[:, None], target[:, None], 1.0))


@program(python=1)
def discounted_returns(self, x, t):
    rewards = x[:, 0]
    returns = cupy.zeros_like(rewards)
    total = cupy.zeros((), "f")
    for i in reversed(range(N)):
        total = rewards[i] + 0.9 * total
        returns[i] = total
    returns -= returns.mean()
    returns /= returns.std() + 1e-6
    return -F.sum(F.select_item(F.log_softmax(self.o(x)), t) * returns)


@program()
def advantages_backwards(self, x, t):
    values = F.squeeze(self.l(x)[:, :1], 1)
    deltas = x[:, 0] - values.array
    gae = cupy.zeros(N + 1, "f")
    for i in range(N - 1, -1, -1):
        gae[i] = deltas[i] + 0.5 * gae[i + 1] * (t[i] != 1)
    return F.mean((values - gae[:-1]) ** 2)


@program()
def slow_target(self, x, t):
    for p in self.o.params():
        p.array *= 0.999
    self.l.W.array[...] = 0.9 * self.l.W.array + 0.01
    return F.softmax_cross_entropy(self.o(self.l(x)), t)


@program(python=None, ways=CALLS)
def greedy_with_mask(self, x, t):
    scores = self.o(x).array.copy()
    scores[:, 0] = -1e9
    scores[t == 2] -= 5
    a = scores.argmax(axis=1).astype("i")
    return F.sum(F.select_item(self.o(x), a))


# --- masks ------------------------------------------------------------------------------------
@program()
def padding(self, x, t):
    weights = cupy.ones(N, "f")
    weights[t == 0] = 0
    loss = F.softmax_cross_entropy(self.o(x), t, reduce="no")
    return F.sum(loss * weights) / max(N, 1)


@program()
def causal_attention(self, x, t):
    q, k = self.l(x), F.tanh(self.l(x))
    scores = F.matmul(q, k.T)
    mask = cupy.ones((N, N), bool)
    for i in range(N):
        mask[i, i + 1 :] = False
    mask[:, t == 1] = False
    mask[:, 0] = True
    minus = cupy.full((N, N), -1e9, "f")
    return F.sum(F.matmul(F.softmax(F.where(mask, scores, minus)), x) ** 2)


@program()
def smoothed_labels(self, x, t):
    target = cupy.full((N, K), 0.1 / K, "f")
    target[cupy.arange(N), t] += 0.9
    return -F.sum(F.log_softmax(self.o(x)) * target)


@program()
def one_hot(self, x, t):
    onehot = cupy.zeros((N, K), "f")
    onehot[np.arange(N), t] = 1  # an index of the host is sent by CuPy
    return F.mean_squared_error(F.softmax(self.o(x)), onehot)


@program()
def ignored_by_copyto(self, x, t):
    y = x.copy()
    cupy.copyto(y, cupy.zeros_like(y), where=(t == 1)[:, None])
    cupy.copyto(y[:2], x[2:4])
    return F.sum(self.l(y) ** 2)


@program(python=None, ways=2)
def masked_fill_by_putmask(self, x, t):
    y = x * 2
    cupy.putmask(y, y > 1, 1)
    cupy.place(y, y < -1, cupy.asarray([-1.0], "f"))
    return F.sum(self.l(y) ** 2)


@program(python=None, ways=CALLS)
def chosen_rows(self, x, t):
    chosen = x[t > 0]
    return F.sum(self.l(x)) * (chosen.sum() + len(chosen))


@program(ways=CALLS)
def hard_examples(self, x, t):
    loss = F.softmax_cross_entropy(self.o(x), t, reduce="no")
    (places,) = cupy.nonzero(loss.array > 1)
    return F.sum(loss) + float(places.size)


# --- statistics -------------------------------------------------------------------------------
@program(python=1)
def running_mean(self, x, t):
    h = self.l(x)
    self.mean[...] = 0.9 * self.mean + 0.1 * h.array.mean(axis=0)
    self.var *= 0.9
    self.var += 0.1 * h.array.var(axis=0)
    return F.sum((h - self.mean) ** 2 / (self.var + 1e-3))


@program(python=3)
def usage_of_codes(self, x, t):
    distances = ((x[:, None] - self.memory[None]) ** 2).sum(axis=2)
    code = distances.argmin(axis=1)
    onehot = cupy.zeros((N, 8), "f")
    onehot[cupy.arange(N), code] = 1
    self.memory *= 0.99
    self.memory += 0.01 * onehot.T.dot(x)
    return F.sum((self.l(x) - self.memory[code]) ** 2)


@program(python=1)
def histogram_of_labels(self, x, t):
    cupy.add.at(self.counts, t, 1)
    weights = 1 / (self.counts.astype("f") + 1)
    return F.sum(F.softmax_cross_entropy(self.o(x), t, reduce="no") * weights[t])


@program()
def sums_by_label(self, x, t):
    sums = cupy.zeros((K, D), "f")
    cupy.add.at(sums, t, x)
    return F.sum(self.l(sums) ** 2)


@program(python=None)
def sums_by_cupyx(self, x, t):
    sums = cupy.zeros((K, D), "f")
    cuda.cupyx.scatter_add(sums, t, x)
    most = cupy.full(K, -9, "f")
    cupy.maximum.at(most, t, x[:, 0])
    return F.sum(self.l(sums) ** 2) * most.sum()


@program(python=1)
def confusion_matrix(self, x, t):
    y = self.o(x)
    guess = y.array.argmax(axis=1)
    self.confusion[t, guess] += 1
    return F.softmax_cross_entropy(y, t)


@program()
def extremes(self, x, t):
    cupy.maximum(self.mean, x.max(axis=0), out=self.mean)
    cupy.minimum(self.var, x.min(axis=0), out=self.var)
    return F.sum(self.l((x - self.var) / (self.mean - self.var + 1e-3)) ** 2)


@program()
def counter_without_dimensions(self, x, t):
    total = cupy.zeros((), "f")
    for row in self.l(x).array:
        total += row.sum()
    total /= N
    return F.sum(self.l(x)) * total


@program()
def state_kept_step_by_step(self, x, t):
    kept = cupy.empty((3, N, D), "f")
    h = self.l(x)
    for i in range(3):
        h = F.tanh(self.l(h))
        kept[i] = h.array
    self.h = kept
    return F.sum(h * kept.mean(axis=0))


# --- augmentation -----------------------------------------------------------------------------
@program()
def flipped_rows(self, x, t):
    y = x.copy()
    y[::2] = y[::2, ::-1]
    return F.sum(self.l(y) ** 2)


@program()
def cut_out(self, x, t):
    y = x.copy()
    y[:, 1:3] = 0
    y[0, 0] = 3
    y[-1] *= -1
    return F.sum(self.l(y) ** 2)


@program(python=2)
def noise_in_place(self, x, t):
    y = x.copy()
    y += 0.1 * cupy.random.normal(0, 1, x.shape).astype("f")
    y[cupy.random.uniform(0, 1, N) < 0.3] = 0
    return F.sum(self.l(y) ** 2)


@program()
def standardized(self, x, t):
    y = x * 1
    y -= y.mean(axis=0)
    y /= cupy.sqrt((y * y).mean(axis=0)) + 1e-3
    cupy.clip(y, -2, 2, out=y)
    return F.sum(self.l(y) ** 2)


@program(python=None)
def sorted_and_filled(self, x, t):
    y = x.copy()
    y.sort(axis=0)
    y[0].fill(0)
    cupy.fill_diagonal(y, 1)
    y.partition(2, axis=1)
    y.put([1, 3], 7)
    return F.sum(self.l(y) ** 2)


@program()
def by_rows_of_a_view(self, x, t):
    y = x * 3
    first, rest = y[:2], y[2:]
    first[...] = 1
    rest += first.sum()
    return F.sum(self.l(y) ** 2) + first.sum() * rest.mean()


@program()
def flat_and_turned(self, x, t):
    y = x + 1
    y.reshape(-1)[::5] = 0
    y.T[1] -= 2
    y.ravel()[3] = y[2, 2]
    return F.sum(self.l(y) ** 2)


@program()
def out_of_everything(self, x, t):
    y = cupy.empty_like(x)
    cupy.multiply(x, 2, out=y)
    cupy.add(y, x, y)
    cupy.exp(-y, out=y)
    cupy.maximum(y, 0.5, out=y)
    z = cupy.empty(D, "f")
    y.sum(axis=0, out=z)
    return F.sum(self.l(y) ** 2) * z.mean()


# --- numbers ----------------------------------------------------------------------------------
@program()
def numbers_that_left(self, x, t):
    y = x.copy()
    y[0] = float(x.mean())
    y[1] *= x.max().item()
    z = cupy.zeros((N, D), "f")
    z[2].fill(float(x.min()))
    return F.sum(self.l(y + z) ** 2)


@program()
def annealed(self, x, t):
    y = x.copy()
    y *= self.eps
    y[0] = self.eps
    return F.sum(self.l(y) ** 2)


@program(ways=2)
def behind_a_question(self, x, t):
    self.mean += abs(x).mean(axis=0)
    if self.mean[0] > 2:
        self.mean[...] = 0
    return F.sum(self.l(x) * self.mean)


# --- kernels ----------------------------------------------------------------------------------
@program(python=1)
def kernel_into_an_array(self, x, t):
    y = self.l(x).array * 1
    ADD(x, 0.5, y)
    return F.sum(self.o(y) ** 2)


@program(python=1)
def kernel_of_chainer(self, x, t):
    y = cupy.zeros_like(x)
    cuda.elementwise("T x, T y", "T z", "z = x > y ? x : y", "larger")(x, -x, y)
    return F.sum(self.l(y) ** 2)


@program(python=1)
def kernel_into_attributes(self, x, t):
    MOMENTS(x.mean(axis=0), 0.1, self.mean, self.var)
    return F.sum(self.l((x - self.mean) / (self.var + 1e-3)) ** 2)


@program(python=1)
def kernel_by_index(self, x, t):
    sums = cupy.zeros(K, "f")
    SCATTER(x[:, 0], t, sums)
    return F.sum(self.o(x) * sums)


@program(python=1)
def reduction_into_an_array(self, x, t):
    norms = cupy.empty(N, "f")
    NORM(x, out=norms, axis=1)
    return F.sum(self.l(x) / (norms[:, None] + 1))


@program(python=1)
def raw_kernel(self, x, t):
    y = cupy.empty((N, D), "f")
    RAW((1,), (32,), (x, np.float32(0.1), np.int32(N * D), y))
    return F.sum(self.l(y) ** 2)


@program(python=1)
def raw_kernel_on_its_own_input(self, x, t):
    y = x * 1
    RAW((1,), (32,), (y, np.float32(0.1), np.int32(N * D), y))
    return F.sum(self.l(y) ** 2)


@program(python=2)
def several_outputs(self, x, t):
    whole, rest = cupy.empty_like(x), cupy.empty_like(x)
    cupy.modf(x, out=(rest, whole))
    q, r = cupy.empty_like(x), cupy.empty_like(x)
    cupy.divmod(x, 0.7, q, r)
    return F.sum(self.l(whole * rest + q * r) ** 2)


@pytest.mark.parametrize(("forward", "given", "python", "ways"), PROGRAMS)
def test_calls(forward, given, python, ways):
    _, statistics, said = compared(forward, given)
    assert_replayed(statistics, said, python, ways)


@pytest.mark.parametrize(("forward", "given", "python", "ways"), PROGRAMS)
def test_steps(forward, given, python, ways):
    _, statistics, said = compared(forward, given, chainer.optimizers.Adam)
    assert_replayed(statistics, said, python, ways)
    assert statistics.steps == statistics.replays
