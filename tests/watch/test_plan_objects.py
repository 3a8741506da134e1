"""The plan of a check sees what may become of objects, classes and arguments."""

from __future__ import annotations

import collections
import gc
import itertools
import types
import warnings

from sdbr.trace.watch._frames import KNOWN
from sdbr.trace.watch.reads import Guard

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np
import pytest

from .outside import Thing
from .plans import FUNCTIONS, Plain, agrees, holds_by_plan, planned

pytestmark = pytest.mark.skipif(not KNOWN, reason="frames of this Python are not known")


@pytest.fixture(autouse=True)
def functions_are_let_go():
    yield
    FUNCTIONS.clear()


# --- classes ------------------------------------------------------------------------------------
class First:
    k = 2.0
    own = 1.0

    def times(self, x):
        return x * self.k


class Second(First):
    k = 3.0


def test_class_that_is_assigned():
    thing = First()
    reads = planned(lambda: thing.times(2.0))
    thing.__class__ = Second
    assert agrees(reads) == "thing"
    thing.__class__ = First
    assert agrees(reads) == "None"


def test_a_class_of_which_an_object_is_made(monkeypatch):
    """``object.__new__`` is what it is: no guard is asked in Python for it."""
    reads, asked = planned(lambda: First().own), []
    monkeypatch.setattr(Guard, "holds", lambda self, values: asked.append(str(self)) or True)
    assert holds_by_plan(reads)
    assert asked == []


def test_class_of_a_plain_value_that_is_assigned():
    pair = Thing(thing=First())
    reads = planned(lambda: pair.thing is not None)
    pair.thing.__class__ = Second
    assert agrees(reads) == "pair.thing"


def test_class_of_a_module_that_is_assigned():
    class Module(types.ModuleType):
        k = property(lambda self: 3.0)

    module = types.ModuleType("module")
    module.k = 2.0
    reads = planned(lambda: module.k)
    module.__class__ = Module
    assert agrees(reads) == "module.k"


def test_attribute_that_a_class_gets_later():
    class Made:
        pass

    made = Made()
    made.k = 2.0
    reads = planned(lambda: (made.k, getattr(made, "z", None)))
    Made.z = 1.0
    assert agrees(reads) != "None"
    del Made.z
    assert agrees(reads) == "None"
    Made.k = property(lambda self: 3.0)
    assert agrees(reads) == "made.k"


def test_attribute_that_shadows_a_method():
    thing = First()
    reads = planned(lambda: thing.times(2.0))
    thing.times = lambda x: x
    assert agrees(reads) == "thing.times"
    del thing.times
    assert agrees(reads) == "None"
    thing.own = 1.0
    assert agrees(reads) == "None"


def test_descriptor_whose_class_changes():
    class Value:
        pass

    class Made:
        k = Value()

    made = Made()
    made.__dict__["k"] = 2.0
    reads = planned(lambda: made.k)
    Value.__get__ = lambda self, thing, kind: 3.0
    Value.__set__ = lambda self, thing, value: None
    assert agrees(reads) == "made.k"


def test_bases_that_change():
    class A:
        k = 2.0

    class B:
        k = 3.0

    class Made(A):
        pass

    made = Made()
    reads = planned(lambda: made.k)
    Made.__bases__ = (B,)
    assert agrees(reads) == "made.k"


def test_metaclass_that_changes():
    class Meta(type):
        k = 2.0

    class Other(Meta):
        k = 3.0

    class Made(metaclass=Meta):
        pass

    reads = planned(lambda: Made.k)
    Made.__class__ = Other
    assert agrees(reads) == "Made.k"
    Made.__class__ = Meta
    assert agrees(reads) == "None"
    Meta.k = 4.0
    assert agrees(reads) == "Made.k"


# --- objects ------------------------------------------------------------------------------------
def test_dictionary_that_is_exchanged():
    thing = Plain()
    thing.k = 2.0
    before = thing.__dict__
    reads = planned(lambda: thing.k)
    for i in range(10):
        thing.__dict__ = {"k": 2.0, "i": i}
        assert agrees(reads) == "None"
    thing.__dict__ = {"k": 3.0}
    assert agrees(reads) == "thing.k"
    thing.__dict__ = before
    assert agrees(reads) == "None"
    before["k"] = 3.0
    assert agrees(reads) == "thing.k"


