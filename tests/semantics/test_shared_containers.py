"""Rows 8 and 13: a list or dict that a call puts into two places is one object in both."""

from __future__ import annotations

import collections
import warnings

import sdbr
from sdbr.trace.effects.keeping import Kept
from sdbr.trace.structure import mapped

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.comparison import BACKENDS, assert_near
from tests.harness.twins import statistics_of
from tests.tolerances import GRADIENTS, RESULTS, SUMS

CALLS = 8
TABLE = [1, 2]
hidden: list = []
keep = hidden.append  # a place that nothing leads to
Pair = collections.namedtuple("Pair", ["first", "second"])


class Place:
    """Somewhere outside of links."""


PLACE = Place()


class Many(list):
    """A list of a user's."""


class Leaving(chainer.Chain):
    """A layer, and places."""

    def __init__(self, leave):
        super().__init__()
        with self.init_scope():
            self.l = L.Linear(4, 3, initialW=np.random.RandomState(0).randn(3, 4).astype("f"))
        self.p = self.q = None
        self.history = []
        self.stats = {}
        self.lately = collections.deque(maxlen=2)
        self.numbers = [1, 2]
        self.arrays = [np.ones(3, "f")]
        self.rate = 0.5
        self.leave = leave

    def forward(self, x, given):
        y = F.tanh(self.l(x))
        result = self.leave(self, y, given)
        return F.sum(y) if result is None else result


# --- one of the call's own ------------------------------------------------------------------------
def two_attributes(self, y, given):
    a = [y, F.sin(y)]
    self.p = a
    self.q = a


def by_way_of_the_first(self, y, given):
    self.p = [y]
    self.q = self.p


def in_each_other(self, y, given):
    a = [y, F.sin(y)]
    self.p = [a, {"a": a}]


def a_dict(self, y, given):
    a = {"y": y, "n": 3}
    self.p = a
    self.q = {"inside": a}


def of_arrays(self, y, given):
    a = [y.array, F.sin(y).array]
    self.p = a
    self.q = [a]


def of_numbers_of_the_call(self, y, given):
    a = [float(y.array.sum()), y]
    self.p = a
    self.q = a


def of_nothing(self, y, given):
    self.p = self.q = []


def in_tuples(self, y, given):
    a = [y]
    pair = (a, 1)
    self.p = pair
    self.q = Pair(a, pair)


def of_a_users_class(self, y, given):
    a = Many([y, y.array])
    self.p = a
    self.q = a


def changed_when_it_lies_there(self, y, given):
    a = [y]
    self.p = a
    self.q = a
    self.p.append(F.sin(y))


def added(self, y, given):
    a = [y, float(y.array.sum())]
    self.history.append(a)
    self.stats["last"] = a
    self.lately.append(a)
    self.p = a


def added_twice(self, y, given):
    a = {"y": y}
    self.history.append(a)
    self.history.append(a)


def in_an_object(self, y, given):
    a = [y]
    PLACE.x = a
    self.q = a


def on_a_variable(self, y, given):
    a = [F.sin(y)]
    self.p = y
    y.note = a
    self.q = a


def with_a_number(self, y, given):
    a = [y, self.rate, 2 * self.rate]
    self.history.append(a)
    self.stats["last"] = a


WITHIN = [
    two_attributes, by_way_of_the_first, in_each_other, a_dict, of_arrays,
    of_numbers_of_the_call, of_nothing, in_tuples, of_a_users_class, changed_when_it_lies_there,
    added, added_twice, in_an_object, on_a_variable, with_a_number,
]  # fmt: skip


def returned(self, y, given):
    a = [y, F.sin(y)]
    self.p = a
    return a


def returned_twice(self, y, given):
    a = [y, 2]
    return a, {"again": a}


def returned_numbers(self, y, given):
    a = [1, 2]
    return y, a, a


def returned_with_a_number(self, y, given):
    a = [y, self.rate, float(y.array.sum())]
    self.history.append(a)
    return a, self.rate


