"""Programs that write in place into arrays of links and parameters, and models that run them."""

from __future__ import annotations

import inspect

import chainer
import numpy as np
from chainer import functions as F
from chainer import links as L

N, D, K = 5, 4, 3


class Held(chainer.Chain):
    """A layer, some arrays, and a forward that writes into them."""

    def __init__(self, forward, size=D):
        super().__init__()
        rng = np.random.RandomState(1)
        with self.init_scope():
            self.l = L.Linear(D, D, initialW=rng.randn(D, D).astype("f"))
        self.a = np.ones(size, "f")
        self.b = rng.randn(size).astype("f")
        self.table = rng.randn(6, D).astype("f")
        self.flat = np.arange(8, dtype="f").reshape(2, 4)
        self.count = np.zeros((), "i")
        self._forward = forward

    def forward(self, *args):
        return self._forward(self, *args)


def x_of(i: int) -> np.ndarray:
    return np.random.RandomState(i).randn(N, D).astype("f")


def number_before(self, x):
    first = self.a[0]
    self.a[0] = 5 + x[0, 0]
    return self.l(x) * first + self.a


def copy_before(self, x):
    old = self.a.copy()
    self.a += x.mean(0)
    return self.l(x) * old


def astype_before(self, x):
    old = self.a.astype("f")
    self.a += x.mean(0)
    return self.l(x) * old


def flattened_before(self, x):
    old, row = self.table.flatten(), self.table[1]
    self.table[...] = x[0]
    return self.l(x) * old[:D] + row


def view_before(self, x):
    row, turned = self.table[1], self.table.T
    self.table *= 0.5
    return self.l(x) * row + turned[:, 2]


def same_before_and_after(self, x):
    old = self.a * 2
    self.a += x.mean(0)
    return self.l(x) * old + self.a * 2


def float_before(self, x):
    first = float(self.a[0])
    self.a += x.mean(0)
    return self.l(x) * first


def sums_before(self, x):
    y = self.l(x)
    old = np.cos(self.b) + np.abs(self.a)
    self.a[...] = np.tanh(old + self.b)
    self.b[...] = old * self.a
    return y * (old + self.b)


def swapped(self, x):
    old = self.a.copy()
    self.a[...] = self.b
    self.b[...] = old
    return self.l(x) * self.a


def rows_swapped(self, x):
    self.table[[0, 1]] = self.table[[1, 0]]
    self.table[2:4], self.table[4:6] = self.table[4:6].copy(), self.table[2:4].copy()
    return self.l(x) * self.table[0]


def reversed_in_place(self, x):
    self.table[...] = self.table[::-1]
    return self.l(x) + self.table[0]


def by_itself(self, x):
    order = self.table[:, 0].argsort()
    self.table[order] = self.table
    return self.l(x) + self.table[2]


def whole_of_a_view(self, x):
    self.flat += x[:2]
    return self.l(x) + self.flat[1]


def without_dimensions(self, x):
    self.count += 1
    return self.l(x) * self.count.astype("f")


def replaced_behind(self, x):
    self.a += x.mean(0)
    self.a = self.a * 1
    return self.l(x) * self.a


def put_back(self, x):
    self.a[...] = x[0]
    self.a = self.a
    return self.l(x) * self.a


def cast(self, x):
    self.a[...] = x.mean(0).astype("d") * 3
    self.table[0] = 1
    return self.l(x) * self.a + self.table[0]


def constants(self, x):
    self.a[...] = 3
    self.b[[0, 2]] = 1
    self.table[1:3] = np.ones(D, "f")
    return self.l(x) * self.a + self.b


def clipped_under_test(self, x):
    np.clip(self.b, -0.5, 0.5, out=self.b)
    self.a.fill(2)
    return self.l(x) * self.b * self.a


def sorted_in_place(self, x):
    self.b += x[0]
    self.b.sort()
    return self.l(x) * self.b


