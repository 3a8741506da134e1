"""Rows 8 and 13: containers that hold themselves, and classes with names of their own."""

from __future__ import annotations

from typing import NamedTuple

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.comparison import assert_near
from tests.harness.models import floats
from tests.tolerances import RESULTS

X = [floats(5, 4)(np.random.RandomState(i)) for i in range(6)]
LAST = None


class Keeping(chainer.Chain):
    def __init__(self, keep):
        super().__init__()
        with self.init_scope():
            self.l = L.Linear(4, 3)
        self.keep = keep
        self.items = []
        self.settings = {"scale": 2.0}
        self.settings["all"] = self.settings

    def forward(self, x):
        y = self.l(x)
        return y + self.keep(self, y) if self.keep is reads else self.keep(self, y) or y


class Chosen(NamedTuple):
    """A result with a number by the name that places of the trace have."""

    index: int
    score: chainer.Variable


class Fields(dict):
    """As many projects have it: a name that is missing is a KeyError, not an AttributeError."""

    __getattr__ = dict.__getitem__


class Attributes(dict):
    """The other way that is common: keys are attributes because both are one dict."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.__dict__ = self


class Scaled(list):
    """Has more than its items."""

    def __init__(self, items=(), scale=1.0):
        super().__init__(items)
        self.scale = scale


class Slotted(tuple):
    __slots__ = ()


class Sized(list):
    """Is made of something else than its items."""

    def __init__(self, n):
        super().__init__([0.0] * n)


class Named(dict):
    def __init__(self, y):
        super().__init__(y=y)


class Kept(list):
    __slots__ = ("scale",)


def kept(*items):
    made = Kept(items)
    made.scale = 3.0
    return made


#: What is made of its items, and what is not; each of a Variable or array.
OF_ITEMS = {
    "attributes": lambda x: Attributes(y=x),
    "slots": lambda x: Slotted([x]),
    "empty slots": lambda x: Kept([x]),
    "named": lambda x: Chosen(1, x),
}
MORE = {
    "attribute": lambda x: Scaled([x], 3.0),
    "sized": lambda x: Sized(2),
    "constructor": Named,
    "slot": kept,
    "inside": lambda x: {"all": [Scaled([x], 3.0)]},
}


def parts(thing):
    """All that there is to see of a container."""
    if isinstance(thing, dict):
        found = [type(thing), [(k, parts(x)) for k, x in thing.items()]]
    elif isinstance(thing, (list, tuple)):
        found = [type(thing), [parts(x) for x in thing]]
    else:
        array = getattr(thing, "array", thing)
        return array.tolist() if isinstance(array, np.ndarray) else thing
    return [*found, getattr(thing, "scale", None)]


def reads(self, y):
    return self.settings["scale"]


def tree_with_parents(self, y):
    root = {"value": y, "children": []}
    root["children"].append({"value": y * 2, "parent": root})
    self.root = root


def list_in_itself(self, y):
    self.found = [y.array, 1]
    self.found.append(self.found)


def in_a_global(self, y):
    global LAST
    found = [y.array]
    found.append(found)
    LAST = found


def added_to_a_list(self, y):
    found = [y.array, float(y.array.mean())]
    found.append(found)
    self.items.append(found)


def list_added_to_itself(self, y):
    self.items.append(self.items)


def models(keep):
    plain = Keeping(keep)
    return plain, sdbr.static_graph(plain.copy(mode="copy"))


def test_a_dict_that_holds_itself_may_be_read():
    plain, static = models(reads)
    for x in X:
        assert_near(static(x).array, plain(x).array, RESULTS, "result")
    assert static.schedule_manager.statistics.replays == 5


@pytest.mark.parametrize("keep", [
    tree_with_parents, list_in_itself, in_a_global, added_to_a_list, list_added_to_itself,
])  # fmt: skip
def test_what_holds_itself_is_dynamic_and_kept_as_it_is(keep):
    plain, static = models(keep)
    for i, x in enumerate(X):
        plain(x)
        want, last = vars(plain), LAST
        if i == 0:
            with pytest.warns(sdbr.SdbrWarning, match="not static"):
                static(x)
        else:
            static(x)
        got = vars(static)
        if keep is tree_with_parents:
            child = got["root"]["children"][0]
            assert child["parent"] is got["root"]
            assert_near(child["value"].array, 2 * want["root"]["value"].array, RESULTS, "child")
        elif keep is list_in_itself:
            assert got["found"][2] is got["found"]
            assert type(got["found"][0]) is np.ndarray
            assert_near(got["found"][0], want["found"][0], RESULTS, "found")
        elif keep is in_a_global:
            assert LAST is not last
            assert LAST[1] is LAST
            assert type(LAST[0]) is np.ndarray
            assert_near(LAST[0], last[0], RESULTS, "global")
        else:
            assert len(static.items) == i + 1
            assert all(
                x[-1] is x if keep is added_to_a_list else x is static.items for x in static.items
            )
    assert static.schedule_manager.statistics.replays == 0


def test_a_dict_whose_getattr_raises_key_errors_is_handed_back():
    @sdbr.static_graph(on_dynamic="raise")
    def both(given):
        return Fields(double=given.x * 2, sum=F.sum(given["x"] * 3))

    for x in X:
        found = both(Fields(x=chainer.Variable(x)))
        assert type(found) is Fields
        assert_near(found.double.array, x * 2, RESULTS, "double")
        assert_near(found.sum.array, np.asarray((x * 3).sum()), RESULTS, "sum")
    assert both.schedule_manager.statistics.replays == 5


def test_a_dict_whose_getattr_raises_key_errors_is_written_to():
    settings = Fields(scale=2.0, last=None)

    @sdbr.static_graph(on_dynamic="raise")
    def scaled(x):
        y = F.relu(x) * settings.scale
        settings["last"] = y.array
        return y

    for x in X:
        assert_near(scaled(x).array, np.maximum(x, 0) * 2, RESULTS, "result")
        assert_near(settings.last, np.maximum(x, 0) * 2, RESULTS, "last")
    assert scaled.schedule_manager.statistics.replays >= 3


@pytest.mark.parametrize("index", range(6))
def test_a_named_tuple_with_a_number_called_index_is_handed_back(index):
    @sdbr.static_graph(on_dynamic="raise")
    def chosen(x):
        return Chosen(index, F.sum(x * 2, axis=1))

    for x in X:
        found = chosen(x)
        assert type(found) is Chosen
        assert found.index == index
        assert_near(found.score.array, (x * 2).sum(axis=1), RESULTS, "score")
    assert chosen.schedule_manager.statistics.replays == 5


@pytest.mark.parametrize("make", OF_ITEMS.values(), ids=OF_ITEMS)
def test_what_is_made_of_its_items(make):
    def forward(x, given):
        y = x + [*(given.values() if isinstance(given, dict) else given)][-1]
        return y if isinstance(given, Attributes) else make(y)  # it holds itself

    static = sdbr.static_graph(forward, on_dynamic="raise")
    for x in X:
        assert parts(static(x, make(x))) == parts(forward(x, make(x)))
    assert static.schedule_manager.statistics.replays == 5


@pytest.mark.parametrize("make", MORE.values(), ids=MORE)
@pytest.mark.parametrize("way", ["argument", "result", "attribute"])
def test_what_is_more_than_its_items(make, way):
    """No other can be made of the items: such calls run define-by-run, and say so."""

    class Model(chainer.Chain):
        def forward(self, x, given):
            if way == "argument":
                return parts(given)
            self.made = make(x * 2)
            return self.made if way == "result" else F.sum(x)

    plain, static = Model(), sdbr.static_graph(Model())
    with pytest.warns(sdbr.SdbrWarning, match="items"):
        for x in X:
            given = [make(x) if way == "argument" else None for _ in "ab"]
            want, got = plain(x, given[0]), static(x, given[1])
            assert parts(got) == parts(want)
            if way != "argument":
                assert parts(static.made) == parts(plain.made)
    assert static.schedule_manager.statistics.replays == 0
