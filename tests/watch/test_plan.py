"""The plan of a check says what asking one by one says, whatever has happened in between."""

from __future__ import annotations

import gc
import sys
import types
import weakref

import sdbr
from sdbr.trace.watch._frames import KNOWN
from sdbr.trace.watch.plan import _checks
from sdbr.trace.watch.plan.planning import Planner
from sdbr.trace.watch.watching import watch

import chainer
import chainer.links as L
import numpy as np
import pytest

from .models import MODELS
from .outside import PROGRAMS, Thing
from .plans import FUNCTIONS, Plain, agrees, given, holds_by_plan, planned

pytestmark = pytest.mark.skipif(not KNOWN, reason="frames of this Python are not known")


@pytest.fixture(autouse=True)
def functions_are_let_go():
    yield
    FUNCTIONS.clear()


STATIC = [
    pytest.param(program, text, id=name)
    for name, program, text in PROGRAMS
    if not text.startswith("dynamic: ")
]


@pytest.mark.parametrize("before", [0, 1, 2, 50])
@pytest.mark.parametrize("program, text", STATIC)
def test_agrees_before_and_after_a_change(program, text, before):
    steps = program()
    function = next(steps)
    _, reads = watch(function, given())
    for _ in range(before):
        assert agrees(reads, given()) == "None"
    next(steps, None)
    for _ in range(3):
        assert agrees(reads, given()).startswith(text)


@pytest.mark.parametrize("program, text", STATIC)
def test_plan_is_enough_while_nothing_changes(program, text):
    steps = program()
    args = given()
    function = next(steps)
    _, reads = watch(function, args)
    assert reads.check(args, {}) is None
    assert holds_by_plan(reads, args) and holds_by_plan(reads, given())


@pytest.mark.parametrize("name", MODELS)
def test_models_have_nothing_that_is_asked_one_by_one(name):
    model, arguments = MODELS[name]()
    model(*arguments())  # makes what is made once
    _, reads = watch(model, arguments())
    assert reads.check(arguments(), {}) is None
    for guard in reads.guards:
        guard.source = None  # an error where one is asked
    for _ in range(20):
        args = arguments()
        assert holds_by_plan(reads, args)
        model(*args)


class Doubled(chainer.FunctionNode):
    def forward(self, inputs):
        return (inputs[0] * 2,)


def test_what_stands_elsewhere_while_a_call_is_traced():
    """Of ``apply`` the trace has found another one than lies there afterwards."""
    static = sdbr.static_graph(lambda x: Doubled().apply((x,))[0])
    x = np.ones(3, "f")
    for _ in range(8):
        np.testing.assert_array_equal(static(x).array, 2 * x)
    manager = static.schedule_manager
    ((schedule,),) = manager.schedules.values()
    assert manager.statistics.replays == 7
    checks = schedule.guards.seen.checks
    assert checks.plan is not None and checks.plan.check((), {})


# --- what moves at every call -------------------------------------------------------------------
def test_dictionary_that_moves():
    thing = Thing(k=2.0)
    reads = planned(lambda: thing.k)
    for i in range(100):
        thing.other = i
        assert holds_by_plan(reads)
        thing.k = float("2.0")  # another object
        assert holds_by_plan(reads)
    thing.k = 3.0
    assert agrees(reads) == "thing.k"
    thing.k = 2.0
    assert agrees(reads) == "None"


def test_class_that_moves():
    class Made:
        k = 2.0

        def times(self):
            return self.k

    made = Made()
    reads = planned(made.times)
    for i in range(3000):  # Python does not count for ever
        Made.n = i
        assert holds_by_plan(reads)
    Made.k = 3.0
    assert agrees(reads) == "self.k"
    Made.k = 2.0
    assert agrees(reads) == "None"


@pytest.mark.skipif(not hasattr(sys, "_clear_type_cache"), reason="no such function")
def test_methods_of_a_class_that_moves():
    class Made:
        @staticmethod
        def one():
            return 1.0

        @classmethod
        def two(cls):
            return cls.one()

    def other():
        return 2.0

    reads = planned(lambda: Made.one() + Made.two())
    for i in range(100):
        Made.n = i
        assert holds_by_plan(reads)
        one = Made.__dict__["one"].__func__
        Made.one = staticmethod(one)
        assert holds_by_plan(reads)
        Made.one = staticmethod(other)
        assert agrees(reads) == "Made.one"
        Made.one = staticmethod(one)
    Made.one = classmethod(one)
    agrees(reads)


def test_numbers_of_classes_that_begin_anew():
    class Made:
        k = 2.0

    made = Made()
    sys._clear_type_cache()
    reads = planned(lambda: made.k)
    for i in range(200):
        Made.k = 3.0 + i
        sys._clear_type_cache()
        others = [type("Other", (), {}).__doc__ for _ in range(i)]
        assert agrees(reads) == "made.k" and len(others) == i