def test_dictionary_half_of_which_differs():
    thing, inner = Plain(), Plain()
    thing.inner, thing.k = inner, 2.0
    inner.k = 1.0
    reads = planned(lambda: thing.inner.k + thing.k)
    before = thing.__dict__
    other = Plain()
    other.k = 1.0
    thing.__dict__ = {"inner": other, "k": 3.0}
    assert agrees(reads) == "thing.k"
    del other
    thing.__dict__ = before  # as it was, at the version that it had
    gc.collect()
    assert agrees(reads) == "None"
    inner.k = 5.0
    assert agrees(reads) == "thing.inner.k"


def test_items_of_lists_tuples_and_deques():
    numbers, pair = [1.0, Thing(k=2.0)], Thing(t=(Thing(k=2.0), 3.0))
    ring = collections.deque([1.0, 2.0])
    reads = planned(lambda: (numbers[1].k, numbers[0], pair.t[0].k, pair.t[1], ring[1]))
    numbers[1] = Thing(k=2.0)
    assert agrees(reads) == "None"
    numbers[1].k = 4.0
    assert agrees(reads) == "numbers[1].k"
    numbers[1].k = 2.0
    pair.t = (Thing(k=2.0), 4.0)
    assert agrees(reads) == "pair.t"
    pair.t = (Thing(k=5.0), 3.0)
    assert agrees(reads) == "pair.t[0].k"
    pair.t = (Thing(k=2.0), 3.0)
    assert agrees(reads) == "None"
    ring[1] = 3.0
    assert agrees(reads) == "ring[1]"


def test_functions():
    def scaled(x, k=2.0, *, z=1.0):
        return x * k * z

    def other(x, k=2.0, *, z=1.0):
        return x + k + z

    reads = planned(lambda: scaled(2.0))
    code, defaults = scaled.__code__, scaled.__defaults__
    scaled.__code__ = other.__code__
    assert agrees(reads) == "the code and defaults of scaled"
    scaled.__code__ = code
    assert agrees(reads) == "None"
    scaled.__defaults__ = (3.0,)
    assert agrees(reads) == "the code and defaults of scaled"
    scaled.__defaults__ = defaults
    scaled.__kwdefaults__ = {"z": 2.0}
    assert agrees(reads) == "the code and defaults of scaled"


def test_attributes_of_functions():
    def marked():
        return 1.0

    reads = planned(lambda: getattr(marked, "k", 2.0))
    marked.z = 1
    assert agrees(reads) == "None"
    marked.k = 3.0
    assert agrees(reads) != "None"


def test_keys_that_are_no_texts():
    class Key:
        def __hash__(self):
            return hash("k")

        def __eq__(self, other):
            asked.append(other)
            return False

    asked: list = []
    table = {"k": 2.0, 3: 4.0, None: 5.0, (1, 2): 6.0}
    reads = planned(lambda: table["k"] + table[3] + table[None] + table[1, 2])
    table[7] = 1.0
    assert holds_by_plan(reads)
    table[1, 2] = 6.5
    assert agrees(reads) == "table[(1, 2)]"
    table[1, 2] = 6.0
    table.clear()
    table[Key()] = 1.0
    reads._checks.plan.check((), {})
    assert not asked  # no code of the user's runs in a plan


def test_arrays_in_place():
    thing = Thing(array=np.ones((2, 2), "f"))
    reads = planned(lambda: thing.array)
    thing.array += 1
    assert holds_by_plan(reads)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        thing.array.shape = (4,)
    assert agrees(reads) == "thing.array"
    thing.array = np.zeros((2, 2), "f")
    assert agrees(reads) == "None"
    thing.array = np.zeros((2, 2), "d")
    assert agrees(reads) == "thing.array"
    thing.array = np.zeros((2, 2), np.dtype("f").newbyteorder())
    assert agrees(reads) == "thing.array"


