"""Steps with parts that are not native, or unusual: forward and backward stay one program."""

import warnings

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L
from chainer import optimizer_hooks, optimizers
from chainer.optimizers.adam import AdamRule

from tests.harness.comparison import assert_near
from tests.tolerances import DOUBLE_TRAINING

STEPS = 8
D = np.float64


class Net(chainer.Chain):
    """Two layers and what not every step uses, in float64."""

    def __init__(self, **links):
        super().__init__()
        with self.init_scope():
            self.l1, self.l2 = L.Linear(4, 6), L.Linear(6, 3)
            for name, link in links.items():
                setattr(self, name, link)

    def forward(self, x, t):
        self.loss = F.softmax_cross_entropy(self.l2(F.tanh(self.l1(x))), t)
        return self.loss


class Own(AdamRule):
    """A rule of a user's."""

    def update_core(self, param):
        param.grad[...] *= 0.5
        super().update_core(param)


def own_rule(optimizer):
    optimizer.target.l1.W.update_rule = Own(optimizer.hyperparam)


def all_own(optimizer):
    for param in optimizer.target.params():
        param.update_rule = Own(optimizer.hyperparam)


def own_hook(optimizer):
    seen = optimizer.target.__dict__.setdefault("seen", [])

    def hook(optimizer):
        seen.append((optimizer.t, float(optimizer.target.loss.array)))
        seen.append(float(sum((p.grad**2).sum() for p in optimizer.target.params())))
        for p in optimizer.target.params():
            p.grad *= 0.5

    optimizer.add_hook(optimizer_hooks.WeightDecay(0.01))
    optimizer.add_hook(hook)
    optimizer.add_hook(optimizer_hooks.GradientClipping(0.1), timing="post")


def zerograds(optimizer):
    with pytest.warns(DeprecationWarning):
        optimizer.use_cleargrads(False)


def nothing(optimizer):
    pass


def chosen(**more):
    """A case: what prepares the optimizer, the model, and what the counts have to be."""
    return {"make": Net, "rule": optimizers.Adam, "prepare": nothing, "mixed": False, **more}


CASES = {
    "own rule": chosen(prepare=own_rule, mixed=True),
    "own rules alone": chosen(prepare=all_own, mixed=None),
    "own hook": chosen(prepare=own_hook, mixed=True),
    "zerograds": chosen(prepare=zerograds),
    "lazy link": chosen(make=lambda: Net(lazy=L.Linear(None, 3))),
    "lazy link, hooks": chosen(
        make=lambda: Net(lazy=L.Linear(None, 3)),
        prepare=lambda o: [
            o.add_hook(optimizer_hooks.WeightDecay(0.1)),
            o.add_hook(optimizer_hooks.GradientClipping(0.1)),
            o.add_hook(optimizer_hooks.GradientNoise(0.1)),
        ],
    ),
    "lazy link, msvag": chosen(make=lambda: Net(lazy=L.Linear(None, 3)), rule=optimizers.MSVAG),
    "idle link": chosen(make=lambda: Net(idle=L.Linear(2, 2))),
    "loss scale": chosen(prepare=lambda o: o.set_loss_scale(8.0)),
    "loss scale, idle link, decay": chosen(
        make=lambda: Net(idle=L.Linear(2, 2)),
        prepare=lambda o: [o.set_loss_scale(8.0), o.add_hook(optimizer_hooks.WeightDecay(0.1))],
    ),
    "dynamic loss scale": chosen(prepare=lambda o: o.loss_scaling(interval=3)),
    "dynamic loss scale, idle link": chosen(
        make=lambda: Net(idle=L.Linear(2, 2)), prepare=lambda o: o.loss_scaling(interval=3)
    ),
    "dynamic loss scale, hook": chosen(
        prepare=lambda o: [o.loss_scaling(interval=3), o.add_hook(optimizer_hooks.Lasso(0.1))],
        mixed=True,
    ),
    "dynamic loss scale, own rule": chosen(
        prepare=lambda o: [own_rule(o), o.loss_scaling(interval=3)], mixed=True
    ),
}


def batches(n=STEPS):
    rng = np.random.RandomState(1)
    return [(rng.randn(5, 4), rng.randint(0, 3, 5).astype("i")) for _ in range(n)]


def state(optimizer) -> dict:
    """All that a step leaves behind."""
    model = optimizer.target
    found = {"t": optimizer.t, "scale": optimizer._loss_scale, "loss": model.loss.array.copy()}
    for name, p in model.namedparams():
        rule = p.update_rule
        found[f"{name} valid"] = p._grad_valid
        found[f"{name} scale"] = p._loss_scale
        found[name] = None if p.array is None else p.array.copy()
        found[f"{name} grad"] = None if p.grad is None else p.grad.copy()
        found[f"{name} rule"] = (rule.t, vars(rule).get("beta_power"))
        for key, value in (rule.state or {}).items():
            found[f"{name} {key}"] = value.copy()
    found["seen"] = list(vars(model).get("seen", ()))
    return found


