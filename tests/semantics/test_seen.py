"""Row 8: what a call reads is seen while it is traced, however the code comes to it.

Each program gives a function of an array and a change of what it reads, after which define-by-run
gives something else.
"""

from __future__ import annotations

import abc
import collections
import contextvars
import decimal
import enum
import functools
import logging
import operator
import re
import signal
import sys
import types
import warnings
import weakref
from unittest import mock

import sdbr
from sdbr.trace.watch.reads import Guard, Reads

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.tolerances import ROUNDINGS

X = np.linspace(-1, 2, 6, dtype="f").reshape(2, 3)
PROGRAMS: dict = {}


def program(make):
    """Enter a program."""
    PROGRAMS[make.__name__] = make
    return make


class Thing(types.SimpleNamespace):
    """Has attributes, and is hashed by identity."""

    __hash__ = object.__hash__

    def times(self, x):
        return x * self.k


@pytest.fixture(autouse=True)
def state_of_libraries():
    argv = list(sys.argv)
    with decimal.localcontext():
        yield
    sys.argv[:] = argv
    logging.disable(logging.NOTSET)


# --- through objects that are called ------------------------------------------------------------
@program
def method_of_an_object():
    thing = Thing(k=2.0)
    method = thing.times
    return (lambda x: method(x)), lambda: setattr(thing, "k", 3.0)


@program
def method_as_the_loss_of_a_classifier():
    class Criterion:
        smooth = 0.5

        def loss(self, y, t):
            return F.sum((y - t) ** 2) * self.smooth

    criterion = Criterion()
    model = L.Classifier(L.Linear(3, 2), lossfun=criterion.loss)
    model.compute_accuracy = False
    t = np.ones((2, 2), "f")
    return (lambda x: model(x, t)), lambda: setattr(criterion, "smooth", 2.0)


@program
def method_in_a_sequential():
    scale = Thing(k=2.0)
    model = chainer.Sequential(L.Linear(3, 2), scale.times, F.tanh)
    return (lambda x: model(x)), lambda: setattr(scale, "k", 3.0)


@program
def method_made_of_a_function():
    thing = Thing(k=2.0)
    method = types.MethodType(lambda self, x: x * self.k, thing)
    return (lambda x: method(x)), lambda: setattr(thing, "k", 3.0)


@program
def method_in_a_partial():
    thing = Thing(k=2.0)
    method = functools.partial(thing.times)
    return (lambda x: method(x)), lambda: setattr(thing, "k", 3.0)


@program
def get_of_a_dict():
    table = {"a": 2.0}
    get = table.get
    return (lambda x: x * get("a")), lambda: table.update(a=3.0)


@program
def length_of_a_list():
    things = [1, 2]
    length = things.__len__
    return (lambda x: x * length()), lambda: things.append(3)


@program
def new_of_a_class():
    class Scaled:
        k = 2.0

        def __new__(cls, x):
            return x * cls.k

    return (lambda x: Scaled(x)), lambda: setattr(Scaled, "k", 3.0)


@program
def new_of_a_class_reads_a_variable():
    factor = [2.0]

    class Scaled:
        def __new__(cls, x):
            return x * factor[0]

    return (lambda x: Scaled(x)), lambda: factor.__setitem__(0, 3.0)


@program
def function_as_a_key():
    factor = [2.0]
    table = {(lambda x: x * factor[0]): 1}
    return (lambda x: next(iter(table))(x)), lambda: factor.__setitem__(0, 3.0)


@program
def function_in_a_frozenset():
    factor = [2.0]
    kept = frozenset([lambda x: x * factor[0]])
    return (lambda x: next(iter(kept))(x)), lambda: factor.__setitem__(0, 3.0)


@program
def code_without_a_module():
    space = {"k": 2.0}
    exec("def f(x): return x * k", space)
    del space["__builtins__"]
    return space["f"], lambda: space.update(k=3.0)


@program
def hook_of_a_class():
    scales: list = []

    class Base:
        def __init_subclass__(cls):
            scales.append(cls.k)

    def change():
        class Another(Base):
            k = 3.0

    class One(Base):
        k = 2.0

    return (lambda x: x * sum(scales)), change


