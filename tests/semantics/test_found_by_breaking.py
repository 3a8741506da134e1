"""What replays once froze without a word, found by writing programs that try to be awkward."""

from __future__ import annotations

import collections
import functools
import random
import sys
import types

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

X = np.random.RandomState(0).randn(3, 2).astype("f")


def follows(f, change, calls: int = 2) -> None:
    """`f` gives what it gives without the decorator, before and after `change`, and replays."""
    static = sdbr.static_graph(f, on_dynamic="raise")
    for _ in range(calls + 1):
        np.testing.assert_array_equal(static(X).array, f(X).array)
    assert static.schedule_manager.statistics.replays == calls
    change()
    for _ in range(calls):
        np.testing.assert_array_equal(static(X).array, f(X).array)
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
        static(X)
    assert static.schedule_manager.statistics.replays == 2
    table.update(change)
    with chainer.using_config("use_static_graph", False):
        want = chain(X)
    np.testing.assert_array_equal(static(X).array, want.array)


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


class Scaled(list):
    scale = 1.0


def test_attributes_of_containers():
    items = Scaled([1.0])
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
        np.testing.assert_array_equal(static(X).array, np.maximum(X, 0) * np.float32(c))
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
        static(X)
    assert static.schedule_manager.statistics.replays == 2
    Derived.scale = 3.0
    np.testing.assert_array_equal(static(X).array, np.maximum(X, 0) * np.float32(3))


LARGE = dict.fromkeys(range(200), 1.0)
NUMBER = 1.0


def test_large_containers_of_numbers():
    items = [1.0] * 300
    follows(lambda x: F.relu(x) * LARGE[3], lambda: LARGE.update({3: 2.0}))
    follows(lambda x: F.relu(x) * items[7], lambda: items.__setitem__(7, 2.0))


def test_globals_by_name():
    follows(lambda x: F.relu(x) * globals()["NUMBER"], lambda: globals().__setitem__("NUMBER", 2.0))


@pytest.mark.parametrize(
    "draw",
    [
        lambda: (lambda a: np.random.shuffle(a) or a[0])([1, 2, 3, 4]),
        lambda: (lambda a: np.random.shuffle(a) or a[0])(np.arange(4)),
        lambda: np.random.bytes(1)[0],
        lambda: random.seed(3) or 1,
    ],
)
def test_generators_used_past_draws_of_arrays(draw):
    """They are dynamic: said once, and right."""
    plain = lambda x: F.dropout(x) * draw()  # noqa: E731
    static = sdbr.static_graph(plain)
    got = []
    for f in (static, plain):
        np.random.seed(0)
        random.seed(0)
        with pytest.warns(sdbr.SdbrWarning) if f is static else pytest.MonkeyPatch.context():
            got.append([f(X).array for _ in range(4)] + [np.random.rand(), random.random()])
    for a, b in zip(*got, strict=True):
        np.testing.assert_array_equal(a, b)


def test_deques():
    items = collections.deque([1.0, 2.0], maxlen=2)
    follows(lambda x: F.relu(x) * items[0], lambda: items.append(3.0))


TABLE = np.random.RandomState(1).randn(4, 2).astype("f")
BATCHES = [np.random.RandomState(k).randint(0, 4, 3).astype("i") for k in (0, 0, 1, 2, 3)]


@pytest.mark.parametrize(
    "f",
    [
        lambda x, t: F.relu(x) * TABLE[t],
        lambda x, t: F.relu(x) * TABLE[t, 0][:, None],
        lambda x, t: F.relu(x) * TABLE.take(t, axis=0),
        lambda x, t: F.relu(x) * np.take(TABLE, t, axis=0),
        lambda x, t: F.relu(x) * np.asarray(TABLE, "f")[t],
        lambda x, t: F.relu(x) * TABLE[np.ix_(t, [0, 1])],
        lambda x, t: F.relu(TABLE.dot(x[:2])[:3] * t[0]),
        lambda x, t: F.relu(x) * np.full((3, 2), t[0], "f"),
    ],
)
@pytest.mark.parametrize("outside", ["global", "closure"])
def test_tables_indexed_by_arguments(f, outside):
    """Also where the first calls all get the same indices."""
    if outside == "closure":
        inner, table = f, TABLE
        f = lambda x, t: inner(x, t) * table[t]  # noqa: E731
    static = sdbr.static_graph(f, on_dynamic="raise")
    for t in BATCHES:
        got = static(X, t).array
        np.testing.assert_allclose(got, f(X, t).array, 1e-6)
        assert type(TABLE) is np.ndarray
    assert static.schedule_manager.statistics.replays >= 3


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
            np.testing.assert_array_equal(static(X, t).array, f(X, t).array)


def test_tables_are_back_after_an_error():
    def f(x):
        raise ValueError(TABLE[0])

    static = sdbr.static_graph(f)
    with pytest.raises(ValueError, match=r"\["):
        static(X)
    assert type(TABLE) is np.ndarray
