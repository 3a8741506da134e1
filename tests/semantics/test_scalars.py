"""Row 11: floats that reach an op are slots of the control block; others are part of the key."""

from __future__ import annotations

import json
import math

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.comparison import BACKENDS, assert_all_near, assert_near, copy_of, gradients_of
from tests.harness.models import Net
from tests.harness.twins import X, agree, pair, step
from tests.tolerances import GRADIENTS, RESULTS, ROUNDINGS


class ScaledInPython(chainer.FunctionNode):
    """A function without a native row that holds a float."""

    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, inputs):
        return (inputs[0] * inputs[0].dtype.type(self.scale),)

    def backward(self, indexes, grads):
        return (grads[0] * self.scale,)


class OldStyleScale(chainer.Function):
    def __init__(self, scale):
        self.scale = scale

    def forward(self, inputs):
        return (inputs[0] * inputs[0].dtype.type(self.scale),)

    def backward(self, inputs, grads):
        return (grads[0] * grads[0].dtype.type(self.scale),)


T = np.linspace(-1, 1, 15, dtype="f").reshape(5, 3)


def _filled(c):
    array = np.ones((5, 3), "f")
    array[0] = c
    return array


# name -> (function of y = l(x) and the float, whether all is native)
ANNEALED = {
    "y * c": (lambda y, c: y * c, True),
    "c * y": (lambda y, c: c * y, True),
    "y + c": (lambda y, c: (y + c) ** 2, True),
    "y - c": (lambda y, c: (y - c) ** 2, True),
    "c - y": (lambda y, c: (c - y) ** 2, True),
    "y / c": (lambda y, c: y / c, True),
    "c / y": (lambda y, c: c / (abs(y) + 1), True),
    "y ** c": (lambda y, c: (abs(y) + 1) ** c, True),
    "c ** y": (lambda y, c: c**y, True),
    "dropout": (F.dropout, True),
    "leaky_relu": (F.leaky_relu, True),
    "elu": (F.elu, True),
    "clipped_relu": (F.clipped_relu, True),
    "softplus": (F.softplus, True),
    "clip": (lambda y, c: F.clip(y, -c, c) * y, True),
    "huber_loss": (lambda y, c: F.huber_loss(y, np.ones((5, 3), "f"), c), True),
    "arithmetic": (lambda y, c: y * (1 - c) ** 2 * -0.5 + c / 3 * y, True),
    "math": (lambda y, c: y * math.exp(-c) + math.sqrt(c), True),
    "NumPy function": (lambda y, c: y * np.exp(-c) + np.minimum(c, 1), True),
    "twice": (lambda y, c: (y * c + 1) * c, True),
    "zoneout": (lambda y, c: F.zoneout(y, y * 2, c), True),
    "NumPy scalar before": (lambda y, c: y * (np.float32(1.5) * c), True),
    "NumPy scalar behind": (lambda y, c: y * (c * np.float32(2)), True),
    "array": (lambda y, c: y * (np.ones((5, 3), "f") * c), True),
    "array after": (lambda y, c: y * (c * np.ones((5, 3), "f")), True),
    "filled array": (lambda y, c: y * np.full((5, 3), c, "f"), False),
    "array of": (lambda y, c: y * np.array([c, 1, c], "f"), False),
    "written into an array": (lambda y, c: y * _filled(c), True),
    "where": (lambda y, c: y * np.where(T > 0, c, 0).astype("f"), False),
    "a node of the user": (lambda y, c: ScaledInPython(c).apply((y,))[0], False),
    "an old-style function": (lambda y, c: OldStyleScale(c)(y), False),
}


def values(n=20):
    return [0.05 + 0.04 * i for i in range(n)]


def losses(model, call, optimizer=None, seed=0):
    """What 20 iterations with an annealed float leave behind."""
    found = []
    for i, c in enumerate(values()):
        np.random.seed(seed + i)
        y = call(model, c)
        if optimizer is None:
            model.cleargrads()
            y.backward()
            found.append((copy_of(y.array), gradients_of(model)))
    return found


def assert_same_losses(got, want):
    for i, ((y, g), (z, h)) in enumerate(zip(got, want, strict=True)):
        assert_near(y, z, RESULTS, f"iteration {i}: loss")
        assert_all_near(g, h, GRADIENTS, f"iteration {i}: gradient")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ANNEALED)
