"""``unchain_backward`` and ``zerograds``, compiled: what they leave, and when they decline."""

from __future__ import annotations

import inspect
import types
import warnings

import sdbr
from sdbr.call.autograd import PartOfCall, SeveralParts

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.comparison import assert_all_near, assert_near, gradients_of
from tests.harness.models import MLP, Net
from tests.harness.replayed import T, X, digest_of, replayed
from tests.tolerances import SUMS

#: The code that the compiled was written from: where one changes, so may what that has to do.
SOURCES = {
    (chainer.Variable, "unchain_backward"): "c42bd48789e4",
    (chainer.variable.VariableNode, "unchain"): "8e447a794015",
    (chainer.FunctionNode, "unchain"): "27ae80f1534a",
    (chainer.Variable, "zerograd"): "1e6a0176c68b",
    (chainer.Parameter, "zerograd"): "fe6d0b411d99",
    (chainer.Link, "zerograds"): "568bfcc3fc9a",
}


@pytest.mark.parametrize(("owner", "name"), SOURCES)
def test_chainers_code_is_what_this_was_written_from(owner, name):
    assert digest_of(owner, name) == SOURCES[owner, name]


def classifier_and_adam(static):
    np.random.seed(0)
    model, optimizer = L.Classifier(MLP(4, 8, 3)), chainer.optimizers.Adam()
    if static:
        return sdbr.static_graph(model), sdbr.static_optimizer(optimizer)
    return model, optimizer


@pytest.fixture
def of_chainer(monkeypatch):
    """Whose code was asked: names of what was not done compiled."""
    seen = []
    for owner, name in ((chainer.FunctionNode, "unchain"), (chainer.Variable, "zerograd")):
        original = inspect.unwrap(getattr(owner, name))

        def noted(self, original=original, name=name):
            seen.append(name)
            original(self)

        monkeypatch.setattr(owner, name, noted)
    return seen


# --- histories ----------------------------------------------------------------------------------
def test_only_what_is_left_of_a_call_gets_nodes_of_its_own(monkeypatch):
    """Of L.Classifier that is the accuracy, which is not behind the loss."""
    model = replayed()
    shown, show = [], SeveralParts._show
    monkeypatch.setattr(
        SeveralParts, "_show", lambda self, part, nodes: (shown.append(1), show(self, part, nodes))
    )
    loss = model(X, T)
    loss.backward()
    loss.unchain_backward()
    assert len(shown) == 1
    assert loss.creator_node is None and model.y.creator_node is None
    left = model.accuracy.creator_node
    assert type(left) is PartOfCall and left.inputs == (model.y.node,)
    assert [ref() for ref in left.outputs] == [model.accuracy.node]


def test_a_call_that_is_behind_as_a_whole_is_taken_apart_by_nobody(monkeypatch):
    model = replayed(lambda: Net(lambda self, x: F.sum(self.l(x)), l=L.Linear(4, 3)), (X,))
    monkeypatch.setattr(SeveralParts, "_show", None)
    x = chainer.Variable(X)
    before = x * 2
    loss = model(before)
    call = loss.creator_node
    (F.sin(loss) + loss).unchain_backward()
    assert loss.creator_node is None and before.creator_node is None
    assert call.inputs is None and call.outputs is None


def windows(model, keep):
    """Two steps over three calls each whose state goes on; what nobody holds is gone."""
    found = []
    rng = np.random.RandomState(1)
    for _ in range(4):
        xs = [rng.randn(5, 4).astype("f") for _ in range(3)]
        held = [model(x) for x in xs] if keep else map(model, xs)
        loss = sum(F.sum(y**2) for y in held)
        model.cleargrads()
        loss.backward()
        found.append(gradients_of(model))
        loss.unchain_backward()
        assert model.rnn.h.creator_node is None and model.rnn.c.creator_node is None
    return found


@pytest.mark.parametrize("keep", [True, False], ids=["held", "let go"])
def test_histories_through_several_calls(keep):
    def make():
        np.random.seed(0)
        links = {"rnn": L.LSTM(4, 3), "out": L.Linear(3, 3)}
        return Net(lambda self, x: self.out(self.rnn(x)), **links)

    want = windows(make(), keep)
    model = sdbr.static_graph(make(), on_dynamic="raise")
    for i, (g, w) in enumerate(zip(windows(model, keep), want, strict=True)):
        assert_all_near(g, w, SUMS, f"window {i}")
    statistics = model.schedule_manager.statistics
    assert statistics.define_by_run_calls == 0 and statistics.compiled_backwards > 0


