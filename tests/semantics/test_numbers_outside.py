"""Row 11: numbers outside of arguments that are others in later calls."""

from __future__ import annotations

import collections
import dataclasses
import fractions
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

from tests.harness.numbers import BY_VALUE
from tests.harness.twins import pair
from tests.tolerances import ROUNDINGS

NUMBERS = (1.0, 1.0, 0.9, 0.81, 1.2, 2.5, 2.5, 3.0, 1.0, 0.5)
WHOLE = (1, 1, 2, 3, -5, 7, 7, 0, 1, 2**40)
RATE = 1.0


class Config:
    """A plain object."""


class Pair(typing.NamedTuple):
    rate: float
    times: int


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


def in_named_tuple():
    thing = Config()
    return lambda: thing.pair.rate, lambda value: setattr(thing, "pair", Pair(value, 2))


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
    "attribute of a link": in_object(lambda: L.Linear(2, 2)), "named tuple": in_named_tuple,
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


@pytest.mark.parametrize("numbers", [NUMBERS, WHOLE], ids=["floats", "whole"])
@pytest.mark.parametrize("name", PLACES)
def test_one_trace_more_wherever_it_lies(name, numbers):
    statistics = check(PLACES[name], lambda x, rate, state: x * rate, numbers)
    first = name == "attribute of a link" and numbers is NUMBERS  # followed from the beginning
    traces = 1 if first else 2
    # One is too large for the dtype, but where a float is made of it.
    traces += BY_VALUE and numbers is WHOLE and name != "property"
    assert (statistics.traces, statistics.replays) == (traces, 10 - traces)


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


@pytest.mark.parametrize("name", ["object", "named tuple"])
def test_each_reading_counts(name):
    """Those of one instruction, too; who asks for a field of a tuple is code of a library."""
    get, put = PLACES[name]()

    def call(x):
        for _ in range(2):
            x = x * get()
        return x + get()

    static = sdbr.static_graph(call)
    for rate in NUMBERS:
        put(rate)
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


def bits(x, n, state):
    state.mean = (n & 3, n << 1, ~n, *divmod(n, 3))
    return x * (n ^ 5)


def counted(x, n, state):
    state.n = getattr(state, "n", 0) + 1
    state.mean += (n - state.mean) / state.n
    return x * state.mean


def chosen(x, n, state):
    return (np.sin, np.cos, np.tanh)[n % 3](x)


def unrolled(x, n, state):
    for i in range(n % 4):
        x = x * 0.5 + i
    return x


