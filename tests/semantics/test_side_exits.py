"""User code in a replay changes, for the first time, what the call reads: define-by-run ends it."""

from __future__ import annotations

import collections
import gc
import types
import weakref

import sdbr
from sdbr.call.exits.undo import WHOLE, Entry, Undone
from sdbr.trace.watch.sources import MISSING

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.comparison import BACKENDS
from tests.tolerances import GRADIENTS, RESULTS

X = np.random.RandomState(0).rand(3, 4).astype("f")
#: Calls in which the code writes.
WRITTEN = (4, 8)
CALLS = 11


class Slots:
    __slots__ = ("n",)


Pair = collections.namedtuple("Pair", "a b")


class Logged(dict):
    """Whose code is not asked when something is put back."""

    def __setitem__(self, key, thing):
        self.log.append(thing)  # an attribute
        super().__setitem__(key, thing)


class Places:
    """What the code of a call may change, made anew for each run."""

    def __init__(self):
        self.mode = 1
        self.rate = 0.5
        self.items = [1, 2]
        self.table = {"a": 1, "b": 2}
        self.names = collections.OrderedDict(a=1, b=2)
        self.kind = type("Kind", (), {"n": 1})
        self.slots = Slots()
        self.slots.n = 1
        self.array = X[0].copy()
        self.act = F.tanh
        self.there = 1
        self.pair = Pair(1, 2)
        self.marks = {1, 2}
        self.row = [2]
        self.logged = Logged(a=1)
        self.logged.log = []
        self.kept = [np.ones(4, "f"), np.full(4, 0.5, "f")]
        self.inner = types.SimpleNamespace(n=1)
        self.link = L.Linear(4, 4, initialW=chainer.initializers.Orthogonal(0.5))
        self.link.rate = 1.5


def turned(places):
    first = next(iter(places.table))
    places.table[first] = places.table.pop(first)


def _act(places):
    places.act = F.relu if places.act is F.tanh else F.tanh


def _array(places):
    places.array = places.array + 1


def _there(places):
    if hasattr(places, "there"):
        del places.there
    else:
        places.there = 5


def _kind(places):
    places.kind.n += 1


def _items(places):
    places.items[0] += 1


def _slots(places):
    places.slots.n += 1


def _inner(places):
    places.inner = types.SimpleNamespace(n=places.inner.n + 1)


def _rate(places):
    places.link.rate += 1.0


def _deleted(places):
    if hasattr(places.link, "rate"):
        del places.link.rate
    else:
        places.link.rate = 2.5


def _several(places, h):
    for array in places.kept:
        h = h * array
    return h


def _logged(places):
    places.logged["a"] += 1


def _weight(places):
    places.link.W.array = places.link.W.array * np.float32(1.5)


#: What the code changes, and what the call makes of it.
KINDS = {
    "a number": (lambda p: setattr(p, "mode", p.mode + 1), lambda p, h: h * p.mode),
    "a float": (lambda p: setattr(p, "rate", p.rate + 1), lambda p, h: h * p.rate),
    "an item": (_items, lambda p, h: h * p.items[0]),
    "a length": (lambda p: p.items.append(3), lambda p, h: h * len(p.items)),
    "the order of keys": (turned, lambda p, h: h * float(next(iter(p.table)) == "a")),
    "an order that moves": (
        lambda p: p.names.move_to_end(next(iter(p.names))),
        lambda p, h: h * next(iter(p.names.values())),
    ),
    "a class": (_kind, lambda p, h: h * p.kind.n),
    "a slot": (_slots, lambda p, h: h * p.slots.n),
    "an array": (_array, lambda p, h: h * p.array),
    "a function": (_act, lambda p, h: p.act(h)),
    "an attribute that goes": (_there, lambda p, h: h * getattr(p, "there", 0.3)),
    "an object": (_inner, lambda p, h: h * p.inner.n),
    "an attribute of a link": (_rate, lambda p, h: h * p.link.rate),
    "a member": (
        lambda p: (p.marks.discard if 7 in p.marks else p.marks.add)(7),
        lambda p, h: h * (2 if 7 in p.marks else 1),
    ),
    "the last": (
        lambda p: p.row.pop() if p.row else p.row.append(3),
        lambda p, h: h * (p.row[-1] if p.row else 0.5),
    ),
    "an attribute of a link that goes": (
        _deleted,
        lambda p, h: h * getattr(p.link, "rate", 0.5) + getattr(p.link, "rate", 1.0),
    ),
    "a comparison": (
        lambda p: setattr(p.link, "rate", 4.0 - p.link.rate),
        lambda p, h: h * (2 if p.link.rate > 2.0 else 1),
    ),
    "a named tuple": (
        lambda p: setattr(p, "pair", p.pair._replace(a=p.pair.a + 1)),
        lambda p, h: h * p.pair.a,
    ),
    "a list of arrays": (lambda p: p.kept.pop() if p.kept else None, _several),
    "the configuration": (
        lambda p: setattr(chainer.config, "mine", chainer.config.mine + 1),
        lambda p, h: h * chainer.config.mine,
    ),
    "a parameter": (_weight, lambda p, h: p.link(h)),
}


