"""Words that stand for the tests of a plan: whatever changes one of them is noticed."""

from __future__ import annotations

import sys
import types
import warnings

from sdbr.trace.watch._frames import KNOWN
from sdbr.trace.watch.watching import watch

import chainer.links as L
import numpy as np
import pytest

from .outside import Thing
from .plans import FUNCTIONS, Plain, agrees, holds_by_plan, noted, planned, settle, words

pytestmark = pytest.mark.skipif(not KNOWN, reason="frames of this Python are not known")
VERSIONS = sys.version_info < (3, 13)  # of dictionaries
TAGS = sys.version_info >= (3, 11)  # of classes, which never come twice


@pytest.fixture(autouse=True)
def functions_are_let_go():
    yield
    FUNCTIONS.clear()


# --- each kind of word --------------------------------------------------------------------------
def test_attributes_and_their_dictionary():
    plain = Plain()
    plain.k = 2.0
    reads = noted(lambda: plain.k)
    plain.k = 3.0
    assert agrees(reads) == "plain.k"
    plain.k = 2.0
    assert agrees(reads) == "None"
    settle(reads)
    plain.__dict__ = {"k": 3.0}
    assert agrees(reads) == "plain.k"
    plain.__dict__ = {"k": 2.0}
    assert agrees(reads) == "None"
    plain.__dict__["k"] = 3.0
    assert agrees(reads) == "plain.k"


def test_items_of_a_dictionary():
    table = {"k": 2.0}
    reads = noted(lambda: table["k"])
    table["other"] = 1
    assert holds_by_plan(reads)
    settle(reads)
    table["k"] = 3.0
    assert agrees(reads) == "table['k']"


def test_classes_and_what_they_have():
    class First:
        k = 2.0

    class Second(First):
        k = 3.0

    thing = First()
    reads = noted(lambda: thing.k)
    First.k = 4.0
    assert agrees(reads) == "thing.k"
    First.k = 2.0
    assert agrees(reads) == "None"
    settle(reads)
    thing.__class__ = Second
    assert agrees(reads) == "thing"
    thing.__class__ = First
    settle(reads)
    First.other = 1
    assert holds_by_plan(reads)


def test_functions():
    def f(x, k=2.0, *, z=1.0):
        return x * k * z

    def g(x, k=2.0, *, z=1.0):
        return x + k * z

    reads = noted(lambda: f(1.0))
    text = "the code and defaults of f"
    code, defaults, keywords = f.__code__, f.__defaults__, f.__kwdefaults__
    for name, other, same in (
        ("__code__", g.__code__, code),
        ("__defaults__", (3.0,), defaults),
        ("__kwdefaults__", {"z": 2.0}, keywords),
    ):
        setattr(f, name, other)
        assert agrees(reads) == text
        setattr(f, name, same)
        assert agrees(reads) == "None"
        settle(reads)


def test_code_at_the_same_address():
    space: dict = {}
    exec("def f(x): return x * 2.0", space)
    f = space["f"]
    reads = noted(lambda: f(1.0))
    for i in range(50):
        f.__code__ = (lambda x: x).__code__  # the one before may go
        f.__code__ = compile(f"def f(x): return x * {i}.5", "", "exec").co_consts[0]
        assert agrees(reads) == "the code and defaults of f"


def test_cells():
    cell = Thing(k=2.0)

    def change(value):
        nonlocal cell
        cell = value

    reads = noted(lambda: cell.k)
    change(Thing(k=3.0))
    assert agrees(reads) != "None"
    for i in range(50):  # at addresses of before
        change(None)
        change(Thing(k=2.0 + i % 2))
        assert agrees(reads) == ("cell.k" if i % 2 else "None")


def test_closures_and_slots():
    class Slotted:
        __slots__ = ("empty", "k")

    def made(k):
        def f():
            return k

        return f

    thing, slotted = Thing(f=made(2.0)), Slotted()
    slotted.k = 1.0
    reads = noted(lambda: (thing.f(), slotted.k, hasattr(slotted, "empty")))
    slotted.k = 3.0
    assert agrees(reads) == "slotted.k"
    slotted.k = float("1.0")
    settle(reads)
    slotted.empty = 1
    assert agrees(reads) != "None"
    del slotted.empty
    settle(reads)
    thing.f.__closure__[0].cell_contents = 3.0
    assert agrees(reads) != "None"


def test_lists_and_tuples():
    numbers = [0.5, Thing(k=1.0), (1.5, Thing(k=2.0))]
    reads = noted(lambda: (numbers[0], numbers[1].k, numbers[-1][0], numbers[-1][1].k))
    numbers.append(numbers[-1])
    assert agrees(reads) == "len(numbers)"
    numbers.pop()
    settle(reads)
    numbers[0] = 1.5
    assert agrees(reads) == "numbers[0]"
    numbers[0] = 0.5
    settle(reads)
    pair, numbers[2] = numbers[2], (2.5, numbers[2][1])
    assert agrees(reads) != "None"
    numbers[2] = pair
    assert agrees(reads) == "None"
    settle(reads)
    numbers[2][1].k = 3.0
    assert agrees(reads) == "numbers[-1][1].k"
    del numbers[1:]
    assert agrees(reads) != "None"
    numbers.clear()
    assert agrees(reads) != "None"


def test_lists_that_are_only_counted():
    things = [1, 2]
    reads = noted(lambda: len(things))
    things.append(3)
    assert agrees(reads) == "len(things)"
    things.pop()
    settle(reads)


