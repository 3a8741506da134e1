"""Row 10: what leaves by other ways than NumPy's calls is noticed, and told with its line."""

from __future__ import annotations

import collections
import functools
import hashlib
import pickle
import warnings

import sdbr
from sdbr.trace.arrays._exports import was_exported
from sdbr.trace.arrays.provenance import TracedArray
from sdbr.trace.arrays.stripping import is_traced
from sdbr.trace.arrays.wrapping import wrap
from sdbr.trace.code.foreign import foreign_caller, is_foreign, is_users
from sdbr.trace.values import Value

import chainer
import numpy as np
import pytest
from chainer import functions as F

from tests.tolerances import GRADIENTS, RESULTS, SUMS

RNG = np.random.RandomState(3)
XS = [RNG.randn(5, 4).astype("f") for _ in range(6)]
ZEROS = np.zeros((5, 4), "f")


def static(f, **options):
    return sdbr.static_graph(f, **options)


def value_of(array):
    return Value(0, "argument", array.shape, array.dtype, False, 0, False)


# --- the classes that stand for arrays ----------------------------------------------------------
def test_every_attribute_of_an_array_is_recorded_noticed_or_harmless():
    """What a later NumPy adds to arrays is noticed as well."""
    from sdbr.trace.arrays.provenance import _HARMLESS, OPERATORS

    operators = {f"__{part}{name}__" for name in OPERATORS for part in ("", "r", "i")}
    own = set(dir(np.ndarray)) - set(dir(object)) - _HARMLESS - operators
    assert own <= set(vars(TracedArray))


@pytest.mark.parametrize("kind", ["f", "d", "e", "i", "q", "?", "D"])
def test_a_scalar_says_what_it_stands_for(kind):
    plain = np.array(1, kind)
    value = value_of(plain)
    value.is_scalar = True
    scalar = wrap(plain, value)
    assert is_traced(scalar)
    assert isinstance(scalar, plain.dtype.type)
    assert isinstance(scalar, float) == (kind == "d")
    assert not isinstance(scalar, np.ndarray)
    assert np.isscalar(scalar)
    assert scalar.__class__ is plain.dtype.type
    assert (scalar + 1).dtype == (plain[()] + 1).dtype
    assert type(type(scalar)(2)) is plain.dtype.type
    value.is_scalar = False
    assert isinstance(wrap(plain, value), np.ndarray)


def test_memory_that_was_taken_is_noticed():
    x = np.zeros(3)
    assert not was_exported(x)
    hashlib.sha1(x)
    assert was_exported(x)


def test_packages_with_compiled_modules_are_not_followed():
    import scipy.ndimage  # noqa: F401

    assert is_foreign("scipy.ndimage._filters")
    assert not is_foreign("numpy.lib")
    assert not is_foreign(__name__)
    assert is_users(__name__)
    assert not is_users("statistics")


def test_a_frame_of_the_users_is_not_foreign():
    import sys

    assert foreign_caller(sys._getframe()) is None


# --- what counts as a constant ------------------------------------------------------------------


def test_what_arguments_pick_from_nowhere_is_picked_by_replays():
    table = pickle.dumps(np.array([1, 2, 1, 2, 3]))
    f = static(lambda t: pickle.loads(table)[t] * 2)
    for k in (0, 2, 1, 3, 4, 0):  # the first two find the same
        np.testing.assert_array_equal(f(np.array([k])), pickle.loads(table)[[k]] * 2)
    assert f.schedule_manager.statistics.replays == 5


def test_an_array_in_a_list_of_a_partial_that_compiled_code_calls():
    def f(x):
        smallest = functools.partial(np.min, [x, ZEROS], axis=0)
        return F.relu(x) * collections.defaultdict(smallest)["x"]

    s = static(f)
    for x in XS:
        np.testing.assert_allclose(s(x).array, f(x).array, rtol=RESULTS)
    assert s.schedule_manager.statistics.replays == 5


MATRIX = pickle.dumps(np.zeros((1, 2)).view(np.matrix))


def test_a_matrix_that_the_call_keeps_is_dynamic():
    class Net(chainer.Chain):
        def forward(self, x):
            self.kept = pickle.loads(MATRIX)
            return F.relu(x)

    net = static(Net())
    with pytest.warns(sdbr.SdbrWarning, match="matrix"):
        for x in XS:
            net(x)
            assert type(net.kept) is np.matrix


