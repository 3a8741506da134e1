"""Each row of the contract by both ways into a replay: that of the first one, and the compiled one.

A row is a short program. It runs as plain define-by-run, with every replay looked up as the first
one is, and with replays as they come; what a user can see is noted in its order, and is the same.
"""

from __future__ import annotations

from typing import ClassVar

import sdbr
from sdbr.call import manager as managers
from sdbr.call.step.whole import STEPS

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.comparison import assert_near
from tests.harness.models import Net
from tests.harness.threads import in_threads
from tests.tolerances import GRADIENTS, RESULTS

CALLS = 5
XS = [np.random.RandomState(i).randn(5, 4).astype("f") for i in range(CALLS)]
T = np.array([0, 1, 2, 0, 1], "i")


class Way:
    """One way into the replays of a row.

    Parameters
    ----------
    name : str
        ``'plain'``; ``'first'``: every call is looked up; ``'later'``: as it comes.
    """

    def __init__(self, name: str):
        self.name = name
        self.seen: list = []
        self.static: list = []
        self.optimizers: list = []

    def decorate(self, thing, **options):
        """A link or function as this way has it."""
        if self.name == "plain":
            return thing
        options.setdefault("on_dynamic", "raise")
        self.static.append(sdbr.static_graph(thing, **options))
        return self.static[-1]

    def optimizer(self, model, make):
        """An optimizer as this way has it."""
        optimizer = make() if self.name == "plain" else sdbr.static_optimizer(make())
        self.optimizers.append(optimizer)
        return optimizer.setup(model)

    def call(self, f, *args, **kwargs):
        """``f(*args, **kwargs)``, the way that is tested."""
        if self.name == "first":
            for thing in self.static:
                if thing.schedule_manager is not None:
                    thing.schedule_manager.runners.clear()
            for optimizer in self.optimizers:
                if STEPS in optimizer.__dict__:
                    optimizer.__dict__[STEPS].clear()
        return f(*args, **kwargs)

    def see(self, name: str, thing) -> None:
        """Note what a user could see now."""
        self.seen.append((name, _copied(thing)))

    def see_all(self, model) -> None:
        """Note parameters, gradients, persistent values and attributes of a link."""
        for path, link in sorted(model.namedlinks()):
            for name, thing in sorted(link.__dict__.items()):
                if isinstance(thing, (chainer.Variable, np.ndarray)):
                    self.see(f"{path}/{name}", thing)
        for path, p in sorted(model.namedparams()):
            self.see(f"gradient of {path}", p.grad)


def _copied(thing):
    if isinstance(thing, chainer.Variable):
        return type(thing).__name__, thing.requires_grad, _copied(thing.array)
    if isinstance(thing, np.ndarray):
        return np.array(thing)
    if isinstance(thing, dict):
        return [(key, _copied(x)) for key, x in thing.items()]
    if isinstance(thing, (list, tuple)):
        return type(thing).__name__, [_copied(x) for x in thing]
    return type(thing).__name__, thing


def assert_same(got, want, tolerance: float, what: str) -> None:
    """The same structure, and arrays that are near each other."""
    if isinstance(want, np.ndarray):
        assert_near(got, want, tolerance, what)
        return
    assert type(got) is type(want), what
    if not isinstance(want, (list, tuple)):
        assert got == want, what
        return
    assert len(got) == len(want), what
    for mine, theirs in zip(got, want, strict=True):
        assert_same(mine, theirs, tolerance, what)


class Observer(chainer.Reporter):
    """Notes what is reported, and what the link holds just then."""

    def __init__(self, way: Way, model):
        super().__init__()
        self.way = way
        self.model = model
        self.add_observer("main", model)

    def report(self, values, observer=None):
        self.way.see("reported", values)
        for name in ("loss", "largest"):
            self.way.see("held meanwhile", self.model.__dict__.get(name))
        super().report(values, observer)


class Twice(chainer.FunctionNode):
    """Counts its runs."""

    runs: ClassVar[list] = []

    def forward(self, inputs):
        self.runs.append("forward")
        return (inputs[0] * 2,)

    def backward(self, indexes, grads):
        self.runs.append("backward")
        return (grads[0] * 2,)


