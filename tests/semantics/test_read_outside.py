"""Row 8: what user code reads from outside its chain is looked at before every replay."""

from __future__ import annotations

import collections
import functools
import itertools
import queue
import types

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.comparison import BACKENDS, assert_near
from tests.harness.models import Net
from tests.harness.twins import X, agree, pair
from tests.tolerances import RESULTS, ROUNDINGS

FACTOR = 1.0
TABLE = {"factor": 1.0, "deep": {"in": 1.0}}
OPTIONS = types.SimpleNamespace(factor=1.0)
ACTIVATION = F.tanh
SHIFT = np.zeros(3, "f")


class Settings:
    factor = 1.0


class WithClassAttribute(chainer.Chain):
    factor = 1.0

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l = L.Linear(4, 3)

    def forward(self, x):
        return self.l(x) * self.factor


def global_number(self, x):
    return self.l(x) * FACTOR


def through_a_function(self, x):
    return self.l(x) * doubled()


def doubled():
    return 2 * FACTOR


def in_a_comprehension(self, x):
    return sum([self.l(x) * FACTOR for _ in range(2)])


def global_table(self, x):
    return self.l(x) * TABLE["factor"] * TABLE["deep"]["in"]


def global_object(self, x):
    return self.l(x) * OPTIONS.factor


def class_attribute(self, x):
    return self.l(x) * Settings.factor


def global_function(self, x):
    return ACTIVATION(self.l(x))


def global_array(self, x):
    return self.l(x) + SHIFT


def put(name, value):
    return lambda patch: patch.setitem(globals(), name, value)


CHANGES = {
    "number": (global_number, put("FACTOR", 3.0)),
    "function": (through_a_function, put("FACTOR", 3.0)),
    "comprehension": (in_a_comprehension, put("FACTOR", 3.0)),
    "table": (global_table, lambda patch: patch.setitem(TABLE, "factor", 3.0)),
    "deep": (global_table, lambda patch: patch.setitem(TABLE["deep"], "in", 3.0)),
    "object": (global_object, lambda patch: patch.setattr(OPTIONS, "factor", 3.0)),
    "class": (class_attribute, lambda patch: patch.setattr(Settings, "factor", 3.0)),
    "activation": (global_function, put("ACTIVATION", F.relu)),
    "array": (global_array, put("SHIFT", np.ones(3, "f"))),
}


def calls(static, plain, n):
    for _ in range(n):
        assert_near(static(X).array, plain(X).array, RESULTS, "output")


@pytest.mark.parametrize("name", CHANGES)
def test_globals(name, monkeypatch):
    forward, change = CHANGES[name]
    W = np.random.RandomState(0).randn(3, 4).astype("f")
    plain, static = (Net(forward, l=L.Linear(4, 3, initialW=W)) for _ in range(2))
    sdbr.static_graph(static, on_dynamic="raise")
    calls(static, plain, 4)
    replays = static.schedule_manager.statistics.replays
    assert replays >= 2
    with monkeypatch.context() as patch:
        change(patch)
        calls(static, plain, 4)
    calls(static, plain, 3)
    # Back again: the first schedule still fits.
    assert static.schedule_manager.statistics.replays >= replays + 5


def test_closures_of_functions_and_methods():
    factor, names = 1.0, ["a"]
    layer = L.Linear(4, 3)

    def scale():
        return factor * len(names)

    def f(x):
        return layer(x) * scale()

    class Inner(WithClassAttribute):
        def forward(self, x):
            return self.scaled(x)

        def scaled(self, x):
            return self.l(x) * factor

    static, model = sdbr.static_graph(f), sdbr.static_graph(Inner())
    for i in range(9):
        factor = 1.0 + i // 3
        if i == 7:
            names.append("b")
        assert_near(static(X).array, f(X).array, RESULTS, "function")
        assert_near(model(X).array, (model.l(X) * factor).array, RESULTS, "method")
    # The second trace follows the factor, and the third comes of the names.
    assert static.schedule_manager.statistics.traces == 3
    assert model.schedule_manager.statistics.traces == 2