@pytest.mark.parametrize("text", [str, repr, "{}".format, lambda x: f"{x}"])
@pytest.mark.parametrize("what", ["array", "Variable"])
def test_a_text_of_an_array_leaves(what, text):
    def f(x):
        h = F.relu(x)
        n = len(text(h.array if what == "array" else h).replace("0", ""))
        return h * np.float32(n)

    s = static(f)
    with pytest.warns(sdbr.SdbrWarning, match=r"str\(\)"):
        for x in XS:
            np.testing.assert_allclose(s(x).array, f(x).array, rtol=RESULTS)


def test_a_literal_indexed_by_an_argument_is_recorded():
    f = static(lambda t: np.array([0.5, 1.0, 4.0], "f")[t] * 2, on_dynamic="raise")
    for t in ([0, 1], [0, 1], [2, 2], [1, 0]):
        want = np.array([0.5, 1.0, 4.0], "f")[t] * 2
        np.testing.assert_array_equal(f(np.array(t)), want)
    assert f.schedule_manager.statistics.replays == 3


# --- what is static, natively -------------------------------------------------------------------
OPERATORS = {
    "h * s": lambda h, s: h * s,
    "h + s": lambda h, s: s + h,
    "s - h": lambda h, s: s - h,
    "s / h": lambda h, s: s / h,
    "h / s": lambda h, s: h / s,
    "h ** s": lambda h, s: h**s,
}


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("dtype", ["f", "d"])
def test_a_numpy_scalar_of_the_call_in_an_operator(name, dtype):
    operator = OPERATORS[name]

    def f(x):
        return F.sum(operator(F.exp(x), x.array.max() + np.float32(1)))

    call = static(f, on_dynamic="raise")
    for data in XS:
        x, y = chainer.Variable(data.astype(dtype)), chainer.Variable(data.astype(dtype))
        got, want = call(x), f(y)
        got.backward()
        want.backward()
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got.array, want.array, rtol=RESULTS)
        np.testing.assert_allclose(x.grad, y.grad, rtol=GRADIENTS)
    statistics = call.schedule_manager.statistics
    assert (statistics.replays, statistics.python_ops) == (5, 0)


def test_containers_that_numpy_takes_for_lists():
    def f(x):
        rows = collections.deque(x, maxlen=3)
        return np.stack(rows) + np.array(collections.UserList([rows[0], rows[2], rows[1]]))

    call = static(f, on_dynamic="raise")
    for x in XS:
        np.testing.assert_array_equal(call(x), f(x))
    assert call.schedule_manager.statistics.replays == 5


# --- what user code keeps -----------------------------------------------------------------------
class Slots:
    __slots__ = ("array",)


def test_what_the_call_keeps_is_plain_afterwards():
    kept: dict = {
        "deque": collections.deque(),
        "list": [],
        "dict": {},
        "tuple": [],
        "slot": Slots(),
    }

    class Holder:
        pass

    cell = None

    def f(x):
        nonlocal cell
        kept["deque"].append(x)
        kept["list"].append(x.max())
        kept["dict"]["x"] = x[0]
        kept["tuple"].append((1, (x[1], x)))
        kept["slot"].array = x
        Holder.x = x
        Holder.one = Holder()
        Holder.one.x = x[2]
        cell = x[3]
        return x + 1

    static(f)(XS[0])
    x = XS[0]
    things = [
        (kept["deque"][0], x), (kept["dict"]["x"], x[0]), (kept["tuple"][0][1][0], x[1]),
        (kept["tuple"][0][1][1], x), (kept["slot"].array, x), (Holder.x, x),
        (Holder.one.x, x[2]), (cell, x[3]),
    ]  # fmt: skip
    for thing, want in things:
        assert type(thing) is np.ndarray
        assert thing.flags.aligned
        np.testing.assert_array_equal(thing, want)
    assert type(kept["list"][0]) is np.float32


def test_one_array_is_one_object():
    def f(x):
        y = F.relu(x)
        same = y.array is y.array and y.data is y.array and x.array is x.array
        return y * (2.0 if same else 1.0)

    call = static(f, on_dynamic="raise")
    for data in XS[:3]:
        np.testing.assert_array_equal(call(chainer.Variable(data)).array, 2 * np.maximum(data, 0))


def test_asking_for_types_leaves_nothing_behind():
    def f(x):
        same = type(x) is np.ndarray and type(x.sum()) is np.float32 and type(np.ndarray) is type
        made = type("Made", (), {})
        return x + (1 if same and isinstance(made, type) and type(made()) is made else 2)

    call = static(f, on_dynamic="raise")
    for x in XS[:3]:
        np.testing.assert_array_equal(call(x), x + 1)
    assert "type" not in globals()
    assert "memoryview" not in globals()
    assert call.schedule_manager.statistics.replays == 2