class OldStyle(chainer.Function):
    def forward(self, inputs):
        return (inputs[0] ** 2,)

    def backward(self, inputs, grads):
        return (2 * inputs[0] * grads[0],)


def net(forward, **links):
    """A chain with the same parameters each time."""
    made = {"fc": L.Linear(4, 3, initialW=np.eye(3, 4, dtype="f") + 0.1)}
    return Net(forward, **{**made, **links})


def row_01_once(way):
    Twice.runs = []
    f = way.decorate(lambda x: F.sum(Twice().apply((x,))[0]))
    for x in XS:
        v = chainer.Variable(x)
        way.call(f, v).backward()
        way.see("runs", list(Twice.runs))
        way.see("gradient", v.grad)


def row_02_random(way):
    f = way.decorate(lambda x: F.gaussian(F.dropout(x), x * 0) + F.zoneout(x, x * 2))
    np.random.seed(0)
    for x in XS:
        way.see("result", way.call(f, chainer.Variable(x)))
        way.see("draw", np.random.rand(3))


def row_03_held(way):
    model = way.decorate(net(lambda self, x: (F.relu(self.fc(x)), self.fc(x)[1:])))
    held = []
    for x in XS:
        ys = way.call(model, x)
        model.cleargrads()
        F.sum(ys[0]).backward()
        held.append([y.array for y in ys] + [model.fc.W.grad])
        way.see("held", held)
    ys[1].array[...] = 7
    way.see("written to", held)


def row_04_callers_arrays(way):
    model = way.decorate(net(lambda self, x: F.sum(self.fc(x) ** 2)))
    for x in XS:
        x = x.copy()
        v = chainer.Variable(x)
        loss = way.call(model, v)
        v.array = x * 2
        model.cleargrads()
        loss.backward()
        way.see("the caller's", x)
        way.see("gradient", v.grad)
        way.see_all(model)


def row_05_parameters(way):
    model = way.decorate(net(lambda self, x: F.sum(self.fc(x))))
    held = model.fc.W.array
    for i, x in enumerate(XS):
        if i == 3:
            model.fc.b.array = np.full(3, 5, "f")
        held[0, 0] = i
        way.see("result", way.call(model, x))
        way.see("the same", model.fc.W.array is held)


def row_06_gradients(way):
    model = way.decorate(net(lambda self, x: F.sum(F.tanh(self.fc(x)))))
    for i, x in enumerate(XS):
        if i % 2 == 0:
            model.cleargrads()
        way.call(model, x).backward()
        way.call(model, x * 2).backward(loss_scale=2.0)
        way.see_all(model)
        (g,) = chainer.grad([way.call(model, x)], [model.fc.W])
        way.see("chainer.grad", g)


def row_07_several_calls(way):
    model = way.decorate(net(lambda self, x: F.tanh(self.fc(x))))
    for x in XS:
        ys = [way.call(model, x * k) for k in (1, 2, 3)]
        model.cleargrads()
        F.sum(ys[0] * ys[2]).backward()
        F.sum(ys[1]).backward()
        way.see("results", ys)
        way.see_all(model)


def row_08_state(way):
    def forward(self, x):
        self.h = self.rnn(x)
        return F.sum(self.h)

    model = way.decorate(net(forward, rnn=L.LSTM(4, 3, lateral_init=0.5, upward_init=0.5)))
    for i, x in enumerate(XS):
        if i == 3:
            model.rnn.reset_state()
        loss = way.call(model, x)
        model.cleargrads()
        loss.backward()
        way.see("loss", loss)
        way.see_all(model)


def row_09_side_effects(way):
    log = sdbr.static_code(lambda inputs: way.see("code", inputs[0]))

    def forward(self, x):
        h = F.relu(self.bn(self.fc(x)))  # sums that are not rounding alone
        log(inputs=[h.array])
        self.loss = F.mean(h)
        chainer.report({"loss": self.loss, "sum": F.sum(h)}, self)
        self.largest = F.max(h)
        self.parts = [F.min(h), {"x": x}]
        chainer.report({"last": self.largest}, self)
        return h

    model = way.decorate(net(forward, bn=L.BatchNormalization(3)))
    model.loss = model.largest = model.parts = None
    model.cleargrads()
    for i, x in enumerate(XS):
        observer = Observer(way, model)
        observation: dict = {}
        with observer.scope(observation), chainer.using_config("enable_backprop", i != 4):
            way.see("result", way.call(model, x))
        way.see("observation", {k: getattr(v, "array", v) for k, v in observation.items()})
        way.see("parts", model.parts)
        way.see_all(model)