def behind_a_question(self, x):
    self.a += np.abs(x).mean(0)
    if self.a[0] > 2.5:
        self.a[...] = 0
    return self.l(x) * self.a


def without_gradient(self, x):
    y = self.l(x)
    with chainer.no_backprop_mode():
        z = self.l(self.table)
        self.table[...] = z.array * 0.5
    return y + self.table[0]


def row_by_argmin_then_another(self, x):
    self.table[np.abs(x[:, 0]).argmin()] += 0.1
    y = self.l(x) * np.asarray(self.table)[0]
    self.table[0] = np.where(x > 0, x, 0.1 * self.table[:N])[0]
    return y


def row_by_argmin_written_through(self, x):
    row = self.table[np.abs(x[:, 0]).argmin()]
    row *= 0.5
    self.table[1] = 3
    return self.l(x) * row


_GIVEN = {"self", "x"}
PROGRAMS = [
    f
    for f in list(globals().values())
    if getattr(f, "__module__", "") == __name__ and inspect.signature(f).parameters.keys() == _GIVEN
]


def loss_of_running_mean(self, x):
    h = self.l(x)
    self.a[...] = 0.9 * self.a + 0.1 * h.array.mean(0)
    return F.sum((h - self.a) ** 2)


def loss_of_slots(self, x):
    h = self.l(x)
    self.table[2:] = self.table[:-2].copy()
    self.table[:2] = h.array[:2]
    return F.sum(F.matmul(h, self.table.T) ** 2)


def loss_behind_a_question(self, x):
    self.a += np.abs(x).mean(0)
    if self.a[0] > 2.5:
        self.a[...] = 0
    return F.sum((self.l(x) * self.a) ** 2)


def loss_with_python(self, x):
    self.b += x[0]
    self.b.sort()
    return F.sum((self.l(x) * self.b) ** 2)


class Twins(chainer.Chain):
    """A network and a slow copy of it."""

    def __init__(self, forward):
        super().__init__()
        rng = np.random.RandomState(2)
        with self.init_scope():
            self.q = L.Linear(D, K, initialW=rng.randn(K, D).astype("f"))
            self.slow = L.Linear(D, K, initialW=rng.randn(K, D).astype("f"))
        self._forward = forward

    def forward(self, x):
        return self._forward(self, x)


def followed_slowly(self, x):
    with chainer.no_backprop_mode():
        target = self.slow(x).array
    for p, q in zip(self.slow.params(), self.q.params(), strict=True):
        p.array[...] = 0.9 * p.array + 0.1 * q.array
    return F.mean_squared_error(self.q(x), target)


def followed_in_place(self, x):
    y = F.mean_squared_error(self.q(x), self.slow(x).array)
    for name in ("W", "b"):
        p, q = getattr(self.slow, name), getattr(self.q, name)
        p.array *= 0.9
        p.array += 0.1 * q.array
    return y


def decayed_and_clipped(self, x):
    y = self.q(x)
    self.q.W.array *= 0.999
    np.clip(self.q.W.array, -1, 1, out=self.q.W.array)
    return F.sum((y - self.q(x) * self.slow(x)) ** 2)


def pruned_by_size(self, x):
    w = self.q.W.array
    w[abs(w) < 0.3] = 0
    return F.sum(self.q(x) ** 2) + F.sum(self.slow(x) ** 2)


def unit_rows(self, x):
    w = self.q.W.data
    w /= np.sqrt((w * w).sum(axis=1, keepdims=True))
    return F.sum(F.tanh(self.q(x)) + self.slow(x) ** 2)


def fresh_between(self, x):
    h = self.q(x)
    self.slow.W.array[0] = h.array[0, 0]
    return F.sum((self.slow(x) * h) ** 2)


WEIGHTS = [
    followed_slowly, followed_in_place, decayed_and_clipped, pruned_by_size, unit_rows,
    fresh_between,
]  # fmt: skip

WHOLE = [loss_of_running_mean, loss_of_slots, loss_behind_a_question, loss_with_python]
