"""Row 8: what is read from defaults, modules, classes, slots and containers may change."""

from __future__ import annotations

import collections
import functools
import sys
import types

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.tolerances import RESULTS, ROUNDINGS

SMALL = np.random.RandomState(0).randn(3, 2).astype("f")


def follows(f, change, calls: int = 2) -> None:
    """`f` gives what it gives without the decorator, before and after `change`, and replays."""
    static = sdbr.static_graph(f, on_dynamic="raise")
    for _ in range(calls + 1):
        np.testing.assert_array_equal(static(SMALL).array, f(SMALL).array)
    assert static.schedule_manager.statistics.replays == calls
    change()
    for _ in range(calls):
        np.testing.assert_array_equal(static(SMALL).array, f(SMALL).array)
    assert static.schedule_manager.statistics.replays >= calls + 1


def doubled(x, by=[2.0], *, add={"a": 1.0}):  # noqa: B006 - the defaults are what is tested
    return F.relu(x) * by[0] + add["a"]


@pytest.fixture
def restored():
    yield
    doubled.__defaults__, doubled.__kwdefaults__ = ([2.0],), {"add": {"a": 1.0}}


@pytest.mark.parametrize(
    "change",
    [
        lambda: doubled.__defaults__[0].__setitem__(0, 3.0),
        lambda: doubled.__kwdefaults__["add"].update(a=5.0),
        lambda: setattr(doubled, "__defaults__", ([4.0],)),
        lambda: setattr(doubled, "__kwdefaults__", {"add": {"a": 7.0}}),
    ],
)
def test_defaults_of_functions(change, restored):
    follows(lambda x: doubled(x) * 2, change)


def test_objects_that_are_defaults():
    class Settings:
        k = 1.0

    settings = Settings()

    def f(x, s=settings):
        return F.relu(x) * s.k

    follows(f, lambda: setattr(settings, "k", 3.0))
    del settings.k
    follows(f, lambda: setattr(Settings, "k", 4.0))


def test_arguments_of_partials():
    table = {"k": 1.0}
    act = functools.partial(lambda h, t: h * t["k"], t=table)
    follows(lambda x: act(F.relu(x)), lambda: table.update(k=2.0))


@pytest.mark.parametrize("change", [{"k": 2.0}, {"f": F.tanh}])
def test_lambdas_in_a_sequential(change):
    table = {"k": 1.0, "f": F.relu}
    chain = chainer.Sequential(lambda h: h * table["k"], lambda h: table["f"](h), L.Linear(2, 2))
    static = sdbr.static_graph(chain)
    for _ in range(3):
        static(SMALL)
    assert static.schedule_manager.statistics.replays == 2
    table.update(change)
    with chainer.using_config("use_static_graph", False):
        want = chain(SMALL)
    np.testing.assert_array_equal(static(SMALL).array, want.array)


def test_functions_in_a_dict():
    scale = 1.0
    table = {"a": [lambda h: h * scale]}

    def change():
        nonlocal scale
        scale = 3.0

    follows(lambda x: table["a"][0](F.relu(x)), change)


def test_methods_of_objects_outside():
    scale = 1.0

    class Helper:
        def compute(self, h):
            return h * scale

        def __getitem__(self, k):
            return scale * k

    helper = Helper()

    def change():
        nonlocal scale
        scale = 3.0

    follows(lambda x: helper.compute(F.relu(x)), change)
    scale = 1.0
    follows(lambda x: F.relu(x) * helper[2], change)


@pytest.fixture
def package(monkeypatch):
    outer, inner = types.ModuleType("outer_of_test"), types.ModuleType("outer_of_test.inner")
    outer.inner, inner.k, inner.table = inner, 1.0, [1.0]
    monkeypatch.setitem(sys.modules, "outer_of_test", outer)
    monkeypatch.setitem(sys.modules, "outer_of_test.inner", inner)
    return outer


def test_modules_imported_in_the_call(package):
    def f(x):
        import outer_of_test.inner
        from outer_of_test.inner import table

        return F.relu(x) * outer_of_test.inner.k * table[0]

    follows(f, lambda: setattr(package.inner, "k", 2.0))
    follows(f, lambda: package.inner.table.__setitem__(0, 3.0))


def test_modules_in_packages(package):
    follows(lambda x: F.relu(x) * package.inner.k, lambda: setattr(package.inner, "k", 2.0))


class Slotted:
    __slots__ = ("k", "table")


@pytest.mark.parametrize("change", [("k", 2.0), ("table", [5.0])])
def test_objects_with_slots(change):
    thing = Slotted()
    thing.k, thing.table = 1.0, [1.0]
    follows(lambda x: F.relu(x) * thing.k * thing.table[0], lambda: setattr(thing, *change))


class ScaledList(list):
    scale = 1.0


