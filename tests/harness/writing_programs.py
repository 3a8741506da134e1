"""Programs that write in place into arrays which the call makes, and a model that runs them."""

from __future__ import annotations

import sdbr

import chainer
import numpy as np
from chainer import functions as F
from chainer import links as L

N, D, K = 5, 4, 3


@sdbr.static_code
def doubled(array):
    return array * 2


class Writing(chainer.Chain):
    """A layer in front, one behind, and a forward that writes."""

    def __init__(self, forward):
        super().__init__()
        with self.init_scope():
            self.l = L.Linear(D, D)
            self.o = L.Linear(D, K)
        self.add_persistent("avg", np.zeros(D, "f"))
        self.mask = None
        self._forward = forward

    def forward(self, x, t):
        return self._forward(self, x, t)


# --- native -------------------------------------------------------------------------------------
def padded_labels(self, x, t):
    weights = np.ones(N, "f")
    weights[t == -1] = 0
    return F.sum(self.o(x) * weights[:, None])


def labels_replaced(self, x, t):
    t = t.copy()
    t[t == -1] = 0
    return F.softmax_cross_entropy(self.o(x), t)


def one_hot(self, x, t):
    onehot = np.zeros((N, K), "f")
    onehot[np.arange(N), t] = 1
    return -F.sum(F.log_softmax(self.o(x)) * onehot)


def one_hot_in_list(self, x, t):
    onehot = np.zeros((N, K), np.float32)
    onehot[[0, 1, 2, 3, 4], t] = 1.0
    return F.sum((self.o(x) - onehot) ** 2)


def replay_target(self, x, t):
    q = self.o(x)
    y = q.array.copy()
    y[np.arange(N), np.maximum(t, 0)] = x.sum(1) * 0.9
    return F.mean_squared_error(q, y)


def target_by_max(self, x, t):
    q = self.o(x)
    with chainer.no_backprop_mode():
        best = self.o(x * 2).array.max(axis=1)
    y = np.array(q.array)
    y[range(N), np.maximum(t, 0)] = best
    return F.sum(F.huber_loss(q, y, 1.0))


def normalized_copy(self, x, t):
    x = x.copy()
    x -= x.mean(0)
    x /= np.sqrt((x * x).mean(0)) + 1e-3
    return F.sum(F.exp(self.l(x)))


def buffer_over_time(self, x, t):
    seen = np.zeros((N, 3, D), "f")
    for i in range(3):
        seen[:, i] = x * (i + 1)
    return F.sum(F.tanh(self.l(seen.reshape(N, -1)[:, D : 2 * D])))


def zero_where_negative(self, x, t):
    x = x.copy()
    x[x < 0] = 0
    return F.sum(self.l(x) ** 2)


def rows_by_mask(self, x, t):
    x = x * 1
    x[t > 0] = 0.5
    return F.sum(self.l(x) ** 2)


def columns_by_mask(self, x, t):
    x = x * 1
    x[:, x[0] > 0] = -1
    return F.sum(self.l(x) ** 2)


def masked_row_vector(self, x, t):
    h = x + 1
    h[t == 1] = x[0]
    return F.sum(self.l(h) ** 2)


def masked_scores(self, x, t):
    scores = F.matmul(x, x.T).array.copy()
    scores[x[:, :1] > x[:, 0]] = -1e9
    scores -= scores.max(axis=1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=1, keepdims=True)
    return F.sum(F.matmul(scores, self.l(x)) ** 2)


def causal_by_loop(self, x, t):
    mask = np.zeros((N, N), "f")
    for i in range(N):
        mask[i, : i + 1] = 1
    mask[:, 0] *= x[:, 0]
    return F.sum(F.matmul(mask, self.l(x)) ** 2)


def slices_overlap(self, x, t):
    h = x.copy()
    h[1:] += h[:-1]
    return F.sum(self.l(h) ** 2)


def running_sums(self, x, t):
    h = x.copy()
    for i in range(1, N):
        h[i] += h[i - 1]
    return F.sum(self.l(h) ** 2)


def reversed_onto_itself(self, x, t):
    h = x.copy()
    h[:] = h[::-1]
    return F.sum(self.l(h) ** 2)


def view_written(self, x, t):
    h = x + 0
    v = h[:, 0]
    v += 1
    return F.sum(self.l(h) ** 2)


