"""Row 9: what a call leaves outside its links is left there by replays, or it is dynamic."""

from __future__ import annotations

import gc
import types
import weakref

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.comparison import assert_near
from tests.harness.models import Net
from tests.harness.twins import X
from tests.tolerances import GRADIENTS, RESULTS, SUMS

LAST = None
TRAIL: list = []
BOARD: dict = {}


class Monitor:
    last = None
    shape = None


def to_class(self, x):
    Monitor.last = F.tanh(self.l(x))
    return Monitor.last * 2


def to_class_as_array(self, x):
    y = F.tanh(self.l(x))
    Monitor.last = y.array
    return y * 2


def to_global(self, x):
    global LAST
    LAST = F.tanh(self.l(x))
    return LAST * 2


def to_function(self, x):
    to_function.last = y = F.tanh(self.l(x))
    return y * 2


def to_module(self, x):
    BOARD_MODULE.last = y = F.tanh(self.l(x))
    return y * 2


def to_object(self, x):
    INSTANCE.last = y = F.tanh(self.l(x))
    return y * 2


def to_list_in_class(self, x):
    y = F.tanh(self.l(x))
    Monitor.last = [y, {"array": y.array}]
    return y * 2


def to_result(self, x):
    y = F.tanh(self.l(x))
    z = y * 2
    z.last, z.name = y, "scores"
    return z


BOARD_MODULE = types.ModuleType("board_of_the_user")
BOARD_MODULE.last = None
INSTANCE = Monitor()

STORES = {
    to_class: lambda y: Monitor.last,
    to_class_as_array: lambda y: Monitor.last,
    to_global: lambda y: LAST,
    to_function: lambda y: to_function.last,
    to_module: lambda y: BOARD_MODULE.last,
    to_object: lambda y: INSTANCE.last,
    to_list_in_class: lambda y: Monitor.last[1]["array"],
    to_result: lambda y: y.last,
}


@pytest.fixture(autouse=True)
def clean():
    yield
    global LAST
    Monitor.last = Monitor.shape = LAST = INSTANCE.last = BOARD_MODULE.last = None
    TRAIL.clear()
    BOARD.clear()


@pytest.mark.parametrize("forward", STORES, ids=lambda f: f.__name__)
def test_results_are_stored_by_replays(forward):
    static = sdbr.static_graph(Net(forward, l=L.Linear(4, 3)), on_dynamic="raise")
    for i in range(6):
        y = static(X + i)
        last = STORES[forward](y)
        want = F.tanh(static.l(X + i))
        assert type(last) is (
            chainer.Variable if isinstance(last, chainer.Variable) else np.ndarray
        )
        assert_near(getattr(last, "array", last), want.array, RESULTS, f"call {i}")
        if forward is to_result:
            assert y.name == "scores"
    statistics = static.schedule_manager.statistics
    assert statistics.replays >= 4
    assert statistics.python_ops == 0


def test_gradients_flow_through_what_is_stored():
    np.random.seed(0)
    static = sdbr.static_graph(Net(to_class, l=L.Linear(4, 3)), on_dynamic="raise")
    for i in range(5):
        static(X + i)
        static.cleargrads()
        F.sum(Monitor.last).backward()
        got = static.l.W.grad.copy()
        static.cleargrads()
        F.sum(F.tanh(static.l(X + i))).backward()
        assert_near(got, static.l.W.grad, GRADIENTS, f"call {i}")
    assert static.schedule_manager.statistics.replays >= 3


def test_in_whole_steps():
    def forward(self, x):
        Monitor.last = h = F.tanh(self.l(x))
        return F.sum(h)

    static = sdbr.static_graph(Net(forward, l=L.Linear(4, 3)), on_dynamic="raise")
    optimizer = sdbr.static_optimizer(chainer.optimizers.SGD(0.01)).setup(static)
    for i in range(6):
        want = F.tanh(static.l(X + i)).array
        optimizer.update(static, X + i)
        assert_near(Monitor.last.array, want, RESULTS, f"step {i}")
    assert static.schedule_manager.statistics.steps >= 3


def test_numbers_are_stored_each_time():
    def forward(self, x):
        Monitor.shape = x.shape
        return self.l(x)

    static = sdbr.static_graph(Net(forward, l=L.Linear(4, 3)), on_dynamic="raise")
    for _ in range(5):
        Monitor.shape = None
        static(X)
        assert Monitor.shape == X.shape
    assert static.schedule_manager.statistics.replays == 4


def appended(self, x):
    TRAIL.append(self.l(x))
    return TRAIL[-1] * 2


