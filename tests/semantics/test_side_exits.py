"""User code in a replay changes, for the first time, what the call reads: define-by-run ends it."""

from __future__ import annotations

import collections
import types

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
    """A function that nobody holds any more, in whose place another one is."""
    state = types.SimpleNamespace(on=False, act=lambda h: h * 2)

    @sdbr.static_code
    def code():
        if state.on:
            state.act = lambda h: h * 3

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
    met = types.SimpleNamespace(put_back=list, guards=types.SimpleNamespace(hold=lambda: False))
    undone = Undone(met, [(Entry(1, "real"), 5)])
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
