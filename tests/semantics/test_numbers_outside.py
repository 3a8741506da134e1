"""Row 11: floats outside of links that are others in later calls."""

from __future__ import annotations

import collections
import dataclasses
import functools
import json
import math
import operator
import types
import typing
import weakref

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.twins import pair
from tests.tolerances import ROUNDINGS

NUMBERS = (1.0, 1.0, 0.9, 0.81, 1.2, 2.5, 2.5, 3.0, 1.0, 0.5)
RATE = 1.0


class Config:
    """A plain object."""


class Slotted:
    __slots__ = ("rate",)


class Halved:
    """What is read is computed of what lies there."""

    @property
    def rate(self):
        return self.base / 2


class Found:
    """A configuration that looks its entries up."""

    def __init__(self):
        self.entries = {}

    def __getattr__(self, name):
        return self.entries[name]


class OfClass:
    rate = 1.0


@dataclasses.dataclass
class Record:
    rate: float = 1.0


def set_global(value):
    globals()["RATE"] = value


def in_object(kind, name="rate"):
    def place():
        thing = kind()
        return lambda: thing.rate, lambda value: setattr(thing, name, value)

    return place


def in_container(make, key):
    def place():
        thing = make()
        return lambda: thing[key], lambda value: thing.__setitem__(key, value)

    return place


def in_found():
    thing = Found()
    return lambda: thing.rate, lambda value: thing.entries.__setitem__("rate", value)


def in_cell():
    rate = 1.0

    def put(value):
        nonlocal rate
        rate = value

    return lambda: rate, put


def in_nested():
    thing = Config()
    thing.parts = {"a": [Config()]}
    return lambda: thing.parts["a"][0].rate, lambda x: setattr(thing.parts["a"][0], "rate", x)


def in_link():
    link = L.Linear(2, 2)
    link.config = {}
    return lambda: link.config["rate"], lambda value: link.config.__setitem__("rate", value)


def in_optimizer():
    optimizer = chainer.optimizers.SGD().setup(L.Linear(2, 2))
    return lambda: optimizer.lr, lambda value: setattr(optimizer, "lr", value)


def under_two_names():
    thing = Config()
    other = {"it": thing}
    return lambda: thing.rate + other["it"].rate, lambda value: setattr(thing, "rate", value)


PLACES = {
    "object": in_object(Config), "slots": in_object(Slotted), "property": in_object(Halved, "base"),
    "record": in_object(Record), "namespace": in_object(types.SimpleNamespace),
    "class": lambda: (lambda: OfClass.rate, lambda value: setattr(OfClass, "rate", value)),
    "found": in_found, "global": lambda: (lambda: RATE, set_global), "cell": in_cell,
    "dict": in_container(dict, "rate"), "number as key": in_container(lambda: {0: 7.0}, 1),
    "list": in_container(lambda: [5.0, 1.0], 1), "end": in_container(lambda: [5.0, 1.0], -1),
    "deque": in_container(lambda: collections.deque([1.0]), 0), "nested": in_nested,
    "link": in_link, "optimizer": in_optimizer, "two names": under_two_names,
}  # fmt: skip

X = np.array([1.0, -2.0, 0.5], "f")


def plain_and_static(place, use, numbers=NUMBERS):
    """What each call gives and leaves, with and without; how the static calls were made."""
    found = []
    for is_static in (False, True):
        get, put = place()
        state = Config()
        state.mean, state.kept = 1.0, []

        def call(x, get=get, state=state):
            return use(x, get(), state)

        call = sdbr.static_graph(call) if is_static else call
        seen = []
        for i, number in enumerate(numbers):
            put(number)
            result = call(X * (1 + i % 3))
            seen.append((result, state.mean, list(state.kept), get()))
        found.append(seen)
    return found, call.schedule_manager.statistics


def check(place, use, numbers=NUMBERS):
    (plain, static), statistics = plain_and_static(place, use, numbers)
    for want, got in zip(plain, static, strict=True):
        assert type(got[0]) is type(want[0])
        arrays = [getattr(x[0], "array", x[0]) for x in (got, want)]
        np.testing.assert_allclose(*arrays, rtol=ROUNDINGS)
        assert got[1:] == want[1:]
        assert list(map(type, got[1:])) == list(map(type, want[1:]))
    return statistics


@pytest.mark.parametrize("name", PLACES)
def test_one_trace_more_wherever_it_lies(name):
    statistics = check(PLACES[name], lambda x, rate, state: x * rate)
    assert (statistics.traces, statistics.replays) == (2, 8)


def decided(x, rate, state):
    return x * 2 if rate > 1.0 else x - rate


def averaged(x, rate, state):
    state.mean = 0.9 * state.mean + 0.1 * rate
    return x * state.mean


