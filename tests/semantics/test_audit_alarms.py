"""Row 21: audits that must pass: what differs between the two runs though the replay is right."""

from __future__ import annotations

from array import array as numbers_outside

import sdbr
from sdbr.audit import gradients as gradients_of_audits
from sdbr.audit import outcome as outcomes
from sdbr.audit.roots import MOST_COPIED
from sdbr.audit.sides import PlainSide
from sdbr.call.manager import ScheduleManager

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.comparison import assert_near
from tests.harness.hidden import hidden
from tests.harness.models import Net
from tests.tolerances import ANOTHER_ORDER, RESULTS

X = [np.random.RandomState(i).randn(6, 4).astype("f") for i in range(4)]
IMAGES = [np.random.RandomState(i).randn(2, 3, 6, 6).astype("f") for i in range(4)]


@pytest.fixture(autouse=True)
def every_replay_is_audited():
    with chainer.using_config("sdbr_audit", 1e9):
        yield


def served(f, arrays, backward=True, between=lambda y: None, first=lambda y: y):
    """Replays of `f`, each with an audit; the gradients are those of `f` itself."""
    static = sdbr.static_graph(f)
    for n, array in enumerate(arrays):
        found = []
        for function in (static, f):
            x = chainer.Variable(array.copy())
            np.random.seed(n)
            y = first(function(x))
            between(y)
            if backward:
                F.sum(y * 1.5).backward()
                found.append(x.grad)
        if backward:
            assert_near(*found, 1e-5, "gradient")
    manager = static.schedule_manager
    audits = manager.audits
    assert (audits.failed, audits.failures, audits.inconclusive) == (0, [], 0)
    assert manager.statistics.replays == len(arrays) - 1
    assert audits.passed >= 1
    assert not backward or audits.gradients >= 1
    return static


def double(y):
    y.array *= 2


@pytest.mark.parametrize("function", [F.tanh, F.max, F.softmax, F.exp, F.relu])
def test_a_result_that_is_written_to_before_the_backward(function):
    served(function, X, between=double)


@pytest.mark.parametrize("function", [
    lambda x: F.dropout(x, 0.4, return_mask=True),
    lambda x: F.gaussian(x, x, return_eps=True),
    lambda x: F.rrelu(x, return_r=True),
])  # fmt: skip
def test_what_a_function_has_kept_is_handed_out(function):
    served(function, X, first=lambda pair: pair[0])


def test_places_of_maxima_are_handed_out():
    served(lambda x: F.max_pooling_2d(x, 2, return_indices=True), IMAGES, first=lambda y: y[0])


def test_chainer_notes_the_device_of_an_argument():
    def f(x):
        return chainer.distributions.Normal(x, F.exp(x)).log_prob(x)

    served(f, X)


def test_other_functions_than_chainers_are_recorded():
    t = np.arange(6) % 4

    def f(x):
        return F.softmax_cross_entropy(x, t, enable_double_backprop=True)

    served(f, X)


def test_gradients_that_are_none_inside_of_the_call():
    rois = np.array([[0, 0, 0, 4, 4], [1, 1, 1, 5, 5]], "f")

    def f(x):
        y = F.roi_pooling_2d(x, rois, 2, 2, 1.0)
        (g,) = chainer.grad([y], [x], [y * 2])
        return y + F.sum(g)

    served(f, IMAGES, backward=False)