class Doubling:
    """The methods of both kinds of functions."""

    def __init__(self, code, places):
        self.run = code, places

    def forward(self, inputs):
        code, places = self.run
        code(places, inputs[0])
        return (inputs[0] * 2,)

    def backward(self, _, gradients):
        return (gradients[0] * 2,)


class Node(Doubling, chainer.FunctionNode):
    pass


class OldNode(Doubling, chainer.Function):
    pass


def _beside(code, places, h):
    code(places, h.array)
    return h * 2


WAYS = {
    "static_code": _beside,
    "a node": lambda code, places, h: Node(code, places).apply((h,))[0],
    "an old node": lambda code, places, h: OldNode(code, places)(h),
}


class Net(chainer.Chain):
    def __init__(self, places, way, change, read, where):
        super().__init__()
        with self.init_scope():
            self.l = L.Linear(4, 4)
        self.where = where
        self.parts = places, way, change, read

    def forward(self, x):
        places, way, change, read = self.parts
        h = self.l(x)
        if "before" in self.where:
            h = read(places, h)
        h = WAYS[way](change, places, h)
        if "after" in self.where:
            h = read(places, h)
        return F.sum(F.tanh(0.05 * h) ** 2)


def flagged(change, calls: list):
    """The code: it counts its calls, and changes something in some of them."""

    def code(places, array):
        calls.append(array.shape)
        if len(calls) in WRITTEN:
            change(places)

    return code


def shown(places):
    return (
        places.mode, places.rate, list(places.items),
        list(places.table.items()), list(places.names.items()), places.kind.n, places.slots.n,
        places.array.tolist(), places.act is F.tanh, getattr(places, "there", None),
        places.inner.n, getattr(places.link, "rate", None), places.pair, places.logged.log,
        len(places.kept), chainer.config.mine, sorted(places.marks), list(places.row),
    )  # fmt: skip


def run(static, way, kind, where, step=False, draws=False):
    """What is seen in some calls; the net."""
    np.random.seed(1)
    chainer.config.mine = 1
    change, read = KINDS[kind]
    calls: list = []
    code, places = flagged(change, calls), Places()
    if static and way == "static_code":
        code = sdbr.static_code(code)
    if draws:
        read = lambda p, h, read=read: F.dropout(read(p, h), 0.3)  # noqa: E731
    net = Net(places, way, code, read, where)
    optimizer = chainer.optimizers.MomentumSGD(0.05)
    if static:
        net, optimizer = sdbr.static_graph(net), sdbr.static_optimizer(optimizer)
    optimizer.setup(net)
    seen = []
    for i in range(CALLS):
        x = X * np.float32(1 + i / 8)
        if step:
            optimizer.update(net, x)
        else:
            loss = net(x)
            net.cleargrads()
            loss.backward()
            seen.append(loss.array)
        seen += [net.l.W.grad.copy(), net.l.W.array.copy(), shown(places), np.random.rand()]
    assert len(calls) == CALLS  # in none twice
    return seen, net


def agree(seen, wanted):
    for got, want in zip(seen, wanted, strict=True):
        if isinstance(want, np.ndarray):
            np.testing.assert_allclose(got, want, GRADIENTS, GRADIENTS)
        else:
            assert got == want


def exits(net) -> int:
    return sum(
        n
        for reason, n in net.schedule_manager.define_by_run_reasons.items()
        if "in the middle of a call" in reason
    )


pytestmark = pytest.mark.filterwarnings("ignore:.*in the middle of a call:sdbr.SdbrWarning")


@pytest.fixture(autouse=True)
def without_audits():
    with chainer.using_config("sdbr_audit", "off"), chainer.using_config("mine", 1):
        yield


@pytest.mark.parametrize("where", ["before", "after", "before and after"])
def test_no_code_of_a_container_is_asked(where, monkeypatch):
    monkeypatch.setitem(KINDS, "a dict", (_logged, lambda p, h: h * p.logged["a"]))
    test_calls("static_code", "a dict", where)