def returned_arrays(self, y, given):
    a = [y.array, F.sin(y).array]
    PLACE.x = a
    return a


def returned_row(self, y, given):
    row = {"y": y}
    self.history.append(row)
    return row


RETURNED = [
    returned, returned_twice, returned_numbers, returned_with_a_number, returned_arrays,
    returned_row,
]  # fmt: skip


# --- one that was there before, or that somebody else has -----------------------------------------
def argument_kept(self, y, given):
    self.q = given


def argument_returned(self, y, given):
    return y, given


def argument_inside(self, y, given):
    self.q = [given, y]


def attribute_kept(self, y, given):
    self.q = self.arrays


def attribute_returned(self, y, given):
    return y, self.arrays


def numbers_returned(self, y, given):
    return y, self.numbers


def empty_one_kept(self, y, given):
    self.q = self.history


def global_returned(self, y, given):
    return y, TABLE


def kept_out_of_sight(self, y, given):
    a = [y]
    self.p = a
    keep(a)


def content_kept_out_of_sight(self, y, given):
    a = [y]
    self.p = a
    self.q = a
    keep(y)


OTHERS = [
    argument_kept, argument_returned, argument_inside, attribute_kept, attribute_returned,
    numbers_returned, empty_one_kept, global_returned, kept_out_of_sight,
    content_kept_out_of_sight,
]  # fmt: skip
OF_ARGUMENTS = [argument_kept, argument_returned, argument_inside]


# --- comparing ------------------------------------------------------------------------------------
def look(roots: list) -> list:
    """Every place below `roots`, its class, and which earlier place holds the same object."""
    first: dict[int, str] = {}
    found: list = []

    def walk(name: str, thing) -> None:
        one = isinstance(thing, (list, dict, collections.deque, chainer.Variable, np.ndarray))
        same = first.setdefault(id(thing), name) if one else name
        found.append((name, type(thing), None if same == name else same))
        if same != name:
            return
        if isinstance(thing, dict):
            for key, x in thing.items():
                walk(f"{name}[{key!r}]", x)
        elif isinstance(thing, (list, tuple, collections.deque)):
            for i, x in enumerate(thing):
                walk(f"{name}[{i}]", x)
        elif isinstance(thing, chainer.Variable):
            found[-1] += (np.array(thing.array),)
            walk(f"{name}.note", getattr(thing, "note", None))
        else:
            found[-1] += (np.array(thing),)

    for name, thing in roots:
        walk(name, thing)
    return found


def left(model, given, result) -> list:
    names = ("arrays", "numbers", "p", "q", "history", "stats", "lately")
    roots = [("given", given), *[(name, getattr(model, name)) for name in names]]
    roots += [("PLACE", vars(PLACE)), ("TABLE", TABLE), ("hidden", hidden)]
    return look([*roots, ("result", result)])


def assert_same(got: list, want: list, note: str) -> None:
    assert [x[:3] for x in got] == [x[:3] for x in want], note
    for a, b in zip(got, want, strict=True):
        for x, y in zip(a[3:], b[3:], strict=True):
            if y.dtype == object:
                assert x == y, note
            else:
                assert_near(x, y, RESULTS, f"{note}: {a[0]}")


def inputs(i: int, n: int = 5):
    return np.random.RandomState(i).randn(n, 4).astype("f")


def run(leave, static: bool, sizes=None, optimizer=None, **options):
    """What each call leaves, and the model."""
    vars(PLACE).clear()
    hidden.clear()
    model = Leaving(leave)
    if static:
        model = sdbr.static_graph(model, **options)
    if optimizer is not None:
        optimizer = optimizer(chainer.optimizers.SGD(0.01)).setup(model)
    given, records, earlier = [np.zeros(2, "f")], [], []
    for i in range(CALLS):
        x = inputs(i, 5 if sizes is None else sizes[i])
        result = model(x, given) if optimizer is None else optimizer.update(model, x, given)
        model.rate = 0.5 if i % 2 else 0.25
        records.append(left(model, given, result))
        if optimizer is None:  # a program that holds results of steps gets no whole ones
            # What an earlier call has left is nobody else's.
            earlier.append((model.p, look([("p", model.p)])))
        for thing, then in earlier:
            assert_same(look([("p", thing)]), then, f"call {i}")
    return records, model