# --- order and presence -------------------------------------------------------------------------
def _folded(x, pairs):
    for i, (_, k) in enumerate(pairs):
        x = x * k + i * k
    return x


@program
def order_of_the_attributes_of_an_object():
    thing = Thing(a=2.0, b=3.0)
    return (lambda x: _folded(x, vars(thing).items())), lambda: _put_last(vars(thing), "a")


@program
def order_of_keys_by_a_kept_view():
    table = {"a": 2.0, "b": 3.0}
    items = table.items()
    return (lambda x: _folded(x, items)), lambda: _put_last(table, "a")


@program
def order_of_an_ordered_dict():
    table = collections.OrderedDict(a=2.0, b=3.0)
    return (lambda x: _folded(x, table.items())), lambda: table.move_to_end("a")


def _put_last(table: dict, key: str) -> None:
    table[key] = table.pop(key)


@program
def values_by_a_kept_view():
    table = {"a": 2.0, "b": 1.0}
    values = table.values()
    return (lambda x: x * sum(values)), lambda: table.update(a=3.0)


@program
def attribute_that_is_not_there():
    thing = Thing()
    return (lambda x: x * getattr(thing, "k", 2.0)), lambda: setattr(thing, "k", 3.0)


@program
def error_that_is_caught():
    thing = Thing()

    def f(x):
        try:
            return x * thing.k
        except AttributeError:
            return x * 2.0

    return f, lambda: setattr(thing, "k", 3.0)


@program
def entry_of_a_link_by_vars():
    model = chainer.Chain()

    def f(x):
        return x * vars(model).get("k", 2.0)

    return f, lambda: object.__setattr__(model, "k", 3.0)


@program
def names_in_a_module():
    module = types.ModuleType("names")
    return (lambda x: x * len(dir(module))), lambda: setattr(module, "another", 1)


@program
def module_that_answers_itself():
    factor = [2.0]
    module = types.ModuleType("answers")
    module.__getattr__ = lambda name: factor[0]
    return (lambda x: x * module.anything), lambda: factor.__setitem__(0, 3.0)


@program
def subclasses_of_a_class():
    class Base:
        pass

    kept: list = []
    return (lambda x: x * (1 + len(Base.__subclasses__()))), lambda: kept.append(
        type("Another", (Base,), {})
    )


@program
def class_that_is_registered():
    base = abc.ABCMeta("Base", (), {})

    thing = Thing()
    return (lambda x: x * (2.0 if isinstance(thing, base) else 3.0)), lambda: base.register(Thing)


@program
def text_of_a_function():
    def documented():
        """Two"""

    return (lambda x: x * len(documented.__doc__)), lambda: setattr(documented, "__doc__", "Three")


# --- containers and values of other kinds -------------------------------------------------------
@program
def element_of_an_array_of_objects():
    things = np.empty(2, object)
    things[:] = [2.0, 1.0]
    return (lambda x: x * things[0]), lambda: things.__setitem__(0, 3.0)


@program
def attribute_of_a_float():
    class Number(float):
        pass

    number = Number(1.0)
    number.k = 2.0
    return (lambda x: x * number.k), lambda: setattr(number, "k", 3.0)


@program
def what_makes_missing_items():
    factor = [2.0]
    table: dict = collections.defaultdict(lambda: factor[0])

    def f(x):
        value = table["z"]
        del table["z"]
        return x * value

    return f, lambda: factor.__setitem__(0, 3.0)


@program
def missing_item_of_a_class():
    factor = [2.0]

    class Table(dict):
        def __missing__(self, key):
            return factor[0]

    table = Table()
    return (lambda x: x * table["z"]), lambda: factor.__setitem__(0, 3.0)


@program
def length_of_a_weak_set():
    one, other = Thing(), Thing()
    things = weakref.WeakSet([one])

    def f(x):
        return x * len(things) * one.__dict__.get("k", 1.0)

    return f, lambda: things.add(other)


@program
def one_of_many_objects():
    things = [Thing(k=1.0) for _ in range(5000)]
    return (lambda x: x * things[4990].k), lambda: setattr(things[4990], "k", 3.0)