def view_read_before_and_after(self, x, t):
    h = x * 2
    v = h[1:3]
    before = v.sum()
    h[2] = 7
    h *= x
    return F.sum(self.l(h) * before * v.sum())


def transposed(self, x, t):
    h = x + 1
    h.T[0] = 3
    h.reshape(-1)[::5] = x[0, 0]
    return F.sum(self.l(h) ** 2)


def fortran_order(self, x, t):
    h = np.exp(np.asfortranarray(x) * 0.1)
    h[:, 1] = 2
    h[0] += h[1]
    return F.sum(self.l(h) ** 2)


def view_of_a_view(self, x, t):
    h = x * 3
    inner = h[1:][:, 1:]
    corner = inner[0]
    inner[...] = 1
    corner *= x[0, 1:]
    return F.sum(self.l(h) ** 2) + corner.sum()


def swapped_rows(self, x, t):
    h = x.copy()
    h[[0, 1]] = h[[1, 0]]
    return F.sum(self.l(h) ** 2)


def double_into_float(self, x, t):
    h = x.copy()
    h[:, 1] = x[:, 1].astype("d") * 1.0000001
    h[0] = np.float64(0.1)
    return F.sum(self.l(h) ** 2)


def double_out(self, x, t):
    h = x + 1
    np.multiply(h, x.astype("d"), out=h)
    h *= 0.3
    return F.sum(self.l(h) ** 2)


def integers_into_float(self, x, t):
    h = x.copy()
    h[:, 0] = t
    return F.sum(self.l(h) ** 2)


def broadcast(self, x, t):
    h = np.empty((N, D), "f")
    h[...] = x[0]
    h[:, :2] += x[:, :1]
    return F.sum(self.l(h) ** 2)


def extra_axes(self, x, t):
    h = x * 2
    h[0] = x[1:2]
    h[1:3] = x[None, :2]
    return F.sum(self.l(h) ** 2)


def out_of_ufuncs(self, x, t):
    h = np.empty_like(x)
    np.multiply(x, 2, out=h)
    np.add(h, x, h)
    np.maximum(h, 0.5, out=h)
    return F.sum(self.l(h) ** 2)


def clipped(self, x, t):
    h = x.copy()
    np.clip(h, -1, 1, out=h)
    return F.sum(self.l(h) ** 2)


def clipped_by_method(self, x, t):
    h = x.copy()
    h.clip(-0.5, 0.5, out=h)
    return F.sum(self.l(h) ** 2)


def copied_to(self, x, t):
    h = np.zeros_like(x)
    np.copyto(h, x, where=x > 0)
    h2 = np.zeros_like(x)
    np.copyto(h2, h)
    return F.sum(self.l(h2) ** 2)


def filled(self, x, t):
    h = x * 2
    h[2:].fill(x.mean())
    return F.sum(self.l(h) ** 2)


def histogram(self, x, t):
    counts = np.zeros(K, "f")
    np.add.at(counts, np.maximum(t, 0), 1)
    return F.sum(self.o(x) * counts)


def segments(self, x, t):
    sums = np.zeros((K, D), "f")
    np.add.at(sums, np.maximum(t, 0), x)
    return F.sum(self.l(sums) ** 2)


def scheduled_sampling(self, x, t):
    taken = t.copy()
    coin = np.random.rand(N) < 0.5
    guess = self.o(x).array.argmax(axis=1).astype("i")
    np.copyto(taken, guess, where=coin)
    return F.softmax_cross_entropy(self.o(x * 2), taken)


def noise_in_place(self, x, t):
    noise = np.random.rand(N, D).astype("f")
    noise *= 0.1
    noise[t == 0] = 0
    return F.sum(self.l(x + noise) ** 2)


def kept_in_an_attribute(self, x, t):
    self.mask = np.ones((N, 1), "f")
    self.mask[t < 0] = 0
    self.mask *= 2
    return F.sum(self.l(x) * self.mask)


def handed_out(self, x, t):
    h = x.copy()
    v = h[1]
    h[1:3] = 5
    v += x[0]
    return self.l(x), h, v


def index_computed(self, x, t):
    h = x.copy()
    h[np.arange(N), (h > 0).sum(axis=1) - 1] = 0
    h[t[1]] = -1
    return F.sum(self.l(h) ** 2)


def duplicates(self, x, t):
    h = np.zeros((K, D), "f")
    h[np.maximum(t, 0)] = x
    return F.sum(self.l(h) ** 2)


