"""Row 12: what code asks of how arrays lie in memory is that of each call, and costs no others."""

from __future__ import annotations

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F

from tests.harness.comparison import BACKENDS, assert_near
from tests.tolerances import RESULTS


def _read_only(x):
    x.flags.writeable = False
    return x


LAYOUTS = {
    "C": lambda x: x,
    "Fortran": np.asfortranarray,
    "steps": lambda x: np.repeat(x, 2, 1)[:, ::2],
    "backwards": lambda x: x[::-1],
    "read only": _read_only,
    "part": lambda x: np.concatenate([x, x])[:2],
}


def chosen(x, answer):
    return F.exp(x) * (2.0 if answer else 3.0)


def written_through(x):
    y = x.copy(order="K")
    y.ravel("K")[:2] = 5
    return F.exp(y)


def written_through_or_not(x):
    y = x * 2
    y.reshape(-1)[0] = 3
    return F.exp(y)


def as_ones(x):
    made = np.zeros_like(x)
    made[0, 1] = 1
    return F.exp(x.ravel() + made.ravel("K"))


# What the code asks of an array -> which layouts give another answer than the first.
ASKED = {
    "ravel('K')": lambda x: F.exp(x.ravel("K")),
    "ravel('A')": lambda x: F.exp(x.ravel("A")),
    "ravel(order)": lambda x: F.exp(x.ravel(order="K")),
    "numpy.ravel": lambda x: F.exp(np.ravel(x, "K")),
    "reshape": lambda x: F.exp(x.reshape(3, 2, order="A")),
    "numpy.reshape": lambda x: F.exp(np.reshape(x, (3, 2), "A")),
    "flatten": lambda x: F.exp(x.flatten("K")),
    "of a transpose": lambda x: F.exp(x.T.ravel("K")),
    "of a copy": lambda x: F.exp(x.copy(order="K").ravel("K")),
    "of a result": lambda x: F.exp((x * 2).ravel("K")),
    "of a Variable": lambda x: F.exp(F.exp(x).array.ravel("K")),
    "of numpy.copy": lambda x: F.exp(np.copy(x).ravel("K")),
    "of zeros_like": as_ones,
    "a copy that is written": written_through,
    "a view or a copy": written_through_or_not,
    "c_contiguous": lambda x: chosen(x, x.flags.c_contiguous),
    "F_CONTIGUOUS": lambda x: chosen(x, x.flags["F_CONTIGUOUS"]),
    "writeable": lambda x: chosen(x, x.flags.writeable),
    "owndata": lambda x: chosen(x, x.flags.owndata),
    "aligned": lambda x: chosen(x, x.flags.aligned),
    "flags of a result": lambda x: chosen(x, (x * 2).flags.c_contiguous),
    "strides": lambda x: F.exp(x) * x.strides[0],
    "strides by name": lambda x: F.exp(x) * getattr(x, "strides")[0],  # noqa: B009
    "strides of a part": lambda x: F.exp(x) * x[:, 1:].strides[0],
    "strides of empty_like": lambda x: F.exp(x) * np.empty_like(x).strides[0],
    "isfortran": lambda x: chosen(x, np.isfortran(x)),
    "ascontiguousarray": lambda x: chosen(x, np.ascontiguousarray(x) is x),
    "asarray": lambda x: chosen(x, np.asarray(x, order="F") is x),
    "require": lambda x: chosen(x, np.require(x, requirements="C") is x),
}  # fmt: skip
#: These have no schedule.
UNFOLLOWED = {
    "base": lambda x: chosen(x, x.base is None),
    "base of a view": lambda x: chosen(x, x.reshape(-1).base is None),
    "shares_memory": lambda x: chosen(x, np.shares_memory(x.reshape(-1), x)),
    "nditer": lambda x: F.exp(np.array([float(v) for v in np.nditer(x)], "f")),
    "memoryview": lambda x: chosen(x, memoryview(x).c_contiguous),
    "tobytes": lambda x: F.exp(np.frombuffer(x.tobytes("A"), "f")),
    "array interface": lambda x: chosen(x, x.__array_interface__["strides"] is None),
}


class Net(chainer.Chain):
    """Asks of what it is given, as an array or in a Variable, or of what it holds."""

    def __init__(self, ask, where):
        super().__init__()
        self.ask, self.where = ask, where
        self.held = np.zeros((2, 3), "f")

    def forward(self, x):
        thing = self.held if self.where == "held" else x
        y = self.ask(thing.array if isinstance(thing, chainer.Variable) else thing)
        return y + F.sum(x)


def call(model, where, x):
    if where != "argument":
        model.held, y = (x, x * 0) if where == "held" else (model.held, chainer.Variable(x))
        return model(y).array
    return model(x).array


def arrays(layout, seed):
    return LAYOUTS[layout](np.random.RandomState(seed).randn(2, 3).astype("f"))


