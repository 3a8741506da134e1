"""Row 8: code that asks whether two arrays are one hears what it hears in define-by-run."""

from __future__ import annotations

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.comparison import assert_near
from tests.harness.twins import counts
from tests.tolerances import RESULTS

ARRAYS = [np.full((2, 2), i + 1.0, "f") for i in range(3)]
PLACE = [None]
WHOLE = None
#: Which array is given, and which one is held meanwhile; None for nothing.
CALLS = [(1, 0), (1, 0), (1, 0), (0, 0), (1, 1), (1, 2), (2, 2), (2, 0), (0, 0), (2, None), (1, 1)]

pytestmark = pytest.mark.filterwarnings("ignore::sdbr.SdbrWarning")


class Model(chainer.Chain):
    def __init__(self, asks, hold):
        super().__init__()
        self.asks, self.hold = asks, hold
        self.last, self.box = None, {"kept": [None]}

    def forward(self, x):
        asks = self.asks
        return F.tanh(x) * (2.0 if asks(self, x) else 3.0)


def hold_in_attribute(model, thing):
    model.last = thing


def hold_in_container(model, thing):
    model.box["kept"][0] = thing


def hold_outside(model, thing):
    PLACE[0] = thing


def hold_in_global(model, thing):
    global WHOLE
    WHOLE = thing


def of_attribute(model, x):
    return model.last is x


def of_container(model, x):
    return any(thing is x for thing in model.box["kept"])


def of_outside(model, x):
    return PLACE[0] is x


def of_global(model, x):
    return WHOLE is x


def outcomes(asks, hold, give, static):
    model = Model(asks, hold)
    if static:
        model = sdbr.static_graph(model)
    things = [give(x.copy()) for x in ARRAYS]
    found = []
    for given, held in CALLS * 2:
        hold(model, None if held is None else things[held])
        found.append(model(things[given]).array)
    hold(model, None)
    return found, model


PROGRAMS = {
    "attribute": (of_attribute, hold_in_attribute),
    "container": (of_container, hold_in_container),
    "outside": (of_outside, hold_outside),
    "global": (of_global, hold_in_global),
}


@pytest.mark.parametrize("audit", ["off", 1e9], ids=["unaudited", "audited"])
@pytest.mark.parametrize("give", [lambda x: x, chainer.Variable], ids=["arrays", "Variables"])
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=list(PROGRAMS))
def test_an_argument_that_is_held_elsewhere(program, give, audit):
    with chainer.using_config("sdbr_audit", audit):
        got, _ = outcomes(*program, give, True)
    want, _ = outcomes(*program, give, False)
    for i, (y, plain) in enumerate(zip(got, want, strict=True)):
        np.testing.assert_allclose(y, plain, rtol=RESULTS, err_msg=f"call {i}")


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=list(PROGRAMS))
def test_arrays_that_cannot_be_an_argument_are_no_matter(program):
    asks, hold = program
    model = sdbr.static_graph(Model(asks, hold))
    hold(model, np.ones(3, "f"))
    for x in ARRAYS:
        np.testing.assert_allclose(model(x).array, np.tanh(x) * 3, rtol=RESULTS)
    hold(model, None)
    assert model.schedule_manager.statistics.replays == len(ARRAYS) - 1


def test_code_that_compares_nothing_is_static():
    def asks(model, x):
        return PLACE[0] is None

    model = sdbr.static_graph(Model(asks, None))
    hold_outside(model, ARRAYS[0])
    for x in ARRAYS:
        np.testing.assert_allclose(model(x).array, np.tanh(x) * 3, rtol=RESULTS)
    hold_outside(model, None)
    assert model.schedule_manager.statistics.replays == len(ARRAYS) - 1


def test_the_warning_names_what_holds_it():
    model = sdbr.static_graph(Model(of_outside, None))
    hold_outside(model, ARRAYS[0])
    with pytest.warns(sdbr.SdbrWarning, match=r"compares objects .*'PLACE\[0\]' is the argument"):
        model(ARRAYS[0])
    hold_outside(model, None)


class Tree(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.tree = L.BinaryHierarchicalSoftmax(2, ((1, (2, 3)), 0))

    def forward(self, x, t):
        return None if x is t else self.tree(x, t)


def test_what_chainer_and_the_schedules_hold_is_no_matter():
    """After a trace the manager of the schedules holds arrays like the arguments."""
    plain, static = chainer.Sequential(Tree()), sdbr.static_graph(Tree())
    static.copyparams(plain[0])
    x, t = np.ones((3, 2), "f"), np.array([0, 2, 3], "i")
    for train in (True, False):
        with chainer.using_config("train", train):
            for _ in range(3):
                assert_near(static(x, t).array, plain(x, t).array, RESULTS, "result")
    assert counts(static) == (2, 4, 0)