def test_an_annealed_attribute_traces_once(name, backend):
    function, native = ANNEALED[name]
    plain, static = pair(
        lambda: Net(lambda self, x: F.sum(function(self.l(x), self.c)), l=L.Linear(4, 3)),
        backend=backend,
    )

    def call(model, c):
        model.c = c
        return model(X)

    assert_same_losses(losses(static, call), losses(plain, call))
    statistics = static.schedule_manager.statistics
    assert (statistics.traces, statistics.replays) == (1, 19)
    assert bool(statistics.python_ops) != native


@pytest.mark.parametrize("how", ["positional", "keyword", "in a container"])
@pytest.mark.parametrize("name", ["y * c", "dropout", "arithmetic", "a node of the user"])
def test_an_annealed_argument_traces_once(name, how):
    function, _ = ANNEALED[name]

    def forward(self, x, c=None, *, more=None):
        return F.sum(function(self.l(x), c if more is None else more["c"][0]))

    plain, static = pair(lambda: Net(forward, l=L.Linear(4, 3)))
    call = {
        "positional": lambda model, c: model(X, c),
        "keyword": lambda model, c: model(X, c=c),
        "in a container": lambda model, c: model(X, more={"c": (c, 1)}),
    }[how]
    assert_same_losses(losses(static, call), losses(plain, call))
    statistics = static.schedule_manager.statistics
    assert (statistics.traces, statistics.replays) == (1, 19)
    assert static.schedule_manager.runners


@pytest.mark.parametrize("as_argument", [False, True])
@pytest.mark.parametrize("name", ["y * c", "dropout", "clip", "arithmetic", "zoneout"])
def test_whole_steps(name, as_argument):
    """The scalars of the loss and those of the update share one control block."""
    function, _ = ANNEALED[name]

    def forward(self, x, c=None):
        return F.sum(function(self.l(x), self.c if c is None else c) ** 2)

    weights = []
    for model in pair(lambda: Net(forward, l=L.Linear(4, 3))):
        optimizer = sdbr.static_optimizer(chainer.optimizers.Adam(0.01)).setup(model)
        for i, c in enumerate(values()):
            np.random.seed(i)
            optimizer.alpha = 0.01 / (i + 1)
            model.c = c
            optimizer.update(model, X, *([c] if as_argument else []))
        weights.append(model.l.W.array.copy())
    assert_near(weights[1], weights[0], RESULTS, "weights")
    statistics = model.schedule_manager.statistics
    assert (statistics.traces, statistics.steps) == (1, 19)


@pytest.mark.parametrize("backend", BACKENDS)
def test_inference(backend):
    plain, static = pair(
        lambda: Net(lambda self, x, c: self.l(x) * self.c + c, l=L.Linear(4, 3)), backend=backend
    )
    with chainer.no_backprop_mode(), chainer.using_config("train", False):
        for i, c in enumerate(values()):
            plain.c = static.c = c
            assert_near(static(X, 1 - c).array, plain(X, 1 - c).array, RESULTS, f"call {i}")
    assert static.schedule_manager.statistics.replays == 19


def test_the_backward_uses_the_value_of_its_forward():
    plain, static = pair(lambda: Net(lambda self, x: F.sum(self.l(x) * self.c), l=L.Linear(4, 3)))
    for _ in range(3):
        found = []
        for model in (plain, static):
            calls = []
            for c in (0.5, 2.0):
                model.c = c
                calls.append(model(X))
            model.c = 100.0
            model.cleargrads()
            (calls[0] + 3 * calls[1]).backward()
            found.append(gradients_of(model))
        assert_all_near(found[1], found[0], RESULTS, "gradient")
    assert static.schedule_manager.statistics.traces == 1


def test_second_derivatives_see_the_number_of_the_call():
    static = sdbr.static_graph(lambda x, c: F.sum((x * c) ** 3), enable_double_backprop=True)
    for c in (0.5, 2.0, 3.0):
        x = chainer.Variable(X.copy())
        (g,) = chainer.grad([static(x, c)], [x], enable_double_backprop=True)
        (gg,) = chainer.grad([F.sum(g)], [x])
        assert_near(gg.array, (6 * c**3 * X).astype("f"), RESULTS, "second derivative")
    assert static.schedule_manager.statistics.traces == 1