def test_stores_that_python_has_specialized():
    class Slotted:
        __slots__ = ("k",)

    thing, plain, slotted, table, numbers = Thing(k=0.5), Plain(), Slotted(), {"k": 0.5}, [0.5]
    plain.k = slotted.k = cell = 0.5
    space = {"k": 0.5, "__builtins__": {}}
    exec("def f(): return k\ndef store(x):\n global k\n k = x", space)
    read, store = space["f"], space["store"]

    def f():
        return thing.k + plain.k + slotted.k + table["k"] + numbers[0] + cell + read()

    def change(i, x):
        nonlocal cell
        if i == 0:
            thing.k = x
        elif i == 1:
            plain.k = x
        elif i == 2:
            slotted.k = x
        elif i == 3:
            table["k"] = x
        elif i == 4:
            numbers[0] = x
        elif i == 5:
            cell = x
        else:
            store(x)

    reads = planned(f)
    for _ in range(60):
        for i in range(7):
            assert agrees(reads) == "None"
            change(i, 1.5)
            assert agrees(reads) != "None"
            change(i, 0.5)


def test_globals_that_move():
    module = types.ModuleType("moving")
    sys.modules["moving"] = module
    try:
        exec("k = 2.0\ndef f(): return k", module.__dict__)
        reads = planned(module.f)
        for i in range(20):
            module.n = i
            assert holds_by_plan(reads)
        module.k = 3.0
        assert agrees(reads) == "k"
    finally:
        del sys.modules["moving"]


def test_argument_that_is_another_each_time():
    def f(thing):
        return thing.k + thing.table["a"] + thing.numbers[1]

    def made(k=2.0):
        return (Thing(k=k, table={"a": 1.0}, numbers=[1.0, 2.0]),)

    reads = planned(f, made())
    for _ in range(100):
        assert holds_by_plan(reads, made())
    assert agrees(reads, made(3.0)) == "thing.k"
    (thing,) = made()
    thing.table["a"] = 2.0
    assert agrees(reads, (thing,)) == "thing.table['a']"
    (thing,) = made()
    thing.numbers[1] = 1.0
    assert agrees(reads, (thing,)) == "thing.numbers[1]"


def test_plans_that_do_not_pay_become_rare(monkeypatch):
    made = []

    class Counted(Planner):
        def __init__(self, *args):
            super().__init__(*args)
            made.append(self)

    monkeypatch.setattr(_checks, "Planner", Counted)

    class Made:
        k = (Thing(),)  # which cannot be told from another at its address

    def f():
        return Made.k is not None

    _, reads = watch(f)
    for i in range(200):
        Made.k = (Thing(i=i),)
        assert agrees(reads) == "None"
    assert len(made) < 20
    for _ in range(2000):
        reads.check((), {})
    assert holds_by_plan(reads)


# --- addresses ----------------------------------------------------------------------------------
def test_another_object_at_the_same_address():
    pair = Thing(thing=Thing(k=2.0), link=L.Linear(1, 1))
    reads = planned(lambda: (pair.thing.k, pair.link.bias if hasattr(pair.link, "bias") else 0))
    for _ in range(100):
        address = id(pair.link)
        pair.link = None
        pair.link = L.Linear(1, 1)
        assert agrees(reads) == "pair.link"
        if id(pair.link) == address:
            break
    else:
        pytest.skip("no address came twice")


def test_another_number_at_the_same_address():
    thing = Thing(k=2.5)
    cell = thing.k

    def f():
        return thing.k + cell

    reads = planned(f)
    for i in range(100):
        thing.k = None
        thing.k = 2.5 if i % 3 else 3.5 + i
        assert agrees(reads) == ("None" if i % 3 else "thing.k")


def test_slots_and_lists_whose_items_come_at_the_same_addresses():
    class Slotted:
        __slots__ = ("k",)

    thing, numbers = Slotted(), [0.5]
    thing.k = 0.5
    reads = planned(lambda: thing.k + numbers[0])
    for i in range(100):
        thing.k = None
        thing.k = float(f"{i % 2}.5")
        numbers[0] = None
        numbers[0] = float(f"{i % 3}.5")
        want = "thing.k" if i % 2 else "numbers[0]" if i % 3 else "None"
        assert agrees(reads) == want
    del thing.k
    assert agrees(reads) == "thing.k"


def test_holder_that_is_gone():
    thing = Thing(k=2.0, inner=Thing(k=3.0))
    method = thing.times
    reads = planned(method, (3.0,), keeps=False)
    gone = weakref.ref(thing)
    del thing, method
    assert gone() is None
    assert agrees(reads, (3.0,)) == "self"


def test_nothing_is_kept_alive():
    class Held:
        pass

    def make():
        held = Held()
        link = L.Linear(2, 2)
        thing = Thing(k=2.0, table={"held": held}, things=[held], pair=(held,), link=link)
        thing.loop = thing

        def f():
            one = thing.table["held"], thing.things[0], thing.pair[0], thing.k, thing.loop.k
            return one, thing.link.W.array

        reads = planned(f, keeps=False)
        return reads, weakref.ref(link), weakref.ref(f), weakref.ref(link.W)

    reads, *gone = make()
    gc.collect()
    assert [ref() for ref in gone] == [None] * len(gone)
    assert agrees(reads) != "None"


def test_reads_go_without_the_collector():
    thing = Thing(k=2.0, context=[(Thing(),)])
    reads = planned(lambda: (thing.k, bool(thing.context)))
    gone = weakref.ref(reads)
    gc.disable()
    try:
        del reads
        assert gone() is None
    finally:
        gc.enable()