def row_10_nothing_frozen(way):
    def forward(self, x, done):
        mask = (1 - done)[:, None] * np.random.rand(5, 1).astype("f")
        return self.fc(x) * mask + np.ones(3, "f")

    model = way.decorate(net(forward))
    np.random.seed(1)
    for i, x in enumerate(XS):
        done = (np.arange(5) % (i + 2) == 0).astype("f")
        way.see("result", way.call(model, x, done))


def row_11_scalars(way):
    model = way.decorate(net(lambda self, x, k=1.0: self.fc(x) * self.beta + k))
    for i, x in enumerate(XS):
        model.beta = 1.0 + i / 4
        way.see("result", way.call(model, x, k=0.5 * i))


def row_12_key(way):
    f = way.decorate(lambda x, n=1, flag=True: F.dropout(F.relu(x) * n) if flag else x + n)
    for i in range(CALLS):
        for train in (True, False):
            np.random.seed(i)
            with chainer.using_config("train", train):
                for args in ((XS[i],), (XS[i][:3],), (XS[i], 2), (chainer.Variable(XS[i]),)):
                    way.see("result", way.call(f, *args))


def row_13_arguments(way):
    def f(batch, *, names):
        (x, y), extra = batch["pair"], batch.get("extra")
        return {names[0]: [F.relu(x), (y, extra)], names[1]: 3.5, "as it is": x}

    f = way.decorate(f)
    for x in XS:
        batch = {"pair": (x, chainer.Variable(x * 2)), "extra": None}
        found = way.call(f, batch, names=("a", "b"))
        way.see("result", found)
        way.see("the same", [found["as it is"] is x, found["a"][1][0] is batch["pair"][1]])


def row_14_nested(way):
    inner = way.decorate(net(lambda self, x: F.tanh(self.fc(x))))
    outer = way.decorate(Net(lambda self, x: self.inner(x) * 2, inner=inner))
    for x in XS:
        way.see("result", way.call(outer, x))
    way.see("inner", way.call(inner, XS[0]))


def row_15_double_backprop(way):
    f = way.decorate(lambda x: F.tanh(x) ** 2, enable_double_backprop=True)
    for x in XS:
        v = chainer.Variable(x)
        (g,) = chainer.grad([F.sum(way.call(f, v))], [v], enable_double_backprop=True)
        F.sum(g * g).backward()
        way.see("penalty", v.grad)


def row_16_modes(way):
    model = way.decorate(net(lambda self, x: F.sum(F.dropout(self.fc(x)))))
    for i, x in enumerate(XS):
        for train, backprop in ((True, True), (True, False), (False, True), (False, False)):
            np.random.seed(i)
            with (
                chainer.using_config("train", train),
                chainer.using_config("enable_backprop", backprop),
            ):
                y = way.call(model, x)
            way.see("result", y)
            way.see("history", y.creator_node is not None)
        y = way.call(model, x)
        (y * 2).unchain_backward()
        way.see("cut", y.creator_node is not None)


def row_17_hooks(way):
    class Names(chainer.FunctionHook):
        name = "names"

        def forward_preprocess(self, function, inputs):
            way.see("hook", function.label)

    model = way.decorate(net(lambda self, x: F.relu(self.fc(x))))
    for i, x in enumerate(XS):
        if i == 3:
            with Names():
                way.see("result", way.call(model, x))
        else:
            way.see("result", way.call(model, x))


def row_18_python_ops(way):
    model = way.decorate(net(lambda self, x: F.sum(OldStyle()(self.fc(x)))))
    for x in XS:
        loss = way.call(model, x)
        model.cleargrads()
        loss.backward()
        way.see("loss", loss)
        way.see_all(model)