def compare(leave, **options):
    want, _ = run(leave, False, **{k: v for k, v in options.items() if k == "sizes"})
    got, model = run(leave, True, **options)
    for i, (a, b) in enumerate(zip(got, want, strict=True)):
        assert_same(a, b, f"call {i}")
    return model


@pytest.mark.parametrize("share", ["off", 1e9])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("leave", [*WITHIN, *RETURNED], ids=lambda f: f.__name__)
def test_one_stays_one(leave, backend, share):
    with chainer.using_config("sdbr_audit", share):
        model = compare(leave, backend=backend, on_dynamic="raise")
    statistics = statistics_of(model)
    assert statistics.replays >= CALLS - 4
    assert statistics.python_ops == 0
    audits = model.schedule_manager.audits
    assert audits.failures == []
    assert (audits.passed > 0) == (share != "off")


@pytest.mark.parametrize("leave", WITHIN, ids=lambda f: f.__name__)
def test_in_whole_steps(leave):
    want, plain = run(leave, False, optimizer=lambda x: x)
    got, static = run(leave, True, optimizer=sdbr.static_optimizer, on_dynamic="raise")
    for i, (a, b) in enumerate(zip(got, want, strict=True)):
        assert_same(a, b, f"step {i}")
    assert_near(static.l.W.array, plain.l.W.array, SUMS, "W")
    assert statistics_of(static).steps >= CALLS - 4


@pytest.mark.parametrize("leave", [two_attributes, returned], ids=lambda f: f.__name__)
def test_for_new_sizes(leave):
    model = compare(leave, sizes=[5, 6, 7, 8, 9, 9, 10, 10], on_dynamic="raise")
    assert statistics_of(model).replays >= 1


def test_gradients_flow_through_both():
    static = sdbr.static_graph(Leaving(returned), on_dynamic="raise")
    plain = Leaving(returned)
    for i in range(CALLS):
        for model in (plain, static):
            model.cleargrads()
            result = model(inputs(i), [])
            assert result is model.p
            F.sum(result[0] * model.p[1]).backward()
        assert_near(static.l.W.grad, plain.l.W.grad, GRADIENTS, f"call {i}")
    assert statistics_of(static).replays >= CALLS - 2


@pytest.mark.parametrize("leave", OTHERS, ids=lambda f: f.__name__)
def test_what_is_not_the_calls_own_is_dynamic(leave):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", sdbr.SdbrWarning)
        model = compare(leave)
    assert not statistics_of(model).replays
    said = " ".join(str(w.message) for w in caught)
    if leave is content_kept_out_of_sight:
        assert "is kept by" in said
    else:
        where = "is one of its arguments" if leave in OF_ARGUMENTS else "is kept elsewhere as well"
        assert where in said
        assert "Return or keep a copy of it" in said


def test_a_copy_of_it_is_static():
    def copied(self, y, given):
        self.q = list(given)
        return y, list(self.numbers)

    model = compare(copied, on_dynamic="raise")
    assert statistics_of(model).replays >= CALLS - 2


def test_audits_see_two_in_the_place_of_one(monkeypatch):
    def apart(self, thing, change):
        return mapped(thing, change)

    monkeypatch.setattr(Kept, "template_of", apart)
    model = sdbr.static_graph(Leaving(two_attributes))
    with chainer.using_config("sdbr_audit", 1e9), pytest.warns(sdbr.SdbrWarning, match="same obj"):
        for i in range(3):
            model(inputs(i), [])
            assert model.p is model.q
    assert model.schedule_manager.audits.failed == 1
