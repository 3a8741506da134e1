"""Row 10: compiled objects whose state nobody sees move, and compiled code that is called by the
way of a class or a method."""

from __future__ import annotations

import array
import ctypes
import functools
import math
import types

import sdbr

import chainer
import numpy as np
import pytest
import scipy.linalg
import scipy.stats
from chainer import functions as F

from tests.harness.comparison import assert_near
from tests.tolerances import RESULTS


def annealed():
    rate = 1.0
    while True:
        yield rate
        rate *= -0.7


def sent(g):
    return g.send(None)


class OfAGenerator:
    def __init__(self):
        self.g = annealed()
        self.next = self.g.__next__
        self.send = functools.partial(self.g.send, None)


class Pointed:
    def __init__(self):
        self.number = ctypes.c_double(0.3)
        self.pointer = ctypes.pointer(self.number)
        self.address = ctypes.addressof(self.number)


def move(pointed):
    pointed.number.value -= 0.5


def drawn(generator):
    generator.random()


def seeded(distribution):
    distribution.random_state = np.random.RandomState(3)
    return distribution


def draw_globally(_):
    np.random.rand()


PCG, MT = np.random.PCG64, np.random.MT19937
#: What lies outside, the number that the call makes of it, and what others do between calls.
STATES = {
    "send": (annealed, sent, None),
    "__next__, kept": (OfAGenerator, lambda o: o.next(), None),
    "send, in a partial": (OfAGenerator, lambda o: o.send(), None),
    "send, mapped": (annealed, lambda g: sum(map(g.send, [None])), None),
    "nditer": (lambda: np.nditer(np.arange(9.0)), lambda it: it[0].item(), np.nditer.iternext),
    "nditer, moved": (lambda: np.nditer(np.arange(9.0)), lambda it: it.iternext() + it[0], None),
    "flat": (lambda: np.arange(9.0).flat, lambda it: it.__next__(), None),
    "spawn": (lambda: np.random.SeedSequence(3), lambda s: s.spawn(1)[0].spawn_key[0], None),
    "spawn, to draw": (
        lambda: np.random.SeedSequence(3),
        lambda s: np.random.default_rng(s.spawn(1)[0]).random(),
        None,
    ),
    "spawn of a generator": (
        lambda: np.random.default_rng(3), lambda r: r.spawn(1)[0].random(), None
    ),
    "random_raw": (lambda: PCG(3), lambda b: b.random_raw() % 7, None),
    "given to a Generator": (lambda: PCG(3), lambda b: np.random.Generator(b).random(), None),
    "given to a RandomState": (lambda: MT(3), lambda b: np.random.RandomState(b).rand(), None),
    "get_state": (
        lambda: np.random.RandomState(3), lambda r: r.get_state()[2] % 7, np.random.RandomState.rand
    ),
    "get_state, of all": (lambda: None, lambda _: np.random.get_state()[2] % 7, draw_globally),
    "state": (
        lambda: np.random.default_rng(3),
        lambda r: r.bit_generator.state["state"]["state"] % 7,
        drawn,
    ),
    "frozen distribution": (
        lambda: seeded(scipy.stats.norm(1, 2)), lambda d: float(d.rvs()), None
    ),
    "pointer": (Pointed, lambda p: p.pointer.contents.value, move),
    "address": (Pointed, lambda p: ctypes.c_double.from_address(p.address).value, move),
}  # fmt: skip
#: What the call does with the number.
USES = {
    "factor": lambda x, n: x * float(n),
    "array": lambda x, n: x * np.array([n], "f"),
    "result": lambda x, n: (x * 2, float(n)),
    "branch": lambda x, n: x * 2 if n > 0.1 else x * 3,
}


def flat(result) -> np.ndarray:
    """All numbers of a result in one array."""
    if isinstance(result, tuple):
        return np.concatenate(list(map(flat, result)))
    return np.ravel(getattr(result, "array", result)).astype("f")


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("name", STATES)
def test_state_of_compiled_objects(name, use):
    make, read, between = STATES[name]

    def run(decorate):
        np.random.seed(0)
        state, found = make(), []
        function = decorate(lambda x: USES[use](x, read(state)))
        for i in range(6):
            found.append(flat(function(chainer.Variable(np.full((1, 3), i + 1, "f")))))
            if between is not None:
                between(state)
        return found, function

    want, _ = run(lambda f: f)
    got, static = run(lambda f: sdbr.static_graph(f, on_dynamic="fallback"))
    for i, (a, b) in enumerate(zip(got, want, strict=True)):
        assert_near(a, b, RESULTS, f"call {i}")
    assert static.schedule_manager.statistics.replays == 0


def test_options_of_texts():
    """They are compared where the text of an array is asked for."""
    third = np.array([1 / 3])
    function = sdbr.static_graph(lambda x: (x * 2, str(third)))
    for precision in (8, 8, 2, 2, 8, 2):
        with np.printoptions(precision=precision):
            assert function(batch(0))[1] == str(third)
    assert function.schedule_manager.statistics.replays >= 2


def test_a_file_of_numbers(tmp_path):
    function = sdbr.static_graph(lambda x: x * float(np.fromfile(tmp_path / "n")[0]))
    for i in range(4):
        np.array([i / 2]).tofile(tmp_path / "n")
        assert_near(function(batch(i)).array, batch(i).array * (i / 2), RESULTS, f"call {i}")