def test_attributes_of_containers():
    items = ScaledList([1.0])
    items.scale = 2.0
    follows(lambda x: F.relu(x) * items[0] * items.scale, lambda: setattr(items, "scale", 3.0))
    follows(lambda x: F.relu(x) * items[0] * items.scale, lambda: items.__setitem__(0, 3.0))


def test_bytearrays():
    data = bytearray(b"\x01")
    follows(lambda x: F.relu(x) * data[0], lambda: data.__setitem__(0, 3))


class Attributes(dict):
    __getattr__ = dict.__getitem__  # raises KeyError where AttributeError is expected
    __setattr__ = dict.__setitem__


def test_dicts_with_attribute_access():
    settings = Attributes(a=1.0, b=Attributes(c=2.0))

    class Chain(chainer.Chain):
        def __init__(self):
            super().__init__()
            self.settings = settings

        def forward(self, x):
            return F.relu(x) * self.settings.a * self.settings.b.c

    static = sdbr.static_graph(Chain(), on_dynamic="raise")
    for c in (1.0, 1.0, 3.0):
        settings.b.c = c
        np.testing.assert_array_equal(static(SMALL).array, np.maximum(SMALL, 0) * np.float32(c))
    assert static.schedule_manager.statistics.replays == 1


def test_containers_of_classes():
    class Table:
        items = {"a": [1.0]}  # noqa: RUF012

    class Derived(Table):
        pass

    follows(lambda x: F.relu(x) * Table.items["a"][0], lambda: Table.items.update(a=[2.0]))
    follows(lambda x: F.relu(x) * Derived.items["a"][0], lambda: Table.items.update(a=[3.0]))


def test_a_class_that_gets_an_attribute_of_its_base():
    class Base(chainer.Chain):
        scale = 1.0

        def forward(self, x):
            return F.relu(x) * self.scale

    class Derived(Base):
        pass

    static = sdbr.static_graph(Derived())
    for _ in range(3):
        static(SMALL)
    assert static.schedule_manager.statistics.replays == 2
    Derived.scale = 3.0
    np.testing.assert_array_equal(static(SMALL).array, np.maximum(SMALL, 0) * np.float32(3))


LARGE = dict.fromkeys(range(200), 1.0)


NUMBER = 1.0


def test_large_containers_of_numbers():
    items = [1.0] * 300
    follows(lambda x: F.relu(x) * LARGE[3], lambda: LARGE.update({3: 2.0}))
    follows(lambda x: F.relu(x) * items[7], lambda: items.__setitem__(7, 2.0))


def test_globals_by_name():
    follows(lambda x: F.relu(x) * globals()["NUMBER"], lambda: globals().__setitem__("NUMBER", 2.0))


def test_deques():
    items = collections.deque([1.0, 2.0], maxlen=2)
    follows(lambda x: F.relu(x) * items[0], lambda: items.append(3.0))


class Scaled(chainer.Chain):
    """A layer and numbers from everywhere that Python code can keep them."""

    factor = 0.5

    def __init__(self):
        super().__init__()
        self.nested = {"a": {"b": 1.0}, "c": [[1.0]]}
        self.args = types.SimpleNamespace(beta=2.0)
        with self.init_scope():
            self.layer = L.Linear(4, 3)

    def forward(self, x):
        y = self.layer(x) * self.factor * self.nested["a"]["b"]
        if not hasattr(self, "squash"):
            return y * self.nested["c"][0][0] + self.args.beta
        return self.squash(y)


def class_attribute(model):
    model.factor = 0.75


def attribute_that_was_missing(model):
    model.squash = F.tanh


def number_in_nested_dict(model):
    model.nested["a"]["b"] = 3.0


def number_in_nested_list(model):
    model.nested["c"][0][0] = 4.0


def number_on_an_object(model):
    model.args.beta = 5.0


CHANGES = [
    class_attribute,
    attribute_that_was_missing,
    number_in_nested_dict,
    number_in_nested_list,
    number_on_an_object,
]


@pytest.mark.parametrize("change", CHANGES, ids=[c.__name__ for c in CHANGES])
def test_changed_number_is_noticed(change):
    x = np.random.RandomState(0).randn(5, 4).astype("f")
    model = Scaled()
    static = sdbr.static_graph(model.copy("copy"))
    static.nested = {"a": {"b": 1.0}, "c": [[1.0]]}
    static.args = types.SimpleNamespace(beta=2.0)
    for _ in range(3):
        np.testing.assert_allclose(static(x).array, model(x).array, RESULTS, ROUNDINGS)
    assert static.schedule_manager.statistics.replays == 2
    change(model)
    change(static)
    for _ in range(3):
        np.testing.assert_allclose(static(x).array, model(x).array, RESULTS, ROUNDINGS)
    assert static.schedule_manager.statistics.replays == 4