def outcomes(model, where, layouts):
    return [call(model, where, arrays(layout, i)) for i, layout in enumerate(layouts)]


@pytest.mark.parametrize("where", ["argument", "Variable", "held"])
@pytest.mark.parametrize("name", ASKED)
def test_each_layout_has_its_own_answer(name, where):
    layouts = [layout for layout in LAYOUTS for _ in range(3)] * 2
    model = sdbr.static_graph(Net(ASKED[name], where))
    want = outcomes(Net(ASKED[name], where), where, layouts)
    for i, got in enumerate(outcomes(model, where, layouts)):
        assert_near(got, want[i], RESULTS, f"call {i}, {layouts[i]}")
    statistics = model.schedule_manager.statistics
    assert statistics.traces == len(LAYOUTS)
    assert statistics.replays == len(layouts) - len(LAYOUTS)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["ravel('K')", "of a result", "strides", "a view or a copy"])
def test_on_each_backend(name, backend):
    layouts = ["Fortran"] * 3 + ["C"] * 3
    model = sdbr.static_graph(Net(ASKED[name], "argument"), backend=backend)
    want = outcomes(Net(ASKED[name], "argument"), "argument", layouts)
    for i, got in enumerate(outcomes(model, "argument", layouts)):
        assert_near(got, want[i], RESULTS, f"call {i}, {layouts[i]}")
    assert model.schedule_manager.statistics.replays == 4


@pytest.mark.filterwarnings("ignore::sdbr.SdbrWarning")
@pytest.mark.parametrize("where", ["argument", "Variable", "held"])
@pytest.mark.parametrize("name", UNFOLLOWED)
def test_what_is_not_followed_is_dynamic(name, where):
    layouts = [layout for layout in LAYOUTS for _ in range(2)]
    model = sdbr.static_graph(Net(UNFOLLOWED[name], where))
    want = outcomes(Net(UNFOLLOWED[name], where), where, layouts)
    for i, got in enumerate(outcomes(model, where, layouts)):
        assert_near(got, want[i], RESULTS, f"call {i}, {layouts[i]}")
    if name != "base":  # of an array that owns its memory there is none
        assert model.schedule_manager.statistics.replays == 0