@pytest.mark.parametrize("name", ["y * c", "y / c", "dropout", "elu", "arithmetic", "zoneout"])
def test_an_attribute_that_is_a_numpy_float64(name):
    """What NumPy has computed for an annealing schedule; it follows NumPy's rules for dtypes."""
    function, _ = ANNEALED[name]
    plain, static = pair(
        lambda: Net(lambda self, x: F.sum(function(self.l(x), self.c)), l=L.Linear(4, 3))
    )

    def call(model, c):
        model.c = np.float64(c)
        return model(X)

    assert_same_losses(losses(static, call), losses(plain, call))
    assert static.schedule_manager.statistics.traces == 1
    static.c = 0.5  # another type
    static(X)
    assert static.schedule_manager.statistics.traces == 2


@pytest.mark.filterwarnings("ignore::sdbr.SdbrWarning")
def test_dtypes_with_a_numpy_float64():
    def forward(self, x):
        return self.l(x), self.c * x, self.c.dtype, self.c + 1

    plain, static = pair(lambda: Net(forward, l=L.Linear(4, 3)))
    for c in (0.5, 0.5, 0.5, 0.75, 0.75, 0.75):
        plain.c = static.c = np.float64(c)
        for got, want in zip(static(X)[1:], plain(X)[1:], strict=True):
            assert type(got) is type(want)
            assert getattr(got, "dtype", None) == getattr(want, "dtype", None)
            np.testing.assert_array_equal(got, want)
    assert static.schedule_manager.statistics.replays >= 2


# --- values that decide something ---------------------------------------------------------------
USED_BY_PYTHON = {
    "int()": lambda y, c: y * int(10 * c),
    "round()": lambda y, c: y * round(c, 1),
    "arange": lambda y, c: y * len(np.arange(0, c, 0.05)),
    "key of a dict": lambda y, c: y * {0.05: 2}.get(c, 3),
    "text": lambda y, c: y * len(f"{c}"),
    "list in a node": lambda y, c: InAList([c]).apply((y,))[0],
}


class InAList(ScaledInPython):
    def forward(self, inputs):
        return (inputs[0] * inputs[0].dtype.type(self.scale[0]),)

    def backward(self, indexes, grads):
        return (grads[0] * self.scale[0],)


@pytest.mark.filterwarnings("ignore::sdbr.SdbrWarning")
@pytest.mark.parametrize("as_argument", [False, True])
@pytest.mark.parametrize("name", USED_BY_PYTHON)
def test_what_python_does_with_a_float_makes_it_part_of_the_key(name, as_argument):
    function = USED_BY_PYTHON[name]

    def forward(self, x, c=None):
        return F.sum(function(self.l(x), self.c if c is None else c))

    plain, static = pair(lambda: Net(forward, l=L.Linear(4, 3)))
    for c in (0.05, 0.05, 0.05, 0.75, 0.75, 0.75, 0.05):
        plain.c = static.c = c
        args = (X, c) if as_argument else (X,)
        assert_near(static(*args).array, plain(*args).array, RESULTS, "output")
    assert static.schedule_manager.statistics.replays >= 3
    assert static.schedule_manager.statistics.traces >= 2
    assert (
        "'c'" in static.schedule_manager.misses[0][0]
        or "argument 1" in (static.schedule_manager.misses[0][0])
    )


def test_a_function_imported_from_math_is_followed():
    from math import exp

    static = sdbr.static_graph(lambda x, c: F.relu(x) * exp(c))
    for c in (0.5, 0.5, 0.7, 0.7, 0.5):
        assert_near(static(X, c).array, F.relu(X).array * np.float32(exp(c)), ROUNDINGS, "output")
    assert static.schedule_manager.statistics.traces == 1


def test_a_branch_is_traced_anew_when_it_goes_the_other_way():
    def forward(self, x):
        y = self.l(x) * self.c
        return y * 2 if self.c > 0.5 else y + max(self.c, 0.2)

    plain, static = pair(lambda: Net(forward, l=L.Linear(4, 3)))
    for c in (0.1, 0.15, 0.3, 0.4, 0.6, 0.7, 0.12, 0.3, 0.9):
        plain.c = static.c = c
        assert_near(static(X).array, plain(X).array, RESULTS, f"c = {c}")
    assert static.schedule_manager.statistics.traces == 3
    assert "comparison gt(c, 0.5)" in static.schedule_manager.misses[1][0]


