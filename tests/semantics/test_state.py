"""Row 11: numbers that a call reads and writes are read, computed and written by each replay."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
import threading
from unittest import mock

import sdbr
from sdbr.call import misses

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L
from chainer import reporter

from tests.harness.comparison import assert_all_near, assert_near, copy_of, gradients_of
from tests.harness.models import Net
from tests.harness.threads import in_threads
from tests.harness.twins import X, counts, statistics_of
from tests.tolerances import GRADIENTS, RESULTS

CALLS = 14
LIMIT = 5


class Stateful(chainer.Chain):
    """Three layers, numbers, texts, and a forward that changes them."""

    def __init__(self, forward, **state):
        super().__init__()
        with self.init_scope():
            self.a = L.Linear(4, 4)
            self.b = L.Linear(4, 4)
            self.c = L.Linear(4, 4)
        self.parts = [self.a, self.b, self.c]
        self.t = 0
        self._forward = forward
        for name, thing in state.items():
            setattr(self, name, thing)

    def forward(self, *args):
        return self._forward(self, *args)


def counted(self, x):
    self.t += 1
    return self.a(x)


def decayed(self, x):
    rate = 1 / (1 + self.t)
    self.t = self.t + 1
    return self.a(x) * rate


def annealed(self, x):
    self.t += 1
    return self.a(x) + min(1.0, self.t / LIMIT) * F.sum(self.b(x) ** 2)


def multiplied(self, x):
    self.beta *= 0.9
    return self.a(x) * self.beta


def float64(self, x):
    self.beta = self.beta * np.exp(-self.t / 10)
    self.t += 1
    return self.a(x) * self.beta


def corrected(self, x):
    self.t += 1
    return self.a(x) / (1 - 0.9**self.t) * self.t


def cosine(self, x):
    weight = 0.5 * (1 + math.cos(math.pi * self.t / 20))
    self.t += 1
    return self.a(x) * weight


def dropped(self, x):
    self.beta = self.beta * 0.95
    return F.dropout(self.a(x), self.beta)


def every_third(self, x):
    self.t += 1
    y = self.a(x)
    return y + self.b(x) if self.t % 3 == 0 else y


def warmed_up(self, x):
    self.t += 1
    return self.a(x) if self.t < LIMIT else self.b(x)


def begun_anew(self, x):
    if self.t >= LIMIT:
        self.t = 0
    self.t += 1
    return self.a(x) * (self.t / LIMIT)


def counted_from_zero(self, x):
    self.t = 0
    for _ in range(3):
        self.t += 1
    return self.a(x) * self.t


def averaged_from_zero(self, x):
    self.beta = 0.0
    self.beta += 0.5
    return self.a(x) * self.beta


def patient(self, x):
    y = self.b(x) if self.t > 20 else self.a(x)
    if y.array.mean() < 0.5:
        self.t = 0
    else:
        self.t += 1
    return y


def in_turn(self, x):
    y = self.parts[self.t](x)
    self.t = (self.t + 1) % 3
    return y


def from_a_buffer(self, x):
    y = self.a(x + self.buffer[self.t])
    self.t = (self.t + 1) % 4
    return y


def as_key(self, x):
    y = {0: self.a, 1: self.b}[self.t](x)
    self.t = 1 - self.t
    return y


def longer(self, x):
    self.t += 1
    for _ in range(min(self.t, 4)):
        x = F.tanh(self.a(x))
    return x


def sized(self, x):
    self.t += len(x)
    self.shape = x.shape
    return self.a(x)


def looked_for(self, x):
    self.n_calls = getattr(self, "n_calls", 0) + 1
    return self.a(x) * (1 / self.n_calls)


def flagged(self, x):
    if self.flag:
        self.flag = False
        return self.a(x)
    return self.b(x)


def toggled(self, x):
    self.flag = not self.flag
    return self.a(x) if self.flag else self.b(x)


def moded(self, x):
    y = self.a(x) if self.mode == "a" else self.b(x)
    self.mode = "b" if self.mode == "a" else "a"
    return y


def reported(self, x):
    self.t += 1
    self.beta = self.beta * 0.5
    chainer.report({"t": self.t, "beta": self.beta}, self)
    return self.a(x)


def returned(self, x):
    self.t += 1
    return self.a(x), self.t, {"next": self.t + 1, "half": self.t / 2}


def synchronized(self, x):
    if self.t % 4 == 0:
        self.target = self.a.W.array * x.mean()
    self.t += 1
    return F.linear(x, self.target) + self.b(x)


def penalized(self, x):
    self.t += 1
    x = chainer.Variable(x)
    y = F.sum(self.a(x) ** 2)
    if self.t % 2 == 0:
        (g,) = chainer.grad([y], [x], enable_double_backprop=True)
        y = y + F.sum(g * g)
    return y


def averaged(self, x):
    self.average = 0.9 * self.average + 0.1 * x.mean(0)
    return self.a(x - self.average)


def cached(self, x):
    k, v = self.cache
    self.cache = self.a(x) + 0.5 * k, self.b(x) + v
    return self.cache[0] * self.cache[1]


def recurrent(self, x):
    h = F.tanh(self.a(x) + self.states[0])
    self.states = [h, F.tanh(self.b(h) + self.states[1])]
    return self.states[1]


#: name -> (forward, state, traces at most).
PROGRAMS = {
    "counted": (counted, {}, 1),
    "decayed": (decayed, {}, 1),
    "annealed": (annealed, {}, 2),
    "multiplied": (multiplied, {"beta": 1.0}, 1),
    "float64": (float64, {"beta": np.float64(1)}, 1),
    "corrected": (corrected, {}, 1),
    "cosine": (cosine, {}, 1),
    "dropped": (dropped, {"beta": 0.5}, 1),
    "every_third": (every_third, {}, 2),
    "warmed_up": (warmed_up, {}, 2),
    "begun_anew": (begun_anew, {}, 2),
    "counted_from_zero": (counted_from_zero, {}, 1),
    "averaged_from_zero": (averaged_from_zero, {"beta": 0.0}, 2),
    "in_turn": (in_turn, {}, 3),
    "from_a_buffer": (from_a_buffer, {"buffer": np.arange(80).reshape(4, 5, 4).astype("f")}, 4),
    "as_key": (as_key, {}, 2),
    "longer": (longer, {}, 5),
    "sized": (sized, {}, 1),
    "looked_for": (looked_for, {}, 2),
    "flagged": (flagged, {"flag": True}, 2),
    "toggled": (toggled, {"flag": False}, 2),
    "moded": (moded, {"mode": "a"}, 2),
    "reported": (reported, {"beta": 1.0}, 1),
    "returned": (returned, {}, 1),
    "synchronized": (synchronized, {}, 2),
    "penalized": (penalized, {}, 2),
    "averaged": (averaged, {"average": np.zeros(4, "f")}, 1),
    "cached": (cached, {"cache": (np.zeros((5, 4), "f"),) * 2}, 3),
    "recurrent": (recurrent, {"states": [np.zeros((5, 4), "f"), np.zeros((5, 4), "f")]}, 3),
}
_OURS = {"schedule_manager", "static_schedule", "_sdbr_managers"}


def models(forward, state, **options):
    np.random.seed(0)
    plain = Stateful(forward, **copy.deepcopy(state))
    static = Stateful(forward, **copy.deepcopy(state))
    static.copyparams(plain)
    return plain, sdbr.static_graph(static, on_dynamic="raise", **options)


def numbers_of(model) -> dict:
    """What a model holds besides its parameters and links, with its types."""
    found = {}
    for name, thing in vars(model).items():
        if type(thing) in (int, float, bool, str, tuple, np.float64) and name not in _OURS:
            found[name] = thing if type(thing) is not tuple else len(thing), type(thing)
        assert "Traced" not in type(thing).__name__, name
    return found


def observed(model, i: int) -> tuple[dict, dict]:
    """The arrays and the numbers that call number `i` leaves behind."""
    np.random.seed(i)
    told = reporter.Reporter()
    told.add_observer("model", model)
    with told.scope({}) as _, told:
        result = model(X * (1 + i))
        seen = dict(told.observation)
    loss, *rest = result if type(result) is tuple else (result,)
    model.cleargrads()
    F.sum(loss).backward()
    arrays = {"loss": copy_of(loss.array), **gradients_of(model)}
    for name in ("average", "target"):
        if hasattr(model, name):
            arrays[name] = copy_of(getattr(model, name))
    numbers = {name: (x, type(x)) for name, x in seen.items()}
    return arrays, {**numbers_of(model), **numbers, "rest": repr(rest)}


def assert_same(plain, static, calls, what=""):
    for i in calls:
        (want, known), (got, found) = observed(plain, i), observed(static, i)
        assert_all_near(got, want, GRADIENTS, f"{what}, call {i}")
        assert found == known, f"{what}, call {i}"


@pytest.mark.parametrize("audit", ["off", 1e9], ids=["unaudited", "audited"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_state_is_read_and_written_by_replays(name, audit):
    forward, state, n_traces = PROGRAMS[name]
    options = {"enable_double_backprop": True} if name == "penalized" else {}
    plain, static = models(forward, state, **options)
    with chainer.using_config("sdbr_audit", audit):
        assert_same(plain, static, range(CALLS), name)
    traces, replays, define_by_run = counts(static)
    assert traces <= n_traces
    assert replays == CALLS - traces
    assert define_by_run == 0


@pytest.mark.parametrize(
    "name", ["counted", "annealed", "every_third", "in_turn", "dropped", "corrected"]
)
def test_state_in_whole_steps(name):
    forward, state, n_traces = PROGRAMS[name]
    plain, static = models(lambda self, x: F.sum(forward(self, x) ** 2), state)
    optimizers = (
        chainer.optimizers.SGD(1e-4).setup(plain),
        sdbr.static_optimizer(chainer.optimizers.SGD(1e-4)).setup(static),
    )
    for i in range(CALLS):
        for optimizer, model in zip(optimizers, (plain, static), strict=True):
            np.random.seed(i)
            optimizer.update(model, X)
        for p, q in zip(plain.params(), static.params(), strict=True):
            assert_near(q.array, p.array, GRADIENTS, f"call {i}")
        assert numbers_of(plain) == numbers_of(static), f"call {i}"
    assert statistics_of(static).traces <= n_traces
    assert statistics_of(static).steps >= CALLS - 2 * n_traces
    assert statistics_of(static).define_by_run_calls == 0


@pytest.mark.parametrize("name", ["every_third", "warmed_up", "begun_anew", "in_turn", "annealed"])
def test_ways_where_nobody_else_writes_to_links(name):
    """Replays write past their links: nothing but the numbers tells that the way is another."""
    forward, state, n_traces = PROGRAMS[name]
    plain, static = models(forward, state)
    with chainer.no_backprop_mode():
        want = [copy_of(plain(X).array) for _ in range(CALLS)]
        for i, y in enumerate(want):
            assert_near(static(X).array, y, RESULTS, f"call {i}")
    assert counts(static)[0] <= n_traces and counts(static)[2] == 0


def test_what_others_set_is_counted_on():
    plain, static = models(annealed, {})
    assert_same(plain, static, range(4))
    plain.t = static.t = 2
    assert_same(plain, static, range(4))
    assert counts(static)[0] == 2
    plain.t = static.t = 0.5  # another type: traced again
    assert_same(plain, static, range(4))
    plain.t = static.t = True
    assert_same(plain, static, range(4))
    vars(plain)["t"] = vars(static)["t"] = 3  # past the link
    assert_same(plain, static, range(4))
    assert counts(static)[2] == 0


def test_whole_numbers_of_any_size():
    plain, static = models(decayed, {})
    plain.t = static.t = 2**80
    assert_same(plain, static, range(4))
    assert static.t == 2**80 + 4
    assert counts(static) == (1, 3, 0)
    plain, static = models(lambda self, x: (self.a(x) * 1e-30 * self.t, counted(self, x))[0], {})
    plain.t = static.t = 2**53 - 2
    assert_same(plain, static, range(6))
    assert static.t == plain.t == 2**53 + 4


def test_a_counter_compared_with_an_argument():
    """A comparison of the same argument comes out otherwise as the counter goes on."""

    def forward(self, x, limit):
        self.t += 1
        return self.a(x) if self.t < limit else self.b(x)

    plain, static = models(forward, {})
    for i in range(CALLS):
        assert_near(static(X, 6.5).array, plain(X, 6.5).array, RESULTS, f"call {i}")
    assert counts(static) == (2, CALLS - 2, 0)


def test_a_counter_that_another_call_reads():
    """Its own calls write the number past the link; who reads it has to notice."""
    static = models(counted, {})[1]
    reader = sdbr.static_graph(Net(lambda self, x: self.l(x) * self.m.t, l=L.Linear(4, 3)))
    reader.m = static
    for i in range(6):
        static(X)
        assert_near(reader(X).array, reader.l(X).array * (i + 1), RESULTS, f"call {i}")
    assert counts(static) == (1, 5, 0)


def test_a_run_that_turns_back_does_not_count():
    def forward(self, x):
        self.t += 1
        y = self.a(x)
        chainer.report({"t": self.t}, self)
        return y * 2 if y.array.sum() > 0 else y

    plain, static = models(forward, {})
    for i in range(CALLS):
        x = X * (-1) ** i
        assert_near(static(x).array, plain(x).array, RESULTS, f"call {i}")
        assert static.t == plain.t == i + 1
    assert counts(static) == (2, CALLS - 2, 0)


def test_an_error_while_the_call_is_traced():
    def forward(self, x):
        self.t += 1
        self.seen = [self.t]
        raise ValueError("no")

    static = sdbr.static_graph(Stateful(forward))
    for i in range(3):
        with pytest.raises(ValueError, match="no"):
            static(X)
        assert static.t == i + 1 and type(static.t) is int
        assert type(static.seen[0]) is int


def formatted(self, x):
    self.t += 1
    self.text = f"step {self.t}"
    return self.a(x)


def converted(self, x):
    self.t += 1
    return self.a(x) * np.full((5, 4), self.t, "f")


def kept(self, x):
    self.t += 1
    self.log.append(self.t)
    return self.a(x) * len(self.log)


@pytest.mark.parametrize("forward", [formatted, converted, kept], ids=lambda f: f.__name__)
def test_what_cannot_be_followed_is_dynamic(forward):
    """With the name of the attribute and the line, at once."""
    plain, static = models(forward, {"log": []})
    sdbr.static_graph(static, on_dynamic="fallback")
    name = "'log'" if forward is kept else "'t'"
    with pytest.warns(sdbr.SdbrWarning, match=f"{name}.* at .*test_state.py:") as caught:
        assert_same(plain, static, range(6))
    assert len(caught) == 1
    assert static.log == plain.log and all(type(n) is int for n in static.log)
    assert statistics_of(static).replays == 0 and statistics_of(static).traces <= 2


def test_ways_of_a_counter_are_limited():
    def forward(self, x):
        self.t += 1
        return self.a(x) * len(range(self.t))

    plain, static = models(forward, {})
    sdbr.static_graph(static, on_dynamic="fallback")
    with mock.patch.object(misses, "MOST_WAYS", 4), pytest.warns(sdbr.SdbrWarning, match="ways"):
        assert_same(plain, static, range(12))
    assert counts(static) == (4, 0, 8)


def test_many_ways_of_a_counter_take_one_place():
    """Twenty of them, though sixteen schedules are kept."""
    buffer = np.random.RandomState(0).rand(20, 5, 4).astype("f")

    def forward(self, x):
        y = self.a(self.buffer[self.t] + x)
        self.t = (self.t + 1) % 20
        return y

    plain, static = models(forward, {"buffer": buffer})
    for i in range(200):
        if i == 160:
            before = statistics_of(static).replays
        assert_near(static(X).array, plain(X).array, RESULTS, f"call {i}")
    assert statistics_of(static).traces == 20
    assert statistics_of(static).replays == before + 40


def test_copies_and_pickles_count_on_their_own():
    static = models(counted, {})[1]
    for _ in range(3):
        static(X)
    for other in (copy.deepcopy(static), static.copy(), pickle.loads(pickle.dumps(static))):
        for _ in range(3):
            other(X)
        assert other.t == 6 and type(other.t) is int
        assert static.t == 3


def test_threads_count():
    static = models(counted, {})[1]
    lock = threading.Lock()

    def work(_):
        for _ in range(50):
            with lock:
                static(X)

    in_threads(3, work)
    assert static.t == 150 and type(static.t) is int
    assert counts(static) == (1, 149, 0)


def through_the_dictionary(self, x):
    self.__dict__["n"] = self.__dict__.get("n", 0) + 1
    return self.a(x) * self.n


def from_the_dictionary(self, x):
    self.t = vars(self)["t"] + 1
    return self.a(x) * self.t


def test_a_counter_that_is_read_past_its_link_is_found_there():
    plain, static = models(from_the_dictionary, {})
    assert_same(plain, static, range(6))
    assert counts(static) == (2, 4, 0) and type(static.t) is int


def test_a_counter_that_is_written_past_its_link_is_dynamic():
    plain, static = models(through_the_dictionary, {})
    sdbr.static_graph(static, on_dynamic="fallback")
    with pytest.warns(sdbr.SdbrWarning, match="'n'"):
        assert_same(plain, static, range(6))
    assert statistics_of(static).replays == 0


def kept_as_key(self, x):
    self.t += 1
    self.seen[self.t] = self.t
    self.among.add(self.t)
    return self.a(x)


def made_an_array(self, x):
    self.t += 1
    return self.a(x) * np.float32([self.t, 1, 2, 3])


def test_a_counter_as_a_key_stays_a_number_of_python():
    plain, static = (Stateful(kept_as_key, seen={0: 0}, among=set()) for _ in range(2))
    static = sdbr.static_graph(static, on_dynamic="fallback")
    for _ in range(3):
        plain(X), static(X)
        assert static.seen == plain.seen
        assert list(map(type, static.seen)) == [int] * len(plain.seen)
        assert static.among == plain.among
        assert set(map(type, static.among)) == {int}


def test_a_counter_in_an_array_of_several_numbers():
    plain, static = Stateful(made_an_array), Stateful(made_an_array)
    static.copyparams(plain)
    static = sdbr.static_graph(static, on_dynamic="fallback")
    for _ in range(3):
        assert_near(static(X).array, plain(X).array, RESULTS, "result")


@pytest.mark.parametrize("audit", ["off", 1.0])
def test_a_counter_set_to_what_it_is_is_set_by_replays(audit):
    plain, static = models(patient, {})
    shifts = [-9, -9, 9, 9, -9, 9, 9, 9, -9, -9, 9, 9]
    with chainer.using_config("sdbr_audit", audit):
        for shift in shifts:
            for model in (plain, static):
                model.a.b.array[:] = shift
            static(X), plain(X)
            assert (type(static.t), static.t) == (int, plain.t)
    assert statistics_of(static).replays


#: What Python, its compiled functions and NumPy make of a whole number.
TAKERS = {
    "pow of two": lambda t: pow(2, t) + pow(t, 2),
    "pow of three, first": lambda t: pow(t, 2, 5),
    "pow of three, second": lambda t: pow(2, t, 5),
    "pow of three, third": lambda t: pow(7, 2, mod=t + 3),
    "pow in map": lambda t: sum(map(pow, [2, 3], [t, 1], [5, t + 1])),
    "divmod": lambda t: divmod(t, 3)[1] + divmod(17, t + 1)[0],
    "divmod of a float": lambda t: divmod(t, 1.5)[1],
    "round": lambda t: round(t) + round(t, -1) + round(3.14159, t),
    "texts": lambda t: len(bin(t) + hex(t) + oct(t) + str(t) + repr(t) + format(t, "03d") + chr(t)),
    "in range": lambda t: 1.0 if t in range(2, 4) else 2.0,
    "in a set": lambda t: 1.0 if t in {1, 3} else 2.0,
    "index": lambda t: (
        [1.0, 2.0, 3.0][t % 3] + sum([1.0, 2.0, 3.0][: t % 3]) + "01234567".find(str(t))
    ),
    "range": lambda t: sum(range(t)) + range(99)[t],
    "repetition": lambda t: len([0] * t) + len("a" * t) + len(bytes(t)),
    "math, whole": lambda t: math.gcd(t, 6) + math.factorial(t) + math.comb(5, t) + math.isqrt(t),
    "math": lambda t: (
        math.sqrt(t) + math.ldexp(1.0, t) + math.fmod(7.5, t + 1) + math.copysign(t, -1)
    ),
    "complex": lambda t: complex(t).real,
    "bits": lambda t: t.bit_length() + t.to_bytes(2, "big")[1] + (1 << t) + ~t + (t ^ 3),
    "parts": lambda t: t.numerator + t.denominator + t.real + t.imag,
    "itertools": lambda t: len(list(itertools.combinations(range(5), t))),
    "default_rng": lambda t: float(np.random.default_rng(t).random()),
    "sizes": lambda t: float(np.ones((t, 2)).size + np.eye(t + 1).sum() + np.arange(9.0)[t]),
    "arrays": lambda t: float((np.ones(2) * t + np.power(2.0, t)).sum()),
}


def taken(self, x):
    self.t += 1
    use = self.use
    self.found = use(self.t)
    return self.a(x) * self.found


@pytest.mark.filterwarnings("ignore::sdbr.SdbrWarning")
@pytest.mark.parametrize("use", TAKERS.values(), ids=list(TAKERS))
def test_whatever_takes_a_counter_gives_what_it_gives_in_define_by_run(use):
    plain, static = models(taken, {"use": use, "found": None})
    sdbr.static_graph(static)
    for i in range(6):
        assert_same(plain, static, [i])
        assert static.found == plain.found and type(static.found) is type(plain.found)
        assert static.t == plain.t and type(static.t) is int