def made(case, static: bool):
    with chainer.using_config("dtype", D):
        np.random.seed(0)
        model = case["make"]()
        optimizer = case["rule"]()
        if static:
            model = sdbr.static_graph(model, on_dynamic="raise")
            optimizer = sdbr.static_optimizer(optimizer)
        optimizer.setup(model)
    case["prepare"](optimizer)
    return optimizer


def trained(optimizer, each=lambda optimizer, i: None, data=None):
    np.random.seed(1)
    found = []
    for i, batch in enumerate(data or batches()):
        each(optimizer, i)
        optimizer.update(optimizer.target, *batch)
        found.append(state(optimizer))
    return found


def alike(got, want):
    for i, (a, b) in enumerate(zip(got, want, strict=True)):
        assert a.keys() == b.keys()
        for name, value in b.items():
            if isinstance(value, np.ndarray):
                assert_near(a[name], value, DOUBLE_TRAINING, f"step {i}: {name}")
            elif name == "seen":
                flat = [np.hstack([0.0, *map(np.ravel, x)]) for x in (a[name], value)]
                np.testing.assert_allclose(*flat, rtol=DOUBLE_TRAINING)
            else:
                assert a[name] == value, f"step {i}: {name}"


@pytest.mark.parametrize("audit", ["off", 1e9])
@pytest.mark.parametrize("name", CASES)
def test_cases(name, audit):
    case = CASES[name]
    want = trained(made(case, False))
    optimizer = made(case, True)
    with chainer.using_config("sdbr_audit", audit):
        alike(trained(optimizer), want)
    model = optimizer.target
    statistics, updates = model.schedule_manager.statistics, optimizer.update_statistics
    assert statistics.replays == STEPS - 1
    assert statistics.python_ops == (STEPS - 1) * 5 * (name == "lazy link, hooks")
    if audit == "off" or case["mixed"] is False:
        assert statistics.steps == STEPS - 1
    if case["mixed"] is None:
        assert (updates.native_calls, updates.python_updates) == (0, STEPS)
    elif case["mixed"]:
        assert (updates.mixed_updates, updates.python_updates) == (STEPS, 0)
    else:
        assert (updates.mixed_updates, updates.python_updates) == (0, 0)
    if audit == 1e9:
        assert model.schedule_manager.audits.passed == STEPS - 1


def test_scales_that_change():
    def each(optimizer, i):
        if i in (3, 4):
            optimizer.set_loss_scale(4.0 / i)
        if i == 6:
            optimizer._loss_scale = None

    case = chosen(prepare=lambda o: o.set_loss_scale(8.0))
    want = trained(made(case, False), each)
    optimizer = made(case, True)
    alike(trained(optimizer, each), want)
    # One step in parts after the scale has gone: Chainer resets that of the parameters.
    assert optimizer.target.schedule_manager.statistics.steps == STEPS - 2


@pytest.mark.parametrize("audit", ["off", 1e9])
@pytest.mark.parametrize("prepare", [nothing, own_hook])
def test_a_gradient_that_is_not_finite_where_the_scale_is_dynamic(prepare, audit):
    data = batches()
    data[3][0][0, 0] = np.inf
    data[5][0][2, 1] = np.nan
    case = chosen(prepare=lambda o: [prepare(o), o.loss_scaling(interval=2)])
    found = []
    for static in (False, True):
        optimizer = made(case, static)
        with (
            pytest.warns(UserWarning, match="Non finite number") as warned,
            chainer.using_config("sdbr_audit", audit),
        ):
            found.append(trained(optimizer, data=data))
        texts = [str(w.message) for w in warned]
        found.append([text for text in texts if text.startswith("Non finite")])
    assert found[3] == found[1]
    for states in (found[0], found[2]):
        for of_step in states:  # the loss is not finite either
            for name in ("loss", "seen"):
                of_step.pop(name)
    for i in (3, 5):
        for name, value in found[0][i].items():
            if name.endswith("grad") and value is not None:
                np.testing.assert_array_equal(
                    np.isfinite(found[2][i].pop(name)), np.isfinite(found[0][i][name])
                )
                found[0][i] = {k: v for k, v in found[0][i].items() if k != name}
    alike(found[2], found[0])
    if audit == "off" or prepare is nothing:
        assert optimizer.target.schedule_manager.statistics.steps == STEPS - 1
    if audit != "off":
        audits = optimizer.target.schedule_manager.audits
        assert (audits.passed, audits.failed) == (STEPS - 1, 0)