def test_initializers_draw_in_each_call():
    """First values of parameters are drawn once; who calls an initializer draws like others."""

    def function(x):
        z = np.zeros(3, "f")
        chainer.initializers.Uniform(1.0)(z)
        noise = chainer.initializers.generate_array(chainer.initializers.Normal(), (3,), np, "f")
        return x * z, float(noise[0])

    static = sdbr.static_graph(function)
    for i in range(6):
        np.random.seed(i)
        want = flat(function(batch(i)))
        np.random.seed(i)
        assert_near(flat(static(batch(i))), want, RESULTS, f"call {i}")
    assert static.schedule_manager.statistics.replays == 0


# --- compiled code by the way of a class or a method ----------------------------------------------
class Called:
    __call__ = staticmethod(scipy.linalg.norm)


class Partial(functools.partial):
    pass


class Computes:
    __matmul__ = staticmethod(np.ascontiguousarray)
    __call__ = staticmethod(functools.partial(scipy.linalg.norm))


CALL = scipy.linalg.norm.__call__
#: What an array of the call is given to.
WAYS = {
    "static method": lambda a: Called()(a),
    "partial in a class": lambda a: Computes()(a),
    "subclass of partial": lambda a: Partial(scipy.linalg.norm, a)(),
    "__call__, kept": lambda a: CALL(a),
    "__call__, written out": lambda a: scipy.linalg.norm.__call__(a),
    "__call__ of a partial": lambda a: functools.partial(scipy.linalg.norm, a).__call__(),
    "__call__ of the type": lambda a: types.FunctionType.__call__(scipy.linalg.norm, a=a),
    "bound to the array": lambda a: types.MethodType(scipy.linalg.norm, a)(),
}


def batch(i: int) -> chainer.Variable:
    return chainer.Variable(np.random.RandomState(i).randn(2, 3).astype("f"))


@pytest.mark.parametrize("name", WAYS)
def test_who_calls_compiled_code(name):
    def function(x):
        return F.tanh(x) * float(WAYS[name](x.array))

    static = sdbr.static_graph(function, on_dynamic="fallback")
    for i in range(6):
        assert_near(static(batch(i)).array, function(batch(i)).array, RESULTS, f"call {i}")
    assert static.schedule_manager.statistics.replays == 0


def test_slots_of_functions_written_out():
    """What they call is what is called: it is followed, or something stands for it."""
    asarray = np.ascontiguousarray
    kind = type(asarray)

    def function(x):
        y = F.tanh.__call__(x) * float(kind.__call__(asarray, x.array)[0, 0])
        return types.FunctionType.__call__(lambda z, k: z * k, y, k=float(x.array[0, 1]))

    static = sdbr.static_graph(function, on_dynamic="raise")
    for i in range(5):
        assert_near(static(batch(i)).array, function(batch(i)).array, RESULTS, f"call {i}")
    assert static.schedule_manager.statistics.replays == 4


def test_a_static_method_that_is_code_of_the_users():
    class Twice:
        __call__ = staticmethod(lambda x: F.relu(x) * 2)

    twice = Twice()
    static = sdbr.static_graph(lambda x: twice(x) + 1, on_dynamic="raise")
    for i in range(4):
        want = np.maximum(batch(i).array, 0) * 2 + 1
        assert_near(static(batch(i)).array, want, RESULTS, f"call {i}")
    assert static.schedule_manager.statistics.replays == 3


class Number:
    def __init__(self, a):
        self.a = a

    def value(self):
        return float(self.a[0, 0])

    __float__ = value


class Listed(Number):
    def __iter__(self):
        return iter(self.a[0].tolist())


class Mapped(Number):
    def __iter__(self):
        return map(float, self.a[0])


class Yielded(Number):
    def __iter__(self):
        for x in self.a[0]:
            yield float(x)


ASKED = {
    "float": lambda a: float(Number(a)),
    "math.exp": lambda a: math.exp(Number(a)),
    "np.float32": lambda a: np.float32(Number(a)),
    **{
        f"{name} {kind.__name__}": lambda a, take=take, kind=kind: take(kind(a))
        for name, take in {"fsum": math.fsum, "array": lambda o: array.array("d", o)[0]}.items()
        for kind in (Listed, Mapped, Yielded)
    },
}


@pytest.mark.parametrize("use", ["array", "number"])
@pytest.mark.parametrize("name", ASKED)
def test_methods_that_compiled_code_calls(name, use):
    """By whatever name the class has them, and what their iterators give."""

    def function(x):
        number = ASKED[name](x.array)
        return F.tanh(x) * (np.array([number], "f") if use == "array" else float(number))

    static = sdbr.static_graph(function, on_dynamic="fallback")
    for i in range(5):
        assert_near(static(batch(i)).array, function(batch(i)).array, RESULTS, f"call {i}")


@pytest.mark.parametrize("act", [F.tanh, functools.partial(F.leaky_relu, slope=0.1)])
def test_a_static_method_that_is_a_function_of_chainers(act):
    class Act:
        __call__ = staticmethod(act)

    activate = Act()
    static = sdbr.static_graph(lambda x: activate(x) + 1, on_dynamic="raise")
    for i in range(4):
        assert_near(static(batch(i)).array, act(batch(i)).array + 1, RESULTS, f"call {i}")
    assert static.schedule_manager.statistics.replays == 3