class Mine(chainer.FunctionNode):
    """A function of a user's that notes when it is cut off."""

    def __init__(self):
        self.cut = []

    def forward(self, inputs):
        return (np.asarray(inputs[0] * 2),)

    def backward(self, indexes, grad_outputs):
        return (grad_outputs[0] * 2,)

    def unchain(self):
        self.cut.append(self.inputs is not None)
        super().unchain()


def test_functions_with_an_unchain_of_their_own():
    model = replayed(lambda: Net(lambda self, x: F.sum(self.l(x)), l=L.Linear(4, 3)), (X,))
    first, second = Mine(), Mine()
    (x,) = first.apply((chainer.Variable(X),))
    (y,) = second.apply((model(x),))
    y.unchain_backward()
    assert first.cut == second.cut == [True]
    assert x.creator_node is None and y.creator_node is None


def test_somebody_elses_unchain_is_asked(of_chainer):
    model = replayed(lambda: Net(lambda self, x: F.sum(self.l(x)), l=L.Linear(4, 3)), (X,))
    y = F.sin(model(X))
    y.unchain_backward()
    assert len(of_chainer) == 2 and y.creator_node is None


# --- zeros --------------------------------------------------------------------------------------
def stepped(model, optimizer, steps, clear):
    found = []
    for _ in range(steps):
        loss = model(X, T)
        clear(model)
        zeros = {name: None if p.grad is None else p.grad.any() for name, p in model.namedparams()}
        loss.backward()
        optimizer.update()
        found.append((zeros, gradients_of(model)))
    return found


@pytest.mark.parametrize("shown", [False, True], ids=["ignored", "shown"])
def test_zerograds_by_hand(shown):
    made = []
    for static in (False, True):
        model, optimizer = classifier_and_adam(static)
        optimizer.setup(model)
        with warnings.catch_warnings(record=shown) as caught:
            warnings.simplefilter("always" if shown else "ignore")
            made.append(stepped(model, optimizer, 5, lambda model: model.zerograds()))
        # Chainer warns of the link and of each of its six parameters.
        assert not shown or len(caught) == 5 * 7
    for i, ((zeros, g), (_, w)) in enumerate(zip(*reversed(made), strict=True)):
        assert not any(zeros.values())
        for name in w:
            assert_near(g[name], w[name], SUMS, f"step {i}: {name}")
    assert model.schedule_manager.statistics.replays == 4


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_zeros_are_written_to_the_arrays_that_are_there():
    model = replayed()
    model(X, T).backward()
    held = {name: p.grad for name, p in model.namedparams()}
    assert all(g.any() for g in held.values())
    before = {name: p.grad_var for name, p in model.namedparams()}
    model.zerograds()
    for name, p in model.namedparams():
        assert p.grad is held[name] and not held[name].any()
        assert p.grad_var is before[name]
    model.cleargrads()
    model.zerograds()
    for p in model.params():
        assert p.grad.shape == p.shape and not p.grad.any() and p.grad.flags.writeable


def test_zeros_of_arrays_that_nobody_may_write_to():
    model = replayed()
    model(X, T).backward()
    model.predictor.l1.W.grad.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ValueError, match="read-only"):
            model.zerograds()


@pytest.mark.parametrize(
    ("filters", "compiled"),
    [
        ([("ignore", None, Warning, None, 0)], True),
        ([("ignore", None, DeprecationWarning, None, 0)], True),
        ([("default", None, UserWarning, None, 0), ("ignore", None, Warning, None, 0)], True),
        ([("error", None, DeprecationWarning, "__main__", 0), ("ignore",)], True),
        ([("default", None, DeprecationWarning, r"chainer\.variable", 0), ("ignore",)], False),
        ([("ignore", "Link", DeprecationWarning, None, 0)], False),
        ([], False),
    ],
)
@pytest.mark.filterwarnings("default::DeprecationWarning")
def test_the_compiled_way_is_taken_where_nobody_would_be_warned(filters, compiled):
    from sdbr.compat.graph._links import warns_nobody

    with warnings.catch_warnings():
        warnings.resetwarnings()
        for filter in reversed(filters):
            action, message, category, module, line = filter if len(filter) > 1 else (
                "ignore", None, Warning, None, 0)  # fmt: skip
            warnings.filterwarnings(action, message or "", category, module or "", line)
        assert warns_nobody() is compiled


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_somebody_elses_zerograd_is_asked(of_chainer):
    model = replayed()
    model.zerograds()
    assert of_chainer == ["zerograd"] * 6


# --- what whole steps leave behind ----------------------------------------------------------------
PLACES = {
    "an object": lambda place: (lambda: place.h, lambda h: setattr(place, "h", h)),
    "a link": lambda place: (lambda: place.link.h, lambda h: setattr(place.link, "h", h)),
}