def row_19_threads(way):
    model = way.decorate(net(lambda self, x: F.tanh(self.fc(x))))
    for x in XS:
        found: dict = {}

        def run(k, x=x, found=found):
            found[k] = way.call(model, x * k)

        in_threads(3, run)
        way.see("results", [found[k] for k in range(3)])


def row_20_errors(way):
    def forward(self, x, t):
        h = self.fc(x)
        self.loss = F.softmax_cross_entropy(h, t)
        return self.loss

    model = way.decorate(net(forward))
    for i, x in enumerate(XS):
        model.cleargrads()
        try:
            way.call(model, x, T + 7 * (i == 3)).backward()
        except IndexError:
            way.see("error", "IndexError")
        way.see_all(model)


def steps(way):
    """Whole steps: forward, backward and update."""

    def forward(self, x, t):
        h = self.fc(x)
        self.loss = F.softmax_cross_entropy(h, t)
        chainer.report({"loss": self.loss, "accuracy": F.accuracy(h, t)}, self)
        return self.loss

    model = way.decorate(net(forward))
    optimizer = way.optimizer(model, lambda: chainer.optimizers.Adam(0.1))
    optimizer.add_hook(chainer.optimizer_hooks.WeightDecay(0.01))
    for i, x in enumerate(XS):
        observation: dict = {}
        reporter = chainer.Reporter()
        reporter.add_observer("main", model)
        optimizer.alpha = 0.1 / (i + 1)
        with reporter.scope(observation):
            try:
                way.call(optimizer.update, model, x, T + 7 * (i == 3))
            except IndexError:
                way.see("error", optimizer.t)
        way.see("observation", {k: v.array for k, v in observation.items()})
        way.see("time", optimizer.t)
        way.see_all(model)


def row_23_questions(way):
    def forward(self, x):
        h = self.fc(x)
        if h.array.max() > 1:
            h = F.dropout(h, 0.3)
            self.large = h
        chainer.report({"sum": F.sum(h)}, self)
        return F.sum(h * h)

    model = way.decorate(net(forward))
    for i, x in enumerate([*XS, *XS]):
        observation: dict = {}
        reporter = chainer.Reporter()
        reporter.add_observer("main", model)
        np.random.seed(i)
        with reporter.scope(observation):
            y = way.call(model, x * np.float32(2.0 ** (i % 3 - 1)))
        model.cleargrads()
        y.backward()
        way.see("result", y)
        way.see("observation", {k: v.array for k, v in observation.items()})
        way.see("drawn", np.random.rand())
        way.see_all(model)


ROWS = {name: f for name, f in list(globals().items()) if name.startswith("row_")}
ROWS["steps"] = steps
WITH_PYTHON_OPS = ("row_01", "row_02", "row_09", "row_10", "row_18")


@pytest.mark.parametrize("name", ROWS)
def test_what_a_user_sees_is_the_same(name, monkeypatch):
    looked_up = []

    def count(*args):
        looked_up.append(args)
        return original(*args)

    original = managers.look_up
    monkeypatch.setattr(managers, "look_up", count)
    ways = [Way("plain"), Way("first"), Way("later")]
    found = {}
    for way in ways:
        looked_up.clear()
        with chainer.using_config("sdbr_audit", "off"):
            ROWS[name](way)
        found[way.name] = len(looked_up)
    plain, first, later = ways
    for way in (first, later):
        assert [label for label, _ in way.seen] == [label for label, _ in plain.seen], way.name
        for i, ((label, got), (_, want)) in enumerate(zip(way.seen, plain.seen, strict=True)):
            tolerance = RESULTS if label.startswith("result") else GRADIENTS
            assert_same(got, want, tolerance, f"{way.name}: {label}, number {i}")
    served = [thing.schedule_manager.statistics for thing in first.static]
    assert sum(s.replays for s in served) >= 3
    if name[:6] not in WITH_PYTHON_OPS:
        assert sum(s.python_ops for s in served) == 0
    # Each by its own way in.
    assert found["first"] >= sum(s.calls - s.define_by_run_calls for s in served)
    assert 0 < found["later"] < found["first"]
