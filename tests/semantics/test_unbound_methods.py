"""Row 10: methods from classes of arrays and numbers, and masked arrays, see those of each call."""

from __future__ import annotations

import functools
import operator
from functools import reduce
from math import sqrt
from operator import mul

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from numpy import ndarray

from tests.harness.comparison import assert_near
from tests.tolerances import RESULTS

pytestmark = pytest.mark.filterwarnings("ignore::sdbr.SdbrWarning")
FILL = np.ndarray.fill
masked = np.ma.masked_less


def masked_by_variable():
    ma = np.ma
    return lambda h, x: ma.masked_greater(h, 1).filled(0)


# What is done to an array that the call has made; None: it has been written.
ON_ARRAYS = {
    "fill": lambda h, x: np.ndarray.fill(h, 3),
    "fill by name": lambda h, x: ndarray.fill(h, 3),
    "fill of its class": lambda h, x: type(h).fill(h, 3),
    "fill by getattr": lambda h, x: getattr(np.ndarray, "fill")(h, 3),  # noqa: B009
    "fill in a variable": lambda h, x: FILL(h, 3),
    "fill mapped": lambda h, x: list(map(np.ndarray.fill, [h], [3])).clear(),
    "fill mapped, in a variable": lambda h, x: list(map(FILL, [h], [3])).clear(),
    "a partial": lambda h, x: functools.partial(np.ndarray.fill, h)(3),
    "setitem": lambda h, x: np.ndarray.__setitem__(h, 0, x[1]),
    "sort": lambda h, x: np.ndarray.sort(h),
    "partition": lambda h, x: np.ndarray.partition(h, 1),
    "put": lambda h, x: np.ndarray.put(h, [0, 1], x[0, :2]),
    "byteswap": lambda h, x: np.ndarray.byteswap(h, True),
    "item": lambda h, x: x * np.ndarray.item(h, 0),
    "item of a sum": lambda h, x: x * np.float32.item(h.sum()),
    "item of any number": lambda h, x: x * np.generic.item(h.sum()),
    "items mapped": lambda h, x: x * sum(map(np.float32.item, [h[0, 0], h[0, 1]])),
    "a sum": lambda h, x: np.float32.__add__(h.sum(), np.float32(1)) * x,
    "a float": lambda h, x: x * np.ndarray.__float__(h[0, 0, ...]),
    "by xp": lambda h, x: chainer.get_device("@numpy").xp.ndarray.fill(h, 3),
    "item by xp": lambda h, x: x * chainer.get_device("@numpy").xp.float32.item(h.sum()),
    "items in a list": lambda h, x: x * sum([np.float32.item(v) for v in h[0]]),
    "resized": lambda h, x: h.resize((3, 2), refcheck=False),
    "masked": lambda h, x: np.ma.masked_greater(h, 1).filled(0),
    "masked by name": lambda h, x: masked(h, 0).filled(0),
    "masked by a variable": masked_by_variable(),
    "masked by xp": lambda h, x: chainer.get_device("@numpy").xp.ma.masked_greater(h, 1).filled(0),
    "masked mean": lambda h, x: x * np.ma.masked_greater(h, 1).mean(),
    "masked where": lambda h, x: x * np.ma.masked_where(h > 1, h).sum(),
    "from a buffer": lambda h, x: np.frombuffer(h, "f"),
    "strided": lambda h, x: np.lib.stride_tricks.as_strided(h, (2, 2), (12, 4)).copy(),
}  # fmt: skip
#: The same, and static.
STATIC = {
    "numpy.put": lambda h, x: np.put(h, [0, 1], x[0, :2]),
    "in place": lambda h, x: np.ndarray.__iadd__(h, x),
    "operator": lambda h, x: operator.setitem(h, 0, x[1]),
    "operator in place": lambda h, x: operator.iadd(h, x),
    "a method": lambda h, x: operator.methodcaller("fill", 3)(h),
    "of what a class makes": lambda h, x: x * np.float32(2).item(),
    "windows": lambda h, x: np.lib.stride_tricks.sliding_window_view(h, 2, axis=1).mean(-1),
}


def pattern(f):
    match f:
        case float(x):
            return x * 2
    return 0.0


def hashed(f):
    return float.__hash__(f) % 97


