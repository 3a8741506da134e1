"""Row 8: what a call reads from attributes and assigns to them, gradients through both."""

from __future__ import annotations

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.comparison import BACKENDS, assert_all_near, assert_near, copy_of, gradients_of
from tests.harness.models import Net, Recurrent, floats
from tests.harness.twins import X, agree, pair
from tests.tolerances import GRADIENTS, RESULTS, SUMS

RNG = np.random.RandomState(3)
XS = [RNG.randn(5, 4).astype("f") for _ in range(12)]


def variable(*shape):
    return chainer.Variable(np.zeros(shape, "f"))


class Lists(chainer.Chain):
    """State in a list of Variables, replaced as a whole by each call."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l = L.Linear(4, 3)
        self.reset_state()

    def reset_state(self):
        self.hs = [variable(5, 3), variable(5, 3)]

    def forward(self, x):
        y = self.l(x)
        self.hs = [F.tanh(self.hs[0] + y), F.tanh(self.hs[1] * 0.5 + self.hs[0])]
        return self.hs[0] + self.hs[1]


class Dicts(Lists):
    def reset_state(self):
        self.state = {"h": variable(5, 3), "more": [(variable(5, 3), 1)]}

    def forward(self, x):
        h = F.tanh(self.state["h"] + self.l(x))
        c = self.state["more"][0][0] + h
        self.state = {"h": h, "more": [(c, 1)]}
        return h * c


class Trees(Lists):
    """Nested containers of Variables and arrays."""

    def reset_state(self):
        self.tree = {"h": (variable(5, 3), [variable(5, 3)]), "a": np.zeros((5, 3), "f")}

    def forward(self, x):
        h, (g,) = self.tree["h"]
        h, g = F.tanh(h + self.l(x)), F.tanh(g + h + self.tree["a"])
        self.tree = {"h": (h, [g]), "a": h.array * 2}
        return h * g


class Children(Lists):
    """State in a child, written by the parent."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.child = L.Linear(3, 3)

    def reset_state(self):
        if hasattr(self, "child"):
            self.child.h = None

    def forward(self, x):
        y = self.l(x)
        h = getattr(self.child, "h", None)
        if h is not None:
            y = y + self.child(h)
        self.child.h = F.tanh(y)
        return self.child.h


class Conditional(Lists):
    """None in the first call after a reset and whenever the state was taken."""

    def reset_state(self):
        self.h = None
        self.taken = None

    def forward(self, x):
        y = self.l(x)
        if self.h is None:
            self.h, self.taken = y, None
        else:
            self.h, self.taken = None, self.h + y
        return y if self.taken is None else self.taken


class Arrays(Lists):
    """State kept as a plain array: no gradient flows through it."""

    def reset_state(self):
        self.trace = np.zeros((5, 3), "f")

    def forward(self, x):
        y = self.l(x)
        self.trace = 0.5 * self.trace + y.array
        return y * self.trace