def test_parameters():
    link = L.Linear(2, 2)
    x = np.ones((1, 2), "f")
    reads = planned(lambda: F.relu(link(x)))
    link.W.array[...] = 5
    link.W.array = np.zeros((2, 2), "f")
    assert holds_by_plan(reads)
    link.W._requires_grad = False
    assert agrees(reads) != "None"
    link.W._requires_grad = True
    assert agrees(reads) == "None"
    data, link.W._data = link.W._data, [None]
    assert agrees(reads) != "None"
    link.W._data = data
    assert agrees(reads) == "None"
    link.W.array = np.zeros((3, 2), "f")
    assert agrees(reads) != "None"


def test_arguments():
    def f(thing, x, *rest, k=1, **more):
        return thing.k * x * k * len(rest) * len(more)

    thing = Thing(k=2.0)
    args, kwargs = (thing, 1.5, 2), {"k": 2, "z": 3}
    reads = planned(f, args, kwargs)
    assert holds_by_plan(reads, (thing, float("1.5"), 2), {"k": 2, "z": 3})
    for others, named in itertools.product(
        [(thing, 1.5), (thing, 1.5, 3), (thing, 2.5, 2), (None, 1.5, 2), args, (thing, True, 2)],
        [{"k": 2}, {"z": 3, "k": 2}, {"k": 2, "y": 3}, {"k": 2.0, "z": 3}, kwargs, {}],
    ):
        agrees(reads, others, named)
    assert holds_by_plan(reads, args, kwargs)


def test_configuration():
    link = L.BatchNormalization(2)
    x = np.ones((3, 2), "f")
    reads = planned(lambda: link(x))
    with chainer.using_config("train", False):
        assert agrees(reads) != "None"
    assert agrees(reads) == "None"
    with chainer.using_config("other", 1):
        assert holds_by_plan(reads)
    chainer.global_config.train = False
    try:
        assert agrees(reads) != "None"
    finally:
        chainer.global_config.train = True
    assert agrees(reads) == "None"


def test_errors_and_warnings():
    reads = planned(lambda: 1)
    with np.errstate(all="ignore"):
        assert agrees(reads) != "None"
    with np.errstate():
        assert holds_by_plan(reads)
    with warnings.catch_warnings():
        assert holds_by_plan(reads)
        warnings.simplefilter("error")
        assert agrees(reads) != "None"
    assert holds_by_plan(reads)


def test_not_a_number():
    thing = Thing(k=float("nan"), z=0.0)
    reads = planned(lambda: (thing.k, thing.z))
    thing.k = float("nan")
    assert agrees(reads) == "None"
    thing.z = -0.0
    assert agrees(reads) == "thing.z"
    thing.z = 0
    assert agrees(reads) == "thing.z"


# --- some of the guards -------------------------------------------------------------------------
def test_without_some_guards():
    thing, other = Thing(k=2.0, inner=Thing(k=1.0)), Thing(k=3.0)
    reads = planned(lambda: thing.k * other.k * thing.inner.k)
    checks = reads.without(lambda guard: str(guard) == "thing.k")
    for _ in range(3):
        assert checks.check((), {}) is None
    thing.k = 5.0
    assert checks.check((), {}) is None and agrees(reads) == "thing.k"
    thing.inner = Thing(k=1.0)
    assert checks.check((), {}) is None
    thing.inner.k = 2.0
    assert str(checks.check((), {})) == "thing.inner.k"
    nothing = reads.without(lambda guard: True)
    assert nothing.check((), {}) is None


def test_without_the_values_that_others_hang_from():
    class Made:
        k = 2.0

    thing = Thing(kind=Made, f=lambda: 1.0)
    reads = planned(lambda: thing.kind.k + thing.f())
    checks = reads.without(lambda guard: str(guard) in ("thing.kind", "thing.f"))
    assert checks.check((), {}) is None and checks.check((), {}) is None
    thing.kind = type("Another", (), {"k": 3.0})
    assert str(checks.check((), {})) == "thing.kind.k"
    thing.kind = int
    assert str(checks.check((), {})) == "thing.kind.k"
    thing.kind = Made
    thing.f = lambda: 2.0
    assert str(checks.check((), {})) == "the code and defaults of thing.f"
