"""Row 8: what users put on arguments: Variables, and numbers of classes of their own."""

from __future__ import annotations

import enum

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F

from tests.harness.comparison import assert_near
from tests.harness.twins import X, statistics_of
from tests.tolerances import RESULTS


class Masked(chainer.Variable):
    by = 2.0

    def scaled(self):
        return self * self.by


class Rate(float):
    by = 2.0


class Kind(str, enum.Enum):
    FIRST, SECOND = "a", "bc"


MADE = {
    "a Variable": lambda: chainer.Variable(X),
    "one of a class of one's own": lambda: Masked(X),
    "a parameter": lambda: chainer.Parameter(X),
    "a number": lambda: Rate(3.0),
    "a text": lambda: type("Text", (str,), {})("abc"),
}


@pytest.mark.parametrize("read", [lambda it: it.mode, lambda it: getattr(it, "mode", 1.0)])
@pytest.mark.parametrize("name", MADE)
def test_it_makes_a_call_dynamic(name, read):
    """The key does not tell of it, and no other condition leads to an argument."""
    it = MADE[name]()
    call = sdbr.static_graph(lambda x, it: F.tanh(x) * read(it))
    with pytest.warns(sdbr.SdbrWarning, match=r"reads 'it\.mode', which its user has put on"):
        for i in range(4):
            it.mode = float(i)
            assert_near(call(X, it).array, np.tanh(X) * np.float32(i), RESULTS, "result")
    assert statistics_of(call).replays == 0


@pytest.mark.parametrize("use", [lambda it: it.scaled(), lambda it: F.tanh(it) * it.by])
def test_what_its_class_has_is_compared(use, monkeypatch):
    it = Masked(X)
    call = sdbr.static_graph(use, on_dynamic="raise")
    for i in range(9):
        if i == 3:
            monkeypatch.setattr(Masked, "by", 5.0)
        if i == 6:
            monkeypatch.setattr(Masked, "scaled", lambda self: self * 7)
        assert_near(call(it).array, use(it).array, RESULTS, "result")
    assert statistics_of(call).replays >= 6


def test_numbers_of_a_class_of_ones_own(monkeypatch):
    rate = Rate(3.0)
    call = sdbr.static_graph(lambda x, rate: F.tanh(x) * rate * rate.by, on_dynamic="raise")
    for i in range(6):
        if i == 3:
            monkeypatch.setattr(Rate, "by", 5.0)
        assert_near(call(X, rate).array, np.tanh(X) * np.float32(3 * Rate.by), RESULTS, "result")
    assert statistics_of(call).replays == 4


def test_what_the_key_tells_of_needs_no_more():
    """Of Variables what Chainer knows, of members of enumerations which they are."""

    def call(x, kind):
        by = len(x) * x.ndim * x.shape[0] * len(kind.value)
        return x * by * (1 if x.xp is np and x._requires_grad else 2)

    static = sdbr.static_graph(call, on_dynamic="raise")
    for i in range(6):
        x, kind = chainer.Variable(X + i), list(Kind)[i % 2]
        assert_near(static(x, kind).array, call(x, kind).array, RESULTS, "result")
    assert statistics_of(static).replays == 4