@program
def element_of_a_buffer():
    numbers = bytearray([2, 3])
    return (lambda x: x * numbers[0]), lambda: numbers.__setitem__(0, 5)


@program
def getter_of_attributes():
    thing = Thing(part=Thing(k=2.0))
    getter = operator.attrgetter("part.k")
    return (lambda x: x * getter(thing)), lambda: setattr(thing.part, "k", 3.0)


@program
def number_of_an_array_of_a_class():
    class Table:
        numbers = np.array([2.0, 3.0], "f")

    return (lambda x: x * float(Table.numbers[0])), lambda: Table.numbers.fill(5)


@program
def mean_of_an_array_of_a_class():
    class Table:
        numbers = np.array([2.0, 3.0], "f")

    return (lambda x: x * float(Table.numbers.mean())), lambda: Table.numbers.fill(5)


@program
def many_numbers_of_an_array_of_a_class():
    class Table:
        numbers = np.ones(100_000, "f")

    return (lambda x: x * float(Table.numbers[-1])), lambda: Table.numbers.fill(5)


@program
def attribute_of_a_parameter():
    link = L.Linear(3, 2)
    link.W.k = 2.0
    return (lambda x: link(x) * link.W.k), lambda: setattr(link.W, "k", 3.0)


@program
def attribute_that_a_parameter_may_have():
    link = L.Linear(3, 2)
    return (lambda x: link(x) * getattr(link.W, "k", 2.0)), lambda: setattr(link.W, "k", 3.0)


@program
def whether_a_parameter_has_an_attribute():
    link = L.Linear(3, 2)

    def f(x):
        return link(x) * (2.0 if hasattr(link.W, "frozen") else 1.0)

    return f, lambda: setattr(link.W, "frozen", True)


# --- state of the interpreter and of libraries --------------------------------------------------
@program
def arguments_of_the_program():
    return (lambda x: x * len(sys.argv)), lambda: sys.argv.append("another")


@program
def precision_of_decimals():
    def f(x):
        return x * float(decimal.Decimal(1) / 3)

    return f, lambda: setattr(decimal.getcontext(), "prec", 2)


@program
def variable_of_the_context():
    gain: contextvars.ContextVar = contextvars.ContextVar("gain", default=2.0)
    return (lambda x: x * gain.get()), lambda: gain.set(3.0)


def logger():
    logger = logging.getLogger("sdbr.tests.seen")
    logger.setLevel(logging.WARNING)
    logger.propagate = True
    return logger


@program
def level_of_a_logger():
    own = logger()
    return (lambda x: x * (2.0 if own.isEnabledFor(20) else 1.0)), lambda: own.setLevel(10)


@program
def level_of_all_loggers():
    own = logger()
    own.setLevel(logging.DEBUG)
    return (lambda x: x * (2.0 if own.isEnabledFor(20) else 1.0)), lambda: logging.disable(30)


@program
def cached_array():
    base = [2.0]

    @functools.lru_cache
    def table(n):
        return np.full(n, base[0], "f")

    def change():
        base[0] = 3.0
        table.cache_clear()

    table(3)
    return (lambda x: F.tanh(x) * table(3)), change


@program
def member_of_an_enum_as_a_key():
    mode = enum.Enum("Mode", "A B")
    table, holder = {mode.A: 2.0, mode.B: 3.0}, Thing(mode=mode.A)
    return (lambda x: x * table[holder.mode]), lambda: setattr(holder, "mode", mode.B)


def numbers_of(y) -> np.ndarray:
    return np.asarray(y.array if isinstance(y, chainer.Variable) else y)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_change_is_seen(name):
    function, change = PROGRAMS[name]()
    static = sdbr.static_graph(function, on_dynamic="raise")
    with chainer.using_config("sdbr_audit", "off"):
        for i in range(4):
            want = numbers_of(function(X + i))
            np.testing.assert_allclose(numbers_of(static(X + i)), want, rtol=ROUNDINGS)
        assert static.schedule_manager.statistics.replays > 0
        before = numbers_of(function(X))
        change()
        for i in range(4):
            want = numbers_of(function(X + i))
            np.testing.assert_allclose(numbers_of(static(X + i)), want, rtol=ROUNDINGS)
        assert not np.allclose(numbers_of(function(X)), before)