# --- the line that is told ----------------------------------------------------------------------
def test_the_line_is_the_users_not_that_of_the_library():
    import statistics

    from scipy.spatial import distance

    for f in (
        lambda x: x * statistics.mean([x.max(), x.min()]),
        lambda x: x * distance.pdist(x).max(),
        lambda x: x * np.frombuffer(bytes(x), "f")[0],
    ):
        with pytest.warns(sdbr.SdbrWarning, match="test_leaving.py"):
            static(f)(XS[0])


# --- NumPy scalars on function nodes ------------------------------------------------------------
def traces_of(f):
    s = static(f)
    for x in XS:
        np.testing.assert_allclose(s(x).array, f(x).array, rtol=RESULTS)
    return s.schedule_manager.statistics.traces, s.schedule_manager.statistics.replays


def test_numbers_that_the_code_spells_out():
    assert traces_of(lambda x: F.relu(x) * np.float32(0.1) - np.int64(-3)) == (1, 5)
    assert traces_of(lambda x: (1 - F.sigmoid(x)) * x.dtype.type(2)) == (1, 5)


def test_numbers_that_chainer_computes_of_nothing():
    def cauchy(x):
        return chainer.distributions.Cauchy(loc=F.relu(x), scale=F.exp(x)).log_prob(x)

    assert traces_of(cauchy) == (1, 5)


def test_what_chainer_makes_of_a_number_in_a_gradient_is_dynamic():
    """Of the third order: the second has ``s - 1`` on its node, which nobody has seen computed."""

    def f(x):
        y = F.absolute(x) ** abs(x.array).max()
        for double in (True, True, False):
            (g,) = chainer.grad([F.sum(y)], [x], enable_double_backprop=double)
            y = g * g
        return g

    s = static(f)
    for data in XS:
        want = f(chainer.Variable(data)).array
        np.testing.assert_allclose(s(chainer.Variable(data)).array, want, rtol=GRADIENTS)
    assert s.schedule_manager.statistics.replays == 0


@pytest.mark.parametrize("operator", ["*", "/", "-", "**"])
def test_gradients_inside_the_call_take_numbers_that_the_call_computes(operator):
    def f(x):
        x = chainer.Variable(abs(x) + 0.5)
        number = x.array[1:].sum()
        y = {
            "*": lambda: x * number,
            "/": lambda: number / x,
            "-": lambda: number - x,
            "**": lambda: x ** (number / 10),
        }[operator]()
        (g,) = chainer.grad([F.sum(y * y)], [x], enable_double_backprop=True)
        return F.sum(g * g) + F.sum(y)

    s = static(f)
    for x in XS:
        np.testing.assert_allclose(s(x).array, f(x).array, rtol=SUMS)
    assert s.schedule_manager.statistics.replays >= 4


SMALL = np.random.RandomState(0).randn(3, 2).astype("f")
BATCHES = [np.random.RandomState(k).randint(0, 4, 3).astype("i") for k in (0, 0, 1, 2, 3)]


@pytest.mark.parametrize(
    "use",
    [
        lambda t: {"a0": 1.0, "a1": 2.0, "a2": 3.0, "a3": 4.0}[f"a{t[0]}"],
        lambda t: float(str(t[0])),
        lambda t: {0: 1.0, 1: 2.0}.get(t[0], 3.0),
        lambda t: 1.0 if t[0] in {0, 1} else 2.0,
        lambda t: round(t[0] * 1.5, 1),
        lambda t: np.repeat(t, t).sum(),
        lambda t: np.split(t, [t[0]])[0].sum(),
    ],
)
def test_values_that_decide_in_python(use):
    f = lambda x, t: F.relu(x) * np.float32(use(t))  # noqa: E731
    static = sdbr.static_graph(f)
    with pytest.warns(sdbr.SdbrWarning, match="is not static"):
        for t in BATCHES:
            np.testing.assert_array_equal(static(SMALL, t).array, f(SMALL, t).array)


@pytest.mark.parametrize("kind", [int, float])
def test_a_number_of_an_array_with_dimensions(kind):
    """NumPy says whether it may be made: by now it raises."""

    def function(x):
        return x * kind(x.array[0] if kind is float else (x.array[0] > 0).astype("i"))

    static = sdbr.static_graph(function, on_dynamic="fallback")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        for i in range(3):
            x = chainer.Variable(np.full((1, 1), i - 1.5, "f"))
            found = []
            for call in (function, static):
                try:
                    found.append(float(call(x).array[0, 0]))
                except TypeError as error:
                    found.append(str(error))
            assert found[0] == found[1]