def test_class_attributes_of_the_chain(monkeypatch):
    model = sdbr.static_graph(WithClassAttribute())
    for factor in (1.0, 1.0, 2.0, 2.0):
        monkeypatch.setattr(WithClassAttribute, "factor", factor)
        assert_near(model(X).array, (model.l(X) * factor).array, RESULTS, "output")
    assert model.schedule_manager.statistics.replays == 2


def test_a_replaced_global_model():
    model = Net(lambda self, x: F.tanh(self.l(x)), l=L.Linear(4, 3))

    @sdbr.static_graph
    def loss(x):
        return F.sum(model(x))

    for i in range(6):
        if i == 3:
            model = Net(lambda self, x: F.relu(self.l(x)), l=L.Linear(4, 3))
        assert_near(loss(X).array, F.sum(model(X)).array, RESULTS, "loss")
    assert loss.schedule_manager.statistics.replays == 4


def test_a_call_that_counts_and_writes_the_number_down_is_dynamic():
    count = 0

    @sdbr.static_graph
    def f(x):
        nonlocal count
        count += 1
        return F.relu(x) * float(str(count))

    with pytest.warns(
        sdbr.SdbrWarning,
        match="'count', which the call reads, is changed",
    ):
        for i in range(11):
            assert_near(f(X).array, np.maximum(X, 0) * (i + 1), ROUNDINGS, "output")
    assert f.schedule_manager.statistics.define_by_run_calls == 6


def test_library_code_is_not_looked_at():
    static = sdbr.static_graph(L.Classifier(L.Linear(4, 3)))
    static(X, np.zeros(5, "i"))
    assert len(static.schedule_manager.static_schedule.guards.volatile) == 0


@pytest.mark.parametrize("wrapped", [True, False])
def test_a_model_that_reads_nothing_from_outside_needs_no_python_before_a_replay(wrapped):
    """The compiled path compares in C; conditions that Python checks cost more than a small net."""
    model = PlainChain()
    if wrapped:
        sdbr.static_graph(model)
        forward = model
    else:
        forward = model.static
    for _ in range(3):
        forward(np.ones((2, 4), "f"))
    assert len(model.static_schedule.guards.volatile) == 0