def in_a_long_list(self, x):
    TRAIL[:0] = [0] * 100
    TRAIL.append(self.l(x))
    return TRAIL[-1] * 2


def as_an_item(self, x):
    BOARD["y"] = y = self.l(x)
    return y * 2


def in_a_tuple(self, x):
    y = self.l(x)
    BOARD.setdefault("pairs", []).append((0, y))
    return y * 2


def in_a_new_object(self, x):
    y = self.l(x)
    made = Monitor()
    made.last = y
    BOARD["object"] = made
    return y * 2


def in_an_array(self, x):
    y = self.l(x)
    kept = np.empty(1, dtype=object)
    kept[0] = y
    BOARD["array"] = kept
    return y * 2


def read_and_written(self, x):
    y = self.l(x)
    if Monitor.last is not None:
        y = y + Monitor.last
    Monitor.last = y
    return y * 2


@pytest.mark.parametrize(
    "forward",
    [appended, in_a_long_list, as_an_item, in_a_tuple, in_a_new_object, in_an_array],
    ids=lambda f: f.__name__,
)
def test_what_others_hold_makes_the_call_dynamic(forward):
    static = sdbr.static_graph(Net(forward, l=L.Linear(4, 3)))
    with pytest.warns(sdbr.SdbrWarning, match="outlives it at .*test_stores.py"):
        static(X)
    assert_near(static(X + 1).array, 2 * static.l(X + 1).array, RESULTS, "dynamic")


def test_a_setting_of_chainer_makes_the_call_dynamic():
    def forward(self, x):
        chainer.config.last_batch = len(x)
        return self.l(x)

    static = sdbr.static_graph(Net(forward, l=L.Linear(4, 3)))
    try:
        with pytest.warns(sdbr.SdbrWarning, match="chainer.config.last_batch was set"):
            static(X)
    finally:
        del chainer.config.last_batch


@pytest.mark.usefixtures("collected_modules")
def test_traced_arrays_do_not_stay_in_containers():
    def forward(self, x):
        y = self.l(x)
        TRAIL.append(y.array)
        return y

    static = sdbr.static_graph(Net(forward, l=L.Linear(4, 3)))
    with pytest.warns(sdbr.SdbrWarning, match="kept by a list"):
        static(X)
    assert type(TRAIL[0]) is np.ndarray


def test_inner_functions_that_hold_each_other_are_nobody():
    def forward(self, x):
        def even(n):
            return y if n == 0 else odd(n - 1)

        def odd(n):
            return even(n - 1)

        y = self.l(x)
        return even(2) * 2

    static = sdbr.static_graph(Net(forward, l=L.Linear(4, 3)), on_dynamic="raise")
    for i in range(4):
        assert_near(static(X + i).array, 2 * static.l(X + i).array, RESULTS, f"call {i}")
    assert static.schedule_manager.statistics.replays >= 2


def test_nothing_of_the_traced_call_is_kept():
    static = sdbr.static_graph(Net(to_result, l=L.Linear(4, 3)), on_dynamic="raise")
    ref = weakref.ref(static(X))
    gc.collect()
    assert ref() is None


def test_what_static_code_stores_is_its_own_affair():
    @sdbr.static_code
    def watch(inputs):
        Monitor.last = float(inputs[0].sum())

    def forward(self, x):
        y = self.l(x)
        watch(inputs=[y.array])
        return y

    static = sdbr.static_graph(Net(forward, l=L.Linear(4, 3)), on_dynamic="raise")
    for i in range(5):
        y = static(X + i)
        assert Monitor.last == pytest.approx(float(y.array.sum()), rel=SUMS)
    assert static.schedule_manager.statistics.replays >= 3


@pytest.mark.parametrize("wrap", [lambda x: x, chainer.Variable], ids=["array", "Variable"])
@pytest.mark.parametrize("once", [True, False], ids=["the same batch", "an equal batch"])
def test_an_argument_in_a_container_outside(wrap, once):
    """Found by `make fuzz`: where the first batches were equal it was left there for ever."""
    held = {}

    @sdbr.static_graph
    def remembers(x):
        held["last"] = x
        return F.tanh(x)

    batches = [wrap(X.copy()) for _ in range(3)] + [wrap(X + i) for i in range(3)]
    if once:
        batches[1] = batches[2] = batches[0]
    with pytest.warns(sdbr.SdbrWarning, match="an argument of the call is kept by a dict"):
        remembers(batches[0])
    for batch in batches:
        remembers(batch)
        assert held["last"] is batch