@pytest.mark.parametrize("audit", ["off", 1e9])
def test_a_warning_of_gradients_that_is_an_error(audit):
    """An audit meets it in define-by-run first; the step has it as well."""
    data = batches()
    for i in (2, 3, 5):
        data[i][0][0, 0] = np.inf
    case = chosen(prepare=lambda o: o.loss_scaling(interval=3))
    found = []
    for static in (False, True):
        optimizer = made(case, static)
        found.append([])
        np.random.seed(1)
        for batch in data:
            with warnings.catch_warnings(), chainer.using_config("sdbr_audit", audit):
                warnings.filterwarnings("error", message="Non finite")
                try:
                    optimizer.update(optimizer.target, *batch)
                    told = None
                except UserWarning as error:
                    told = str(error)
            isnan = optimizer._loss_scaling_isnan, optimizer._loss_scaling_isnan_ever
            found[-1].append({**state(optimizer), "told": told, "isnan": isnan})
            for p in optimizer.target.params():
                assert np.isfinite(p.array).all()
    for states in found:
        for one in states:  # what is not finite, is so in all ways
            one.update({k: np.nan_to_num(v) for k, v in one.items() if k.endswith("grad")})
    alike(found[1], found[0])
    assert sum(one["told"] is not None for one in found[1]) == 3
    manager = optimizer.target.schedule_manager
    assert manager.statistics.steps == STEPS - 1
    assert manager.audits.failed == 0


def test_gradients_that_somebody_holds_become_zero_where_zerograds_is_asked_for():
    case = chosen(prepare=zerograds)
    found = []
    for static in (False, True):
        optimizer = made(case, static)
        held = []

        def each(optimizer, i, held=held):
            held.append(optimizer.target.l1.W.grad)
            if i == 4:
                optimizer.target.l2.W.cleargrad()

        trained(optimizer, each)
        found.append([None if g is None else g.copy() for g in held])
    for a, b in zip(*found, strict=True):
        assert (a is None) == (b is None)
        assert a is None or a.any() == b.any()


class Shared(chainer.Chain):
    """A loss over a part that another optimizer has, or nobody."""

    def __init__(self, body):
        super().__init__()
        self.body = body
        with self.init_scope():
            self.head = L.Linear(6, 3)

    def forward(self, x, t):
        self.loss = F.softmax_cross_entropy(self.head(F.tanh(self.body(x))), t)
        return self.loss


@pytest.mark.parametrize("audit", ["off", 1e9])
@pytest.mark.parametrize("cleared", ["each", "second", "never"])
def test_parameters_outside_of_the_optimizer_get_gradients_added(cleared, audit):
    found = []
    for static in (False, True):
        with chainer.using_config("dtype", D):
            np.random.seed(0)
            body = L.Linear(4, 6)
            model = Shared(body)
        optimizer = optimizers.Adam()
        if static:
            model, optimizer = sdbr.static_graph(model), sdbr.static_optimizer(optimizer)
        optimizer.setup(model)
        other = optimizers.SGD(0.5).setup(body)
        body.cleargrads()
        states, held = [], []
        with chainer.using_config("sdbr_audit", audit):
            for i, batch in enumerate(batches()):
                if cleared == "each" or (cleared == "second" and i % 2):
                    body.cleargrads()
                held.append(body.W.grad)
                optimizer.update(model, *batch)
                if i % 2:
                    other.update()
                states.append(
                    {**state(optimizer), "W": body.W.grad.copy(), "b": body.b.grad.copy()}
                )
        found.append((states, [None if g is None else g.copy() for g in held]))
    alike(found[1][0], found[0][0])
    alike([{"held": g} for g in found[1][1]], [{"held": g} for g in found[0][1]])
    assert model.schedule_manager.statistics.steps == STEPS - 1


@pytest.mark.parametrize("audit", ["off", 1e9])
@pytest.mark.parametrize("kept", [False, True])
def test_arguments_that_want_gradients(kept, audit):
    found = []
    for static in (False, True):
        optimizer = made(chosen(), static)
        states, x = [], None
        with chainer.using_config("sdbr_audit", audit):
            for data, t in batches():
                if x is None or not kept:
                    x = chainer.Variable(data)
                optimizer.update(optimizer.target, x, chainer.Variable(t))
                states.append({**state(optimizer), "x": x.grad.copy()})
        found.append(states)
    alike(found[1], found[0])
    assert optimizer.target.schedule_manager.statistics.steps == STEPS - 1


