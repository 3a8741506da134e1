"""Words that stand for tests of a plan, where what they lie in goes, and others come there."""

from __future__ import annotations

import gc
import itertools
import weakref

from sdbr.trace.watch._frames import KNOWN

import pytest

from .outside import Thing
from .plans import FUNCTIONS, agrees, holds_by_plan, noted, planned, settle

pytestmark = pytest.mark.skipif(not KNOWN, reason="frames of this Python are not known")


@pytest.fixture(autouse=True)
def functions_are_let_go():
    yield
    FUNCTIONS.clear()


def test_holder_that_is_gone():
    thing = Thing(k=2.0, inner=Thing(k=3.0), numbers=[Thing(k=1.0)])
    method = thing.times
    reads = planned(method, (3.0,), keeps=False)
    settle(reads, (3.0,))
    gone = weakref.ref(thing)
    del thing, method
    assert gone() is None
    kept = [Thing(k=2.0) for _ in range(100)]  # at its address
    assert agrees(reads, (3.0,)) == "self" and kept


def test_roots_that_are_let_go_of_while_they_are_asked():
    """What waits for being let go of is there no more."""
    found = []

    class Last:
        def __del__(self):
            found.append(str(reads.check((2.0,), {})))

    thing = Thing(k=2.0)
    method = thing.times
    reads = planned(method, (2.0,), keeps=False)
    settle(reads, (2.0,))
    chain = Last()
    for _ in range(200):  # deep enough for Python to let some wait
        chain = (chain,)
    thing.chain = chain
    del chain, thing, method
    gc.collect()
    assert found and agrees(reads, (2.0,)) != "None"


@pytest.mark.parametrize("deep", [1, 2, 3])
def test_what_is_held_by_something_that_is_replaced(deep):
    def made(k):
        thing = Thing(k=k)
        for _ in range(deep):
            thing = Thing(inner=thing, numbers=[thing], pair=(thing,), table={"a": thing})
        return thing

    def read(thing):
        for _ in range(deep):
            thing = thing.inner, thing.numbers[0], thing.pair[0], thing.table["a"]
            thing = thing[0]
        return thing.k

    top = Thing(thing=made(2.0))
    reads = noted(lambda: read(top.thing))
    for i in range(40):
        top.thing = None
        top.thing = made(2.0 + i % 2)
        assert (agrees(reads) == "None") == (i % 2 == 0)


def test_numbers_that_come_back_at_an_address():
    """A pass that fails may have noted others."""
    numbers, thing = [2.5], Thing(k=1.0)
    cell = float("2.5")

    def change(value):
        nonlocal cell
        cell = value

    reads = noted(lambda: numbers[0] + cell + thing.k)
    for i, j in itertools.product(range(10), range(3)):
        for value in (float("2.5"), None, float(f"{j}.5")):
            numbers[0] = value
            change(value)
            thing.k = 1.0 + i % 2
            agrees(reads)


def test_numbers_that_a_failing_pass_has_let_go_of():
    last = float("1.0")
    numbers = [float("2.5"), last]
    reads = noted(lambda: numbers[0] + numbers[1])
    numbers[0] = float("2.5")  # which guards do not hold
    settle(reads)
    address = id(numbers[0])
    numbers[:] = [float("2.5"), 3.0]
    assert not holds_by_plan(reads)  # by which the first one has gone
    numbers[1] = last
    others = [float(f"{i}.25") for i in range(1000)]
    for other in others:
        if id(other) == address:
            numbers[0] = other
            assert agrees(reads) == "numbers[0]"
            return
    pytest.skip("the address has not come twice")


def test_items_that_lie_elsewhere():
    numbers = [0.5, 1.5]
    reads = noted(lambda: numbers[0] + numbers[1])
    numbers.extend(range(10_000))
    numbers[0] = 3.5
    del numbers[2:]
    assert agrees(reads) == "numbers[0]"


def test_functions_in_a_list():
    def made():
        return lambda: 2.0

    functions = [made()]
    reads = noted(lambda: functions[0]())
    for _ in range(50):
        address = id(functions[0])
        functions[0] = None
        functions[0] = made()
        if id(functions[0]) == address:
            assert agrees(reads) == "functions[0]"
            return
    pytest.skip("no address came twice")


def test_root_that_waits_for_being_let_go_of():
    class Last:
        def __del__(self):
            found.append(str(reads.check((2.0,), {})))

    found: list = []
    for depth in range(30, 70):
        thing = Thing(k=2.0)
        method = thing.times
        reads = planned(method, (2.0,), keeps=False)
        settle(reads, (2.0,))
        chain = (Last(), thing)  # the thing is let go of first, if deep inside not at once
        for _ in range(depth):
            chain = (chain,)
        del thing, method
        chain = None
    assert len(found) == 40 and "None" not in found