# Of a number; where it is one that the call has computed, such calls are dynamic.
ON_NUMBERS = {
    "hash": hashed,
    "repr": lambda f: len(float.__repr__(f)),
    "format": lambda f: float(float.__format__(f, ".2f")),
    "hex": lambda f: sum(map(ord, float.hex(f))) / 99,
    "whole": lambda f: 2.0 if float.is_integer(f) else 3.0,
    "minus, mapped": lambda f: sum(map(float.__neg__, [f, f])),
    "real": lambda f: float.real.__get__(f),
    "conjugate": lambda f: float.conjugate(f),
    "made": lambda f: float.__new__(float, f),
}
ON_INTEGERS = {
    "length": lambda n: int.bit_length(n) * 1.0,
    "hash": lambda n: int.__hash__(n) * 1.0,
    "minus, mapped": lambda n: float(sum(map(int.__neg__, [n, n]))),
    "power": lambda n: pow(n, 2, 5) * 1.0,
}


class Net(chainer.Chain):
    def __init__(self, body):
        super().__init__()
        self.body, self.k, self.n = body, 1.0, 0

    def forward(self, *args):
        return self.body(self, *args)


def outcomes(model, *more):
    found = []
    for i in range(6):
        model.k = (1.5, 2.0, 4.25)[i % 3]
        x = np.random.RandomState(i).randn(2, 3).astype("f") * 3
        found.append(model(x, *[float(i % 3) for _ in more]).array)
    return found


def compared(body, *more):
    """The statistics of a static model whose results are those of define-by-run."""
    model = sdbr.static_graph(Net(body))
    want = outcomes(Net(body), *more)
    for i, got in enumerate(outcomes(model, *more)):
        assert_near(got, want[i], RESULTS, f"call {i}")
    return model.schedule_manager.statistics


def on_array(name):
    do = {**ON_ARRAYS, **STATIC}[name]

    def body(self, x):
        h = x * 2
        given = do(h, x)
        return F.exp(F.tanh(chainer.as_variable(h if given is None else given)))

    return body


@pytest.mark.parametrize("name", ON_ARRAYS)
def test_of_arrays(name):
    statistics = compared(on_array(name))
    assert (statistics.replays, statistics.define_by_run_calls) == (0, 5)


@pytest.mark.parametrize("name", STATIC)
def test_of_arrays_that_are_seen(name):
    assert compared(on_array(name)).replays >= 4


@pytest.mark.parametrize("name", ON_NUMBERS)
def test_of_a_number_that_the_call_has_computed(name):
    do = ON_NUMBERS[name]
    statistics = compared(lambda self, x: F.tanh(x) * do(float(F.sum(x).array)))
    assert (statistics.replays, statistics.define_by_run_calls) == (0, 5)


@pytest.mark.parametrize("name", ON_NUMBERS)
def test_of_an_argument(name):
    do = ON_NUMBERS[name]
    statistics = compared(lambda self, x, f: F.tanh(x) * do(f), 1)
    assert (statistics.traces, statistics.replays) == (3, 3)


@pytest.mark.parametrize("name", ON_NUMBERS)
def test_of_an_attribute(name):
    do = ON_NUMBERS[name]
    statistics = compared(lambda self, x: F.tanh(x) * do(self.k))
    assert (statistics.traces, statistics.replays) == (3, 3)


def test_a_function_of_math_by_a_name_of_its_own():
    """It is the one that `math` has while the call is traced."""
    statistics = [
        compared(lambda self, x: F.tanh(x) * sqrt(abs(float(F.sum(x).array)))),
        compared(lambda self, x, f: F.tanh(x) * sqrt(abs(f)), 1),
        compared(lambda self, x: F.tanh(x) * sqrt(abs(self.k))),
    ]
    assert [(s.traces, s.replays) for s in statistics] == [(1, 5)] * 3


@pytest.mark.parametrize("name", ON_INTEGERS)
def test_of_whole_numbers(name):
    do = ON_INTEGERS[name]

    def counting(self, x):
        self.n = (self.n + 1) % 2
        return F.tanh(x) * do(self.n)

    found = compared(lambda self, x: F.tanh(x) * do(int(x.argmax())))
    assert found.traces > 1 and found.define_by_run_calls == 0  # a way for each number
    assert compared(counting).define_by_run_calls == 5


@pytest.mark.parametrize("do", [pattern, lambda f: reduce(mul, [f, 2.0, 3.0]), lambda f: pow(f, 2)])
def test_what_asks_a_number_is_followed(do):
    statistics = compared(lambda self, x: F.tanh(x) * do(float(F.sum(x).array)))
    assert (statistics.traces, statistics.replays) == (1, 5)


def test_the_line_is_told():
    with pytest.warns(sdbr.SdbrWarning, match=r"numpy.ndarray.fill takes .*test_unbound_methods"):
        sdbr.static_graph(Net(on_array("fill")))(np.ones((2, 3), "f"))