def net_and_sgd(static, forward):
    net, optimizer = Net(forward, l=L.Linear(4, 3)), chainer.optimizers.SGD(0.01)
    if static:
        net, optimizer = sdbr.static_graph(net), sdbr.static_optimizer(optimizer)
    optimizer.setup(net)
    return net, optimizer


@pytest.mark.parametrize("place", PLACES)
def test_a_state_is_cut_after_a_step_that_was_whole(place):
    """Its node makes a creator when somebody asks for one, and keeps it nowhere before."""

    def run(static):
        np.random.seed(0)
        get, put = PLACES[place](types.SimpleNamespace(h=None, link=chainer.Link()))
        put(None)

        def forward(self, x):
            h = self.l(x) if get() is None else self.l(x) + 0.5 * get()
            put(h)
            return F.sum(h**2)

        net, optimizer = net_and_sgd(static, forward)
        seen = []
        for i in range(12):
            optimizer.update(net, X * np.float32(1 + i / 8))
            if i % 3 == 2:
                put(None)
            else:
                get().unchain_backward()
                assert get().creator is None
            seen.append(net.l.W.array.copy())
        return seen, net

    (seen, net), (wanted, _) = run(True), run(False)
    for i, (got, want) in enumerate(zip(seen, wanted, strict=True)):
        assert_near(got, want, SUMS, f"step {i}")
    assert net.schedule_manager.statistics.replays > 6


KEEP = {
    "one by one": lambda s, h, c: (setattr(s, "h", h), setattr(s, "c", c)),
    "a tuple": lambda s, h, c: setattr(s, "hc", (h, c)),
    "a dict": lambda s, h, c: setattr(s, "table", {"h": h, "c": [c]}),
}
KEPT = {
    "one by one": lambda s: (s.h, s.c),
    "a tuple": lambda s: s.hc,
    "a dict": lambda s: (s.table["h"], s.table["c"][0]),
}


def cut_by_its_loss(static, keep):
    """Steps of a network whose state is cut by way of the loss; what was seen, and the network."""
    np.random.seed(0)
    state = types.SimpleNamespace()

    def forward(self, x):
        h = F.tanh(self.l(x))
        KEEP[keep](state, h, F.relu(h))
        self.loss = F.sum(h**2)
        return self.loss

    net, optimizer = net_and_sgd(static, forward)
    seen = []
    for i in range(8):
        optimizer.update(net, X)
        h, c = KEPT[keep](state)
        if i < 6:
            net.loss.unchain_backward()
        seen.append([y.creator is None for y in (net.loss, h, c)])
    return seen, net


@pytest.mark.parametrize("keep", KEEP)
def test_what_the_loss_was_made_of_is_cut_with_it(keep):
    """And what was not (`c`) is not; the results of the next step are others."""
    (seen, net), (wanted, _) = cut_by_its_loss(True, keep), cut_by_its_loss(False, keep)
    assert seen == wanted
    assert wanted[5:7] == [[True, True, False], [False, False, False]]
    assert net.schedule_manager.statistics.steps >= 5


def test_what_is_put_on_a_result_of_a_step_stays_with_it():
    """The next step does not write into the same Variable then."""
    _, net = cut_by_its_loss(True, "one by one")
    optimizer = sdbr.static_optimizer(chainer.optimizers.SGD(0.01)).setup(net)
    for _ in range(3):
        optimizer.update(net, X)
    for put in ("name", "mark"):
        setattr(net.loss, put, "mine")
        optimizer.update(net, X)
        assert getattr(net.loss, put, None) is None
    assert net.schedule_manager.statistics.steps >= 9


# --- a loss scale by hand -----------------------------------------------------------------------
@pytest.mark.parametrize("scale", [128.0, 2, np.float32(0.5)])
def test_a_divided_gradient_is_an_array_as_after_chainers_update(scale):
    made = []
    for static in (False, True):
        model, optimizer = classifier_and_adam(static)
        optimizer.setup(model).set_loss_scale(scale)
        for _ in range(4):
            loss = model(X, T)
            model.cleargrads()
            loss.backward(loss_scale=optimizer._loss_scale)
            given = [p.grad_var for p in model.params()]
            optimizer.update()
        assert not any(p.grad_var is g for p, g in zip(model.params(), given, strict=True))
        made.append(gradients_of(model))
    for name in made[0]:
        assert_near(made[1][name], made[0][name], SUMS, name)
    assert optimizer.update_statistics.native_calls >= 3
    assert model.schedule_manager.statistics.compiled_backwards >= 2