def test_whole_steps_have_the_answer_of_each_layout():
    class Loss(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.w = chainer.Parameter(np.ones(6, "f"))

        def forward(self, x):
            return F.sum(self.w * x.ravel("K") ** 2)

    weights = []
    layouts = (["C"] * 4 + ["Fortran"] * 4) * 2
    for static in (False, True):
        model = Loss()
        optimizer = chainer.optimizers.SGD(0.01)
        if static:
            model, optimizer = sdbr.static_graph(model), sdbr.static_optimizer(optimizer)
        optimizer.setup(model)
        for i, layout in enumerate(layouts):
            optimizer.update(model, arrays(layout, i))
        weights.append(model.w.array)
    assert_near(weights[1], weights[0], RESULTS, "weights")
    statistics = model.schedule_manager.statistics
    assert (statistics.traces, statistics.steps) == (2, len(layouts) - 2)


#: What no layout has a say in.
UNASKED = {
    "in C order": lambda x: F.exp(x.reshape(-1) * x.ravel()),
    "of one axis": lambda x: F.exp(x[0].ravel("K")),
    "elements of one size": lambda x: F.exp(x.view("f")),
}


@pytest.mark.parametrize("name", UNASKED)
def test_calls_that_do_not_ask_share_a_schedule(name):
    model = sdbr.static_graph(Net(UNASKED[name], "argument"))
    for i, layout in enumerate([*LAYOUTS] * 3):
        model(arrays(layout, i))
    statistics = model.schedule_manager.statistics
    assert (statistics.traces, statistics.replays) == (1, 3 * len(LAYOUTS) - 1)


def test_elements_of_another_size_in_a_result():
    def ask(x):
        return F.exp((x * 2).T.view("u1").astype("f") / 256)

    model = sdbr.static_graph(Net(ask, "argument"))
    want = outcomes(Net(ask, "argument"), "argument", ["Fortran"] * 4)
    for got, wanted in zip(outcomes(model, "argument", ["Fortran"] * 4), want, strict=True):
        assert_near(got, wanted, RESULTS, "result")
    assert model.schedule_manager.statistics.replays == 3


@pytest.mark.filterwarnings("ignore::sdbr.SdbrWarning")
@pytest.mark.parametrize("first", ["C", "Fortran"])
def test_elements_of_another_size_are_refused_where_numpy_refuses_them(first):
    model = sdbr.static_graph(Net(lambda x: F.exp(x.view("u1").astype("f") / 256), "argument"))
    for i, layout in enumerate([first] * 3 + ["Fortran", "C", "Fortran", "C"]):
        x = arrays(layout, i)
        if layout == "Fortran":
            with pytest.raises(ValueError):
                model(x)
        else:
            want = np.exp(x.view("u1").astype("f") / 256) + x.sum()
            assert_near(model(x).array, want, RESULTS, f"call {i}")


@pytest.mark.filterwarnings("ignore::sdbr.SdbrWarning")
def test_an_order_that_reshape_does_not_know():
    model = sdbr.static_graph(Net(lambda x: F.exp(np.reshape(x, (3, 2), "K")), "argument"))
    for i in range(3):
        with pytest.raises(ValueError):
            model(arrays("C", i))


def test_an_array_in_both_orders_is_reshaped_in_that_of_c():
    def ask(x):
        return F.exp(x.reshape(2, 3, order="A"))

    model = sdbr.static_graph(ask)
    for i in range(4):
        x = arrays("C", i).reshape(1, 6)
        assert_near(model(x).array, ask(x).array, RESULTS, f"call {i}")
    assert model.schedule_manager.statistics.replays == 3


def asks_parameter(model):
    return model.w.array


HELD = np.ones((2, 3), "f")
CONTAINED = {"array": [HELD]}
WEIGHT = chainer.Parameter(HELD)
STATE = chainer.Variable(HELD)


def asks_global(model):
    return HELD


def asks_container(model):
    return CONTAINED["array"][0]


def asks_global_parameter(model):
    return WEIGHT.array


def asks_global_variable(model):
    return STATE.array


FINDING = [
    asks_parameter, asks_global_parameter, asks_global, asks_container, asks_global_variable,
]  # fmt: skip


@pytest.mark.parametrize("find", FINDING)
def test_flags_of_what_the_call_finds(find):
    class Finding(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.w = chainer.Parameter(np.ones((2, 3), "f"))

        def forward(self, x):
            return chosen(x, find(self).flags.writeable) * self.w

    model = sdbr.static_graph(Finding())
    array = model.w.array if find is asks_parameter else HELD
    for i in range(12):
        writeable = array.flags.writeable = i // 3 % 2 == 0
        x = arrays("C", i)
        assert_near(model(x).array, chosen(x, writeable).array, RESULTS, f"call {i}")
    array.flags.writeable = True
    assert model.schedule_manager.statistics.replays >= 4


@pytest.mark.filterwarnings("ignore::sdbr.SdbrWarning")
def test_flags_that_the_call_sets_are_set_by_each():
    def forbid(x):
        x.flags.writeable = False
        return F.exp(x)

    model = sdbr.static_graph(Net(forbid, "argument"))
    for i in range(4):
        x = arrays("C", i)
        model(x)
        assert not x.flags.writeable
    assert model.schedule_manager.statistics.replays == 0


def test_an_array_given_twice_is_one():
    def ask(a, b):
        return chosen(a, a is b)

    model = sdbr.static_graph(ask)
    for i in range(12):
        a = arrays("C", i)
        b = a if i // 3 % 2 else a.copy()
        assert_near(model(a, b).array, ask(a, b).array, RESULTS, f"call {i}")
    statistics = model.schedule_manager.statistics
    assert (statistics.traces, statistics.replays) == (2, 10)


def test_attributes_that_hold_one_array():
    class Holder(chainer.Chain):
        def forward(self, x):
            return chosen(x * self.a + self.b, self.a is self.b)

    plain, model = Holder(), sdbr.static_graph(Holder())
    for i in range(12):
        a = arrays("C", i)
        plain.a = model.a = a
        plain.b = model.b = a if i // 3 % 2 else a.copy()
        assert_near(model(a * 2).array, plain(a * 2).array, RESULTS, f"call {i}")
    statistics = model.schedule_manager.statistics
    assert (statistics.traces, statistics.replays) == (2, 10)


@pytest.mark.filterwarnings("ignore::sdbr.SdbrWarning")
def test_an_argument_that_an_attribute_holds_as_well():
    class Holder(chainer.Chain):
        def forward(self, x):
            return chosen(x, self.a is x)

    model = sdbr.static_graph(Holder())
    for i in range(3):
        model.a = a = arrays("C", i)
        assert_near(model(a).array, chosen(a, True).array, RESULTS, f"call {i}")
    assert model.schedule_manager.statistics.replays == 0


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("first", [False, True])
def test_what_lies_otherwise_is_copied(order, first):
    def plain(x):
        return np.ascontiguousarray(x.T) if order == "C" else np.asfortranarray(x)

    call = sdbr.static_graph(lambda x: plain(x))
    for k in range(8):
        found = []
        for way in (plain, call):
            x = np.arange(12, dtype="f").reshape((3, 4) if (k % 2 > 0) is first else (4, 3)) + k
            x = x if x.shape == (4, 3) else x.T
            y = way(x)
            x[...] = -1
            found.append(y.copy())
        np.testing.assert_array_equal(*found)
    assert call.schedule_manager.statistics.replays == 6