def test_a_function_that_writes_to_a_parameter():
    class Running(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.l = L.Linear(4, 4)
                self.mean = chainer.Parameter(np.zeros(4, "f"))
                self.var = chainer.Parameter(np.ones(4, "f"))

        def forward(self, x):
            ones, zeros = np.ones(4, "f"), np.zeros(4, "f")
            return F.batch_normalization(
                self.l(x), ones, zeros, running_mean=self.mean.array, running_var=self.var.array
            )

    models = [Running(), Running()]
    models[1].copyparams(models[0])
    static = sdbr.static_graph(models[0])
    for x in X:
        assert_near(static(x).array, models[1](x).array, RESULTS, "output")
        assert_near(models[0].mean.array, models[1].mean.array, RESULTS, "mean")
    audits = static.schedule_manager.audits
    assert audits.failures == [] and audits.passed >= 1


@pytest.mark.parametrize("link", [
    lambda: L.BatchNormalization(4), lambda: L.BatchNormalization(4, use_beta=False),
    lambda: L.LayerNormalization(4),
])  # fmt: skip
def test_gradients_that_are_nothing_but_rounding(link):
    model = sdbr.static_graph(link())
    for array in X:
        x = chainer.Variable(array)
        F.sum(model(x)).backward()
        assert np.abs(x.grad).max() < 1e-5
    audits = model.schedule_manager.audits
    assert audits.failures == [] and audits.gradients >= 2


def test_a_wrong_gradient_is_found_beside_results_that_were_written_to(monkeypatch):
    """What the user has written stands in both runs; it hides nothing."""
    original = gradients_of_audits.gradients

    def another(*args):
        return [g + np.float32(0.01) * abs(g).max() for g in original(*args)]

    monkeypatch.setattr(gradients_of_audits, "gradients", another)
    static = sdbr.static_graph(lambda x: F.tanh(x))
    with pytest.warns(sdbr.SdbrWarning, match="the gradient of argument 0 differs"):
        for array in X:
            y = static(chainer.Variable(array))
            double(y)
            F.sum(y).backward()
    assert static.schedule_manager.audits.failed == 1


def near(place: float, n: int = 6):
    return [(np.random.RandomState(i).randn(4, 1) * 0.3 + place).astype("f") for i in range(n)]


@pytest.mark.parametrize(
    ("function", "place"),
    [
        (F.tanh, 5),
        (F.tanh, -9),
        (F.sigmoid, -17.4),
        (F.sigmoid, 17.4),
        (F.softplus, -9),
        (F.softplus, -17.4),
        (F.elu, -17.4),
        (lambda x: F.log(F.sigmoid(x)), 17.4),
        (lambda x: x * F.sigmoid(x), -17.4),
        (lambda x: F.sigmoid_cross_entropy(x, np.ones((4, 1), "i")), 9),
        (lambda x: F.sigmoid_cross_entropy(x, np.ones((4, 1), "i")), 17.4),
        (lambda x: F.sigmoid_cross_entropy(x, np.zeros((4, 1), "i"), reduce="no"), -17.4),
        (lambda x: F.softmax_cross_entropy(F.concat([x, -x]), np.zeros(4, "i")), 9),
        (lambda x: F.log_softmax(F.concat([x, -x]))[:, 0], 9),
        (lambda x: F.swish(x, np.ones(1, "f")), -17.4),
        (lambda x: F.lstm(x * 0 + 3, F.concat([x, x, x, x]))[1], -12),
        (lambda x: F.lstm(x * 0, F.concat([x, x, x, x]))[1], -17.4),
        (lambda x: F.lstm(x * 0 + 3, F.concat([x * 0, x * 0, x, x * 0]))[0], -12),
        (lambda x: F.lstm(x * 0 + 3, F.concat([x * 0, x, x * 0, x * 0]))[1], 12),
        (F.expm1, -9),
        (F.expm1, -17.4),
        (lambda x: F.exp(x * 1e-3) - 1, 1),
        (lambda x: F.slstm(x * 0, x * 0, *[F.concat([x, x, x, x]) / 2] * 2)[1], -12),
        (lambda x: F.tree_lstm(x * 0, x * 0, F.concat([x, x, x, x, x]))[1], -12),
    ],
)
def test_functions_that_are_nothing_but_rounding_where_they_saturate(function, place):
    static = sdbr.static_graph(function)
    for x in map(chainer.Variable, near(place)):
        F.sum(static(x)).backward()
    audits = static.schedule_manager.audits
    assert (audits.failed, audits.failures) == (0, [])
    assert static.schedule_manager.statistics.replays == 5


def takes_one(function):
    """Whether a function of Chainer gives gradients for one array of four rows."""
    try:
        F.sum(function(chainer.Variable(np.full((4, 2), 0.5, "f")))).backward()
    except Exception:
        return False
    return True


@pytest.mark.parametrize("place", [-17.4, -9, 1e-3, 12])
@pytest.mark.filterwarnings("ignore")
def test_no_function_gives_an_alarm_where_its_formula_may_cancel(place):
    """All there are, not those that somebody thought of."""
    found = {name: f for name, f in vars(F).items() if name[0].islower() and takes_one(f)}
    assert len(found) >= 70
    for name, function in found.items():
        static = sdbr.static_graph(lambda x, f=function: f(x))
        for x in near(place, 3) if abs(place) > 1 else [x * place for x in near(1, 3)]:
            F.sum(static(chainer.Variable(np.hstack([x, x[::-1]])))).backward()
        assert static.schedule_manager.audits.failures == [], name


@pytest.mark.parametrize(
    ("function", "place", "factor"),
    [
        (F.tanh, 1e-7, 2),
        (lambda x: F.tanh(x) * 1e6, 1e-7, 2),
        (F.tanh, 1e-4, 1.001),
        (F.elu, 1e-7, 2),
        (lambda x: F.log(F.softplus(x)), -17, 2),
        (F.sigmoid, 0.1, 1.0001),
        (F.sigmoid, -10, 1.1),
        (lambda x: F.lstm(x, F.concat([x, x, x, x]))[1], 1e-4, 1.01),
        (lambda x: F.softmax(F.concat([x, -x])), 0.1, 1.0001),
        (lambda x: F.softmax(F.concat([x, -x]))[:, 1:], 5, 1.001),
    ],
)
@pytest.mark.filterwarnings("ignore:.*a replay differs")
def test_other_numbers_of_such_functions_are_no_rounding(function, place, factor, monkeypatch):
    static = sdbr.static_graph(function)
    replay = ScheduleManager.replay

    def wrong(self, *args):
        y = replay(self, *args)
        y.array[...] *= factor
        return y

    with chainer.no_backprop_mode():
        for i in range(4):
            x = ((1 + 0.1 * np.random.RandomState(i).randn(4, 1)) * place).astype("f")
            assert_near(static(x).array, function(x).array, ANOTHER_ORDER, "result")
            monkeypatch.setattr(ScheduleManager, "replay", wrong)
    assert static.schedule_manager.audits.failed == 1


@pytest.mark.parametrize("seed", range(4))
def test_a_policy_that_is_sure(seed):
    """The gradient of softmax takes numbers from others that are nearly the same."""
    rng = np.random.RandomState(seed)
    first, second = rng.randn(2, 4, 4)
    weights = np.array([0.3, -0.7, 1.1, 0.4])

    def f(x):
        h = F.tanh(F.matmul(x, first))
        return F.softmax(F.matmul(h, second) * 40)

    static = sdbr.static_graph(f)
    for _ in range(6):
        F.sum(static(chainer.Variable(rng.randn(1, 4))) * weights).backward()
    audits = static.schedule_manager.audits
    assert (audits.failed, audits.failures) == (0, [])
    assert static.schedule_manager.statistics.replays == 5


@pytest.mark.parametrize("train", [True, False])
def test_a_discriminator_that_is_sure(train):
    class Discriminator(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.l = L.Linear(4, 1, initial_bias=-10)

        def forward(self, x):
            return F.mean(F.softplus(self.l(x)))

    model = sdbr.static_graph(Discriminator(), on_dynamic="raise")
    optimizer = sdbr.static_optimizer(chainer.optimizers.SGD(0.01)).setup(model)
    with chainer.using_config("train", train), chainer.using_config("enable_backprop", train):
        for x in [np.random.RandomState(i).randn(4, 4).astype("f") * 0.3 for i in range(8)]:
            if train:
                optimizer.update(model, x)
            else:
                model(x)
    assert model.schedule_manager.audits.failed == 0
    assert model.schedule_manager.statistics.replays == 7


class Tell(chainer.FunctionNode):
    """Prints in its forward, and so in its backward, which is one more of its kind."""

    def forward(self, inputs):
        print("t")
        return (inputs[0] * 1,)

    def backward(self, indexes, gys):
        return Tell().apply((gys[0],))


def amplified(x):
    return F.sin(F.sum(x, keepdims=True) * 1e5)


@pytest.mark.parametrize("function", [amplified, lambda x: F.softplus(x[:4] - 9)])
def test_nodes_that_print_where_rounding_is_looked_into(function):
    static = sdbr.static_graph(lambda x: Tell().apply((function(x),))[0])
    for i in range(8):
        x = chainer.Variable(np.random.RandomState(i).rand(1001).astype("f"))
        F.sum(static(x)).backward()
    audits = static.schedule_manager.audits
    assert audits.failed == 0
    assert audits.noisy >= 1
    assert static.schedule_manager.statistics.replays == 7


class Normal(chainer.Chain):
    """The bias before the normalization has gradients that are nothing but rounding."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.a, self.bn, self.b = L.Linear(3, 3), L.BatchNormalization(3), L.Linear(3, 1)

    def forward(self, x):
        h = self.bn(self.a(x))
        return F.mean(self.b(h) ** 2)


def test_steps_whose_biases_move_by_rounding_alone():
    np.random.seed(0)
    model = sdbr.static_graph(Normal(), on_dynamic="raise")
    optimizer = sdbr.static_optimizer(chainer.optimizers.SGD(0.01)).setup(model)
    for i in range(30):
        optimizer.update(model, np.random.RandomState(i).randn(4, 3).astype("f"))
    assert model.schedule_manager.audits.failed == 0
    assert model.schedule_manager.statistics.steps == 29


@pytest.mark.filterwarnings("ignore:.*a replay differs")
def test_another_gradient_behind_a_node_that_prints_is_no_rounding(monkeypatch):
    """Its backward applies one of its kind, which is not fed with what the forward told."""
    backward = gradients_of_audits.GradientAudit.backward

    def wrong(self, replay, *args):
        return backward(self, lambda: [g if g is None else g * 1.1 for g in replay()], *args)

    monkeypatch.setattr(gradients_of_audits.GradientAudit, "backward", wrong)
    static = sdbr.static_graph(lambda x: Tell().apply((x * 2,))[0])
    for x in map(chainer.Variable, X[:3]):
        F.sum(static(x)).backward()
    assert static.schedule_manager.audits.failed == 1


class Noting(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.a = L.Linear(4, 3)
        self.last, self.other = 0.0, 1.0
        self.stats, self.history, self.pairs = {"n": 0.0}, [1.0], []

    def forward(self, x):
        y = F.sum(self.a(x) ** 2)
        self.last = float(y.array)
        self.stats["n"] = float(y.array)
        self.history.clear()
        self.history.append(float(y.array))
        self.pairs.clear()
        self.pairs.append(("n", 1))
        return y


def disturb_define_by_run(monkeypatch, how):
    """Let `how` act at the end of each run of define-by-run in an audit."""
    changes = outcomes.Outcome._changes

    def _changes(self, before):
        if isinstance(self.side, PlainSide):
            how()
        return changes(self, before)

    monkeypatch.setattr(outcomes.Outcome, "_changes", _changes)


def test_a_run_that_writes_the_very_numbers_that_were_there(monkeypatch):
    """Then the other run, whose numbers differ by rounding, is not the only one that wrote."""
    model = sdbr.static_graph(Noting(), on_dynamic="raise")

    def by_rounding():
        model.last *= 1 + 1e-7
        model.stats["n"] *= 1 + 1e-7
        model.history[0] *= 1 + 1e-7

    disturb_define_by_run(monkeypatch, by_rounding)
    for _ in range(6):
        model(X[0])
    audits = model.schedule_manager.audits
    assert (audits.failed, audits.failures, audits.noisy) == (0, [], 0)
    assert model.schedule_manager.statistics.replays == 5 and audits.passed >= 5


LAST = 0.0


class Thing:
    last = 0.0


class Place:
    def __init__(self):
        self.last = 0.0


PLACE = Place()


def thing():
    """Has an attribute."""


def in_a_global(x):
    global LAST
    LAST = float(x.array.mean())


def in_a_function(x):
    thing.last = float(x.array.mean())


def in_a_class(x):
    Thing.last = float(x.array.mean())


def in_an_object(x):
    PLACE.last = float(x.array.mean())


def in_a_cell():
    last = 0.0

    def note(x):
        nonlocal last
        last = float(x.array.mean())

    def disturb():
        nonlocal last
        last *= 1 + 1e-7

    return note, disturb


@pytest.mark.parametrize("note", [in_a_global, in_a_function, in_a_class, in_an_object, in_a_cell])
def test_the_very_numbers_that_were_there_outside_of_links(note, monkeypatch):
    def disturb():
        if note is in_a_global:
            globals()["LAST"] *= 1 + 1e-7
        else:
            holder = {in_a_function: thing, in_a_class: Thing, in_an_object: PLACE}[note]
            holder.last *= 1 + 1e-7

    if note is in_a_cell:
        note, disturb = in_a_cell()

    def noted(x):
        y = F.tanh(x) * 2
        note(y)
        return y

    static = sdbr.static_graph(noted, on_dynamic="raise")
    disturb_define_by_run(monkeypatch, disturb)
    for _ in range(6):
        static(X[0])
    audits = static.schedule_manager.audits
    assert (audits.failed, audits.failures, audits.noisy) == (0, [], 0)
    assert static.schedule_manager.statistics.replays == 5 and audits.passed >= 5


@pytest.mark.parametrize("name", ["other", "last"])
def test_numbers_that_only_define_by_run_changes_are_no_rounding(monkeypatch, name):
    """However near they are: replays would leave it as it was for ever."""
    model = sdbr.static_graph(Noting(), on_dynamic="raise")

    def written():
        setattr(model, name, getattr(model, name) * (1 + 1e-5 if name == "other" else 1.01))

    disturb_define_by_run(monkeypatch, written)
    model(X[0])
    with pytest.raises(sdbr.SdbrError, match=rf"Noting.{name} differs"):
        model(X[0])
    assert model.schedule_manager.audits.failed == 1


@pytest.mark.parametrize("gives", ["a view", "the array"])
def test_other_roundings_are_not_written_to_what_the_user_holds(gives):
    """So large, it is not copied and put back."""
    table = np.random.RandomState(0).rand(MOST_COPIED // 4 + 4).astype("f")
    kept = table.copy()

    class Given(chainer.FunctionNode):
        def forward(self, inputs):
            return (table,)

    def forward(x):
        if gives == "a view":
            ys = F.reshape(chainer.Variable(table), (-1, 4))
        else:
            ys = F.reshape(Given().apply((x,))[0], (-1, 4)).array
        return F.expm1(x) + ys[: x.shape[0], :1]

    static = sdbr.static_graph(forward)
    for x in near(-9):
        F.sum(static(chainer.Variable(x)) * 3).backward()
    audits = static.schedule_manager.audits
    assert (audits.failed, audits.failures) == (0, []) and audits.noisy > 0
    np.testing.assert_array_equal(table, kept)


@pytest.mark.parametrize(("dtype", "step"), [("e", 1e-4), ("f", 1e-20), ("d", 1e-20)])
def test_small_numbers_that_define_by_run_alone_writes_are_no_rounding(dtype, step):
    kept = np.zeros(3, dtype)
    unseen = hidden(kept, by=kept.dtype.type(step))
    model = sdbr.static_graph(
        Net(lambda self, x: F.tanh(x) if unseen() < 1 else x), on_dynamic="raise"
    )
    model.kept = kept
    model(X[0])
    with pytest.raises(sdbr.SdbrError, match="kept in place differs: only define-by-run has it"):
        model(X[0])


@pytest.mark.parametrize("scale", [1e-20, 1e-21])
def test_states_that_only_define_by_run_moves_from_zero(scale):
    """The square of a gradient is no normal number, and zero in a replay."""
    model = sdbr.static_graph(Net(lambda self, x: F.sum(self.l(x)) * scale, l=L.Linear(4, 3)))
    optimizer = sdbr.static_optimizer(chainer.optimizers.Adam()).setup(model)
    for n in range(4):
        optimizer.update(model, X[n])
        state = model.l.W.update_rule.state["v"]
        assert state.any() == (n == 0)
    audits = model.schedule_manager.audits
    assert (audits.passed, audits.failed, audits.failures) == (3, 0, [])


def test_a_variable_that_has_come_to_lie_in_two_places():
    """A replay gives a gradient for each place; define-by-run has their sum."""
    a, b = chainer.Variable(X[0].copy()), chainer.Variable(X[1].copy())
    model = Net(lambda self, x: x * a + F.sin(self.b))
    model.b = b
    static = sdbr.static_graph(model)
    F.sum(static(X[0])).backward()
    model.b = a
    for x in X:
        a.cleargrad()
        F.sum(static(x) * 2).backward()
        assert_near(a.grad, 2 * (x + np.cos(a.array)), RESULTS, "gradient")
    audits = static.schedule_manager.audits
    assert (audits.failed, audits.passed, audits.gradients) == (0, 4, 4)


def test_where_that_gradient_differs_define_by_runs_counts():
    class Drifting(chainer.FunctionNode):
        def forward(self, inputs):
            return (inputs[0] * 1,)

        def backward(self, indexes, grads):
            drift[0] += 1
            return (grads[0] * drift[0],)

    drift = numbers_outside("d", [0.0])  # what no audit puts back
    a, b = chainer.Variable(X[0].copy()), chainer.Variable(X[1].copy())
    model = Net(lambda self, x: F.sum(x * a + F.sin(Drifting().apply((self.b,))[0])))
    model.b = b
    static = sdbr.static_graph(model)
    static(X[0]).backward()
    model.b = a
    a.cleargrad()
    loss = static(X[1])
    with pytest.warns(sdbr.SdbrWarning, match="gradient of"):
        loss.backward()
    assert_near(a.grad, X[1] + 2 * np.cos(a.array), RESULTS, "gradient")


@pytest.mark.parametrize("seed", range(2))
def test_steps_by_hand_whose_loss_goes_to_zero(seed):
    """What the call has assigned is the replay's; only the gradients are looked into."""
    rng = np.random.RandomState(seed)
    x, t = rng.rand(64, 64).astype("f"), rng.randint(0, 10, 64).astype("i")
    np.random.seed(seed)
    model = sdbr.static_graph(
        L.Classifier(chainer.Sequential(L.Linear(64, 128), F.relu, L.Linear(128, 10)))
    )
    optimizer = sdbr.static_optimizer(chainer.optimizers.Adam(0.01)).setup(model)
    for n in range(1500):
        with chainer.using_config("sdbr_audit", 1e9 if n > 1380 else "off"):
            loss = model(x, t)
            model.cleargrads()
            loss.backward()
        optimizer.update()
    audits = model.schedule_manager.audits
    assert (audits.failed, audits.failures, audits.inconclusive) == (0, [], 0)
    assert audits.gradients >= 20 and audits.noisy >= 5


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("rule", [chainer.optimizers.RMSprop, chainer.optimizers.Adam])
def test_a_bias_before_batch_normalization_of_images_with_a_background(rule, whole):
    """Where most pixels are the same, sums round the same way whatever disturbs their elements."""
    for seed in range(3):
        rng = np.random.RandomState(seed)
        np.random.seed(seed)
        model = chainer.Sequential(
            L.Convolution2D(1, 8, 3, pad=1),
            L.BatchNormalization(8),
            F.relu,
            lambda h: F.dropout(F.max_pooling_2d(h, 2), 0.3),
            L.Linear(None, 10),
        )
        model = sdbr.static_graph(L.Classifier(model))
        optimizer = sdbr.static_optimizer(rule(0.01)).setup(model)
        optimizer.add_hook(chainer.optimizer_hooks.WeightDecay(1e-4))
        for _ in range(12):
            x = np.zeros((64, 1, 8, 8), "f")
            x[:, :, :, 2:6] = np.rint(16 * rng.beta(0.5, 0.5, (64, 1, 8, 4))) / 16
            t = rng.randint(0, 10, 64).astype("i")
            if whole:
                optimizer.update(model, x, t)
            else:
                loss = model(x, t)
                model.cleargrads()
                loss.backward()
                optimizer.update()
        audits = model.schedule_manager.audits
        assert (audits.failed, audits.failures, audits.inconclusive) == (0, [], 0)
        assert audits.passed >= 5 and audits.noisy >= 1


def audited(function, calls):
    """Audits of replays with a backward each."""
    static = sdbr.static_graph(function)
    for args in calls:
        F.sum(static(*args)).backward()
    audits = static.schedule_manager.audits
    assert (audits.failed, audits.failures, audits.inconclusive) == (0, [], 0)
    assert audits.gradients == len(calls) - 1
    return audits


def test_sums_next_to_zero_before_a_relu():
    """Whether one is above or below is rounding, and half of the disturbances leave it there."""

    def call(seed):
        rng = np.random.RandomState(seed)
        x, w = rng.randn(1, 32).astype("f"), rng.randn(1, 32).astype("f")
        w[0, -1] = -(x[0, :-1].astype("d") @ w[0, :-1]) / x[0, -1]
        return chainer.Variable(x), chainer.Variable(w)

    audits = audited(lambda x, w: F.relu(F.linear(x, w)), [call(seed) for seed in range(120)])
    assert audits.noisy >= 20


def test_means_that_are_rounded_otherwise_before_a_relu():
    """What a batch normalization subtracts is a long sum: no disturbance of elements shows it."""

    def call(seed):
        rng = np.random.RandomState(seed)
        x = rng.randint(2**19, 2**20, (64, 1, 8, 8)).astype("f")  # whole numbers stay
        nearest = np.unravel_index(abs(x - x.mean()).argmin(), x.shape)
        weights = np.full(x.shape, 0.01, "f")
        weights[nearest] = 100
        d = x.astype("d")
        beta = np.array([(d.mean() - d[nearest]) / d.std()], "f")
        variables = x, np.ones(1, "f"), beta
        return *map(chainer.Variable, variables), weights

    def weighed(x, gamma, beta, weights):
        y = F.batch_normalization(x, gamma, beta, axis=(0, 2, 3))
        return F.sum(F.relu(y) * weights)

    assert audited(weighed, [call(seed) for seed in range(40)]).noisy >= 5
