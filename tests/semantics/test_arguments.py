"""Row 13: what may be an argument or a result, and that containers and numbers keep their types."""

from __future__ import annotations

import collections
import copy
import dataclasses
import datetime
import decimal
import enum
import fractions
import pathlib
import types
import warnings
from typing import NamedTuple

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.comparison import BACKENDS, assert_near, check, structure_of
from tests.harness.models import Net, floats
from tests.harness.twins import X, pair
from tests.tolerances import RESULTS, ROUNDINGS


class Batch(NamedTuple):
    x: object
    n: object = 1


def linear(forward):
    return lambda: Net(forward, l=L.Linear(4, 3))


def deep(x, n):
    for i in range(n):
        x = [x] if i % 3 == 0 else (x,) if i % 3 == 1 else {"k": x}
    return x


def undeep(x):
    while isinstance(x, (list, tuple, dict)):
        x = x["k"] if isinstance(x, dict) else x[0]
    return x


# --- arguments ----------------------------------------------------------------------------------
def x(rng):
    return floats(5, 4)(rng)


ARGUMENTS = {
    "list": (lambda self, a: self.l(a[0] + a[1]), lambda r: ([x(r), x(r)],)),
    "tuple": (lambda self, a: self.l(a[0] + a[1]), lambda r: ((x(r), x(r)),)),
    "dict": (lambda self, a: self.l(a["p"] * a["q"]), lambda r: ({"p": x(r), "q": x(r)},)),
    "ordered dict": (
        lambda self, a: self.l(next(iter(a.values())) * 2 + a["p"]),
        lambda r: (collections.OrderedDict(q=x(r), p=x(r)),),
    ),
    "default dict": (
        lambda self, a: self.l(a["p"] + len(a["nothing"])),
        lambda r: (collections.defaultdict(list, p=x(r)),),
    ),
    "named tuple": (lambda self, a: self.l(a.x) * a.n, lambda r: (Batch(x(r), 3),)),
    "nested": (
        lambda self, a: self.l(a["b"][0][1].x) + self.l(a["b"][1]["c"]),
        lambda r: ({"b": [(1, Batch(x(r))), {"c": chainer.Variable(x(r))}]},),
    ),
    "fifty deep": (lambda self, a: self.l(undeep(a)), lambda r: (deep(x(r), 50),)),
    "keywords": (
        lambda self, *, a, b, mode="on": self.l(a if mode == "on" else b),
        lambda r: [(), {"b": x(r), "a": x(r), "mode": "off"}],
    ),
    "static arguments": (
        lambda self, a, *s, **k: self.l(a) * s[0] + (k["flag"] is None) + len(k["name"]),
        lambda r: [(x(r), 2, True), {"flag": None, "name": "four", "list": ["a", 1, None]}],
    ),
    "a function and a dtype": (
        lambda self, a, f, dtype, part: f(self.l(a.astype(dtype)[part])),
        lambda r: (x(r), F.relu, np.float32, slice(1, 3)),
    ),
    "empty containers": (
        lambda self, a, b, c, d: self.l(a) + len(b) + len(c) + len(d),
        lambda r: (x(r), [], {}, ()),
    ),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments_of_any_depth(name, backend):
    forward, data = ARGUMENTS[name]
    check(linear(forward), data, backend=backend)


def test_the_traced_code_sees_the_types_that_were_passed():
    def forward(self, a):
        assert [type(a), type(a["t"]), list(a)] == [collections.OrderedDict, Batch, ["z", "t", "b"]]
        assert a["t"].n is collections.deque
        return self.l(a["t"][0])

    _, static = pair(linear(forward))
    a = collections.OrderedDict(z=1, t=Batch(X, collections.deque), b=[2])
    for _ in range(3):
        static(a)
    assert static.schedule_manager.statistics.replays == 2


def test_containers_are_never_written():
    static = sdbr.static_graph(lambda a: a["x"][0] * 2)
    x0 = chainer.Variable(X)
    inner = [x0]
    a = {"x": inner}
    for _ in range(3):
        static(a)
        assert a == {"x": inner}
        assert inner[0] is x0


@pytest.mark.filterwarnings("ignore::sdbr.SdbrWarning")
def test_structure_is_part_of_the_key():
    static = sdbr.static_graph(lambda a: sum(a.values() if isinstance(a, dict) else a))
    v = chainer.Variable(X)
    forms = [[v], (v,), [v, v], {"a": v}, {"b": v}, Batch(v), collections.OrderedDict(a=v)]
    for _ in range(2):
        for form in forms:
            static(form)
    assert static.schedule_manager.statistics.traces == len(forms)
    assert static.schedule_manager.statistics.replays == len(forms)


def cyclic():
    a = [X]
    a.append(a)
    return a


def cyclic_dict():
    a = {"x": X}
    a["self"] = (a,)
    return a


BAD = {
    "a set": ({1, 2}, "set"),
    "a generator": ((i for i in range(3)), "generator"),
    "an object": (types.SimpleNamespace(x=X), "SimpleNamespace"),
    "an object inside": ({"k": [types.SimpleNamespace(x=X)]}, "SimpleNamespace"),
    "a cycle": (cyclic(), "cycle"),
    "a cycle of dicts": (cyclic_dict(), "cycle"),
    "a thousand deep": (deep(X, 1000), "nested more than"),
    "a file": (open(__file__), "TextIOWrapper"),  # noqa: SIM115
}


@pytest.mark.parametrize("keyword", [False, True])
@pytest.mark.parametrize("name", BAD)
def test_other_arguments_are_errors_that_name_them(name, keyword):
    thing, text = BAD[name]
    static = sdbr.static_graph(lambda x, other=None: F.relu(x), on_dynamic="raise")
    static(X)
    with pytest.raises(sdbr.TraceError) as caught:
        static(X, other=thing) if keyword else static(X, thing)
    message = str(caught.value)
    assert ("argument 'other'" if keyword else "argument 1") in message
    assert text in message
    assert len(message) < 1000
    if text not in ("cycle", "nested more than"):
        assert "expected a Variable, an array" in message
    static(X)
    assert static.schedule_manager.statistics.replays >= 1


@pytest.mark.parametrize("keyword", [False, True])
@pytest.mark.parametrize("name", BAD)
def test_calls_with_other_arguments_run_define_by_run(name, keyword):
    """One warning that names the argument; the other calls are as static as before."""
    thing, text = BAD[name]
    got = []
    static = sdbr.static_graph(lambda x, other=None: got.append(other) or F.relu(x))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(3):
            y = static(X, other=thing) if keyword else static(X, thing)
            np.testing.assert_array_equal(y.array, np.maximum(X, 0))
    assert len(got) == 3 and all(x is thing for x in got)
    [message] = [str(w.message) for w in told if issubclass(w.category, sdbr.SdbrWarning)]
    assert ("argument 'other'" if keyword else "argument 1") in message and text in message
    assert static.schedule_manager.statistics.define_by_run_calls == 3
    assert ("argument 'other'" if keyword else "argument 1") in str(sdbr.explain(static))


def test_a_result_of_another_kind_runs_define_by_run():
    static = sdbr.static_graph(lambda x: {"y": {1, 2}, "z": x * 2})
    with pytest.warns(sdbr.SdbrWarning, match=r"the result\['y'\] is of type builtins.set"):
        assert static(X)["y"] == {1, 2}
    for k in range(3):
        found = static(X + k)
        assert found["y"] == {1, 2} and np.array_equal(found["z"], 2 * (X + k))
    static = sdbr.static_graph(lambda x: {"y": {1, 2}}, on_dynamic="raise")
    with pytest.raises(sdbr.NotStaticError, match=r"the result\['y'\] is of type builtins.set"):
        static(X)


@dataclasses.dataclass
class Pack:
    """What people put results into."""

    first: object
    more: dict


def test_arrays_in_a_result_of_another_kind_are_plain():
    static = sdbr.static_graph(lambda x: Pack(F.relu(x), {"a": [x.array * 3, 2 * x.array.sum()]}))
    with pytest.warns(sdbr.SdbrWarning, match="Pack, which cannot be traced"):
        found = [static(chainer.Variable(X + k)) for k in range(3)]
    for k, pack in enumerate(found):
        tripled, total = pack.more["a"]
        assert type(pack.first.array) is type(tripled) is np.ndarray
        assert type(total) is type(2 * np.float32(1))
        np.testing.assert_array_equal(pack.first.array, np.maximum(X + k, 0))
        np.testing.assert_array_equal(tripled, 3 * (X + k))
        assert total == 2 * (X + k).sum()


class Mode(enum.Enum):
    DOUBLE, TRIPLE = "double", "triple"


CONSTANTS = {
    "members of an enumeration": (Mode.DOUBLE, Mode.TRIPLE),
    "ranges": (range(2), range(1, 3)),
    "equal ranges": (range(0, 3, 2), range(0, 4, 2)),
    "frozen sets": (frozenset({1}), frozenset({2})),
    "equal frozen sets": (frozenset({1}), frozenset({True})),
    "paths": (pathlib.PurePosixPath("a"), pathlib.PurePosixPath("b")),
    "equal paths": (pathlib.PureWindowsPath("a"), pathlib.PureWindowsPath("A")),
    "decimals": (decimal.Decimal("1.5"), decimal.Decimal("1.50")),
    "fractions": (fractions.Fraction(1, 2), fractions.Fraction(1, 3)),
    "times": (datetime.timedelta(1), datetime.timedelta(2)),
    "days": (datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 1)),
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_constants_are_compared_by_value(name):
    one, other = CONSTANTS[name]
    text = repr(one)
    static = sdbr.static_graph(
        lambda x, c: (x * (2 if repr(c) == text else 3), c, [c]), on_dynamic="raise"
    )
    for k in range(4):
        for c, factor in ((one, 2), (other, 3)):
            y, again, [inside] = static(chainer.Variable(X + k), copy.deepcopy(c))
            np.testing.assert_array_equal(y.array, factor * (X + k))
            assert repr(again) == repr(inside) == repr(c) and type(again) is type(c)
    statistics = static.schedule_manager.statistics
    assert statistics.traces == 2 and statistics.replays == 6


class Weight(enum.Enum):
    ONE = 1


class Span(datetime.timedelta):
    """One of a user's, with more in it than its text tells."""


class Listed(enum.Enum):
    FEW = [2.0]  # noqa: RUF012


@pytest.mark.parametrize("thing", [Weight.ONE, Span(1)], ids=["member", "class of a user"])
def test_attributes_of_constants_are_seen(thing):
    static = sdbr.static_graph(lambda x, c: x * c.factor)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sdbr.SdbrWarning)
        for factor in (2.0, 2.0, 3.0, 3.0, 2.0, 5.0):
            thing.factor = factor
            y = static(chainer.Variable(X), thing)
            np.testing.assert_array_equal(y.array, np.float32(factor) * X)
    assert (static.schedule_manager.statistics.replays > 0) == isinstance(thing, Weight)