USES = {
    "a function": (lambda x, rate, state: F.leaky_relu(F.identity(x), rate), 2),
    "with math": (lambda x, rate, state: x * math.exp(-rate), 2),
    "an operand of NumPy's": (lambda x, rate, state: np.clip(x, -rate, rate), 2),
    "written into an array": (lambda x, rate, state: np.full(3, rate, "f") * x, 2),
    "its class": (lambda x, rate, state: x * 2 if type(rate) is float else x, 2),
    "decides": (decided, 3),
    "a whole number": (lambda x, rate, state: x * int(rate * 10), 7),
    "a text": (lambda x, rate, state: x * len(json.dumps(rate)), 7),
    "a key": (lambda x, rate, state: x * {1.0: 2.0}.get(rate, 5.0), 7),
    "an average": (averaged, None),
}


@pytest.mark.filterwarnings("ignore::sdbr.SdbrWarning")
def test_what_compiled_code_reads_of_them_is_compared():
    rates = {"a": 1.0, "b": 2.0}
    both = operator.itemgetter("a", "b")
    static = sdbr.static_graph(lambda x: x * rates["a"] + both(rates)[0])
    for rate in NUMBERS:
        rates["a"] = rate
        np.testing.assert_array_equal(static(X), X * np.float32(rate) + np.float32(rate))
    assert static.schedule_manager.statistics.replays == 3


class Remembering(chainer.Chain):
    """Keeps an array and a whole number together, in an attribute of its own."""

    def __init__(self):
        super().__init__()
        self.step, self.kept = 0, None

    def forward(self, x):
        self.step += 1
        self.kept = [x * 2, self.step * 3]
        return x + self.step


def test_whole_numbers_beside_arrays_in_attributes_of_links():
    static = sdbr.static_graph(Remembering())
    for i in range(8):
        np.testing.assert_array_equal(static(X), X + i + 1)
        np.testing.assert_array_equal(static.kept[0], X * 2)
        assert static.kept[1] == 3 * (i + 1) and type(static.kept[1]) is int
    assert static.schedule_manager.statistics.replays >= 6


def test_each_reading_counts():
    box = Config()

    def call(x):
        for _ in range(2):
            x = x * box.rate
        return x + box.rate

    static = sdbr.static_graph(call)
    for rate in NUMBERS:
        box.rate = rate
        np.testing.assert_array_equal(static(X), call(X))
    assert static.schedule_manager.statistics.traces == 2


@pytest.mark.filterwarnings("ignore::sdbr.SdbrWarning")
@pytest.mark.parametrize("name", USES)
def test_what_the_code_does_with_it(name):
    use, traces = USES[name]
    statistics = check(PLACES["object"], use)
    assert traces is None or statistics.traces == traces
    assert statistics.traces + statistics.replays == len(NUMBERS) and statistics.replays >= 3


@pytest.mark.filterwarnings("ignore::sdbr.SdbrWarning")
def test_other_kinds_of_numbers_are_no_floats():
    numbers = (1.0, 2.0, 3.0, 2, True, np.float64(2), 4.0, 0.0, -0.0, 5.0)
    statistics = check(PLACES["object"], lambda x, rate, state: x * rate, numbers)
    assert statistics.replays >= 4


@pytest.mark.parametrize("make", [
    lambda n: n, lambda n: (n, "a"), lambda n: [n, 1], lambda n: {"n": n},
], ids=["number", "tuple", "list", "dict"])  # fmt: skip
def test_numbers_of_the_call_are_left_outside(make):
    box = Config()

    def call(x, n):
        box.left = make(n * 2 + 1)
        return x * n

    static = sdbr.static_graph(call)
    for n in NUMBERS:
        np.testing.assert_array_equal(static(X, n), X * np.float32(n))
        assert box.left == make(n * 2 + 1) and type(box.left) is type(make(n))
    assert (static.schedule_manager.statistics.traces, len(NUMBERS)) == (1, 10)


def test_a_number_that_the_call_itself_decays():
    def call(agent, x):
        agent.epsilon *= 0.5
        return x * agent.epsilon

    agents = Config(), Config()
    for agent in agents:
        agent.epsilon = 1.0
    static = sdbr.static_graph(functools.partial(call, agents[0]))
    for i in range(10):
        if i == 6:
            agents[0].epsilon = agents[1].epsilon = 3.0
        np.testing.assert_array_equal(static(X), call(agents[1], X))
        assert agents[0].epsilon == agents[1].epsilon and type(agents[0].epsilon) is float
    assert static.schedule_manager.statistics.replays >= 6


class Based:
    __slots__ = ("mean",)


class WithBoth(Based):
    """A slot, and a dictionary beside it."""


class Pair(typing.NamedTuple):
    rate: float
    times: int


@functools.lru_cache
def doubled(number):
    return number * 2


def in_an_item(box, x):
    box.items[1] = (box.rate * 2,)
    box.table[0] = (box.rate, 2)


def in_a_slot(box, x):
    box.both.mean = box.rate * 2


def past_a_proxy(box, x):
    box.proxy.mean = box.rate * 2


def in_a_named_tuple(box, x):
    box.pair = Pair(box.rate * 2, 2)


def in_another_of_these(box, x):
    box.pair = box.pair._replace(rate=box.pair.rate * 0.5)
    return x * box.pair.rate


def in_a_partial(box, x):
    box.power = functools.partial(pow, box.rate)


