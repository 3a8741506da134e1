"""Row 10: functions of NumPy, SciPy and `math` that code has by a name of its own, and those that
read arrays without asking them.

Nobody can patch a name in the user's module: the watch puts what is patched in its place where it
is called.
"""

from __future__ import annotations

import functools
import types
from time import perf_counter

import sdbr

import chainer
import numpy as np
import pytest
import scipy.interpolate
import scipy.linalg
import scipy.signal
import scipy.spatial.distance
import scipy.special
import scipy.stats
from chainer import functions as F
from numpy import argsort, array, asanyarray, asarray, ascontiguousarray, asfortranarray, require

from tests.harness.comparison import assert_near
from tests.tolerances import RESULTS

ones = np.ones
ROWS = np.ones((2, 3), "f")
IN_A_DICT = {"convert": np.asarray}


class Converts:
    convert = np.asarray
    static = staticmethod(np.array)

    def __init__(self):
        self.double = functools.partial(asarray, dtype="d")
        self.own = ascontiguousarray


CONVERTS = Converts()


def by_default(a, convert=np.array):
    return convert(a)


#: What they give is used as an array, as a number, and to decide.
NAMED = {
    "asarray": lambda a: asarray(a),
    "asarray, dtype": lambda a: asarray(a, dtype="d"),
    "array": lambda a: array(a),
    "asanyarray": lambda a: asanyarray(a),
    "ascontiguousarray": lambda a: ascontiguousarray(a),
    "asfortranarray": lambda a: asfortranarray(a),
    "require": lambda a: require(a, "f"),
    "argsort": lambda a: argsort(a, axis=1).astype("f") - 1,
    "ones": lambda a: ones((2, 3), "f") * a,
    "of a list": lambda a: asarray([a[0], a[1] * 2]),
    "of a class": lambda a: Converts.convert(a),
    "of an object": lambda a: CONVERTS.convert(a),
    "static method": lambda a: CONVERTS.static(a),
    "attribute": lambda a: CONVERTS.own(a),
    "partial": lambda a: CONVERTS.double(a),
    "in a dict": lambda a: IN_A_DICT["convert"](a),
    "default": lambda a: by_default(a),
    "starred": lambda a: asarray(*[a], dtype="f"),
    "mapped": lambda a: list(map(asarray, [a, a * 2]))[1],
}
USES = {
    "array": lambda x, found: F.tanh(x) * found.astype("f"),
    "number": lambda x, found: F.tanh(x) * float(found[0, 0]),
    "branch": lambda x, found: F.tanh(x) if found[0, 0] > 0 else F.exp(x),
}


def batch(i: int) -> chainer.Variable:
    return chainer.Variable(np.random.RandomState(i).randn(2, 3).astype("f"))


def check(function, n: int = 6):
    """The statistics of a static function whose results are those of define-by-run."""
    static = sdbr.static_graph(function, on_dynamic="fallback")
    for i in range(n):
        assert_near(static(batch(i)).array, function(batch(i)).array, RESULTS, f"call {i}")
    return static.schedule_manager


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("name", NAMED)
def test_what_is_patched_is_so_by_any_name(name, use):
    statistics = check(lambda x: USES[use](x, NAMED[name](x.array))).statistics
    assert statistics.replays >= 3 and statistics.define_by_run_calls == 0


def test_a_clock_by_a_name_of_its_own():
    manager = check(lambda x: F.tanh(x) * (perf_counter() > 0))
    assert manager.statistics.replays == 0
    assert "perf_counter" in str(sdbr.explain(manager))


#: Compiled code, and Python code of libraries that calls some, which takes arrays as they are.
UNASKED = {
    "np.nditer": lambda a: sum(float(v) for v in np.nditer(a)),
    "np.broadcast": lambda a: sum(float(v) * float(w) for v, w in np.broadcast(a[0], ROWS)),
    "np.ndenumerate": lambda a: sum(float(v) for _, v in np.ndenumerate(a)),
    "np.poly1d": lambda a: float(np.poly1d(a[0])(0.5)),
    "np.asarray_chkfinite": lambda a: float(np.asarray_chkfinite(a)[0, 0]),
    "np.ma": lambda a: float(np.ma.masked_where(a > 0, a).sum()),
    "scipy.linalg.det": lambda a: float(scipy.linalg.det(a[:, :2])),
    "scipy.linalg.norm": lambda a: float(scipy.linalg.norm(a)),
    "scipy.linalg.norm, mapped": lambda a: sum(map(scipy.linalg.norm, a)),
    "scipy.spatial": lambda a: float(scipy.spatial.distance.cdist(a, a)[0, 1]),
    "scipy.interpolate": lambda a: float(scipy.interpolate.interp1d([0.0, 1, 2], a[0])(0.5)),
    "scipy.stats": lambda a: float(scipy.stats.gaussian_kde(a[0])(0.0)[0]),
}


@pytest.mark.parametrize("name", UNASKED)
def test_what_asks_no_array(name):
    manager = check(lambda x: F.tanh(x) * UNASKED[name](x.array))
    assert (manager.statistics.replays, manager.statistics.define_by_run_calls) == (0, 5)
    assert "cannot be seen into" in str(sdbr.explain(manager))


def checked(a):
    np.testing.assert_allclose(a, a + 0)
    return a


#: Python code of NumPy's that does all by functions which ask.
ASKING = {
    "np.polynomial": lambda a: np.polynomial.polynomial.polyval(0.5, a[0]),
    "Polynomial": lambda a: np.polynomial.Polynomial(a[0])(0.5),
    "Polynomial outside": lambda a: CUBE(a)[0, 0],
    "np.testing": lambda a: checked(a)[0, 0],
}
CUBE = np.polynomial.Polynomial([0, 1, 0, 2])


