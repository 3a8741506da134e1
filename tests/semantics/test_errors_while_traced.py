"""Row 20: a call that raises while it is traced leaves behind what define-by-run leaves."""

from __future__ import annotations

import math
import pickle

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.models import floats

X = floats(5, 4)(np.random.RandomState(3))
KEPT: list = []
LAST: dict = {}


class Holder:
    """An object of the user's, in a global."""


HOLDER = Holder()


class Failing(chainer.Chain):
    """Keeps what the call has computed, then raises where it is told to."""

    def __init__(self, keep):
        super().__init__()
        with self.init_scope():
            self.l = L.Linear(4, 3)
        self.keep = keep
        self.fails = True
        self.held = np.zeros(3, "f")
        self.rate, self.count, self.items, self.named = 1.0, 0, [], {}

    def forward(self, x, *args):
        y = self.l(x)
        self.keep(self, y, *args)
        if self.fails:
            raise ValueError("in the middle")
        return y


def arrays(self, y):
    self.array, self.total, self.both = y.array + 1, y.array.mean(), [y.array * 2, (y.array,)]
    self.l.row = y.array[0]


def arrays_in_place(self, y):
    self.held += y.array[0]
    self.also = self.held
    self.part = self.held[1:]


def floats_that_leave(self, y):
    self.mean = float(y.array.mean())
    self.pair = (y.array.max().item(), 2)


def numbers_of_links(self, y):
    self.rate *= 0.9
    self.count += 1
    self.half = self.rate / 2
    self.twice = self.count * 2


def containers(self, y):
    self.items.append(float(y.array.mean()))
    self.items.append((self.count, y.array))
    self.named["rate"] = self.rate * 0.5
    self.named["row"] = [y.array[0]]


def globals_and_objects(self, y):
    KEPT.append(float(y.array.sum()))
    LAST["y"] = y.array
    HOLDER.mean = float(y.array.mean())
    HOLDER.largest = y.array.max()


def types_of(thing):
    """Classes of all that lies in a link, list, tuple, dict or object."""
    if isinstance(thing, chainer.Link):
        return {k: types_of(x) for k, x in vars(thing).items() if k[:1] != "_"}
    if isinstance(thing, Holder):
        return types_of(vars(thing))
    if isinstance(thing, dict):
        return {k: types_of(x) for k, x in thing.items()}
    if isinstance(thing, (list, tuple)):
        return [type(thing), *map(types_of, thing)]
    return type(thing)


@pytest.mark.parametrize(
    "keep",
    [
        arrays, arrays_in_place, floats_that_leave, numbers_of_links, containers,
        globals_and_objects,
    ],
)  # fmt: skip
def test_what_a_failing_trace_keeps_is_plain(keep, monkeypatch):
    found = []
    for static in (False, True):
        # New ones: those of the module are frozen for the collector by the time of a test.
        for name, new in (("KEPT", []), ("LAST", {}), ("HOLDER", Holder())):
            monkeypatch.setitem(globals(), name, new)
        model = Failing(keep)
        held = model.held
        call = sdbr.static_graph(model) if static else model
        with pytest.raises(ValueError, match="in the middle"):
            call(X)
        assert model.held is held
        found.append(types_of([model.copy(), KEPT, LAST, HOLDER]))
    assert found[0] == found[1]


def test_a_model_that_failed_while_it_was_traced_goes_on():
    model = sdbr.static_graph(Failing(numbers_of_links))
    for _ in range(2):
        with pytest.raises(ValueError, match="in the middle"):
            model(X)
    pickle.dumps(model)
    model.fails = False
    for _ in range(4):
        F.sum(model(X)).backward()
    assert model.count == 6
    assert type(model.rate).__name__ == "float"
    assert model.rate == math.prod([0.9] * 6)
    assert model.schedule_manager.statistics.replays == 3


def test_lists_of_the_caller_have_what_was_added_before_the_error():
    def add(self, y, found):
        found.append(1)
        found.append(y.array)

    model, found = sdbr.static_graph(Failing(add)), []
    with pytest.raises(ValueError, match="in the middle"):
        model(X, found)
    assert [type(x) for x in found] == [int, np.ndarray]


def test_what_the_error_itself_carries_is_plain():
    def carry(self, y):
        raise KeyError(y.array[0], float(y.array.mean()), [y.array])

    with pytest.raises(KeyError) as found:
        sdbr.static_graph(Failing(carry))(X)
    assert types_of(found.value.args) == [tuple, np.ndarray, float, [list, np.ndarray]]
