"""Function nodes that write into arrays they are given, and hand those out."""

import sdbr

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np
import pytest

from tests.harness.comparison import assert_all_near, copy_of, gradients_of, state_of
from tests.harness.twins import statistics_of
from tests.tolerances import GRADIENTS

N, D = 4, 3


class Add(chainer.Function):
    """Adds a row to one of an array, in place."""

    def __init__(self, place):
        self.place = place

    def forward(self, inputs):
        table, row = inputs
        table[self.place] += row[0]
        return (table,)

    def backward(self, inputs, grads):
        taken = np.zeros_like(inputs[1])
        taken[0] = grads[0][self.place]
        return grads[0], taken


class Look(chainer.Function):
    """A row times the last contents of the array, and the array."""

    def forward(self, inputs):
        return inputs[0][:1] * 2, inputs[0]

    def backward(self, inputs, grads):
        g, rest = grads
        found = np.zeros_like(inputs[0]) if rest is None else rest.copy()
        if g is not None:
            found[:1] += g * inputs[0].sum()  # of whatever stands there by now
        return (found,)


class Writing(chainer.Chain):
    def __init__(self, forward):
        super().__init__()
        self.body = forward
        with self.init_scope():
            self.l = L.Linear(D, D)

    def forward(self, x, t):
        return self.body(self, x, t)


def once(self, x, t):
    table = Add(0)(np.zeros((N, D), x.dtype), self.l(x))
    return F.sum(self.l(table) ** 2)


def chain(self, x, t):
    table = np.ones((N, D), x.dtype)
    for i in range(N):
        table = Add(i)(table, self.l(x[i:]))
    return F.sum(self.l(table) ** 2) + F.sum(table)


def looked_at_by_nodes(self, x, t):
    table = np.ones((N, D), x.dtype)
    total = 0
    for i in range(N):
        table = Add(i)(table, self.l(x[i:]))
        row, table = Look()(table)
        total += F.sum(F.tanh(row))
    return total


def two_of_them(self, x, t):
    first = Add(0)(np.zeros((N, D), x.dtype), self.l(x))
    second = Add(1)(np.zeros((N, D), x.dtype), self.l(t))
    return F.sum(self.l(first) * second)


def handed_out(self, x, t):
    table = Add(1)(np.zeros((N, D), x.dtype), self.l(x))
    return F.sum(table**2), table


STATIC = [once, chain, looked_at_by_nodes, two_of_them, handed_out]


def argument(self, x, t):
    return F.sum(self.l(Add(0)(x, self.l(t))) ** 2)


def copy_of_an_argument(self, x, t):
    h = x.copy()
    return F.sum(self.l(Add(0)(h, self.l(t))) ** 2) + F.sum(self.l(h))


def output_of_a_function(self, x, t):
    return F.sum(Add(0)(F.sigmoid(self.l(x)), self.l(t)) ** 2)


def looked_at_before(self, x, t):
    table = np.ones((N, D), x.dtype)
    y = F.sum(self.l(table) ** 2)
    return y + F.sum(Add(0)(table, self.l(x)))


def looked_at_in_between(self, x, t):
    first = Add(0)(np.ones((N, D), x.dtype), self.l(x))
    y = F.sum(self.l(first) ** 2)
    return y + F.sum(Add(1)(first, self.l(t)))


def array_looked_at_later(self, x, t):
    table = np.ones((N, D), x.dtype)
    y = Add(0)(table, self.l(x))
    return F.sum(self.l(y) ** 2) + F.sum(self.l(table) ** 2)


def view_looked_at(self, x, t):
    table = np.ones((N, D), x.dtype)
    y = Add(0)(table, self.l(x))
    return F.sum(self.l(y) ** 2) + F.sum(self.l(table[:2]) ** 2)


def written_through_a_view(self, x, t):
    table = np.ones((N, D), x.dtype)
    y = Add(0)(table[1:], self.l(x))
    return F.sum(self.l(y) ** 2) + F.sum(self.l(table) ** 2)


def both_ways_from_one(self, x, t):
    table = np.ones((N, D), x.dtype)
    first = Add(0)(table, self.l(x))
    left, _ = Look()(first)
    return F.sum(left) + F.sum(Add(1)(first, self.l(t)))


def handed_out_in_between(self, x, t):
    first = Add(0)(np.ones((N, D), x.dtype), self.l(x))
    return F.sum(Add(1)(first, self.l(t)) ** 2), first


def kept_in_between(self, x, t):
    self.h = Add(0)(np.ones((N, D), x.dtype), self.l(x))
    return F.sum(Add(1)(self.h, self.l(t)) ** 2)


DYNAMIC = [
    argument, copy_of_an_argument, output_of_a_function, looked_at_before, looked_at_in_between,
    array_looked_at_later, view_looked_at, written_through_a_view, both_ways_from_one,
    handed_out_in_between, kept_in_between,
]  # fmt: skip


def iteration(model, i) -> dict:
    rng = np.random.RandomState(i)
    x, t = rng.randn(2, N, D).astype("f")
    result = model(x, t)
    parts = result if isinstance(result, tuple) else (result,)
    found = {f"result {n}": copy_of(part.array) for n, part in enumerate(parts)}
    model.cleargrads()
    parts[0].backward()
    if isinstance(getattr(model, "h", None), chainer.Variable):
        found["h"] = copy_of(model.h.array)
        del model.h
    return {**found, **gradients_of(model), **state_of(model), "x": x, "t": t}


def compared(forward, **options):
    np.random.seed(0)
    plain = Writing(forward)
    static = sdbr.static_graph(plain.copy(mode="copy"), **options)
    for i in range(6):
        assert_all_near(iteration(static, i), iteration(plain, i), GRADIENTS, f"iteration {i}")
    return statistics_of(static)


@pytest.mark.parametrize("forward", STATIC, ids=lambda f: f.__name__)
def test_arrays_made_for_it_are_passed_on(forward):
    statistics = compared(forward, on_dynamic="raise")
    assert statistics.replays >= 4 and statistics.define_by_run_calls == 0


@pytest.mark.parametrize("forward", DYNAMIC, ids=lambda f: f.__name__)
def test_arrays_that_others_see_are_dynamic(forward):
    with pytest.warns(sdbr.SdbrWarning, match="Add writes into"):
        statistics = compared(forward)
    assert statistics.replays == 0