def test_a_bad_value_raises_what_chainer_raises():
    plain, static = pair(
        lambda: Net(lambda self, x: F.dropout(self.l(x), self.c), l=L.Linear(4, 3))
    )
    for c in (0.1, 0.2, 0.3):
        plain.c = static.c = c
        static(X)
    static.c = 1.5
    with pytest.raises(ValueError, match="dropout_ratio"):
        static(X)
    divided = sdbr.static_graph(lambda x, c: F.relu(x) / c)
    for c in (1.0, 2.0):
        divided(X, c)
    with pytest.raises(ZeroDivisionError):
        divided(X, 0.0)
    static.c = 0.5
    static(X)
    divided(X, 4.0)
    assert static.schedule_manager.statistics.traces == 1


def test_special_values_and_kinds():
    static = sdbr.static_graph(lambda x, c: F.identity(x) * c)
    for c in (0.0, -0.0, 1.0, math.inf, -math.inf, math.nan, 1e300, 1e-300, -0.0, 0.0):
        with np.errstate(all="ignore"):
            want = F.identity(X) * c
            got = static(X, c)
        np.testing.assert_array_equal(got.array, want.array)
        np.testing.assert_array_equal(np.signbit(got.array), np.signbit(want.array))
    assert static.schedule_manager.statistics.traces == 1
    for c in (2, np.float32(2), np.float64(2), True):
        got, want = static(X, c), F.identity(X) * c
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got.array, want.array)
    assert static.schedule_manager.statistics.traces == 5


@pytest.mark.parametrize("backprop", [True, False])
def test_numbers_that_come_back(backprop):
    """A float that is returned or reported is the one of the call."""

    def forward(self, x, c):
        chainer.report({"c": self.c, "both": self.c * c, "loss": F.sum(self.l(x))}, self)
        return {"y": self.l(x) * c, "c": c, "rest": (1 - self.c, 3)}

    _, static = pair(lambda: Net(forward, l=L.Linear(4, 3)))
    reporter = chainer.Reporter()
    reporter.add_observer("m", static)
    with chainer.using_config("enable_backprop", backprop):
        for c in values(8):
            static.c = c * 2
            observation = {}
            with reporter.scope(observation):
                result = static(X, c)
            assert result["c"] == c
            assert type(result["c"]) is float
            assert result["rest"] == (1 - 2 * c, 3)
            assert (observation["m/c"], observation["m/both"]) == (2 * c, 2 * c * c)
            assert type(observation["m/c"]) is float
    statistics = static.schedule_manager.statistics
    assert (statistics.traces, statistics.replays) == (1, 7)


def test_user_code_sees_a_float():
    seen = []

    def forward(self, x):
        c = self.c
        seen.append((isinstance(c, float), c + 0, hash(c), repr(c), np.isscalar(c), c == 0.25))
        return self.l(x) * c

    _, static = pair(lambda: Net(forward, l=L.Linear(4, 3)))
    static.c = 0.25
    static(X)
    assert seen == [(True, 0.25, hash(0.25), "0.25", True, True)]
    assert type(static.c) is float


def test_a_number_that_is_made_of_another_is_written_by_replays():
    def forward(self, x):
        self.t = self.c * 2
        return self.l(x)

    static = sdbr.static_graph(Net(forward, l=L.Linear(4, 3)), on_dynamic="raise")
    static.t = 1
    for c in (0.5, 0.75, 0.75, 1e300):
        static.c = c
        static(X)
        assert static.t == 2 * c and type(static.t) is float
    assert static.schedule_manager.statistics.replays == 3


def test_writing_a_number_that_is_not_followed_is_dynamic():
    def forward(self, x):
        self.t += float(f"{self.t}")
        return self.l(x)

    dynamic = sdbr.static_graph(Net(forward, l=L.Linear(4, 3)), on_dynamic="raise")
    dynamic.t = 1.0
    with pytest.raises(sdbr.NotStaticError, match="attribute 't'"):
        dynamic(X)
    fallback = sdbr.static_graph(Net(forward, l=L.Linear(4, 3)))
    fallback.t = 1.0
    with pytest.warns(sdbr.SdbrWarning, match="attribute 't'"):
        fallback(X)
    fallback(X)
    assert fallback.t == 4.0 and type(fallback.t) is float