def negative_indices(self, x, t):
    h = x.copy()
    h[-1, -2] = 3
    h[t] = x[::-1] * 2
    return F.sum(self.l(h) ** 2)


def augmented_by_index(self, x, t):
    h = x.copy()
    h[np.arange(N), np.maximum(t, 0)] *= -1
    return F.sum(self.l(h) ** 2)


def a_slice_of_an_index(self, x, t):
    h = x.copy()
    h[1:, [0, 2]] = 4
    h[:, np.maximum(t[:2], 0)] += 1
    return F.sum(self.l(h) ** 2)


def used_before_without_gradient(self, x, t):
    h = x.copy()
    first = F.sum(F.exp(h)).array
    h[0] = 1
    return F.sum(self.l(h) ** 2) * first


def variable_without_gradient(self, x, t):
    h = x.copy()
    v = chainer.Variable(h, requires_grad=False)
    a = F.sum(v).array * 1
    h *= 0.5
    return F.sum(self.l(v.array) ** 2) * a


def zero_axes(self, x, t):
    total = np.zeros((), "f")
    total += x.sum()
    total[...] = total * 2
    return F.sum(self.l(x)) * total


def empty_array(self, x, t):
    h = x[:0].copy()
    h[...] = 3
    h += 1
    return F.sum(self.l(x)) + h.sum()


def bool_mask_written(self, x, t):
    seen = np.zeros((N, D), bool)
    seen[:, 0] = t > 0
    seen |= x > 1
    seen[0] = True
    return F.sum(F.where(seen, self.l(x), x))


def integer_counters(self, x, t):
    n = np.zeros(N, "i")
    n += t
    n[n < 0] = 2
    n[1:] += n[:-1]
    return F.sum(self.l(x) * n[:, None].astype("f"))


def in_a_function(self, x, t):
    def normalize(a):
        a -= a.min()
        a /= a.max()

    h = x.copy()
    normalize(h)
    return F.sum(self.l(h) ** 2)


def in_a_list(self, x, t):
    parts = [x[:, i].copy() for i in range(D)]
    for part in parts:
        part[0] = 1
    parts[2] += parts[1]
    return F.sum(self.l(np.stack(parts, axis=1)) ** 2)


def label_smoothing(self, x, t):
    target = np.full((N, K), 0.1, "f")
    target[np.arange(N), np.maximum(t, 0)] = 0.8
    target /= target.sum(axis=1, keepdims=True)
    return -F.sum(F.log_softmax(self.o(x)) * target)


def nan_replaced(self, x, t):
    h = np.log(x * (x > 0))
    np.nan_to_num(h, copy=False)
    return F.sum(self.l(np.maximum(h, -5)) ** 2)


def nan_replaced_and_read_before(self, x, t):
    h = np.where(x > 0, x, np.nan).astype("f")
    v = h[1:]
    seen = np.isnan(h).sum()
    np.nan_to_num(v, False, 0.5)
    again = np.nan_to_num(x=h, copy=False, nan=2)
    again[0] += 1
    return F.sum(self.l(h) ** 2) * seen


def result_without_graph(self, x, t):
    with chainer.no_backprop_mode():
        y = self.o(x)
        best = y.array
        best[t == -1] = 0
        best *= 0.9
        again = F.sum(y)
    return F.sum((self.o(x * 2) - best) ** 2) * again


def result_of_a_number(self, x, t):
    h = F.exp(x)
    h.array[0] = 3
    h.array[:, 1] += 1
    return F.sum(self.l(h) ** 2)


def after_a_function_that_keeps_nothing(self, x, t):
    mask = np.zeros((N, D), "f")
    h = self.l(x)
    for i in range(3):
        mask[:, i] = -x[:, i]
        h = F.tanh(h + mask)
    return F.sum(h)


def chosen_one_after_the_other(self, x, t):
    allowed = np.zeros((N, K), "f")
    total = 0
    for i in range(3):
        p = F.log_softmax(self.o(x * (i + 1)) + allowed)
        total += F.sum(F.select_item(p, np.maximum(t, 0)))
        allowed[np.arange(N), np.maximum(t, 0)] -= 1e2
    return total


def variables_of_views(self, x, t):
    first = chainer.Variable(x.copy()[1:], requires_grad=False)
    a = F.sum(first).array * 1
    part = chainer.Variable(first.array[:2], requires_grad=False)
    b = F.sum(part).array * 1
    first.array[...] *= x[1:]
    return F.sum(self.l(part.array) ** 2) * a * b