@pytest.mark.parametrize("name", ASKING)
def test_python_code_that_asks(name):
    statistics = check(lambda x: F.tanh(x) * float(ASKING[name](x.array))).statistics
    assert statistics.replays >= 3 and statistics.define_by_run_calls == 0


def test_a_check_that_fails():
    def function(x):
        np.testing.assert_array_less(x.array, 5)
        return x * 2

    static = sdbr.static_graph(function, on_dynamic="raise")
    for i in range(4):
        static(batch(i))
    with pytest.raises(AssertionError, match="ordered"):
        static(chainer.Variable(np.full((2, 3), 7, "f")))
    assert static.schedule_manager.statistics.replays >= 2


#: Functions of Chainer's that hand out the array of a Variable, and one of NumPy's.
HANDED_OUT = {
    "as_array": lambda x: chainer.as_array(x),
    "as_array of a result": lambda x: chainer.as_array(F.tanh(x)),
    "as_array, mapped": lambda x: next(map(chainer.as_array, [x])),
    "max_pooling_2d": lambda x: F.max_pooling_2d(x[None, None], 2, return_indices=True)[1][0, 0],
    "of a number": lambda x: ascontiguousarray(x.array[0, 0])[None],
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("name", HANDED_OUT)
def test_an_array_that_a_library_hands_out(name, use):
    if (name, use) == ("max_pooling_2d", "array"):
        pytest.skip("of another shape")
    statistics = check(lambda x: USES[use](x, HANDED_OUT[name](x))).statistics
    assert statistics.replays >= 3 and statistics.define_by_run_calls == 0


SHARES = np.array([0.2, 0.3, 0.5])


def draws(rng):
    """What draws from a generator by names of one's own, or gives it arrays from outside."""
    draw, kept = rng.normal, types.SimpleNamespace(draw=rng.normal)
    return {
        "by a name": lambda: float(draw(SHARES * 1).sum()),
        "of a part": lambda: float(draw(SHARES[0])),
        "attribute": lambda: float(kept.draw(SHARES * 1).sum()),
        "mapped": lambda: float(sum(map(draw, SHARES))),
        "choice": lambda: float(rng.choice(3, p=SHARES)),
        "choice of a list": lambda: float(rng.choice([1, 2, 3], p=SHARES / 1)),
        "scipy": lambda: float(scipy.stats.norm.rvs(random_state=rng)),
    }


@pytest.mark.parametrize("make", [np.random.RandomState, np.random.default_rng])
@pytest.mark.parametrize("name", draws(np.random))
def test_a_generator_of_its_own(name, make):
    """Compiled code of NumPy's gets arrays of NumPy's own, and each call its own draws."""
    mine, theirs = (draws(make(3))[name] for _ in range(2))
    static = sdbr.static_graph(lambda x: F.tanh(x) * mine(), on_dynamic="fallback")
    for i in range(5):
        want = F.tanh(batch(i)).array * np.float32(theirs())
        assert_near(static(batch(i)).array, want, RESULTS, f"call {i}")
    assert static.schedule_manager.statistics.replays == 0


def test_a_masked_array_is_returned_as_one():
    static = sdbr.static_graph(lambda x: (x * 2, np.ma.zeros(3)), on_dynamic="fallback")
    assert {type(static(batch(i))[1]) for i in range(4)} == {np.ma.MaskedArray}


#: What is made of a Parameter that shows an array outside.
MADE = {
    "product": lambda p, x: x * p,
    "sum": lambda p, x: F.sum(p) * F.sum(x),
    "array": lambda p, x: F.tanh(x) + p.array * 2,
    "number": lambda p, x: x * float(p.array[0]),
}


@pytest.mark.parametrize("name", MADE)
def test_a_parameter_made_of_an_array_outside(name):
    """It is another in each call; the array lies where it lay, or another does."""
    holder = types.SimpleNamespace(array=np.ones(3, "f"))

    def function(x):
        return MADE[name](chainer.Parameter(holder.array), x)

    static = sdbr.static_graph(function, on_dynamic="fallback")
    for i in range(8):
        holder.array = np.full(3, i, "f") if i > 3 else holder.array * 2
        assert_near(static(batch(i)).array, function(batch(i)).array, RESULTS, f"call {i}")


#: Of arrays that nobody has made in the call, what they read is compared.
KEPT = np.array([1.0, 2.0, 3.0], "f")
OUTSIDE = {
    "np.broadcast": lambda: sum(float(v) for v, _ in np.broadcast(KEPT, ROWS)),
    "np.poly1d": lambda: float(np.poly1d(KEPT)(0.5)),
    "scipy.linalg.norm": lambda: float(scipy.linalg.norm(KEPT)),
    "scipy.special": lambda: float(scipy.special.expit(KEPT)[0]),
    "scipy.interpolate": lambda: float(scipy.interpolate.CubicSpline([0.0, 1, 2], KEPT)(1.5)),
    "scipy.signal": lambda: float(abs(scipy.signal.residuez(KEPT, [1.0, 2.0])[0][0])),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_an_array_outside_that_is_given_to_such_code(name):
    def function(x):
        return F.tanh(x) * OUTSIDE[name]()

    static = sdbr.static_graph(function, on_dynamic="raise")
    for i in range(10):
        KEPT[:] = [1, 2, 3 + i // 5]
        assert_near(static(batch(i)).array, function(batch(i)).array, RESULTS, f"call {i}")
    assert static.schedule_manager.statistics.replays >= 3