def stateful(link):
    class Stateful(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.rnn = link()
                self.out = L.Linear(3, 3)

        def reset_state(self):
            self.rnn.reset_state()

        def forward(self, x):
            return self.out(self.rnn(x))

    return Stateful


MODELS = {
    "list": Lists,
    "dict": Dicts,
    "tree": Trees,
    "child": Children,
    "conditional": Conditional,
    "array": Arrays,
    "LSTM": stateful(lambda: L.LSTM(4, 3)),
    "StatefulGRU": stateful(lambda: L.StatefulGRU(4, 3)),
    "StatefulMGU": stateful(lambda: L.StatefulMGU(4, 3)),
    "StatefulPeepholeLSTM": stateful(lambda: L.StatefulPeepholeLSTM(4, 3)),
    "StatefulZoneoutLSTM": stateful(lambda: L.StatefulZoneoutLSTM(4, 3)),
}


def window(model, xs):
    """The gradients of a loss over several calls."""
    loss = sum(F.sum(model(x) ** 2) for x in xs)
    model.cleargrads()
    loss.backward()
    gradients = gradients_of(model)
    array = copy_of(loss.array)
    loss.unchain_backward()
    return array, gradients


@pytest.mark.filterwarnings("ignore::sdbr.SdbrWarning")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", MODELS)
def test_truncated_backprop_through_time(name, backend):
    """Three calls per backward, history cut behind it, a reset in between."""
    plain, static = pair(MODELS[name], backend=backend)
    for i in range(6):
        found = []
        for model in (plain, static):
            if i in (0, 4):
                model.reset_state()
            np.random.seed(i)
            found.append(window(model, XS[3 * (i % 4) : 3 * (i % 4) + 3]))
        (y, g), (z, h) = found
        assert_near(z, y, RESULTS, f"window {i}: loss")
        assert_all_near(h, g, GRADIENTS, f"window {i}: gradient")
    statistics = static.schedule_manager.statistics
    assert statistics.define_by_run_calls == 0
    assert statistics.replays >= 18 - 2 - statistics.traces
    assert statistics.traces <= 3


@pytest.mark.parametrize("name", MODELS)
def test_inference_step_by_step(name):
    plain, static = pair(MODELS[name])
    with chainer.no_backprop_mode(), chainer.using_config("train", False):
        for i, x in enumerate([*XS, *XS]):
            if i % 8 == 0:
                plain.reset_state()
                static.reset_state()
            assert_near(static(x).array, plain(x).array, RESULTS, f"step {i}")
    assert static.schedule_manager.statistics.traces <= 2
    assert static.schedule_manager.statistics.define_by_run_calls == 0


@pytest.mark.parametrize("name", ["list", "dict", "tree"])
def test_outputs_of_earlier_calls_are_not_touched(name):
    _, static = pair(MODELS[name])
    kept = []
    for x in XS:
        y = static(x)
        kept.append((y, y.array.copy()))
    for y, then in kept:
        np.testing.assert_array_equal(y.array, then)


@pytest.mark.parametrize("name", ["list", "dict", "conditional", "LSTM"])
def test_another_batch_size_after_a_reset(name):
    def sized(n):
        def forward(self, x):
            return self.base(x)

        return forward

    plain, static = pair(MODELS[name])
    for i in range(8):
        n = 5 if i % 2 == 0 else 3
        found = []
        for model in (plain, static):
            model.reset_state()
            if name == "list":
                model.hs = [variable(n, 3), variable(n, 3)]
            if name == "dict":
                model.state = {"h": variable(n, 3), "more": [(variable(n, 3), 1)]}
            found.append(window(model, [x[:n] for x in XS[:2]]))
        assert_near(found[1][0], found[0][0], RESULTS, "loss")
        assert_all_near(found[1][1], found[0][1], GRADIENTS, "gradient")
    assert static.schedule_manager.statistics.replays >= 8


def test_state_that_the_user_replaces_between_calls():
    plain, static = pair(Lists)
    for i, x in enumerate(XS):
        for model in (plain, static):
            if i == 4:  # the same list, another Variable in it
                model.hs[0] = chainer.Variable(np.full((5, 3), 0.5, "f"))
            if i == 6:
                model.hs = [chainer.Variable(np.full((5, 3), 0.25, "f")), model.hs[1]]
            if i == 8:  # the array of a Variable
                model.hs[1].array = np.full((5, 3), -1, "f")
            if i == 9:  # in place
                model.hs[1].array[...] = 2
        assert_near(static(x).array, plain(x).array, RESULTS, f"step {i}")
    statistics = static.schedule_manager.statistics
    assert statistics.replays >= 9
    assert statistics.define_by_run_calls == 0


@pytest.mark.filterwarnings("ignore::sdbr.SdbrWarning")
def test_state_of_another_length_is_traced_anew():
    plain, static = pair(lambda: Net(lambda self, x: sum(self.hs) + self.l(x), l=L.Linear(4, 3)))
    for n in (1, 2, 1, 2, 3, 1):
        for model in (plain, static):
            model.hs = [chainer.Variable(np.full((5, 3), i, "f")) for i in range(n)]
        assert_near(static(XS[0]).array, plain(XS[0]).array, RESULTS, f"{n} states")
    assert static.schedule_manager.statistics.traces == 3


def test_gradients_reach_what_is_in_a_list():
    plain, static = pair(lambda: Net(lambda self, x: self.l(x) * self.scales[0], l=L.Linear(4, 3)))
    for _ in range(4):
        found = []
        for model in (plain, static):
            model.scales = [chainer.Variable(np.full((5, 3), 2, "f"))]
            F.sum(model(XS[0])).backward()
            found.append(model.scales[0].grad)
        assert_near(found[1], found[0], RESULTS, "gradient")
    assert static.schedule_manager.statistics.replays == 3


def test_two_static_methods_share_their_state():
    class Two(Lists):
        @sdbr.static_graph(on_dynamic="raise")
        def push(self, x):
            self.h = F.tanh(self.h + self.l(x))
            return self.h

        @sdbr.static_graph(on_dynamic="raise")
        def read(self, x):
            return self.h * self.l(x)

        def reset_state(self):
            self.h = variable(5, 3)

    class Plain(Lists):
        reset_state = Two.reset_state
        push = Two.push._sdbr_function
        read = Two.read._sdbr_function

    models = []
    for cls in (Plain, Two):
        np.random.seed(0)
        models.append(cls())
    for i in range(8):
        found = []
        for model in models:
            loss = F.sum(model.push(XS[i])) + F.sum(model.read(XS[i + 1]))
            loss += F.sum(model.push(XS[i + 2]))
            model.cleargrads()
            loss.backward()
            found.append((copy_of(loss.array), gradients_of(model)))
            loss.unchain_backward()
        assert_near(found[1][0], found[0][0], RESULTS, "loss")
        assert_all_near(found[1][1], found[0][1], GRADIENTS, "gradient")
    statistics = models[1].schedule_manager.statistics
    assert statistics.replays >= 6


def test_a_whole_step_is_refused_while_history_passes_through_a_list():
    """The state of a list has a history: Chainer goes backward through all calls so far."""
    weights = []
    for model in pair(Lists):
        loss = lambda x, model=model: F.sum(model(x) ** 2)  # noqa: E731
        optimizer = sdbr.static_optimizer(chainer.optimizers.SGD(0.01)).setup(model)
        for x in XS[:6]:
            optimizer.update(loss, x)
        weights.append(model.l.W.array.copy())
    assert_near(weights[1], weights[0], SUMS, "weights")


@pytest.mark.parametrize("how", ["insert", "item read", "dict item read", "extend in a loop"])
def test_changing_a_container_in_place_that_is_read_is_dynamic(how):
    def forward(self, x):
        y = self.l(x)
        if how == "insert":
            self.hs.insert(0, y)
        elif how == "item read":
            self.hs[0] = y
            y = y + self.hs[0]
        elif how == "dict item read":
            self.d["y"] = y
            y = y + len(self.d)
        else:
            for h in [y, y]:
                self.hs += [h]
        return y

    static = sdbr.static_graph(Net(forward, l=L.Linear(4, 3)), on_dynamic="raise")
    static.hs, static.d = [1], {}
    with pytest.raises(sdbr.NotStaticError, match=r"'hs'|'d'"):
        static(XS[0])


SEQUENCES = np.random.RandomState(0).randn(6, 4, 3)


@pytest.mark.parametrize("place", ["attributes", "list", "both"])
def test_one_variable_in_two_places_of_the_state_and_later_two(place):
    def total(self, x):
        a = self.hs[0] if place != "attributes" else self.a
        b = self.hs[1] if place == "list" else self.b
        return F.sum(self.l(x) + a * 2 + b * 3)

    models = [Net(total, l=L.Linear(3, 3)) for _ in range(2)]
    models[1].copyparams(models[0])
    sdbr.static_graph(models[1])
    v, w = (chainer.Variable(x.astype("f")) for x in SEQUENCES[:2])
    for a, b in ((v, v), (w, w), (v, w), (v, v), (w, v), (w, w)):
        found = []
        for model in models:
            model.a, model.b, model.hs = a, b, [a, b]
            v.cleargrad(), w.cleargrad()
            y = model(SEQUENCES[2].astype("f"))
            y.backward()
            found.append([y.array, a.grad.copy(), b.grad.copy()])
        for ours, theirs in zip(*found, strict=True):
            assert_near(ours, theirs, RESULTS, "values")
    assert models[1].schedule_manager.statistics.traces <= 2


def test_a_variable_that_is_state_and_argument_at_once():
    def total(self, x):
        return F.sum(self.l(x) + self.a * 2)

    models = [Net(total, l=L.Linear(3, 3)) for _ in range(2)]
    models[1].copyparams(models[0])
    sdbr.static_graph(models[1])
    v, w = (chainer.Variable(x.astype("f")) for x in SEQUENCES[:2])
    with pytest.warns(sdbr.SdbrWarning, match="'a' holds a Variable that is an argument as well"):
        for a, x in ((v, v), (v, v), (v, w), (w, v)):
            models[0].a = models[1].a = a
            ours, theirs = (model(x).array for model in models)
            assert_near(ours, theirs, RESULTS, "values")


@pytest.mark.parametrize("backend", BACKENDS)
def test_arrays_on_the_chain_are_read_at_each_call(backend):
    def forward(self, x, t):
        return F.softmax_cross_entropy(self.l(x) + self.shift, t, class_weight=self.weight)

    plain, static = pair(lambda: Net(forward, l=L.Linear(4, 3)), backend=backend)
    t = np.array([0, 1, 2, 1, 0], "i")
    for i in range(6):
        for model in (plain, static):
            model.shift = np.full(3, i, "f") * np.array([1, 0, -1], "f")
            model.weight = np.array([1, 2, 3 + i], "f")
        agree(plain, static, X, t)
    assert static.schedule_manager.statistics.replays == 5
    assert static.schedule_manager.statistics.python_ops == 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_history_through_state(backend):
    """Truncated backpropagation: several calls, then one backward through all of them."""
    plain, static = pair(Recurrent, backend=backend)
    rng = np.random.RandomState(0)
    for _ in range(4):
        xs = [floats(2, 3)(rng) for _ in range(3)]
        got = []
        for model in (plain, static):
            model.cleargrads()
            loss = 0
            for x in xs:
                loss += F.sum(model(x) ** 2)
            loss.backward()
            loss.unchain_backward()
            got.append((copy_of(loss.array), gradients_of(model), copy_of(model.rnn.c.array)))
        assert_near(got[1][0], got[0][0], RESULTS, "loss")
        assert_all_near(got[1][1], got[0][1], GRADIENTS, "gradient")
        assert_near(got[1][2], got[0][2], RESULTS, "state")
    assert static.schedule_manager.statistics.replays == 12 - 2
