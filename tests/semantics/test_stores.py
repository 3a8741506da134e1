"""Row 9: what a call leaves outside its links is left there by replays, or it is dynamic."""

from __future__ import annotations

import collections
import gc
import types
import warnings
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
TABLE: dict = {}


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


def to_item(self, x):
    BOARD["y"] = y = F.tanh(self.l(x))
    return y * 2


def to_dict_of_attributes(self, x):
    y = F.tanh(self.l(x))
    vars(INSTANCE).update(last=y.array, n=1)
    return y * 2


def to_attribute_of_a_callable(self, x):
    CALLABLE.last = y = F.tanh(self.l(x))
    return y * 2


def to_result(self, x):
    y = F.tanh(self.l(x))
    z = y * 2
    z.last, z.name = y, "scores"
    return z


BOARD_MODULE = types.ModuleType("board_of_the_user")
BOARD_MODULE.last = None
INSTANCE = Monitor()


class Callable(Monitor):
    def __call__(self):
        return self.last


CALLABLE = Callable()
STORES = {
    to_class: lambda y: Monitor.last,
    to_class_as_array: lambda y: Monitor.last,
    to_global: lambda y: LAST,
    to_function: lambda y: to_function.last,
    to_module: lambda y: BOARD_MODULE.last,
    to_object: lambda y: INSTANCE.last,
    to_list_in_class: lambda y: Monitor.last[1]["array"],
    to_item: lambda y: BOARD["y"],
    to_dict_of_attributes: lambda y: INSTANCE.last,
    to_attribute_of_a_callable: lambda y: CALLABLE(),
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


def at_a_number(self, x):
    BOARD[0] = y = self.l(x)
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
    [appended, in_a_long_list, at_a_number, in_a_tuple, in_a_new_object, in_an_array],
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
    held = [None]

    @sdbr.static_graph
    def remembers(x):
        held[0] = x
        return F.tanh(x)

    batches = [wrap(X.copy()) for _ in range(3)] + [wrap(X + i) for i in range(3)]
    if once:
        batches[1] = batches[2] = batches[0]
    with pytest.warns(sdbr.SdbrWarning, match="an argument of the call is kept by a list"):
        remembers(batches[0])
    for batch in batches:
        remembers(batch)
        assert held[0] is batch


@pytest.mark.parametrize("wrap", [lambda x: x, chainer.Variable], ids=["array", "Variable"])
def test_an_argument_in_a_dict_outside(wrap):
    held = {}

    @sdbr.static_graph
    def remembers(x):
        held["last"] = x
        return F.tanh(x)

    batches = [wrap(X.copy()) for _ in range(3)] + [wrap(X + i) for i in range(3)]
    for batch in batches:
        remembers(batch)
        assert held["last"] is batch
    assert remembers.schedule_manager.statistics.replays == 5


@pytest.mark.parametrize("kind", [dict, collections.OrderedDict, type("Settings", (dict,), {})])
def test_another_dict_takes_its_place(kind):
    global TABLE
    static = sdbr.static_graph(Net(to_table, l=L.Linear(4, 3)))
    tables = [kind(), kind(y=1)]
    for i in range(6):
        TABLE = tables[i // 3]
        y = static(X + i)
        assert_near(tables[i // 3]["y"].array * 2, y.array, RESULTS, f"call {i}")
    assert tables[0]["y"] is not tables[1]["y"]
    assert static.schedule_manager.statistics.replays >= 3


def to_table(self, x):
    TABLE["y"] = y = F.tanh(self.l(x))
    return y * 2


class Prefixed(dict):
    def __setitem__(self, name, thing):
        super().__setitem__("last " + name, thing)


def test_a_dict_that_does_more_when_it_is_written():
    """Its own code would run once more in replays."""
    global TABLE
    TABLE = Prefixed()
    static = sdbr.static_graph(Net(to_table, l=L.Linear(4, 3)), on_dynamic="fallback")
    with pytest.warns(sdbr.SdbrWarning, match="not static"):
        for i in range(5):
            y = static(X + i)
            assert_near(TABLE["last y"].array * 2, y.array, RESULTS, f"call {i}")
    assert [*TABLE] == ["last y"]


@pytest.mark.parametrize("kind", [dict, Monitor])
def test_where_no_path_leads(kind):
    now = np.empty(1, object)

    def forward(self, x):
        y = F.tanh(self.l(x))
        (now[0].__setitem__ if kind is dict else now[0].__setattr__)("last", y)
        return y * 2

    static = sdbr.static_graph(Net(forward, l=L.Linear(4, 3)), on_dynamic="fallback")
    with pytest.warns(sdbr.SdbrWarning, match="no later call can find|traced anew"):
        for i in range(8):
            if i in (0, 3, 6):
                now[0] = kind()
            y = static(X + i)
            last = now[0]["last"] if kind is dict else now[0].last
            assert_near(last.array * 2, y.array, RESULTS, f"call {i}")


class Mode:
    def __init__(self, scale):
        self.scale = scale


MODES = [Mode(1.0), Mode(3.0)]


class Chosen:
    mode, sizes, spare = MODES[0], [1], [2]


def chooses(self, x):
    Chosen.mode = MODES[1]
    return self.l(x) * Chosen.mode.scale


def existing(self, x):
    Chosen.sizes = KEPT
    return self.l(x) * 2


KEPT = [1, 2]


def in_a_namespace(self, x):
    SPACE.last = F.tanh(self.l(x))
    return SPACE.last * 2


SPACE = types.SimpleNamespace(last=None)


def test_an_object_of_the_standard_library():
    static = sdbr.static_graph(Net(in_a_namespace, l=L.Linear(4, 3)), on_dynamic="raise")
    for i in range(5):
        y = static(X + i)
        assert_near(SPACE.last.array * 2, y.array, RESULTS, f"call {i}")
    assert static.schedule_manager.statistics.replays == 4


@pytest.mark.parametrize("kind", [Monitor, types.SimpleNamespace])
def test_another_object_takes_its_place(kind):
    global SPACE
    SPACE = kind()
    static = sdbr.static_graph(Net(in_a_namespace, l=L.Linear(4, 3)), on_dynamic="raise")
    for i in range(6):
        if i == 3:
            before, SPACE = SPACE, kind()
        y = static(X + i)
        assert_near(SPACE.last.array * 2, y.array, RESULTS, f"call {i}")
    assert before.last is not SPACE.last
    statistics = static.schedule_manager.statistics
    assert (statistics.traces, statistics.replays) == (2, 4)


def test_a_list_from_outside_stays_that_list():
    static = sdbr.static_graph(Net(existing, l=L.Linear(4, 3)))
    for i in range(5):
        if i == 3:
            Chosen.sizes = None
        static(X)
        assert Chosen.sizes is KEPT
    assert static.schedule_manager.statistics.replays == 3


@pytest.mark.parametrize("make", [
    lambda n: (n, "a"), lambda n: types.SimpleNamespace(n=n), lambda n: [n],
], ids=["tuple", "object", "list"])  # fmt: skip
def test_a_counter_of_a_link_in_something_outside(make):
    def forward(self, x):
        self.t = self.t + 1
        Chosen.spare = make(self.t)
        return self.l(x)

    static = Net(forward, l=L.Linear(4, 3))
    static.t = 0
    sdbr.static_graph(static, on_dynamic="fallback")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i in range(5):
            static(X)
            assert Chosen.spare == make(i + 1)
    is_object = isinstance(Chosen.spare, types.SimpleNamespace)
    assert static.schedule_manager.statistics.replays == (0 if is_object else 4)


def test_a_counter_of_a_link_in_a_list_that_is_there():
    numbers = [0, 0]

    def forward(self, x):
        self.t = self.t + 1
        numbers[0] = self.t
        return self.l(x)

    static = Net(forward, l=L.Linear(4, 3))
    static.t = 0
    sdbr.static_graph(static, on_dynamic="fallback")
    with pytest.warns(sdbr.SdbrWarning, match="leaves what it has computed in"):
        for i in range(5):
            static(X)
            assert numbers[0] == i + 1


def test_a_variable_outside_that_is_only_written_to():
    variable = chainer.Variable(X)

    def forward(self, x):
        variable.tag = y = F.tanh(self.l(x))
        return y * 2

    static = sdbr.static_graph(Net(forward, l=L.Linear(4, 3)), on_dynamic="raise")
    for i in range(5):
        y = static(X + i)
        assert_near(variable.tag.array * 2, y.array, RESULTS, f"call {i}")
    assert static.schedule_manager.statistics.replays == 4


def test_an_array_of_objects_is_written_to():
    things = np.array([None, None])

    def forward(self, x):
        things[0] = 3
        return self.l(x)

    static = sdbr.static_graph(Net(forward, l=L.Linear(4, 3)), on_dynamic="fallback")
    with pytest.warns(sdbr.SdbrWarning, match="writes to an array of objects"):
        for _ in range(4):
            things[0] = None
            static(X)
            assert things[0] == 3


WEIGHTS = np.ones(3, "f")


@pytest.mark.parametrize("put", [
    lambda w: setattr(Chosen, "weights", w), lambda w: BOARD.update(weights=w),
], ids=["attribute", "item"])  # fmt: skip
def test_an_array_from_outside_is_left_there_itself(put):
    global WEIGHTS
    WEIGHTS = np.ones(3, "f")

    def forward(self, x):
        put(WEIGHTS)
        return self.l(x) * WEIGHTS

    static = sdbr.static_graph(Net(forward, l=L.Linear(4, 3)), on_dynamic="raise")
    for i in range(6):
        if i == 3:
            WEIGHTS = np.ones(3, "f")
        y = static(X)
        assert (BOARD["weights"] if BOARD else Chosen.weights) is WEIGHTS
        assert_near(y.array, static.l(X).array * WEIGHTS, RESULTS, f"call {i}")
        WEIGHTS[0] = i
    assert static.schedule_manager.statistics.replays >= 3


def test_what_is_deleted_has_to_be_absent():
    def forward(self, x):
        if "spare" in vars(INSTANCE):
            del INSTANCE.spare
        return self.l(x)

    static = sdbr.static_graph(Net(forward, l=L.Linear(4, 3)), on_dynamic="raise")
    for i in range(8):
        if i in (0, 5):
            INSTANCE.spare = 1
        static(X)
        assert not hasattr(INSTANCE, "spare")
    assert static.schedule_manager.statistics.replays >= 4


def lists(self, x):
    Chosen.sizes = list(x.shape)
    return self.l(x) * 2


def swaps(self, x):
    Chosen.sizes, Chosen.spare = Chosen.spare, Chosen.sizes
    return self.l(x) * Chosen.sizes[0]


def test_an_object_from_outside_is_left_there():
    static = sdbr.static_graph(Net(chooses, l=L.Linear(4, 3)), on_dynamic="raise")
    for i in range(8):
        Chosen.mode = None
        if i == 4:
            MODES[1] = Mode(5.0)
        y = static(X)
        assert Chosen.mode is MODES[1]
        assert_near(y.array, static.l(X).array * MODES[1].scale, RESULTS, f"call {i}")
    statistics = static.schedule_manager.statistics
    assert (statistics.traces, statistics.replays) == (2, 6)


def test_a_list_that_the_call_makes_is_another_each_time():
    static = sdbr.static_graph(Net(lists, l=L.Linear(4, 3)), on_dynamic="raise")
    seen = []
    for _ in range(4):
        static(X)
        assert Chosen.sizes == list(X.shape)
        assert not any(Chosen.sizes is x for x in seen)
        seen.append(Chosen.sizes)
    assert static.schedule_manager.statistics.replays == 3


def test_lists_that_change_places():
    """They are no new ones."""
    Chosen.sizes, Chosen.spare = one, other = [1], [2]
    static = sdbr.static_graph(Net(swaps, l=L.Linear(4, 3)), on_dynamic="fallback")
    with pytest.warns(sdbr.SdbrWarning, match="not static|traced anew"):
        for i in range(8):
            y = static(X)
            assert Chosen.sizes is (one if i % 2 else other)
            assert_near(y.array, static.l(X).array * (1 + (i + 1) % 2), RESULTS, f"call {i}")