WHOLE_USES = {
    "a power": (lambda x, n, state: x * 0.9**n, 2),
    "arithmetic": (lambda x, n, state: x * max(0.1, 1 - n // 2 / 10), None),
    "bits": (bits, 2),
    "a mean": (counted, None),
    "an index": (lambda x, n, state: x * x[n % 3], 2),
    "a cycle": (chosen, 4),
    "a loop": (unrolled, 4),
    "decides": (lambda x, n, state: x * 2 if n > 2 else x - n, 3),
    "a size": (lambda x, n, state: x[: n % 2 + 1] * 2, 3),
    "an axis": (lambda x, n, state: F.sum(F.reshape(x, (1, 3)), axis=n % 2), 3),
    "its class": (lambda x, n, state: x * n if type(n) is int else x, 2),
    "a text": (lambda x, n, state: x * len(f"{n}"), 7),
    "a key": (lambda x, n, state: x * {1: 2, 2: 3}.get(n, 5), None),
    "in NumPy": (lambda x, n, state: x * np.full(3, n, "f"), None),
}


@pytest.mark.filterwarnings("ignore::sdbr.SdbrWarning")
@pytest.mark.parametrize("name", WHOLE_USES)
def test_what_the_code_does_with_whole_ones(name):
    use, traces = WHOLE_USES[name]
    statistics = check(PLACES["object"], use, (*WHOLE[:-1], 12))
    assert traces is None or statistics.traces == traces
    assert statistics.traces + statistics.replays == len(WHOLE) and statistics.replays >= 2


class Set(chainer.Chain):
    """Reads its number in one way, and sets it to what is always the same in another."""

    def __init__(self, get, put):
        super().__init__()
        self.n, self.ways = 0.5, (get, put)

    def forward(self, x):
        get, put = self.ways
        y = x * get(self)
        put(self)
        return y


@pytest.mark.filterwarnings("ignore::sdbr.SdbrWarning")
@pytest.mark.parametrize("number", [5.0, 5])
@pytest.mark.parametrize("get", [lambda s: s.n, lambda s: vars(s)["n"]], ids=["", "by its dict"])
@pytest.mark.parametrize("way", ["attribute", "entry", "update", "pairs", "object"])
def test_what_a_call_sets_is_set_again_though_it_was_that(way, get, number):
    """Set from outside in between; past the link nobody tells the recorder."""
    put = {
        "attribute": lambda s: setattr(s, "n", number),
        "entry": lambda s: vars(s).__setitem__("n", number),
        "update": lambda s: vars(s).update(n=number),
        "pairs": lambda s: vars(s).update(zip("n", [number], strict=True)),
        "object": lambda s: object.__setattr__(s, "n", number),
    }[way]
    plain = Set(get, put)
    static = sdbr.static_graph(Set(get, put))
    for i in range(10):
        if i in (5, 8):
            plain.n = static.n = type(number)(i - 3)
        np.testing.assert_array_equal(static(X), plain(X))
        assert static.n == plain.n and type(static.n) is type(number)
    assert static.schedule_manager.statistics.replays >= 3 or way != "attribute"


class Timed(chainer.Chain):
    """Reads its own epoch, and how many steps its optimizer has made."""

    def __init__(self):
        super().__init__()
        self.epoch = 0
        with self.init_scope():
            self.l = L.Linear(3, 2)

    def forward(self, x):
        steps = self.l.W.update_rule.t
        return F.sum(self.l(x) ** 2) * 0.9**self.epoch / (1 + steps)


def test_whole_steps_with_whole_numbers():
    plain, static = pair(Timed)
    optimizers = [chainer.optimizers.Adam().setup(model) for model in (plain, static)]
    optimizers[1] = sdbr.static_optimizer(optimizers[1])
    for i in range(12):
        for model, optimizer in zip((plain, static), optimizers, strict=True):
            model.epoch = i // 2
            optimizer.update(model, X[None])
        np.testing.assert_allclose(static.l.W.array, plain.l.W.array, rtol=ROUNDINGS)
    assert static.schedule_manager.statistics.steps >= 6


HOLDING = {
    "tuple": lambda n: (n, 1), "nested": lambda n: ((n,), "a"), "computed": lambda n: (n % 2, -n),
    "floats beside": lambda n: [n, 1.5, None], "dict": lambda n: {"n": n, "kind": int},
    "slice": slice, "fraction": lambda n: fractions.Fraction(n, 3), "set": lambda n: {n},
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::sdbr.SdbrWarning")
@pytest.mark.parametrize("is_given", [True, False], ids=["handed out", "left in a link"])
@pytest.mark.parametrize("name", HOLDING)
def test_what_holds_a_whole_number(name, is_given):
    """What replays cannot make again is compared."""
    make, box, link = HOLDING[name], Config(), L.Linear(2, 2)

    def call(x):
        if is_given:
            return x * 2, make(box.n)
        link.last = make(box.n)
        return x * 2

    static = sdbr.static_graph(call)
    for n in (1, 1, 2, 3, 4, 5, 5, 5):
        box.n = n
        got = static(X)
        assert (got[1] if is_given else link.last) == make(n)
    statistics = static.schedule_manager.statistics
    assert statistics.replays >= (4 if name in ("tuple", "nested", "computed") else 0)


@pytest.mark.filterwarnings("ignore::sdbr.SdbrWarning")
def test_what_keeps_a_number_has_that_of_its_call():
    box, kept = Config(), Config()

    def call(x):
        kept.all = frozenset([box.n]), slice(box.n), lambda n=box.n: n
        return x * 2

    static = sdbr.static_graph(call)
    for n in (1, 1, 2, 3, 3, 4):
        box.n = n
        static(X)
        numbers, part, function = kept.all
        assert (numbers, part.stop, function()) == ({n}, n, n)


class Counts(chainer.Chain):
    def __init__(self):
        super().__init__()
        self.k = 1

    def forward(self, x):
        self.k += 1
        return x * self.k


@pytest.mark.filterwarnings("ignore::sdbr.SdbrWarning")
def test_who_reads_a_counter_before_it_is_known_to_count():
    """Other code counts than reads it first."""
    results = []
    for is_static in (False, True):
        link = Counts()

        def call(x, link=link):
            before = link.k
            return link(x) * before

        call = sdbr.static_graph(call) if is_static else call
        results.append([(call(X).tolist(), link.k) for _ in range(8)])
    assert results[0] == results[1]
    assert call.schedule_manager.statistics.replays >= 5


def test_numbers_beyond_all_floats():
    box = Config()

    def call(x):
        return x * 2, box.n / 10**400, (10**400 + box.n) > 0, (2**1100 * box.n) // 2**1099

    static = sdbr.static_graph(call)
    for box.n in (1, 2, 3, 2**70, 5):
        assert static(X)[1:] == call(X)[1:]
    assert static.schedule_manager.statistics.replays >= 3


@pytest.mark.filterwarnings("ignore::sdbr.SdbrWarning")
@pytest.mark.parametrize("number", [3, 1.5])
@pytest.mark.parametrize("use", [
    lambda n: n + "a", lambda n: n[0], lambda n: n < None, len, lambda n: n << 1.5,
], ids=["added", "indexed", "compared", "measured", "shifted"])  # fmt: skip
def test_texts_of_errors_call_them_what_they_are(use, number):
    box = Config()

    def call(x):
        try:
            use(box.n)
        except TypeError as error:
            return x * 2, str(error)
        return x * 2, None

    static = sdbr.static_graph(call)
    for box.n in (number, number, number + 1, number + 2, number + 3):
        assert static(X)[1] == call(X)[1]
    assert static.schedule_manager.statistics.replays >= 1


def by_name(model, optimizer, is_third):
    model.name = "a" if is_third else "b"
    return model.name


def by_name_of_parameter(model, optimizer, is_third):
    model.l.W.name = "a" if is_third else "b"
    return model.l.W.name


def by_rule(model, optimizer, is_third):
    (model.disable_update if is_third else model.enable_update)()
    return model.l.W.update_rule.enabled


def by_optimizer(model, optimizer, is_third):
    optimizer.use_cleargrads(is_third)
    return optimizer._use_cleargrads


def by_epoch(model, optimizer, is_third):
    if is_third:
        optimizer.new_epoch()
    return optimizer.epoch


@pytest.mark.filterwarnings("ignore::sdbr.SdbrWarning")
@pytest.mark.parametrize("write", [
    by_name, by_name_of_parameter, by_rule, by_optimizer, by_epoch,
])  # fmt: skip
def test_what_a_number_decides_to_write_where_chainer_keeps_it(write):
    """What was there already is written all the same."""
    results = []
    for is_static in (False, True):
        box, model = Config(), Timed()
        optimizer = chainer.optimizers.SGD().setup(model)
        box.n = 0

        def call(x, box=box, model=model, optimizer=optimizer):
            box.n += 1
            write(model, optimizer, box.n % 3 == 0)
            return x * 2

        call = sdbr.static_graph(call) if is_static else call
        seen = []
        for _ in range(14):
            call(X)
            rule = model.l.W.update_rule.enabled
            seen.append((model.name, model.l.W.name, rule, optimizer.epoch, box.n))
            seen.append(getattr(optimizer, "_use_cleargrads", None))
        results.append(seen)
    assert results[0] == results[1]
    assert call.schedule_manager.statistics.replays >= 4


class Setting(chainer.Chain):
    """Sets the rate of the step that it is part of."""

    def __init__(self, way):
        super().__init__()
        self.way, self.n = way, 0
        with self.init_scope():
            self.l = L.Linear(3, 2)

    def forward(self, x):
        self.n += 1
        self.way(self, 0.1 / self.n)
        return F.sum(self.l(x) ** 2)


@pytest.mark.parametrize("way", [
    lambda model, rate: setattr(model.optimizer[0], "lr", rate),
    lambda model, rate: setattr(model.optimizer[0].hyperparam, "lr", rate),
    lambda model, rate: setattr(model.l.W.update_rule.hyperparam, "lr", rate),
    lambda model, rate: setattr(model.optimizer[1], "rate", rate),
], ids=["lr", "hyperparameter", "of a rule", "of a hook"])  # fmt: skip
def test_steps_that_set_what_their_update_reads(way):
    """What a replay writes, it writes when it has run: the update comes after that."""
    plain, static = pair(lambda: Setting(way))
    optimizers = [chainer.optimizers.SGD().setup(model) for model in (plain, static)]
    optimizers[1] = sdbr.static_optimizer(optimizers[1])
    for model, optimizer in zip((plain, static), optimizers, strict=True):
        hook = chainer.optimizer_hooks.WeightDecay(0.1)
        optimizer.add_hook(hook)
        model.optimizer = (optimizer, hook)
    for _ in range(8):
        for model, optimizer in zip((plain, static), optimizers, strict=True):
            optimizer.update(model, X[None])
        np.testing.assert_allclose(static.l.W.array, plain.l.W.array, rtol=ROUNDINGS)
    statistics = static.schedule_manager.statistics
    assert (statistics.steps, statistics.replays >= 4) == (0, True)


def wrote(table, key, x):
    table[key] = x.sum()
    return x * 2


def at(ufunc, table, key, x):
    ufunc.at(table, key, x[0])
    return x * table.sum()


ENDS = {
    "read": lambda s, x: x * s.table[s.at.n],
    "read from the end": lambda s, x: x * s.table[-s.at.n],
    "read of a column": lambda s, x: x * s.rows[1, s.at.n],
    "computed": lambda s, x: x * s.table[2 * s.at.n - 1],
    "of an argument": lambda s, x: x[s.at.n] * 2,
    "written": lambda s, x: wrote(s.table, s.at.n, x),
    "a column written": lambda s, x: wrote(s.rows, (slice(None), s.at.n), x),
    "written behind a new axis": lambda s, x: wrote(s.rows, (None, 1, s.at.n), x),
    "written behind all other axes": lambda s, x: wrote(s.rows, (..., s.at.n), x),
    "written before others": lambda s, x: wrote(s.rows.T, (s.at.n, ...), x),
    "written beside truths": lambda s, x: wrote(s.rows, (MASK, s.at.n), x),
    "added at": lambda s, x: at(np.add, s.table, s.at.n, x),
    "the largest at": lambda s, x: at(np.maximum, s.rows, (1, s.at.n), x),
    "of a link's number": lambda s, x: wrote(s.table, s.n, x),
}


MASK = np.array([True, False, True])


class AtEnds(chainer.Chain):
    def __init__(self, use):
        super().__init__()
        self.use, self.at, self.n = use, types.SimpleNamespace(n=0, calls=0), 0
        self.table, self.rows = np.arange(6, dtype="f"), np.ones((3, 6), "f")
        self.seen = np.zeros(2, "f")

    def forward(self, x):
        self.at.calls += 1
        self.seen += x[0]
        y = self.use(self, x)
        self.at.n, self.n = self.at.n + 1, self.n + 1
        return y

    def state(self):
        parts = (self.table, self.rows, self.seen, self.at.n, self.at.calls, self.n)
        return [np.asarray(x).tolist() for x in parts]


@pytest.mark.parametrize("name", ENDS)
def test_a_counter_beyond_the_end_of_an_array(name):
    """The error is NumPy's, and what was written before it is."""
    found = []
    for wrap in (lambda model: model, sdbr.static_graph):
        model, seen = wrap(AtEnds(ENDS[name])), []
        for i in range(16):
            if i in (10, 14):
                model.at.n = model.n = 0
            try:
                y = model(np.full(6, i + 1, "f")).tolist()
            except IndexError as error:
                y = str(error)
            seen.append((y, model.state()))
        found.append(seen)
    assert any(type(y) is str for y, _ in found[0])
    assert found[1] == found[0]
    assert model.schedule_manager.statistics.replays >= 7
