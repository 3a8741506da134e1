"""Rows 8 and 9: attributes of objects that a call only assigns, and those that a text tells."""

from __future__ import annotations

import sdbr

import numpy as np
import pytest
from chainer import functions as F

from tests.harness.comparison import assert_near
from tests.harness.twins import counts
from tests.tolerances import RESULTS

X = np.arange(-4, 8, dtype="f").reshape(3, 4) / 8


class Told:
    def __init__(self):
        self.last = 0.0
        self.rate = 1.0

    def __repr__(self):
        return f"{self.last:.3f}"

    def note(self, last):
        self.last = last


class Measured:
    """With an attribute of the class, and one of a property."""

    last = 0.0

    @property
    def largest(self):
        return self._largest

    @largest.setter
    def largest(self, x):
        self._largest = x + 1


class Slots:
    __slots__ = ("last",)


def shown(thing):
    names = [*getattr(thing, "__dict__", ()), *getattr(thing, "__slots__", ())]
    return {name: getattr(thing, name) for name in names}


def assigned(thing, y):
    thing.last = float(y.array.mean())


def by_a_method(thing, y):
    thing.note(float(y.array.mean()))


def several(thing, y):
    thing.last = y.array.max().item()
    thing.named, thing.all = "yes", (1, y.array)


def by_a_property(thing, y):
    thing.largest = float(y.array.max())


@pytest.mark.parametrize(("make", "note"), [
    (Told, assigned), (Told, by_a_method), (Told, several), (Measured, assigned),
    (Measured, by_a_property), (Slots, assigned),
])  # fmt: skip
def test_what_is_only_assigned_is_not_compared(make, note):
    found = []
    for is_static in (False, True):
        thing, rest = make(), Told()

        def f(x, thing=thing, rest=rest):
            y = F.tanh(x) * rest.rate
            note(thing, y)
            return y

        call = sdbr.static_graph(f, on_dynamic="raise") if is_static else f
        found.append([(call(X + i).array, shown(thing)) for i in range(5)])
    for (y, left), (want, wanted) in zip(found[1], found[0], strict=True):
        assert_near(y, want, RESULTS, "result")
        assert list(left) == list(wanted)
        for name, x in wanted.items():
            assert left[name].__class__ is x.__class__
            if name in ("last", "_largest"):
                assert left[name] == pytest.approx(x, RESULTS)
    assert counts(call)[1] == 4


TOLD = Told()


@pytest.mark.parametrize("text", [
    str, repr, ascii, lambda thing: f"{thing}", lambda thing: f"{[thing]!r:>9}", "{}".format,
    lambda thing: "%s" % (thing,),  # noqa: UP031
    lambda thing: str([thing]).strip("[]"),
], ids=["str", "repr", "ascii", "f-string", "in a list", "format", "percent", "list"])  # fmt: skip
def test_what_a_text_tells_is_compared(text):
    def f(x):
        return F.tanh(x) * (2.0 if "5" in text(TOLD) else 1.0)

    static = sdbr.static_graph(f)
    for i in range(8):
        TOLD.last = 0.0 if i < 4 else 5.0
        assert_near(static(X).array, f(X).array, RESULTS, "result")
    assert counts(static) == (2, 6, 0)


def test_a_text_of_what_the_call_assigns():
    """It reads what the call before has assigned: that is no place that is only written."""

    def f(x):
        y = F.tanh(x) * (2.0 if "5" in str(TOLD) else 1.0)
        TOLD.last = float(y.array.max())
        return y

    found = []
    for call in (f, sdbr.static_graph(f)):
        TOLD.last = 0.0
        with pytest.warns(sdbr.SdbrWarning) if call is not f else pytest.MonkeyPatch.context():
            found.append([(call(X + i).array.max(), TOLD.last) for i in range(8)])
    np.testing.assert_allclose(found[1], found[0], RESULTS)