def returned_buffer(self, x, t):
    h = np.zeros((3, D), "f")
    h[1] = x[0]
    return self.l(x), h, h[1]


def reported_afterwards(self, x, t):
    h = x.copy()
    h[0] = 2
    chainer.report({"h": h.mean()})
    return F.sum(self.l(h))


def states_kept_step_by_step(self, x, t):
    seen = np.empty((N, 3, D), "f")
    h = self.l(x)
    for i in range(3):
        h = F.tanh(self.l(h))
        seen[:, i] = h.array
    return F.sum(h * seen.mean(axis=1))


def small_integers_and_doubles(self, x, t):
    n = t.astype(np.int8)
    n[n < 0] = 0
    d = np.zeros((N, D))
    d[...] = x
    d += n[:, None]
    return F.sum(self.l(d.astype("f")))


def handed_to_code(self, x, t):
    h = x.copy()
    h[0] = 1
    n = doubled(h)
    return F.sum(self.l(n) * h)


def numbers_that_left(self, x, t):
    h = x.copy()
    h[0] = float(x.mean())
    h[1] = float(x[0, 0]) * 2
    z = np.zeros((N, D), "f")
    z[2] = x.max().item()
    z[3:].fill(float(x.min()))
    return F.sum(self.l(h + z) ** 2)


def given_back(self, x, t):
    a, b = np.broadcast_arrays(x + 1, x * 2)
    c, d = np.atleast_2d(a, b)
    e = np.asarray(c).real.squeeze()
    return F.sum(self.l(e * d) ** 2)


def persistent(self, x, t):
    self.avg[...] = 0.9 * self.avg + 0.1 * x.mean(0)
    return F.sum(self.l(x) * self.avg)


def persistent_augmented(self, x, t):
    self.avg *= 0.9
    self.avg += 0.1 * x.mean(0)
    return F.sum(self.l(x) * self.avg)


def parameter(self, x, t):
    self.l.W.array[...] *= 0.99
    return F.sum(self.l(x) ** 2)


def row_by_argmin(self, x, t):
    h = x.copy()
    h[h[:, 0].argmin()] += 5
    return F.sum(self.l(h) ** 2)


def row_seen_by_argmin(self, x, t):
    h = x.copy()
    row = h[h[:, 0].argmin()]
    h[0] = 7
    return F.sum(self.l(h) ** 2) * row.sum()


def row_replaced_by_argmin(self, x, t):
    h = x.copy()
    k = h[:, 0].argmin()
    row = h[k]
    h[k] = 3
    return F.sum(self.l(h) ** 2) * row.sum()


NATIVE = [
    persistent, persistent_augmented, parameter,
    numbers_that_left,
    returned_buffer, reported_afterwards, states_kept_step_by_step, small_integers_and_doubles,
    variables_of_views,
    result_without_graph, result_of_a_number, after_a_function_that_keeps_nothing,
    chosen_one_after_the_other,
    padded_labels, labels_replaced, one_hot, one_hot_in_list, replay_target, target_by_max,
    normalized_copy, buffer_over_time, zero_where_negative, rows_by_mask, columns_by_mask,
    masked_row_vector, masked_scores, causal_by_loop, slices_overlap, running_sums,
    reversed_onto_itself, view_written, view_read_before_and_after, transposed, fortran_order,
    view_of_a_view, swapped_rows, double_into_float, double_out, integers_into_float, broadcast,
    extra_axes, out_of_ufuncs, clipped, clipped_by_method, copied_to, filled, histogram, segments,
    kept_in_an_attribute, handed_out, index_computed,
    duplicates, negative_indices, augmented_by_index, a_slice_of_an_index,
    used_before_without_gradient, variable_without_gradient, zero_axes, empty_array,
    bool_mask_written, integer_counters, in_a_function, in_a_list, label_smoothing,
]  # fmt: skip


# --- by NumPy -----------------------------------------------------------------------------------
def sorted_in_place(self, x, t):
    h = x.copy()
    h.sort(axis=1)
    return F.sum(self.l(h) ** 2)


def values_by_mask(self, x, t):
    h = x.copy()
    sums = x.sum(1)
    h[sums >= np.sort(sums)[-2]] = x[:2]
    return F.sum(self.l(h) ** 2)