def test_methods():
    one, other = Thing(k=2.0), Thing(k=3.0)
    holder = Thing(f=one.times)
    reads = noted(lambda: holder.f(2.0))
    one.k = 3.0
    assert agrees(reads) != "None"
    one.k = 2.0
    settle(reads)
    for i in range(20):
        holder.f = None
        holder.f = (other if i % 2 else one).times
        assert (agrees(reads) == "None") == (i % 2 == 0)


def test_modules():
    module = types.ModuleType("module")
    module.k = 2.0
    reads = noted(lambda: module.k)
    module.k = 3.0
    assert agrees(reads) == "module.k"
    module.k = 2.0
    settle(reads)
    module.__class__ = type("Module", (types.ModuleType,), {"k": property(lambda self: 3.0)})
    assert agrees(reads) == "module.k"


def test_arrays_in_place():
    numbers, thing = [np.ones((2, 2), "f")], Thing(array=np.ones((2, 3), "f"))
    reads = noted(lambda: (numbers[0], thing.array))
    numbers[0] += 1
    assert holds_by_plan(reads)
    for array, shape, text in (
        (numbers[0], (4,), "numbers[0]"),
        (numbers[0], (1, 4), "numbers[0]"),
        (thing.array, (3, 2), "thing.array"),
    ):
        before = array.shape
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            array.shape = shape
        assert agrees(reads) == text
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            array.shape = before
        settle(reads)
    numbers[0] = np.ones((2, 2), "d")
    assert agrees(reads) == "numbers[0]"


def test_parameters():
    link = L.Linear(2, 2)
    x = np.ones((1, 2), "f")
    reads = noted(lambda: link(x))
    link.W.array = np.zeros((2, 2), "f")
    assert holds_by_plan(reads)
    link.W._requires_grad = False
    assert agrees(reads) != "None"
    link.W._requires_grad = True
    settle(reads)
    link.W._data[0] = None
    assert agrees(reads) != "None"


def test_which_object_it_is():
    one, pair = Thing(), Thing()
    pair.thing = one
    reads = noted(lambda: pair.thing is one)
    pair.thing = Thing()
    assert agrees(reads) != "None"
    pair.thing = one
    settle(reads)


# --- what moves each time -----------------------------------------------------------------------
@pytest.mark.parametrize("n", [1, 30])
def test_dictionaries_that_move_each_time(n):
    things = [Thing(k=2.0) for _ in range(n)]
    still = Thing(k=1.0)

    def f():
        return sum([thing.k for thing in things]) + still.k

    reads = planned(f)
    for i in range(50):
        for thing in things:
            thing.n = i
        assert holds_by_plan(reads)
    before = words(reads)
    assert before[1] >= n
    for i in range(10):
        for thing in things:
            thing.n = i
        assert holds_by_plan(reads)
    assert words(reads) == (*before[:2], before[2] + 10)
    things[-1].k = 3.0
    assert agrees(reads) == f"things[{n - 1}].k"
    things[-1].k = 2.0
    assert agrees(reads) == "None"
    still.k = 2.0
    assert agrees(reads) == "still.k"


def test_object_that_is_another_each_time():
    holder, still = Thing(thing=Thing(k=2.0)), Thing(k=1.0)
    reads = planned(lambda: holder.thing.k + still.k)
    made = []
    for _ in range(50):
        holder.thing = Thing(k=2.0)
        made.append(holder.thing)
        assert holds_by_plan(reads)
    n, run, held = words(reads)
    for _ in range(10):
        holder.thing = Thing(k=2.0)
        made.append(holder.thing)
        assert holds_by_plan(reads)
    assert words(reads) == (n, run, held + 10)
    for thing in (Thing(k=3.0), made[0], Thing(k=2.5), made[1]):
        holder.thing = thing
        assert (agrees(reads) == "None") == (thing.k == 2.0)


def test_arguments_that_are_others_each_time():
    still = Thing(k=1.0)
    reads = planned(lambda thing: thing.k + thing.numbers[0].k + still.k, (argument(),))
    made = []
    for _ in range(50):
        made.append(argument())
        assert holds_by_plan(reads, (made[-1],))
    n, run, held = words(reads)
    for _ in range(10):
        made.append(argument())
        assert holds_by_plan(reads, (made[-1],))
    assert words(reads) == (n, run, held + 10)
    made[0].numbers[0].k = 4.0
    assert agrees(reads, (made[0],)) == "thing.numbers[0].k"
    assert agrees(reads, (made[1],)) == "None"
    assert agrees(reads, (Thing(k=2.0, numbers=[]),)) != "None"


def argument():
    return Thing(k=2.0, numbers=[Thing(k=1.0)])


def test_what_python_is_asked_sees_what_lies_there_now():
    class Counts:
        """Says itself how many it has."""

        n = 1

        def __len__(self):
            return self.n

    thing = Thing(counts=Counts(), k=1.0)
    _, reads = watch(lambda: (thing.k, bool(thing.counts)))
    if reads.dynamic:
        pytest.skip("is not followed")
    for i in range(100):
        thing.k = float("1.0")
        thing.counts.n = i % 2
        agrees(reads)


@pytest.mark.skipif(not VERSIONS or not TAGS, reason="some tests have no words")
def test_all_of_a_plain_call_are_words():
    thing = Thing(k=2.0, numbers=[1.0], inner=Thing(k=1.0))
    reads = planned(lambda: thing.k + thing.numbers[0] + thing.inner.k)
    settle(reads, kept=2)  # how it is called, and the environment
