"""Plans of all that is in an object, which compiled code gets hold of."""

from __future__ import annotations

import collections
import datetime
import enum
import fractions
import pickle
import types
import warnings
from typing import ClassVar

from sdbr.trace.watch._frames import KNOWN
from sdbr.trace.watch.reads import Guard

import numpy as np
import pytest

from .outside import Thing
from .plans import agrees, holds_by_plan, planned, settle

pytestmark = pytest.mark.skipif(not KNOWN, reason="frames of this Python are not known")

CHANGES: dict = {}


def change(function):
    """Enter what gives a thing, changes something in it, and changes it back."""
    CHANGES[function.__name__] = function
    return function


class Slots:
    """Has slots, one of which is empty."""

    __slots__ = ("a", "b")


class Holder:
    """Has attributes of its own, and of its class."""

    table: ClassVar = {"k": 1.0}

    def __init__(self, **kwargs):
        self.__dict__.update(kwargs)

    def double(self, x, *, by=2):
        return by * x


class Other(Holder):
    """Has no more."""


class Mode(enum.Enum):
    """Some."""

    A = 1
    B = 2


@change
def item_of_a_dict_in_a_list():
    inner = {"b": 2.0}
    yield {"a": [1, inner]}
    inner["b"] = 3.0
    yield
    inner["b"] = 2.0


@change
def one_more_key():
    inner = {"b": 2.0}
    yield [inner]
    inner["c"] = 3.0
    yield
    del inner["c"]


@change
def one_more_element():
    inner = [1.0]
    yield {"a": (inner, 2)}
    inner.append(1)
    yield
    inner.pop()


@change
def attribute():
    inner = Holder(k=1.0)
    yield [Holder(inner=inner)]
    inner.k = 2.0
    yield
    inner.k = 1.0


@change
def one_more_attribute():
    inner = Holder()
    yield Holder(inner=inner)
    inner.k = 2.0
    yield
    del inner.k


@change
def attribute_of_a_namespace():
    inner = types.SimpleNamespace(k=1.0)
    yield [inner]
    inner.k = 2.0
    yield
    inner.k = 1.0


@change
def slot():
    inner = Slots()
    inner.a = 1.0
    yield [inner]
    inner.a = 2.0
    yield
    inner.a = 1.0


@change
def empty_slot():
    inner = Slots()
    inner.a = 1.0
    yield [inner]
    inner.b = 2.0
    yield
    del inner.b


@change
def attribute_of_the_class():
    yield [Holder()]
    Holder.more = 1
    yield
    del Holder.more


@change
def table_of_the_class():
    yield [Holder()]
    Holder.table["k"] = 2.0
    yield
    Holder.table["k"] = 1.0


@change
def the_class():
    inner = Holder(k=1.0)
    yield [inner]
    inner.__class__ = Other
    yield
    inner.__class__ = Holder


@change
def member_of_an_enum():
    inner = Holder(mode=Mode.A)
    yield inner
    inner.mode = Mode.B
    yield
    inner.mode = Mode.A


@change
def number_of_python():
    inner = Holder(k=fractions.Fraction(1, 3), day=datetime.date(2020, 1, 1))
    yield inner
    inner.k = fractions.Fraction(2, 3)
    yield
    inner.k = fractions.Fraction(1, 3)


@change
def date():
    inner = Holder(day=datetime.date(2020, 1, 1))
    yield inner
    inner.day = datetime.date(2020, 1, 2)
    yield
    inner.day = datetime.date(2020, 1, 1)


@change
def factory_of_a_dict():
    inner = collections.defaultdict(list, a=1)
    yield [inner]
    inner.default_factory = int
    yield
    inner.default_factory = list


def reshape(array, shape):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        array.shape = shape


@change
def shape_of_an_array_in_a_dict():
    array = np.ones((2, 3), "f")
    yield {"a": array}
    reshape(array, (3, 2))
    yield
    reshape(array, (2, 3))


@change
def shape_of_an_array_in_an_attribute():
    array = np.ones((2, 3), "f")
    yield [Holder(array=array)]
    reshape(array, (3, 2))
    yield
    reshape(array, (2, 3))


@change
def shape_of_an_array_in_a_list():
    array = np.ones((2, 3), "f")
    yield {"a": [array]}
    reshape(array, (3, 2))
    yield
    reshape(array, (2, 3))


@change
def defaults_of_a_function():
    function = Holder.__dict__["double"]
    yield {"a": function}
    function.__defaults__ = (3,)
    yield
    function.__defaults__ = None


@change
def named_defaults_of_a_function():
    function = Holder.__dict__["double"]
    yield {"a": function}
    function.__kwdefaults__["by"] = 3
    yield
    function.__kwdefaults__["by"] = 2


@change
def attribute_of_a_function():
    function = Holder.__dict__["double"]
    yield {"a": function}
    function.more = 1
    yield
    del function.more


@change
def cyclic():
    inner = Holder(k=1.0)
    inner.itself = inner
    yield inner
    inner.k = 2.0
    yield
    inner.k = 1.0


@pytest.fixture
def asked(monkeypatch):
    """Guards of contents that were asked one by one."""
    asked: list = []
    holds = Guard.holds

    def noted(guard, values):
        if guard.kind == "contents":
            asked.append(str(guard))
        return holds(guard, values)

    monkeypatch.setattr(Guard, "holds", noted)
    return asked


@pytest.mark.parametrize("name", CHANGES)
def test_contents(name, asked):
    steps = CHANGES[name]()
    thing = Thing(thing=next(steps))
    reads = planned(lambda: pickle.dumps(thing.thing) and 1)
    assert any(guard.kind == "contents" for guard in reads.guards)
    asked.clear()
    for _ in range(4):
        assert holds_by_plan(reads)
    assert bool(asked) == ("array" in name)  # whose numbers may change where they lie
    next(steps)
    assert agrees(reads) != "None" and asked
    next(steps, None)
    assert agrees(reads) == "None"


def test_what_is_replaced_by_its_equal():
    """The plan does not know, and the guard is asked."""
    thing = Thing(table={"a": [1.0, 2.0]})
    reads = planned(lambda: pickle.dumps(thing.table) and 1)
    settle(reads)
    for _ in range(20):
        thing.table = {"a": [1.0, 2.0]}
        assert agrees(reads) == "None"
    thing.table = {"a": [1.0, 3.0]}
    assert "what is in" in agrees(reads)


def test_what_is_found_by_no_version_is_asked_one_by_one():
    some, text = {1, 2}, bytearray(b"ab")
    ordered = collections.OrderedDict(a=1, b=2)
    for thing, change in (
        (some, lambda: some.add(3)),
        (ordered, lambda: ordered.move_to_end("a")),
        (text, lambda: text.append(1)),
    ):
        reads = planned(lambda thing=thing: pickle.dumps(thing) and 1)
        assert agrees(reads) == "None"
        change()
        assert "what is in" in agrees(reads)