def test_a_member_whose_value_may_change_is_no_constant():
    static = sdbr.static_graph(lambda x, c: x * c.value[0])
    with pytest.warns(sdbr.SdbrWarning, match="Listed, which cannot be traced"):
        for factor in (2.0, 2.0, 3.0, 3.0):
            Listed.FEW.value[0] = factor
            y = static(chainer.Variable(X), Listed.FEW)
            np.testing.assert_array_equal(y.array, np.float32(factor) * X)


def test_devices_as_arguments():
    static = sdbr.static_graph(
        lambda x, device: (device.send(x.array) * 2, device.name), on_dynamic="raise"
    )
    for k in range(4):
        y, name = static(chainer.Variable(X + k), chainer.get_device("@numpy"))
        np.testing.assert_array_equal(y, 2 * (X + k))
        assert name == "@numpy"
    assert static.schedule_manager.statistics.replays == 3


# --- results ------------------------------------------------------------------------------------
GIVEN_BACK = {
    "list": lambda y: [y, y * 2],
    "tuple": lambda y: (y, None, 3),
    "dict in its order": lambda y: {"z": y, "a": y * 2, "m": "text"},
    "ordered dict": lambda y: collections.OrderedDict(z=y, a=[y + 1]),
    "default dict": lambda y: collections.defaultdict(list, z=y),
    "named tuple": lambda y: Batch(y, (y * 2, True)),
    "nested": lambda y: {"a": [(y, {"b": Batch(y + 1)})], "c": ()},
    "None": lambda y: (None, [None, y]),
    "the same twice": lambda y: [y, y],
    "arrays": lambda y: [y.array, y.array * 2],
    "numbers": lambda y: (y, 1, 2.5, True, "s"),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("backprop", [True, False])
@pytest.mark.parametrize("name", GIVEN_BACK)
def test_results_keep_their_types(name, backprop, backend):
    plain, static = pair(
        linear(lambda self, x: GIVEN_BACK[name](F.relu(self.l(x)))), backend=backend
    )
    with chainer.using_config("enable_backprop", backprop):
        for i in range(5):
            got, want = static(X + i), plain(X + i)
            assert structure_of(got) == structure_of(want)
    if name == "the same twice":
        assert got[0] is got[1]
    assert static.schedule_manager.statistics.replays >= 3


def test_a_result_container_is_a_new_one_in_every_call():
    static = sdbr.static_graph(lambda x: {"y": [F.relu(x)]})
    results = [static(X) for _ in range(4)]
    results[0]["y"].append(1)
    assert all(len(r["y"]) == 1 for r in [*results[1:], static(X)])
    assert len({id(r["y"]) for r in results}) == 4


# --- NumPy scalars ------------------------------------------------------------------------------
SCALARS = {
    "sum": lambda y: y.array.sum(),
    "mean in float64": lambda y: y.array.mean(dtype="d"),
    "largest index": lambda y: y.array.argmax(),
    "comparison": lambda y: (y.array > 0).all(),
    "element": lambda y: y.array[0, 1],
    "arithmetic": lambda y: y.array.sum() * 2 + 1,
    "NumPy function": lambda y: np.sqrt(np.abs(y.array).max()),
    "NumPy array of one": lambda y: np.asarray(y.array.sum()),
    "array without dimensions": lambda y: F.sum(y).array,
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("backprop", [True, False])
@pytest.mark.parametrize("name", SCALARS)
def test_numpy_scalars_stay_what_they_are(name, backprop, backend):
    function = SCALARS[name]

    def forward(self, x):
        y = self.l(x)
        self.kept = function(y)
        chainer.report({"value": function(y)}, self)
        return y, function(y)

    models = pair(linear(forward), backend=backend)
    reporters = []
    for model in models:
        reporters.append(chainer.Reporter())
        reporters[-1].add_observer("m", model)
    with chainer.using_config("enable_backprop", backprop):
        for i in range(5):
            found = []
            for model, reporter in zip(models, reporters, strict=True):
                observation = {}
                with reporter.scope(observation):
                    found.append([model(X + i)[1], model.kept, observation["m/value"]])
            for got, want in zip(found[1], found[0], strict=True):
                assert type(got) is type(want), name
                np.testing.assert_allclose(got, want, RESULTS)
    statistics = models[1].schedule_manager.statistics
    assert (statistics.traces, statistics.replays) == (1, 4)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_running_mean_kept_as_a_numpy_scalar(backend):
    """State that is a NumPy scalar: read and assigned in every call."""

    def forward(self, x):
        y = self.l(x)
        self.mean = 0.9 * self.mean + 0.1 * y.array.mean()
        return y - self.mean

    plain, static = pair(linear(forward), backend=backend)
    plain.mean = static.mean = 0.0
    for i in range(8):
        assert_near(static(X + i).array, plain(X + i).array, RESULTS, "output")
        assert type(static.mean) is type(plain.mean)
        np.testing.assert_allclose(static.mean, plain.mean, RESULTS)
    assert static.schedule_manager.statistics.replays >= 5


def test_unaligned_argument():
    x = np.random.RandomState(0).randn(5, 4).astype("f")
    unaligned = np.zeros(x.nbytes + 1, "u1")[1:].view("f").reshape(x.shape)
    unaligned[...] = x
    t = np.arange(5, dtype="i") % 3
    model = sdbr.static_graph(L.Classifier(L.Linear(4, 3)))
    optimizer = sdbr.static_optimizer(chainer.optimizers.SGD(0))
    optimizer.setup(model)
    losses = []
    for batch in (x, x, x, unaligned, unaligned):
        optimizer.update(model, batch, t)
        losses.append(float(model.loss.array))
    np.testing.assert_allclose(losses, losses[0], ROUNDINGS)
    np.testing.assert_allclose(model(unaligned, t).array, model(x, t).array, ROUNDINGS)