def test_static_code_may_write_a_number():
    class Counting(chainer.Chain):
        def __init__(self):
            super().__init__()
            self.t, self.c = 0, 0.5
            with self.init_scope():
                self.l = L.Linear(4, 3)

        @sdbr.static_code
        def count(self, inputs):
            self.t += 1

        def forward(self, x):
            y = self.l(x) * self.c
            self.count(inputs=[y.array])
            return y

    static = sdbr.static_graph(Counting(), on_dynamic="raise")
    for i in range(5):
        static.c = 0.5 + i
        static(X)
    assert static.t == 5
    assert static.schedule_manager.statistics.replays == 4


def test_validation_and_listings_with_an_annealed_number():
    _, static = pair(
        lambda: Net(lambda self, x: self.l(x) * self.beta, l=L.Linear(4, 3)), validate_every=1
    )
    for c in (0.5, -1.0, 2.0):
        static.beta = c
        static(X)
    assert static.schedule_manager.statistics.replays == 2
    listing = static.schedule_manager.static_schedule.programs["forward"].disassemble()
    assert "beta" in listing


class OutOfSight(chainer.Chain):
    """Reads `beta` in a way that no float of ours can notice before the watch has told of it."""

    def __init__(self, read):
        super().__init__()
        self.beta = 0.5
        self._read = read

    def forward(self, x):
        return x * self._read(self)


@pytest.mark.parametrize(
    ("read", "traces"),
    [
        (lambda self: len("%.3f" % self.beta), 4),  # noqa: UP031
        (lambda self: len(json.dumps({"beta": self.beta})), 4),
        (lambda self: vars(self)["beta"], 2),
        (lambda self: self.__dict__["beta"], 2),
    ],
    ids=["percent", "json", "vars", "dict"],
)
def test_floats_read_out_of_sight(read, traces):
    static = sdbr.static_graph(OutOfSight(read))
    x = np.ones(3)
    for beta in (0.5, 0.25, 12.125, -100.5):
        static.beta = beta
        for _ in range(3):
            np.testing.assert_array_equal(static(chainer.Variable(x)).array, x * read(static))
    assert static.schedule_manager.statistics.traces == traces
    assert static.schedule_manager.statistics.replays == 12 - traces


def test_accuracy_can_be_switched_off():
    x = np.random.RandomState(0).randn(5, 4).astype("f")
    t = np.arange(5, dtype="i") % 3
    model = sdbr.static_graph(L.Classifier(L.Linear(4, 3)))
    for _ in range(3):
        model(x, t)
    assert model.accuracy is not None
    model.compute_accuracy = False
    for _ in range(2):
        model(x, t)
        assert model.accuracy is None


@pytest.mark.parametrize("backend", BACKENDS)
def test_scalar_attributes_are_guarded(backend):
    def forward(self, x):
        return self.l(x) * self.weight if self.mode == "on" else self.l(x)

    plain, static = pair(lambda: Net(forward, l=L.Linear(4, 2)), backend=backend)
    plain.weight = static.weight = 1.0
    plain.mode = static.mode = "on"
    for i in range(8):
        agree(plain, static, X)
        plain.weight = static.weight = 1.0 + i // 3
        plain.mode = static.mode = "off" if i == 4 else "on"
    assert static.schedule_manager.statistics.replays >= 3


@pytest.mark.parametrize("backend", BACKENDS)
def test_dropout_ratio_annealed_on_the_chain(backend):
    def forward(self, x):
        return F.dropout(self.l(x), self.ratio)

    plain, static = pair(lambda: Net(forward, l=L.Linear(4, 3)), backend=backend)
    for i in range(6):
        plain.ratio = static.ratio = 0.1 * (i // 2)
        out = []
        for model in (plain, static):
            np.random.seed(i)
            out.append(step(model, X))
        assert_near(out[1][0], out[0][0], RESULTS, "output")
        assert_all_near(out[1][1], out[0][1], GRADIENTS, "gradient")