def test_arguments_with_histories_get_gradients_in_parts():
    found = []
    for static in (False, True):
        optimizer = made(chosen(), static)
        w = chainer.Parameter(np.full(4, 0.5))
        states = []
        for data, t in batches():
            optimizer.update(
                optimizer.target, chainer.Variable(data) * F.broadcast_to(w, (5, 4)), t
            )
            states.append({**state(optimizer), "w": w.grad.copy()})
        found.append(states)
    alike(found[1], found[0])
    assert optimizer.target.schedule_manager.statistics.steps == 0


class Keeping(chainer.Chain):
    """Reports and keeps what it is given."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l1, self.scale = L.Linear(4, 3), chainer.Parameter(np.full((), 0.5))
        self.last = None

    def forward(self, x, t):
        self.before, self.last, self.kinds = self.last, x, [t, x]
        self.loss = F.softmax_cross_entropy(self.l1(x) * F.broadcast_to(self.scale, (5, 3)), t)
        chainer.report({"loss": self.loss, "x": x, "scale": self.scale}, self)
        return self.loss


@pytest.mark.parametrize("audit", ["off", 1e9])
@pytest.mark.parametrize("wrap", [lambda x: x, chainer.Variable])
def test_what_is_handed_out_as_it_came(wrap, audit):
    found = []
    for static in (False, True):
        optimizer = made(chosen(make=Keeping), static)
        model = optimizer.target
        reporter = chainer.Reporter()
        reporter.add_observer("main", model)
        states = []
        with chainer.using_config("sdbr_audit", audit):
            for data, t in batches():
                x, seen = wrap(data), {}
                with reporter.scope(seen):
                    optimizer.update(model, x, t)
                assert model.last is x and model.kinds[1] is x and model.kinds[0] is t
                assert seen["main/scale"].array is model.scale.array
                before = getattr(model.before, "array", model.before)
                numbers = {k: np.array(getattr(v, "array", v)) for k, v in seen.items()}
                states.append({**state(optimizer), **numbers, "before": before})
        found.append(states)
    alike(found[1], found[0])
    assert model.schedule_manager.statistics.steps == STEPS - 2  # `last` is None at first


class Noisy(Net):
    """Draws and code of its own in each call."""

    def forward(self, x, t):
        h = F.dropout(F.tanh(self.l1(x)), 0.3)
        noise = np.random.standard_normal(h.shape)
        (kept,) = self.count([h.array], None)
        self.loss = F.softmax_cross_entropy(self.l2(h + 0.1 * noise + 0.01 * kept), t)
        return self.loss

    def __init__(self):
        super().__init__()
        self.seen = []

    @sdbr.static_code
    def count(self, inputs, outputs=None):
        self.seen.append(float(inputs[0].sum()))
        return (inputs[0] * 2,)


@pytest.mark.parametrize("audit", ["off", 1e9])
def test_draws_and_code_of_python_in_the_loss(audit):
    case = chosen(make=Noisy)
    want = trained(made(case, False))
    optimizer = made(case, True)
    with chainer.using_config("sdbr_audit", audit):
        alike(trained(optimizer), want)
    assert optimizer.target.schedule_manager.statistics.steps == STEPS - 1


class Asking(chainer.Chain):
    """Statistics, draws and a branch beside the question whether gradients are finite."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l1, self.l2 = L.Linear(4, 6), L.Linear(6, 3)
            self.norm = L.BatchNormalization(6)

    def forward(self, x, t):
        h = F.dropout(self.norm(self.l1(x)))
        if (x[:, 0] > 0).sum() > 2:
            h = F.tanh(h)
        self.loss = F.softmax_cross_entropy(self.l2(h), t)
        return self.loss


@pytest.mark.parametrize("audit", ["off", 1e9])
def test_a_question_of_the_call_beside_that_of_the_update(audit):
    rng = np.random.RandomState(3)
    data = [(rng.randn(5, 4), rng.randint(0, 3, 5).astype("i")) for _ in range(24)]
    for i in (9, 14, 19):
        data[i][0][1, 1:] = 1e308  # finite, and no gradient is
    case = chosen(make=Asking, prepare=lambda o: o.loss_scaling(interval=2))
    found = []
    for static in (False, True):
        optimizer = made(case, static)
        with (
            warnings.catch_warnings(record=True) as told,
            chainer.using_config("sdbr_audit", audit),
        ):
            warnings.simplefilter("always")
            states = trained(optimizer, data=data)
        norm = optimizer.target.norm
        found.append(
            (
                [(s["t"], s["scale"]) for s in states],
                np.isnan(norm.avg_mean).tolist(),
                [str(w.message) for w in told if "Non finite" in str(w.message)],
            )
        )
    assert found[0] == found[1]
    assert len(found[0][2]) > 3
    statistics = optimizer.target.schedule_manager.statistics
    assert statistics.traces == 2
    if audit == "off":
        assert statistics.steps > 18