def test_the_attribute_that_has_moved_is_named():
    function, change = get_of_a_dict()
    static = sdbr.static_graph(function)
    static(X)
    change()
    static(X)
    assert "get.__self__['a']" in static.schedule_manager.misses[-1][0]


def test_what_nobody_can_compare_is_dynamic_with_its_line():
    numbers = iter([1.0, 2.0, 3.0, 4.0])
    static = sdbr.static_graph(lambda x: x * next(numbers))
    with pytest.warns(sdbr.SdbrWarning, match=rf"not static: .* at {__file__}:"):
        for i in range(3):
            np.testing.assert_allclose(numbers_of(static(X)), X * (i + 1), rtol=ROUNDINGS)


def test_what_logs_nothing_costs_nothing():
    """Its level is compared, and no other logger."""
    own = logger()
    static = sdbr.static_graph(lambda x: own.debug("x") or F.tanh(x), on_dynamic="raise")
    for _ in range(4):
        static(X)
    assert static.schedule_manager.statistics.traces == 1
    (schedule,) = next(iter(static.schedule_manager.schedules.values()))
    with mock.patch.object(Guard, "holds", side_effect=AssertionError("is asked one by one")):
        static(X)
    assert schedule.guards.seen is not None
    assert static.schedule_manager.statistics.replays == 4


def test_caches_of_libraries_may_be_emptied():
    """What they hold is computed from what is compared: texts, levels of loggers."""
    own, other = logger(), logging.getLogger("sdbr.tests.seen.other")
    pattern = f"a{{1,{len(__file__)}}}"
    static = sdbr.static_graph(
        lambda x: own.debug("x") or x * len(re.match(pattern, "aab").group()), on_dynamic="raise"
    )
    for i in range(8):
        re.purge()
        other.setLevel(logging.INFO + i)  # which empties those of all loggers
        np.testing.assert_array_equal(numbers_of(static(X + i)), (X + i) * 2)
    assert static.schedule_manager.statistics.replays == 7
    own.setLevel(logging.CRITICAL)
    static(X)
    assert static.schedule_manager.statistics.replays == 7


def test_code_without_a_module():
    """It has no file either, and is what the call calls itself."""
    space = {"k": 2.0}
    exec(compile("def forward(self, x):\n    return x * k", "<string>", "exec"), space)
    model = sdbr.static_graph(type("Model", (chainer.Chain,), {"forward": space["forward"]})())
    for k in (2.0, 2.0, 3.0, 3.0):
        space["k"] = k
        np.testing.assert_allclose(numbers_of(model(X)), X * k, rtol=ROUNDINGS)
    assert model.schedule_manager.statistics.replays == 2


@pytest.mark.parametrize("of", [lambda a: a[:1], lambda a: a.reshape(1, 2), lambda a: a.T])
@pytest.mark.parametrize("before", [1, 2, 3])
def test_a_view_of_an_array_that_is_replaced_by_its_equal(before, of):
    """It is read where the first one lies, which has changed since."""
    thing = Thing(array=np.array([1, 2], "f"))
    static = sdbr.static_graph(lambda x: F.tanh(x)[:, :1] + of(thing.array))
    for array, value in ((None, None),) * before + ((None, 5.0),) * 2 + ((1, None), (None, None)):
        if array is not None:
            thing.array = np.array([1, 2], "f")
        if value is not None:
            thing.array.fill(value)
        want = np.tanh(X)[:, :1] + of(thing.array)
        np.testing.assert_allclose(numbers_of(static(X)), want, rtol=ROUNDINGS)
    assert static.schedule_manager.statistics.replays > 0


class Interrupted(Exception):
    """Out of a handler of a signal."""