def as_it_was(box, x):
    is_new = box.last is not box.rate
    box.last = box.rate
    return x * (2 if is_new else 3)


LEFT = {
    in_an_item: lambda box: (box.items, box.table),
    in_a_slot: lambda box: (box.both.mean, vars(box.both)),
    past_a_proxy: lambda box: box.both.mean,
    in_a_named_tuple: lambda box: (box.pair, type(box.pair.rate)),
    in_another_of_these: lambda box: (box.pair, type(box.pair.rate)),
    in_a_partial: lambda box: box.power(2),
    as_it_was: lambda box: box.last,
}


@pytest.mark.filterwarnings("ignore::sdbr.SdbrWarning")
@pytest.mark.parametrize("use", LEFT, ids=lambda use: use.__name__)
def test_what_is_left_of_them(use):
    found = []
    for is_static in (False, True):
        box = Config()
        box.items, box.table, box.both, box.last = [0.0, 0.0], {0: 0.0}, WithBoth(), None
        box.proxy, box.pair, box.rate = weakref.proxy(box.both), Pair(1.0, 2), 0.5
        box.both.mean = 0.0

        def call(x, box=box):
            result = use(box, x)
            return x * box.rate if result is None else result

        call = sdbr.static_graph(call) if is_static else call
        seen = []
        for i in range(8):
            if i % 3:
                box.rate = i + 1.0
            seen.append(repr((call(X), LEFT[use](box))))
        found.append(seen)
    assert found[0] == found[1]


@pytest.mark.parametrize("use", [
    lambda number: 1 / number, lambda number: 1 % number, lambda number: math.log(number),
], ids=["divided", "remainder", "logarithm"])  # fmt: skip
def test_what_nobody_needs_raises_all_the_same(use):
    box = Config()
    box.rate = 1.0

    def call(x, n):
        use(box.rate)
        use(n)
        return x * box.rate * n

    static = sdbr.static_graph(call)
    for rate, n in ((1.0, 1.0), (2.0, 2.0), (3.0, 3.0), (0.0, 4.0), (4.0, 0.0), (5.0, 5.0)):
        box.rate = rate
        if rate and n:
            np.testing.assert_array_equal(static(X, n), call(X, n))
        else:
            with pytest.raises((ArithmeticError, ValueError)):
                static(X, n)
    assert static.schedule_manager.statistics.replays >= 2


@pytest.mark.filterwarnings("ignore::sdbr.SdbrWarning")
@pytest.mark.parametrize("use", [
    lambda number: float(np.format_float_positional(number)), doubled, np.isscalar,
], ids=["a text of NumPy's", "a cache", "a question of NumPy's"])  # fmt: skip
def test_who_takes_its_value(use):
    statistics = check(PLACES["object"], lambda x, rate, state: x * use(rate))
    assert (statistics.traces, statistics.replays) == (7, 3)


class Weighted(chainer.Chain):
    def __init__(self, config):
        super().__init__()
        self.config = config
        with self.init_scope():
            self.l = L.Linear(3, 2)

    def forward(self, x):
        return F.sum(self.l(x) ** 2) * self.config.weight + self.config.bias


def test_whole_steps():
    config = Config()
    plain, static = pair(lambda: Weighted(config))
    optimizers = [chainer.optimizers.Adam().setup(model) for model in (plain, static)]
    optimizers[1] = sdbr.static_optimizer(optimizers[1])
    for i in range(8):
        config.weight, config.bias = 1 / (1 + i), 0.1 * i
        for model, optimizer in zip((plain, static), optimizers, strict=True):
            optimizer.update(model, X[None])
        np.testing.assert_allclose(static.l.W.array, plain.l.W.array, rtol=ROUNDINGS)
    assert static.schedule_manager.statistics.steps >= 4


def test_what_has_a_root_of_its_own_leads_there():
    """A decorated partial, and an object that is called."""
    box = Config()
    box.mask, box.rate = np.ones(3, "f"), 1.0

    class Called:
        def __call__(self, x):
            return x * box.mask * self.rate

    called = Called()
    functions = functools.partial(lambda box, x: x * box.mask * box.rate, box), called
    for function in functions:
        static = sdbr.static_graph(function)
        for _ in range(8):
            box.mask, box.rate = box.mask + 1, box.rate * 0.5
            called.rate = box.rate
            np.testing.assert_array_equal(static(X), function(X))
        assert static.schedule_manager.statistics.traces == 2


def test_other_sizes_follow_what_has_moved():
    box = Config()
    box.rate, box.mask = 1.0, np.ones(3, "f")
    static = sdbr.static_graph(lambda x: F.tanh(x) * box.rate * box.mask)
    for i in range(24):
        box.rate *= 0.9
        box.mask = box.mask + 1
        x = np.full((2 + i % 8, 3), i, "f")
        want = np.tanh(x) * np.float32(box.rate) * box.mask
        np.testing.assert_allclose(static(x).array, want, rtol=ROUNDINGS)
    statistics = static.schedule_manager.statistics
    assert statistics.traces <= 4 and statistics.builds >= 4