class PlainChain(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l = L.Linear(4, 3)

    def forward(self, x):
        return F.relu(self.l(x))

    @sdbr.static_graph
    def static(self, x):
        return F.relu(self.l(x))


# --- what goes on from call to call ---------------------------------------------------------------
class Feed:
    __slots__ = ("it",)

    def __init__(self, it):
        self.it = it


def endless():
    scale = 1.0
    while True:
        yield scale
        scale += 1


FEEDS = {"deep": [{"it": itertools.count(1)}]}
JOBS = queue.SimpleQueue()
NEXT = itertools.count().__next__
# name -> (forward, what the warning says)
MOVING = {
    "dict": (lambda s, x: s.l(x) * next(s.a["it"]), {"it": iter(range(9))}, "a['it']"),
    "object": (lambda s, x: s.l(x) * next(s.a.it), Feed(itertools.cycle([1, 2])), "a.it"),
    "tuple": (lambda s, x: s.l(x) * next(s.a[1]), (0, endless()), "a[1]"),
    "queue": (lambda s, x: s.l(x) * s.a.get(), queue.Queue(), "is a queue"),
    "queue in a list": (
        lambda s, x: s.l(x) * s.a[0].get(),
        [queue.SimpleQueue()],
        "waits for other threads",
    ),
    "global dict": (lambda s, x: s.l(x) * next(FEEDS["deep"][0]["it"]), None, "['it']"),
    "bound method": (lambda s, x: s.l(x) * NEXT(), None, "an iterator, which goes on"),
    "bound get": (lambda s, x: s.l(x) * s.a(), JOBS.get, "is a queue"),
    "partial": (lambda s, x: s.l(x) * s.a(), functools.partial(next, endless()), "an iterator"),
}


@pytest.mark.parametrize("name", MOVING)
def test_what_gives_something_else_each_time_is_dynamic(name):
    forward, thing, message = MOVING[name]
    for jobs in (thing, *(thing if type(thing) is list else ()), JOBS):
        for i in range(9) if hasattr(jobs, "put") else ():
            jobs.put(i)
    static = sdbr.static_graph(Net(forward, l=L.Linear(4, 3)))
    static.a = thing
    with pytest.warns(sdbr.SdbrWarning, match="is not static") as caught:
        outputs = [static(X).array.tobytes() for _ in range(4)]
    assert message in str(caught[0].message)
    assert len(set(outputs)) == (2 if name == "object" else 4)
    assert static.schedule_manager.statistics.replays == 0


TURNED = False


def test_a_state_that_comes_back_does_not_bring_back_its_schedule():
    """What the call itself did to a container, no replay would do."""
    ring = types.SimpleNamespace(turns=collections.deque([1.0, 2.0, 3.0]))

    def rotating(x):
        ring.turns.rotate(1)
        return F.relu(x) * ring.turns[0]

    static = sdbr.static_graph(rotating)
    with pytest.warns(sdbr.SdbrWarning, match="the call reads of ring.turns, which it has changed"):
        for i in range(9):
            want = np.maximum(X, 0) * [3, 2, 1][i % 3]
            assert_near(static(X).array, want, ROUNDINGS, "output")
    assert static.schedule_manager.statistics.replays == 0


def test_a_flag_that_the_call_turns_is_turned_by_replays():
    @sdbr.static_graph(on_dynamic="raise")
    def turning(x):
        global TURNED
        TURNED = not TURNED
        return F.relu(x) * (3 if TURNED else 2)

    for i in range(9):
        assert_near(turning(X).array, np.maximum(X, 0) * [3, 2][i % 2], ROUNDINGS, f"call {i}")
        assert TURNED is (i % 2 == 0)
    assert turning.schedule_manager.statistics.replays == 7


# --- classes, dictionaries, shapes ----------------------------------------------------------------
class Masks:
    mask = np.ones(3, "f")
    activation = F.tanh

    class Inner:
        weight = np.ones(3, "f")


class Masked(chainer.Chain):
    scale = np.ones(3, "f")
    n = 1

    def __init__(self):
        super().__init__()
        with self.init_scope():
            W = np.arange(12, dtype="f").reshape(3, 4) / 10
            self.l = L.Linear(4, 3, initialW=W, initial_bias=1)
        self.repeat, self.name_of = 1, "relu"

    def forward(self, x):
        y = Masks.activation(self.l(x) * Masks.mask + Masks.Inner.weight) * self.scale
        for _ in range(self.repeat):
            y = getattr(F, self.name_of)(y + 1)
        return y


CLASS_CHANGES = {
    "array": lambda patch, m: patch.setattr(Masks, "mask", np.full(3, 2, "f")),
    "array in place": lambda patch, m: Masks.mask.fill(1.5),
    "library function": lambda patch, m: patch.setattr(Masks, "activation", F.sigmoid),
    "inner class": lambda patch, m: patch.setattr(Masks.Inner, "weight", np.full(3, 2, "f")),
    "another class": lambda patch, m: patch.setattr(
        Masks, "Inner", type("Inner", (), {"weight": np.full(3, 3, "f")})
    ),
    "class of the link": lambda patch, m: patch.setattr(Masked, "scale", np.full(3, 2, "f")),
    "dictionary": lambda patch, m: patch.setitem(m.__dict__, "repeat", 3),
    "vars": lambda patch, m: vars(m).update(name_of="sigmoid"),
    "child": lambda patch, m: patch.setitem(m.__dict__, "l", L.Linear(4, 3, initialW=1)),
    "delete": lambda patch, m: patch.delitem(m.__dict__, "repeat"),
    "object": lambda patch, m: object.__setattr__(m, "repeat", 2),
    "bias": lambda patch, m: patch.setitem(m.l.__dict__, "b", None),
}


@pytest.mark.parametrize("backprop", [True, False])
@pytest.mark.parametrize("name", CLASS_CHANGES)
def test_what_is_written_past_links_and_in_classes(name, backprop, monkeypatch):
    monkeypatch.setattr(Masked, "repeat", 2, raising=False)
    with chainer.using_config("enable_backprop", backprop), monkeypatch.context() as patch:
        static = sdbr.static_graph(Masked(), on_dynamic="raise")
        with chainer.using_config("use_static_graph", False):
            want = [static(X).array]
        for _ in range(5):
            assert_near(static(X).array, want[0], RESULTS, "before")
        replays = static.schedule_manager.statistics.replays
        assert replays >= 3
        CLASS_CHANGES[name](patch, static)
        with chainer.using_config("use_static_graph", False):
            want.append(static(X).array)
        for _ in range(4):
            assert_near(static(X).array, want[1], RESULTS, "after")
        assert static.schedule_manager.statistics.replays >= replays + 2
        assert np.abs(want[0] - want[1]).max() > 1e-3
    Masks.mask.fill(1)


def test_the_shape_of_a_parameter_that_is_set_in_place():
    def forward(self, x):
        return self.l(x) + F.sum(self.p, axis=1)[0]

    static = Net(forward, l=L.Linear(4, 3))
    with static.init_scope():
        static.p = chainer.Parameter(np.arange(6, dtype="f").reshape(2, 3))
    sdbr.static_graph(static, on_dynamic="raise")
    for shape in ((2, 3), (3, 2), (1, 6), (2, 3)):
        static.p.array.shape = shape
        static.cleargrads()
        for _ in range(4):
            want = static.l(X).array + static.p.array.sum(axis=1)[0]
            assert_near(static(X).array, want, RESULTS, "output")
    assert static.schedule_manager.statistics.replays >= 8


def test_a_shape_that_is_set_inside_the_call():
    def flat(x):
        y = F.relu(x).array
        y.shape = (y.size,)
        return F.sum(y[:4])

    static = sdbr.static_graph(flat)
    with pytest.warns(
        sdbr.SdbrWarning, match="the shape of an array was set in place at .*in flat"
    ):
        for _ in range(3):
            x = np.array(X)
            assert_near(static(x).array, flat(x).array, RESULTS, "output")
            assert x.shape == X.shape


# --- limits ----------------------------------------------------------------------------------
def test_what_lies_deep_in_much_is_compared():
    cells = [types.SimpleNamespace(gain=1.0) for _ in range(1500)]
    many = dict.fromkeys(range(1000), 1.0)
    static = sdbr.static_graph(lambda x: F.relu(x) * cells[1400].gain * many[999])
    for i in range(6):
        many[999] = 1.0 + i // 3
        assert_near(static(X).array, np.maximum(X, 0) * many[999], RESULTS, "output")
    assert static.schedule_manager.statistics.replays == 4
    cells[1400].gain = 3.0
    assert_near(static(X).array, np.maximum(X, 0) * 6, RESULTS, "output")


@pytest.mark.parametrize("backend", BACKENDS)
def test_closure_array_mutated_in_place(backend):
    weight = np.array([1, 1, 1], "f")
    shift = np.zeros(3, "f")

    def forward(self, x, t):
        return F.softmax_cross_entropy(self.l(x) + shift, t, class_weight=weight)

    plain, static = pair(lambda: Net(forward, l=L.Linear(4, 3)), backend=backend)
    t = np.array([0, 1, 2, 1, 0], "i")
    for i in range(6):
        weight[...] = np.array([1, 2 + i, 3], "f")
        shift[...] = np.array([i, 0, -i], "f")
        agree(plain, static, X, t)
    statistics = static.schedule_manager.statistics
    assert (statistics.traces, statistics.replays) == (1, 5)
    assert statistics.python_ops == 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_array_that_decides_about_shapes(backend):
    """Such an array is built into the program, and its contents are compared at every call."""
    places = np.array([1, 3])

    def forward(self, x):
        return F.split_axis(self.l(x), places, axis=1)[1]

    plain, static = pair(lambda: Net(forward, l=L.Linear(4, 6)), backend=backend)
    for i in range(8):
        agree(plain, static, X)
        if i == 3:
            places[1] = 5
    statistics = static.schedule_manager.statistics
    assert (statistics.traces, statistics.replays, statistics.python_ops) == (2, 6, 0)