@pytest.mark.skipif(not hasattr(signal, "raise_signal"), reason="no signals")
@pytest.mark.parametrize("owner, name", [(Reads, "settle"), (Reads, "without"), (Guard, "holds")])
def test_errors_of_signals_are_the_users(owner, name):
    """They are raised, wherever our code is when the signal comes."""

    def handler(number, frame):
        raise Interrupted

    def interrupted(*args, **kwargs):
        signal.raise_signal(signal.SIGUSR1)

    thing = Thing(k=2.0)
    static = sdbr.static_graph(lambda x: x * thing.k)
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with mock.patch.object(owner, name, interrupted), pytest.raises(Interrupted):
            static(X)
    finally:
        signal.signal(signal.SIGUSR1, before)
    for k in (2.0, 2.0, 3.0):
        thing.k = k
        np.testing.assert_allclose(numbers_of(static(X)), X * k, rtol=ROUNDINGS)
    assert static.schedule_manager.statistics.define_by_run_calls == 0


def test_a_tracer_beside_it_stays():
    """Before 3.12 there is one trace function for all: no call is traced beside another."""
    thing = Thing(k=2.0)
    static = sdbr.static_graph(lambda x: x * thing.k)

    def tracer(frame, event, arg):
        return None

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        for k in (2.0, 2.0, 3.0):
            thing.k = k
            np.testing.assert_allclose(numbers_of(static(X)), X * k, rtol=ROUNDINGS)
        assert sys.gettrace() is tracer
    finally:
        sys.settrace(before)
    text = " ".join(str(sdbr.explain(static)).split())
    assert ("has the trace function" in text) == (sys.version_info < (3, 12))


def _written_in_an_object(thing, k):
    thing.table[1] = k


def _added_up(thing, k):
    thing.table += k


def _by_numpy(thing, k):
    np.add(thing.table, k, out=thing.table)


def _filled(thing, k):
    thing.table.fill(k)


@pytest.mark.parametrize("write", [_written_in_an_object, _added_up, _by_numpy, _filled])
def test_an_array_outside_that_each_call_writes_is_dynamic(write):
    """No replay would write there; nobody has to read it."""
    thing, twin = Thing(table=np.zeros(3, "f")), Thing(table=np.zeros(3, "f"))

    def calls(thing):
        return lambda x: (write(thing, thing.number), F.tanh(x))[1]

    static, plain = sdbr.static_graph(calls(thing)), calls(twin)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sdbr.SdbrWarning)
        for i in range(8):
            thing.number = twin.number = 1.0 + i
            np.testing.assert_allclose(numbers_of(static(X)), numbers_of(plain(X)), ROUNDINGS)
            np.testing.assert_array_equal(thing.table, twin.table)


@pytest.mark.parametrize(
    "of", [lambda t: np.sqrt(t.table[1:3]), lambda t: t.table[1:3].sum(), lambda t: t.table.max()]
)
def test_numbers_that_numpy_reads_of_a_view_from_outside(of):
    thing = Thing(table=np.arange(1, 5, dtype="f"))
    static = sdbr.static_graph(lambda x: F.tanh(x)[:, :1] * np.asarray(of(thing)).sum())
    for i in range(8):
        thing.table[2] = 3.0 + i // 4
        want = np.tanh(X)[:, :1] * np.asarray(of(thing)).sum()
        np.testing.assert_allclose(numbers_of(static(X)), want, rtol=ROUNDINGS)
    assert static.schedule_manager.statistics.replays > 0


PICKED = np.array([1, 0])


def test_rows_of_a_table_outside_that_are_picked_by_an_array_outside():
    thing = Thing(table=np.arange(12, dtype="f").reshape(4, 3))
    static = sdbr.static_graph(lambda x: F.tanh(x)[:2, :3] + thing.table[PICKED])
    for i in range(12):
        if i == 3:
            thing.table[1] += 1
        if i == 6:
            PICKED[0] = 3
        if i == 9:
            thing.table[2] += 1
        want = np.tanh(X)[:2, :3] + thing.table[PICKED]
        np.testing.assert_allclose(numbers_of(static(X)), want, rtol=ROUNDINGS)
    assert static.schedule_manager.statistics.replays == 11  # they are read anew
    PICKED[0] = 1