@pytest.mark.parametrize("where", ["before", "after", "before and after"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", WAYS)
def test_calls(way, kind, where):
    wanted, _ = run(False, way, kind, where)
    seen, net = run(True, way, kind, where)
    agree(seen, wanted)
    assert exits(net) == len(WRITTEN)
    assert net.schedule_manager.statistics.replays >= 2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", ["static_code", "a node"])
def test_whole_steps(way, kind):
    wanted, _ = run(False, way, kind, "before and after", step=True)
    seen, net = run(True, way, kind, "before and after", step=True)
    agree(seen, wanted)
    assert exits(net) == len(WRITTEN)
    assert net.schedule_manager.statistics.steps >= 2


@pytest.mark.parametrize("step", [False, True])
@pytest.mark.parametrize("way", ["static_code", "a node"])
def test_draws(way, step):
    """What the call has drawn before the code is drawn again, and the same."""
    wanted, _ = run(False, way, "a number", "before and after", step, draws=True)
    seen, net = run(True, way, "a number", "before and after", step, draws=True)
    agree(seen, wanted)
    assert exits(net) == len(WRITTEN)


def test_draws_of_the_code(monkeypatch):
    monkeypatch.setitem(
        KINDS,
        "drawn",
        (lambda p: setattr(p, "mode", np.random.randn(3).sum()), lambda p, h: h * p.mode),
    )
    wanted, _ = run(False, "static_code", "drawn", "before and after", draws=True)
    seen, net = run(True, "static_code", "drawn", "before and after", draws=True)
    agree(seen, wanted)
    assert exits(net) == len(WRITTEN)


@pytest.mark.parametrize("step", [False, True])
def test_with_audits(step):
    with chainer.using_config("sdbr_audit", 1.0):
        seen, net = run(True, "static_code", "a number", "before and after", step)
    agree(seen, run(False, "static_code", "a number", "before and after", step)[0])
    assert net.schedule_manager.audits.failed == 0


def _replace(p):
    p.link.W.array[...] = p.link.W.array * np.float32(1.5)


def test_what_is_read_where_it_lies_needs_no_exit(monkeypatch):
    monkeypatch.setitem(KINDS, "in place", (_replace, lambda p, h: p.link(h)))
    wanted, _ = run(False, "static_code", "in place", "after")
    seen, net = run(True, "static_code", "in place", "after")
    agree(seen, wanted)
    assert (exits(net), net.schedule_manager.statistics.replays) == (0, CALLS - 1)


def test_what_code_gives_and_writes():
    """It does not run again: its result and its arrays are given again."""
    log, state = [], {"scale": 1.0}

    @sdbr.static_code
    def code(inputs, outputs):
        log.append(len(log) + 1)
        outputs[0][...] = inputs[0] + log[-1]
        if len(log) == 3:
            state["scale"] = 2.0
        return inputs[0] * log[-1]

    def f(x):
        h = F.relu(x)
        out = np.zeros_like(X)
        return (code(inputs=[h.array], outputs=[out]) + out) * h * state["scale"]

    static = sdbr.static_graph(f)
    for n in range(1, 6):
        want = (X * n + X + n) * X * (1.0 if n < 3 else 2.0)
        np.testing.assert_allclose(static(X).array, want, RESULTS, RESULTS)
    assert log == [1, 2, 3, 4, 5]
    assert static.schedule_manager.statistics.replays == 2


def test_code_that_each_call_makes_anew_runs_once():
    state, ran = types.SimpleNamespace(k=1), []

    @sdbr.static_code
    def change():
        ran.append("change")
        if ran.count("change") == 4:
            state.k = 2

    def f(x):
        class Inner(chainer.FunctionNode):
            def forward(self, inputs):
                ran.append("node")
                return (inputs[0] * 2,)

        inner = sdbr.static_code(lambda h: ran.append("code"))
        h = Inner().apply((F.relu(x),))[0]
        inner(h.array)
        change()
        return h * state.k

    static = sdbr.static_graph(f)
    for i in range(6):
        np.testing.assert_allclose(static(X).array, X * (2 if i < 3 else 4), RESULTS)
    assert ran == ["node", "code", "change"] * 6


def test_statistics_that_the_code_writes_stay_written():
    """The program writes them as well: what that wrote is put back, not what the code wrote."""

    def run(static):
        np.random.seed(0)
        bn, state, calls = L.BatchNormalization(4), types.SimpleNamespace(k=1), []

        def code():
            calls.append(1)
            bn.avg_mean[...] = 0
            if len(calls) == 4:
                state.k = 2

        code = sdbr.static_code(code) if static else code

        def f(x):
            h = bn(x)
            code()
            return h * state.k

        f = sdbr.static_graph(f) if static else f
        return [(f(X + i).array.sum(), bn.avg_mean.copy(), bn.avg_var.copy()) for i in range(6)]

    for got, want in zip(run(True), run(False), strict=True):
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(a, b, GRADIENTS, GRADIENTS)


def test_the_array_of_an_argument():
    def run(static):
        calls, given = [], []

        def code():
            calls.append(1)
            if len(calls) == 4:
                given[0].array = given[0].array * 3

        code = sdbr.static_code(code) if static else code

        def f(v):
            h = v * 1
            code()
            return h * v

        f, seen = sdbr.static_graph(f) if static else f, []
        for _ in range(6):
            given[:] = [chainer.Variable(X.copy())]
            seen.append(f(*given).array)
        return seen

    for got, want in zip(run(True), run(False), strict=True):
        np.testing.assert_allclose(got, want, RESULTS)


@pytest.mark.parametrize("reads", ["number", "length"])
def test_a_variable_outside_is_not_compared_to_be_put_back(reads):
    """Where its attributes lie is looked up at each replay; a Variable refuses ``==``."""
    outside, count = chainer.Variable(np.ones(3, "f")), Slots()
    count.n = 0

    @sdbr.static_code
    def bump():
        count.n += 1

    def function(x):
        k = float(outside.array[0]) if reads == "number" else outside.shape[0]
        bump()
        return F.tanh(x) * k

    static = sdbr.static_graph(function, on_dynamic="raise")
    for i in range(5):
        outside.array = np.full(3, i + 1, "f")
        want = np.tanh(X) * (i + 1 if reads == "number" else 3)
        np.testing.assert_allclose(static(X).array, want, rtol=RESULTS)
    assert count.n == 5 and static.schedule_manager.statistics.replays == 4


def test_what_code_changes_and_changes_back_while_traced():
    """Between the two the call reads what it has changed: dynamic, though it was read before."""
    state, calls = types.SimpleNamespace(mode=None), []
    names = {"state": state, "F": F, "mode": None}

    def toggle():
        calls.append(1)
        if len(calls) <= 2:
            names["mode"] = None if names["mode"] else 1

    names["code"] = sdbr.static_code(toggle)
    source = """
def f(x):
    h = F.relu(x) * (1 if mode is None else 2)
    code()
    h = h * (1 if mode is None else 2)
    code()
    return h * (1 if mode is None else 2)
"""
    exec(source, names)  # whose globals they are
    static = sdbr.static_graph(names["f"])
    with pytest.warns(sdbr.SdbrWarning, match="which static_code or a function node"):
        got = [static(X).array for _ in range(4)]
    for i, y in enumerate(got):
        np.testing.assert_allclose(y, X * (1 if i else 2), RESULTS)


def test_a_warning_names_the_code_and_what_it_has_changed():
    places = Places()
    code = sdbr.static_code(flagged(KINDS["a number"][0], []), func_name="monitor")
    static = sdbr.static_graph(Net(places, "static_code", code, KINDS["a number"][1], "after"))
    for _ in range(3):
        static(X)
    with pytest.warns(sdbr.SdbrWarning, match=r"monitor has changed '.*mode' in the middle of"):
        static(X)


def test_what_changes_in_every_call_is_dynamic():
    """From the fourth time in a row on, and it says so."""
    state = types.SimpleNamespace(on=False, scale=1.0)

    @sdbr.static_code
    def code():
        if state.on:
            state.scale = 2.0

    def f(x):
        h = F.relu(x) * state.scale
        code()
        return h * state.scale

    static = sdbr.static_graph(f)
    for i in range(8):
        state.scale, state.on = 1.0, i > 1
        want = X * (2.0 if i > 1 else 1.0)
        np.testing.assert_allclose(static(X).array, want, RESULTS)
    (schedule,) = static.schedule_manager.schedules.popitem()[1]
    assert "4 times in a row" in schedule.dynamic.text


def test_what_cannot_be_put_back_is_said():
    """The code of a function, which is not what lies at a place."""
    state = types.SimpleNamespace(on=False, act=lambda h: h * 2)

    @sdbr.static_code
    def code():
        if state.on:
            state.act.__code__ = (lambda h: h * 3).__code__

    def f(x):
        h = state.act(F.relu(x))
        code()
        return state.act(h)

    static = sdbr.static_graph(f)
    for _ in range(3):
        static(X)
    state.on = True
    with pytest.warns(sdbr.SdbrWarning, match="could not be put back as it was"):
        static(X)
    state.on = False
    for _ in range(3):
        np.testing.assert_allclose(static(X).array, X * 9, RESULTS)


@pytest.mark.parametrize("kind", ["static_code", "a node"])
def test_an_error_of_the_rest_leaves_what_the_code_has_changed(kind):
    places = Places()
    read = lambda p, h: h * (1 if p.mode == 1 else 1 / 0)  # noqa: E731
    calls: list = []
    code = flagged(KINDS["a number"][0], calls)
    if kind == "static_code":
        code = sdbr.static_code(code)
    static = sdbr.static_graph(Net(places, kind, code, read, "after"))
    for _ in range(3):
        static(X)
    with pytest.raises(ZeroDivisionError):
        static(X)
    assert (places.mode, len(calls)) == (2, 4)


class Changing(chainer.FunctionNode):
    """Changes the optimizer in its forward, or in its backward."""

    def __init__(self, forward, backward):
        self.codes = forward, backward

    def forward(self, inputs):
        self.codes[0]()
        return (inputs[0] * 1,)

    def backward(self, indexes, gradients):
        self.codes[1]()
        return gradients


def nothing():
    pass


CHANGING = {
    "static_code": lambda code: lambda h: sdbr.static_code(code)() or h,
    "a forward": lambda code: lambda h: Changing(code, nothing).apply((h,))[0],
    "a backward": lambda code: lambda h: Changing(nothing, code).apply((h,))[0],
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("audit", ["off", 1e9])
@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize("way", CHANGING)
def test_code_that_changes_the_optimizer_in_a_step(way, each, audit, backend):
    """What it makes of its hyperparameters counts for that very step, which stays whole."""

    def run(static):
        np.random.seed(0)
        calls: list = []

        def code():
            calls.append(1)
            if each or len(calls) == 4:
                optimizer.lr *= 0.5

        net = chainer.Sequential(L.Linear(4, 4), CHANGING[way](code), lambda h: F.sum(h**2))
        optimizer = chainer.optimizers.SGD(0.1)
        if static:
            net, optimizer = sdbr.static_graph(net), sdbr.static_optimizer(optimizer)
        optimizer.setup(net)
        seen = []
        for _ in range(8):
            optimizer.update(net, X)
            seen += [net[0].W.array.copy(), optimizer.lr]
        return seen, net

    settings = (
        chainer.using_config("sdbr_audit", audit),
        chainer.using_config("sdbr_backend", backend),
    )
    with settings[0], settings[1]:
        seen, net = run(True)
    for got, want in zip(seen, run(False)[0], strict=True):
        np.testing.assert_allclose(got, want, GRADIENTS, GRADIENTS)
    if audit == "off":
        assert net.schedule_manager.statistics.steps == 7
    assert net.schedule_manager.audits.failed == 0


@pytest.mark.parametrize("way", ["static_code", "a forward", "a backward"])
def test_code_that_gives_the_optimizer_a_hook_in_a_step(way):
    """That step is made in parts, or, from its backward, not at all."""

    def run(static):
        np.random.seed(0)
        calls: list = []

        def code():
            calls.append(1)
            if len(calls) == 4:
                optimizer.add_hook(chainer.optimizer_hooks.WeightDecay(0.5))

        net = chainer.Sequential(L.Linear(4, 4), CHANGING[way](code), lambda h: F.sum(h**2))
        optimizer = chainer.optimizers.SGD(0.1)
        if static:
            net, optimizer = sdbr.static_graph(net), sdbr.static_optimizer(optimizer)
        optimizer.setup(net)
        seen = []
        for i in range(7):
            if static and way == "a backward" and i == 3:
                with pytest.raises(sdbr.NotStaticError, match="came too late for this step"):
                    optimizer.update(net, X)
                return seen
            optimizer.update(net, X)
            seen.append(net[0].W.array.copy())
        return seen

    for got, want in zip(run(True), run(False), strict=False):
        np.testing.assert_allclose(got, want, GRADIENTS, GRADIENTS)


ENTRIES = {
    "an item": (lambda: Entry([1, 2], 0), lambda e: e.holder[0]),
    "a key": (lambda: Entry({"a": 1}, "a"), lambda e: e.holder.get("a", MISSING)),
    "an attribute": (
        lambda: Entry(types.SimpleNamespace(a=1), "a"),
        lambda e: getattr(e.holder, "a", MISSING),
    ),
    "of a class": (
        lambda: Entry(type("Kind", (), {"a": 1}), "a"),
        lambda e: getattr(e.holder, "a", MISSING),
    ),
    "a variable": (
        lambda: Entry(types.CellType(1), "a"),
        lambda e: MISSING if e.holder == types.CellType() else e.holder.cell_contents,
    ),
}


def test_a_place_that_cannot_be_written_is_left_as_it_is():
    """The guards, which are asked afterwards, tell that it was not put back."""
    guards = types.SimpleNamespace(hold=lambda: True)
    met = types.SimpleNamespace(put_back=lambda _: [], guards=guards)
    undone = Undone(met, None, [(Entry(1, "real"), 5, bool)])
    assert (undone.is_whole, undone.changed) == (False, [])


@pytest.mark.parametrize("kind", ENTRIES)
def test_entries(kind):
    make, get = ENTRIES[kind]
    entry = make()
    assert get(entry) == 1
    entry.put(5)
    assert get(entry) == 5
    if kind != "an item":
        entry.put(MISSING)
        assert get(entry) is MISSING


@pytest.mark.parametrize(
    ("container", "contents"),
    [([1], [2, 3]), ({1: 2}, {3: 4, 1: 2}), ({1}, [2]), (collections.deque([1]), [2])],
)
def test_entries_of_all(container, contents):
    Entry(container, WHOLE).put(contents)
    assert list(container) == list(contents)


class Config:
    """Held by nobody but the place where it lies."""

    rate = 0.5
    plain = staticmethod(lambda h: h * 2)

    def __init__(self, n):
        self.n = n

    def act(self, h):
        return h * self.n


class Named(Config, metaclass=type("Meta", (type,), {"size": 1.0})):
    pass


class Row(list):
    """Of which there are weak references."""


class Table(dict):
    pass


def _other(old):
    return lambda h: h * 5


def _held_only_there():
    """What the code may replace: nobody else holds anything of it."""
    base = type("Base", (Config,), {"width": 2.0, "act": lambda self, h: h * 2})
    kind = type("Kind", (base,), {"plain": staticmethod(lambda h: h * 3), "half": None})
    kind.half = property(lambda self: 0.5)
    meta = type("Meta", (type,), {"size": 1.0, "twice": lambda cls, h: h * 2})
    state = types.SimpleNamespace(
        cfg=Config(2), items=[1, 2], row=Row([1, 2]), table={"a": 1}, named=Table(a=1),
        array=X[0].copy(), variable=chainer.Variable(X[0].copy()), act=_other(None), kind=kind,
        thing=kind(1), layers={"a": kind(2), "kind": kind}, inner=[Config(3), Config(4)],
        named_class=meta("Named", (), {}), nested=Config(Config(2)), pair=(Config(1), 2),
    )  # fmt: skip
    state.named_class.variable = chainer.Variable(X[1].copy())
    return state


def _global(state):
    globals()["act_now"] = lambda h: h * 5


def act_now(h):
    return h * 2


def _make_global(h):
    return h * 2


def _class_of(state):
    state.layers["a"].__class__ = type("Other", (type(state.layers["a"]),), {"rate": 4.0})


def _hidden(state):
    """By an attribute of the object."""
    state.thing.rate = 3.0


def _between(state):
    """By an attribute of a class between."""
    state.kind.width = 3.0


def _shown_again(state):
    del state.kind.plain


def _emptied(state):
    state.inner[:] = [Config(8)]


def _of_meta(state):
    type(state.named_class).size = 3.0


def _method_of_meta(state):
    type(state.named_class).twice = lambda cls, h: h * 7


def _variable_of_class(state):
    state.named_class.variable = chainer.Variable(X[2].copy())


REPLACED = {
    "an object": (lambda s: setattr(s, "cfg", Config(5)), lambda s, h: h * s.cfg.n),
    "a method's object": (lambda s: setattr(s, "cfg", Config(5)), lambda s, h: s.cfg.act(h)),
    "an object in another": (
        lambda s: setattr(s, "nested", Config(Config(5))), lambda s, h: h * s.nested.n.n,
    ),
    "an object in a list": (_emptied, lambda s, h: h * s.inner[0].n * len(s.inner)),
    "an object in a tuple": (
        lambda s: setattr(s, "pair", (Config(7), 3)), lambda s, h: h * s.pair[0].n * s.pair[1],
    ),
    "a list": (lambda s: setattr(s, "items", [4]), lambda s, h: h * s.items[0] * len(s.items)),
    "a list of a class": (lambda s: setattr(s, "row", Row([4])), lambda s, h: h * s.row[0]),
    "a dict": (lambda s: setattr(s, "table", {"a": 4}), lambda s, h: h * s.table["a"]),
    "a dict of a class": (lambda s: setattr(s, "named", Table(a=4)), lambda s, h: h * s.named["a"]),
    "an array": (lambda s: setattr(s, "array", s.array * 3), lambda s, h: h * s.array),
    "a Variable": (
        lambda s: setattr(s, "variable", chainer.Variable(s.variable.array * 3)),
        lambda s, h: h * s.variable,
    ),
    "a function": (lambda s: setattr(s, "act", lambda h: h * 3), lambda s, h: s.act(h)),
    "a function in a global": (_global, lambda s, h: act_now(h)),
    "a method": (lambda s: setattr(s.kind, "act", _methods()), lambda s, h: s.thing.act(h)),
    "a method of a base": (
        lambda s: setattr(s.kind.__base__, "act", _methods()), lambda s, h: s.thing.act(h),
    ),
    "a static method": (
        lambda s: setattr(s.kind, "plain", staticmethod(lambda h: h * 7)),
        lambda s, h: s.thing.plain(h),
    ),
    "a method that shows another": (_shown_again, lambda s, h: s.thing.plain(h)),
    "a property": (
        lambda s: setattr(s.kind, "half", property(lambda self: 4.0)),
        lambda s, h: h * s.thing.half,
    ),
    "of a class": (lambda s: setattr(s.kind, "plain", 7.0), lambda s, h: h * _number(s.kind.plain)),
    "of a class, by an object": (
        lambda s: setattr(s.kind, "rate", 3.0), lambda s, h: h * s.thing.rate,
    ),
    "of a class, hidden": (_hidden, lambda s, h: h * s.thing.rate),
    "of a base": (
        lambda s: setattr(s.kind.__base__, "width", 3.0), lambda s, h: h * s.thing.width,
    ),
    "of a base, by a class": (
        lambda s: setattr(s.kind.__base__, "width", 3.0), lambda s, h: h * s.kind.width,
    ),
    "of a base, hidden": (_between, lambda s, h: h * s.thing.width),
    "that no class had": (
        lambda s: setattr(s.kind, "new", 3.0), lambda s, h: h * getattr(s.thing, "new", 0.5),
    ),
    "that a class is said to have": (
        lambda s: setattr(s.kind, "new", 3.0),
        lambda s, h: h * (2 if hasattr(s.thing, "new") else 1),
    ),
    "of a metaclass": (_of_meta, lambda s, h: h * s.named_class.size),
    "a method of a metaclass": (_method_of_meta, lambda s, h: s.named_class.twice(h)),
    "a Variable of a class": (_variable_of_class, lambda s, h: h * s.named_class.variable),
    "a class in a dict": (
        lambda s: s.layers.update(kind=type("Other", (s.kind,), {"width": 9.0})),
        lambda s, h: h * s.layers["kind"].width,
    ),
    "the class of what is in a dict": (_class_of, lambda s, h: h * s.layers["a"].rate),
}  # fmt: skip


def _methods():
    return lambda self, h: h * 3


def _number(thing):
    return thing if isinstance(thing, float) else 0.5


def _lies(state):
    """Where what lies by now."""
    kind = state.kind
    return (
        state.cfg.n, state.nested.n.n, [x.n for x in state.inner], state.pair[0].n, state.items,
        list(state.row), state.table, dict(state.named), state.array.tolist(),
        state.variable.array.tolist(), state.act(1), act_now(1), sorted(vars(kind)),
        sorted(vars(kind.__base__)), sorted(vars(state.thing)), kind.width, kind.__base__.width,
        state.thing.act(1), kind.__base__.act(None, 1), _number(kind.plain),
        state.thing.half, kind.rate, getattr(kind, "new", None), state.named_class.size,
        state.named_class.twice(1), state.named_class.variable.array.tolist(),
        state.layers["kind"].width, state.layers["a"].rate,
    )  # fmt: skip


def replaced(static, way, change, read):
    """What is seen in seven calls, in the fourth of which something is replaced; the replays."""
    globals()["act_now"] = types.FunctionType(_make_global.__code__, globals())
    state, calls = _held_only_there(), []

    def code(places, array):
        calls.append(1)
        if len(calls) == 4:
            change(places)

    if static and way == "static_code":
        code = sdbr.static_code(code)

    def f(x):
        h = read(state, F.relu(x))
        return read(state, WAYS[way](code, state, h)) + h

    f, seen, replays = sdbr.static_graph(f) if static else f, [], []
    for i in range(7):
        seen += [f(X * np.float32(1 + i / 8)).array, _lies(state)]
        replays.append(f.schedule_manager.statistics.replays if static else i)
    assert len(calls) == 7
    return seen, replays, f


@pytest.mark.parametrize("kind", REPLACED)
@pytest.mark.parametrize("way", ["static_code", "a node"])
def test_what_is_held_only_where_it_lies(way, kind):
    seen, replays, static = replaced(True, way, *REPLACED[kind])
    agree(seen, replaced(False, way, *REPLACED[kind])[0])
    assert exits(static) == 1
    assert replays[1] < replays[2] == replays[3] < replays[6]


@pytest.mark.parametrize("way", ["static_code", "a node"])
@pytest.mark.parametrize("fourth", [True, False])
def test_what_is_replaced_dies(way, fourth):
    """With the call at the latest, in which code replaces it or after which somebody else does."""
    state, calls, refs = _held_only_there(), [], []

    def change(places, array):
        calls.append(1)
        if len(calls) == 4 and fourth:
            other = _held_only_there()
            refs.extend(map(weakref.ref, _mortal(places)))
            vars(places).update(vars(other))

    code = sdbr.static_code(change) if way == "static_code" else change

    def f(x):
        h = F.relu(x)
        for _, read in REPLACED.values():
            h = read(state, h)
        h = WAYS[way](code, state, h)
        return h * state.cfg.n

    static = sdbr.static_graph(f)
    for _ in range(4):
        static(X)
    assert exits(static) == fourth
    if not fourth:
        refs.extend(map(weakref.ref, _mortal(state)))
        vars(state).update(vars(_held_only_there()))
    gc.collect()
    assert [ref() for ref in refs if ref() is not None] == []


def _mortal(state):
    return [
        state.cfg, state.nested, state.nested.n, *state.inner, state.pair[0], state.row,
        state.named, state.act, state.thing, state.layers["a"],
    ]  # fmt: skip


class Writing(chainer.Chain):
    """Writes at its end, or before the code, where the code writes in one call."""

    def __init__(self, code, way, write, before):
        super().__init__()
        self.parts = code, way, write, before
        self.h, self.array, self.count, self.rate = None, None, 0, 1.0

    def forward(self, x):
        code, way, write, before = self.parts
        h = F.relu(x)
        if before:
            write(self, h)
        h = WAYS[way](code, self, h)
        if not before:
            write(self, h)
        return h * 1


STATE = types.SimpleNamespace()


def _write_counted(net, h):
    net.count += 1


def _write_outside(net, h):
    STATE.h = F.tanh(h)


def _write_number(net, h):
    STATE.n = 5


def _write_array(net, h):
    STATE.array = h.array * 2


def _write_class(net, h):
    Config.last = F.tanh(h)


def _write_item(net, h):
    STATE.table["h"] = F.tanh(h)


#: What the call writes, and what the code does.
WRITES = {
    "a Variable": (
        lambda net, h: setattr(net, "h", F.tanh(h)),
        lambda net: setattr(net, "h", chainer.Variable(X * 9)),
    ),
    "an array": (
        lambda net, h: setattr(net, "array", h.array * 2),
        lambda net: setattr(net, "array", X * 9),
    ),
    "nothing": (lambda net, h: setattr(net, "h", F.tanh(h)), lambda net: setattr(net, "h", None)),
    "a count": (_write_counted, lambda net: setattr(net, "count", 70)),
    "a number": (
        lambda net, h: setattr(net, "rate", net.rate * 0.5), lambda net: setattr(net, "rate", 9.0),
    ),
    "outside": (_write_outside, lambda net: setattr(STATE, "h", chainer.Variable(X * 9))),
    "a number outside": (_write_number, lambda net: setattr(STATE, "n", 9)),
    "an array outside": (_write_array, lambda net: setattr(STATE, "array", X * 9)),
    "of a class": (_write_class, lambda net: setattr(Config, "last", chainer.Variable(X * 9))),
    "an item": (_write_item, lambda net: STATE.table.update(h=chainer.Variable(X * 9))),
}  # fmt: skip


def _left(thing):
    return thing.array if isinstance(thing, chainer.Variable) else thing


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("kind", WRITES)
@pytest.mark.parametrize("way", ["static_code", "a node"])
def test_where_replays_write(way, kind, before):
    """The later of the two counts: the call's own, or the code's."""
    write, change = WRITES[kind]

    def run(static):
        vars(STATE).clear()
        STATE.h = STATE.array = None
        STATE.n, STATE.table, Config.last, calls = 1, {"h": None}, None, []

        def code(net, array):
            calls.append(1)
            if len(calls) == 4:
                change(net)

        code = sdbr.static_code(code) if static and way == "static_code" else code
        net, seen = Writing(code, way, write, before), []
        net = sdbr.static_graph(net) if static else net
        for i in range(7):
            seen.append(net(X * np.float32(1 + i / 8)).array)
            seen += map(_left, (net.h, net.array, net.count, net.rate, STATE.h, STATE.array))
            seen += map(_left, (STATE.n, Config.last, STATE.table["h"]))
        assert len(calls) == 7
        return seen, net

    (seen, net), (wanted, _) = run(True), run(False)
    agree(seen, wanted)
    assert exits(net) == 1
    assert net.schedule_manager.statistics.replays >= 4


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("kind", ["a Variable", "an array", "a count"])
def test_where_whole_steps_write(kind, before):
    write, change = WRITES[kind]

    def run(static):
        calls, seen = [], []

        def code(net, array):
            calls.append(1)
            if len(calls) == 4:
                change(net[1])

        code = sdbr.static_code(code) if static else code
        np.random.seed(0)
        linear = L.Linear(4, 4)
        net = chainer.Sequential(linear, Writing(code, "static_code", write, before), F.sum)
        net[1].parts = (lambda _, array: code(net, array), *net[1].parts[1:])
        optimizer = chainer.optimizers.SGD(0.1)
        if static:
            net, optimizer = sdbr.static_graph(net), sdbr.static_optimizer(optimizer)
        optimizer.setup(net)
        for _ in range(7):
            optimizer.update(net, X)
            seen += [net[0].W.array.copy(), *map(_left, (net[1].h, net[1].array, net[1].count))]
        return seen, net

    seen, net = run(True)
    agree(seen, run(False)[0])
    assert exits(net) == 1
    assert net.schedule_manager.statistics.steps >= 4


@pytest.mark.parametrize("number", [0, 0.5])
@pytest.mark.parametrize("each", [True, False])
def test_a_number_that_moves(number, each):
    """Before the code runs it is what it was when this call began, and not when one was traced."""

    def run(static):
        state, calls = types.SimpleNamespace(n=number), []

        def code(inputs):
            calls.append(1)
            if each or len(calls) == 6:
                state.n += 10

        ran = sdbr.static_code(code) if static else code

        def f(x):
            y = x * state.n
            ran(inputs=[y.array])
            return y + state.n

        f = sdbr.static_graph(f) if static else f
        seen = []
        for _ in range(9):
            state.n += 1
            seen += [f(chainer.Variable(X)).array, state.n]
        return seen, f

    seen, f = run(True)
    agree(seen, run(False)[0])
    assert each or (exits(f) == 1 and f.schedule_manager.statistics.replays >= 5)