def in_what_is_forgotten(self, x, t):
    def inside(v):
        h = v.array.copy()
        h[0] = 1
        return F.tanh(self.l(v)) * h

    return F.sum(F.forget(inside, chainer.Variable(x)))


def sorted_view(self, x, t):
    h = x.copy()
    h[:, 1].sort()
    return F.sum(self.l(h) ** 2)


def partitioned(self, x, t):
    h = x.copy()
    h.partition(2, axis=1)
    return F.sum(self.l(h)[:, :1] * h[:, 2:3])


def put_flat(self, x, t):
    h = x.copy()
    np.put(h, [0, 5], x[0, :2])
    h.put([2], 9)
    return F.sum(self.l(h) ** 2)


def put_along(self, x, t):
    h = x.copy()
    np.put_along_axis(h, x.argmax(1)[:, None], 0, axis=1)
    return F.sum(self.l(h) ** 2)


def put_by_mask(self, x, t):
    h = x.copy()
    np.putmask(h, h > 1, 1)
    np.place(h, h < 0, [9, 8])
    return F.sum(self.l(h) ** 2)


def diagonal_filled(self, x, t):
    h = x.dot(x.T)
    np.fill_diagonal(h, 0)
    return F.sum(self.l(x)) * h.sum()


def out_where(self, x, t):
    h = x.copy()
    np.log(x, out=h, where=x > 0)
    return F.sum(self.l(h) ** 2)


def maximum_at(self, x, t):
    h = np.zeros((K, D), "f")
    np.maximum.at(h, abs(t), x)
    return F.sum(self.l(h) ** 2)


def float_into_integers(self, x, t):
    n = np.zeros(N, "i")
    n[...] = abs(x[:, 0]) * 10
    return F.sum(self.l(x) * n[:, None].astype("f"))


def cumulated_out(self, x, t):
    h = np.empty_like(x)
    np.cumsum(x, axis=0, out=h)
    x.cumsum(axis=1, out=h[:, ::-1])
    return F.sum(self.l(h) ** 2)


def power_in_place(self, x, t):
    h = abs(x)
    h **= 1.5
    h //= 0.25
    return F.sum(self.l(h) ** 2)


def row_filled_by_argmin(self, x, t):
    h = x.copy()
    row = h[h[:, 0].argmin()]
    row[:] = 7
    return F.sum(self.l(h) ** 2) * row.sum()


def rest_of_row_by_argmin(self, x, t):
    h = x.copy()
    rest = h[1:][h[1:, 0].argmax(), 1:]
    rest.fill(7)
    np.clip(rest, 1, 2, out=rest)
    return F.sum(self.l(h) ** 2) * rest.sum()


BY_NUMPY = [
    row_by_argmin, row_seen_by_argmin, row_replaced_by_argmin, row_filled_by_argmin,
    rest_of_row_by_argmin,
    given_back, values_by_mask, handed_to_code, in_what_is_forgotten,
    sorted_in_place, sorted_view, partitioned, put_flat, put_along, put_by_mask, diagonal_filled,
    out_where, maximum_at, float_into_integers, cumulated_out, power_in_place, scheduled_sampling,
    noise_in_place, nan_replaced, nan_replaced_and_read_before,
]  # fmt: skip


# --- dynamic ------------------------------------------------------------------------------------
def argument(self, x, t):
    x[0] = 0.25
    return F.sum(self.l(x) ** 2)


def view_of_an_argument(self, x, t):
    v = x[1:]
    v *= 0.5
    return F.sum(self.l(x) ** 2)


def result_of_a_function(self, x, t):
    h = self.l(x)
    h.array[...] *= 0.5
    return F.sum(F.tanh(h))


def after_a_function(self, x, t):
    m = (x > 0).astype("f")
    y = self.l(x) * m
    m[0] = 3
    return F.sum(y * m)


def view_by_a_function(self, x, t):
    m = x * 2
    y = F.reshape(m, (-1,))
    m[0] = 3
    return F.sum(self.l(x)) + F.sum(y)


def after_a_function_pure(self, x, t):
    m = np.ones((N, D), "f")
    y = self.l(x) * m
    m[0] = 3
    return F.sum(y)


def variable_with_gradient(self, x, t):
    h = x.copy()
    v = chainer.Variable(h)
    y = F.sum(v + 1)
    h[0] = 2
    return F.sum(self.l(x)) * y + F.sum(v)


def reported_before(self, x, t):
    h = x.copy()
    chainer.report({"h": h})
    h[0] = 2
    return F.sum(self.l(h))


def out_as_a_position(self, x, t):
    h = x.copy()
    np.clip(h, -0.5, 0.5, h)
    return F.sum(self.l(h) ** 2)


def method_with_out_as_a_position(self, x, t):
    h = x.copy()
    x.cumsum(0, None, h)
    return F.sum(self.l(h) ** 2)


def part_by_flat(self, x, t):
    h = x.copy()
    h.flat[3] = 5
    return F.sum(self.l(h) ** 2)


def shuffled(self, x, t):
    h = x.copy()
    np.random.shuffle(h)
    return F.sum(self.l(h) ** 2)


def nan_replaced_in_an_argument(self, x, t):
    x[0, 0] = np.log(-1 - abs(x[0, 0]))
    np.nan_to_num(x, copy=False)
    return F.sum(self.l(x) ** 2)


def sorted_by_median(self, x, t):
    h = x * 2
    m = np.median(h, axis=0, overwrite_input=True)
    return F.sum(self.l(h[:2] + m) ** 2)


def sorted_by_percentile(self, x, t):
    h = x * 2
    m = np.percentile(h, 50, 0, None, True)
    return F.sum(self.l(h[:2] + m.astype("f")) ** 2)


def by_a_function_along_an_axis(self, x, t):
    def cut(row):
        if row[0] > 1.5:  # in some calls
            row[1:] = 0
        return row.sum()

    h = x.copy()
    sums = np.apply_along_axis(cut, 1, h)
    return F.sum(self.l(h) ** 2) * sums.sum()


def by_a_function_further_in(self, x, t):
    h = x.copy()
    np.apply_along_axis(lambda row: first_zero(row), 1, h)
    return F.sum(self.l(h) ** 2)


def first_zero(row):
    row[0] = 0
    return row.sum()


def behind_a_sliding_window(self, x, t):
    h = x.copy()
    windows = np.lib.stride_tricks.sliding_window_view(h, 2, axis=1)
    h[:, 1] = 3
    return F.sum(self.l(h) ** 2) * windows.sum()


def behind_a_sliding_window_of_nothing(self, x, t):
    h = np.zeros((N, D), "f")
    windows = np.lib.stride_tricks.sliding_window_view(h, 2, axis=1)
    h[:, 1] = 3
    return F.sum(self.l(x + h) ** 2) * windows.sum()


class WritesIntoItsInput(chainer.FunctionNode):
    def forward(self, inputs):
        inputs[0][0] = 4
        return (inputs[0] * 2,)

    def backward(self, indexes, grads):
        return (grads[0] * 2,)


def by_a_function_node(self, x, t):
    h = x.copy()
    (y,) = WritesIntoItsInput().apply((h,))
    return F.sum(self.l(y) ** 2) + F.sum(self.l(h) ** 2)


def by_a_function_node_into_an_argument(self, x, t):
    (y,) = WritesIntoItsInput().apply((x,))
    return F.sum(self.l(y) ** 2)


def masked_array(self, x, t):
    h = np.ma.array(x.copy())
    h[0] = 0
    return F.sum(self.l(np.asarray(h)) ** 2)


def part_of_row_by_argmin(self, x, t):
    h = x.copy()
    row = h[h[:, 0].argmin()]
    row[1:] += 2
    return F.sum(self.l(h) ** 2) * row.sum()


def part_seen_by_argmin(self, x, t):
    h = x.copy()
    part = h[h[:, 0].argmin()][1:]
    h[0] = 2
    return F.sum(self.l(h) ** 2) * part.sum()


DYNAMIC = [
    part_of_row_by_argmin, part_seen_by_argmin,
    by_a_function_node, by_a_function_node_into_an_argument, masked_array,
    nan_replaced_in_an_argument, sorted_by_median, sorted_by_percentile,
    by_a_function_along_an_axis, by_a_function_further_in, behind_a_sliding_window,
    behind_a_sliding_window_of_nothing,
    argument, view_of_an_argument,
    result_of_a_function, after_a_function, view_by_a_function, after_a_function_pure,
    variable_with_gradient, reported_before, out_as_a_position, method_with_out_as_a_position,
    part_by_flat, shuffled,
]  # fmt: skip


def given(i):
    rng = np.random.RandomState(i)
    t = rng.randint(-1, K, N).astype("i")
    t[0] = i % 2 - 1  # one that is padded in every other batch
    return rng.randn(N, D).astype("f"), t
