"""float16: functions that compute in float32 and round what they give, without a Python op."""

from __future__ import annotations

import dataclasses

import sdbr
from sdbr.backends import MACHINES

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.comparison import assert_near
from tests.tolerances import HALF_GRADIENTS, HALF_RESULTS, HALF_SUMS, RESULTS

RNG = np.random.RandomState(0)
T = np.array([0, 2, 1, 2, -1], "i")
BIG = np.float16(60000)
ONES = np.ones(4, "f")


def normal(*shape):
    return RNG.standard_normal(shape).astype("e")


def positive(*shape):
    return (RNG.random_sample(shape) + 0.5).astype("e")


#: Name -> function, what it is given.
CASES = {
    "relu": (F.relu, [normal(5, 4)]),
    "sigmoid": (F.sigmoid, [normal(5, 4)]),
    "tanh": (F.tanh, [normal(5, 4)]),
    "softmax": (F.softmax, [normal(5, 4)]),
    "log_softmax": (F.log_softmax, [normal(5, 4)]),
    "linear": (F.linear, [normal(5, 4), normal(3, 4), normal(3)]),
    "linear without bias": (F.linear, [normal(5, 4), normal(3, 4)]),
    "convolution_2d": (
        lambda *xs: F.convolution_2d(*xs, stride=2, pad=1),
        [normal(2, 3, 7, 6), normal(4, 3, 3, 3), normal(4)],
    ),
    "deconvolution_2d": (
        lambda *xs: F.deconvolution_2d(*xs, stride=2, pad=1),
        [normal(2, 3, 4, 4), normal(3, 4, 3, 3), normal(4)],
    ),
    "max_pooling_2d": (lambda x: F.max_pooling_2d(x, 2), [normal(2, 3, 6, 6)]),
    "average_pooling_2d": (lambda x: F.average_pooling_2d(x, 2), [normal(2, 3, 6, 6)]),
    "global average": (lambda x: F.average_pooling_2d(x, 6), [normal(2, 3, 6, 6)]),
    "add": (lambda x, y: x + y, [normal(5, 4), normal(5, 4)]),
    "the same twice": (lambda x: x + x, [normal(5, 4)]),
    "sub": (lambda x, y: x - y, [normal(5, 4), normal(5, 4)]),
    "mul": (lambda x, y: x * y, [normal(5, 4), normal(5, 4)]),
    "div": (lambda x, y: x / y, [normal(5, 4), positive(5, 4)]),
    "neg": (lambda x: -x, [normal(5, 4)]),
    "absolute": (F.absolute, [normal(5, 4)]),
    "exp": (F.exp, [normal(5, 4)]),
    "log": (F.log, [positive(5, 4)]),
    "sqrt": (F.sqrt, [positive(5, 4)]),
    "square": (F.square, [normal(5, 4)]),
    "maximum": (F.maximum, [normal(5, 4), normal(5, 4)]),
    "minimum": (F.minimum, [normal(5, 4), normal(5, 4)]),
    "sum": (F.sum, [normal(5, 4)]),
    "sum of an axis": (lambda x: F.sum(x, axis=1, keepdims=True), [normal(5, 4)]),
    "mean": (F.mean, [normal(5, 4)]),
    "max": (lambda x: F.max(x, axis=0), [normal(5, 4)]),
    "min": (F.min, [normal(5, 4)]),
    "matmul": (F.matmul, [normal(5, 4), normal(4, 3)]),
    "matmul transposed": (lambda x, y: F.matmul(x, y, transb=True), [normal(5, 4), normal(3, 4)]),
    "reshape": (lambda x: F.reshape(x, (4, 5)), [normal(5, 4)]),
    "transpose": (F.transpose, [normal(5, 4)]),
    "expand_dims": (lambda x: F.expand_dims(x, 1), [normal(5, 4)]),
    "flip": (lambda x: F.flip(x, 1), [normal(5, 4)]),
    "concat": (lambda x, y: F.concat([x, y]), [normal(5, 4), normal(5, 2)]),
    "stack": (lambda x, y: F.stack([x, y]), [normal(5, 4), normal(5, 4)]),
    "split_axis": (lambda x: F.split_axis(x, 2, axis=1)[1], [normal(5, 4)]),
    "broadcast_to": (lambda x: F.broadcast_to(x, (3, 5, 4)), [normal(5, 1)]),
    "scale": (lambda x, w: F.scale(x, w), [normal(5, 4), normal(4)]),
    "items": (lambda x: x[1:, ::-2], [normal(5, 4)]),
    "diagonal": (lambda x: F.diagonal(x), [normal(5, 4)]),
    "separate": (lambda x: F.separate(x, axis=1)[1], [normal(5, 4)]),
    "plus a number": (lambda x: x + 0.1, [normal(5, 4)]),
    "minus a number": (lambda x: x - 0.1, [normal(5, 4)]),
    "a number minus": (lambda x: 0.1 - x, [normal(5, 4)]),
    "times a number": (lambda x: x * 0.1, [normal(5, 4)]),
    "lstm, h": (lambda c, x: F.lstm(c, x)[1], [normal(5, 3), normal(5, 12)]),
    "lstm, c": (lambda c, x: F.lstm(c, x)[0], [normal(5, 3), normal(4, 12)]),
    "lstm, both": (lambda c, x: F.concat(F.lstm(c, x)), [normal(5, 3), normal(5, 12) * 4]),
    "lstm, more axes": (lambda c, x: F.lstm(c, x)[1], [normal(5, 3, 2), normal(5, 12, 2)]),
    "a number by": (lambda x: 0.1 / x, [positive(5, 4)]),
    "leaky_relu": (lambda x: F.leaky_relu(x, 0.3), [normal(5, 4)]),
    "leaky_relu, negative": (lambda x: F.leaky_relu(x, -0.3), [normal(5, 4)]),
    "elu": (lambda x: F.elu(x, 0.7), [normal(5, 4)]),
    "elu, negative": (lambda x: F.elu(x, -0.7), [normal(5, 4)]),
    "elu, small": (lambda x: F.elu(x), [normal(5, 4) * np.float16(1e-3)]),
    "batch_normalization": (
        lambda x: F.batch_normalization(x, ONES * 2, ONES, axis=(0, 2)),
        [normal(5, 4, 3)],
    ),
    "fixed_batch_normalization": (
        lambda x: F.fixed_batch_normalization(x, ONES * 2, ONES, ONES, ONES * 3),
        [normal(5, 4)],
    ),
    "softmax_cross_entropy": (lambda x: F.softmax_cross_entropy(x, T), [normal(5, 3)]),
    "of each sample": (lambda x: F.softmax_cross_entropy(x, T, reduce="no"), [normal(5, 3)]),
    "class weights": (
        lambda x: F.softmax_cross_entropy(x, T, class_weight=np.array([1, 2, 0.5], "e")),
        [normal(5, 3)],
    ),
    "accuracy": (lambda x: F.accuracy(x, T, ignore_label=-1), [normal(5, 3)]),
}


def run(call, xs):
    """What a call gives, and the gradients of what it is given."""
    given = [chainer.Variable(x.copy()) for x in xs]
    y = call(*given)
    if y.requires_grad:
        y.grad = np.asarray(np.cos(np.arange(y.size)).reshape(y.shape), y.dtype)
        y.backward()
    return y.array, [x.grad for x in given]


def both(call, xs, times=3):
    static = sdbr.static_graph(lambda *xs: call(*xs), on_dynamic="raise")
    for k in range(times):
        now = [np.roll(x, k, 0) for x in xs]
        yield run(static, now), run(call, now)
    statistics = static.schedule_manager.statistics
    assert statistics.replays == times - statistics.traces > 0
    assert statistics.python_ops == 0


@pytest.mark.parametrize("name", CASES)
def test_functions(name):
    for (y, grads), (want, want_grads) in both(*CASES[name]):
        assert_near(y, want, HALF_RESULTS, "result")
        assert y.dtype == np.float16
        for got, other in zip(grads, want_grads, strict=True):
            assert_near(got, other, HALF_GRADIENTS, "gradient")


EXACT = ("relu", "add", "sub", "mul", "div", "neg", "absolute", "sqrt", "maximum", "max", "concat")
EXACT += ("tanh", "sigmoid", "softmax", "log_softmax", "of each sample")
EXACT += tuple(name for name in CASES if "number" in name)
EXACT += tuple(name for name in CASES if "elu" in name or "lstm" in name)


@pytest.mark.parametrize(
    "name", [name for name in CASES if "elu" in name or "lstm" in name or name == "a number by"]
)
def test_gradients_of_one_operation_are_chainers(name):
    for (_, grads), (_, want) in both(*CASES[name]):
        for g, w in zip(grads, want, strict=True):
            np.testing.assert_array_equal(g, w)


@pytest.mark.parametrize("name", EXACT)
def test_one_operation_is_rounded_as_by_numpy(name):
    for (y, _), (want, _) in both(*CASES[name]):
        np.testing.assert_array_equal(y, want)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x * 1e6,
        lambda x: x + x,
        lambda x: x * x,
        F.exp,
        lambda x: F.sum(x),
        lambda x: -F.square(x),
    ],
)
def test_what_is_too_large_is_infinite_as_by_numpy(call):
    with np.errstate(over="ignore"):
        for (y, _), (want, _) in both(call, [np.full((4, 3), BIG)]):
            np.testing.assert_array_equal(y, want)
            assert np.isinf(y).all()


def test_values_between_two_functions_are_rounded():
    """2049 is no float16: x + 1 - x is 0 there, and 1 where nothing is rounded."""
    one = np.ones((3, 2), "e")
    for (y, _), (want, _) in both(lambda x, y: (x + y) - x, [one * 2048, one]):
        np.testing.assert_array_equal(y, want)
        assert not y.any()


class Net(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.conv = L.Convolution2D(1, 4, 3)
            self.l1 = L.Linear(None, 8)
            self.l2 = L.Linear(8, 3)

    def forward(self, x):
        # Smooth throughout: where values are nearly equal, a rounding decides about a maximum.
        h = F.average_pooling_2d(F.sigmoid(self.conv(x)), 2)
        return self.l2(F.tanh(self.l1(h)))


@pytest.mark.parametrize("dtype", [np.float16, chainer.mixed16], ids=["float16", "mixed16"])
@pytest.mark.parametrize("whole", [False, True], ids=["calls", "steps"])
def test_a_training(dtype, whole):
    xs = np.random.RandomState(0).standard_normal((4, 5, 1, 8, 8)).astype("e")
    found = []
    for static in (False, True):
        np.random.seed(0)
        with chainer.using_config("dtype", dtype):
            model = L.Classifier(Net())
            model.predictor(xs[0])
            optimizer = chainer.optimizers.MomentumSGD(0.01)
            optimizer.use_fp32_update()
            if static:
                model = sdbr.static_graph(model, on_dynamic="raise")
                optimizer = sdbr.static_optimizer(optimizer) if whole else optimizer
            optimizer.setup(model)
            for i in range(8):
                optimizer.update(model, xs[i % 4], T)
        found.append(model)
    plain, static = found
    assert static.schedule_manager.statistics.replays == 7
    assert static.schedule_manager.statistics.python_ops == 0
    assert_near(static.loss.array, plain.loss.array, HALF_RESULTS, "loss")
    for (name, p), (_, q) in zip(
        sorted(static.namedparams()), sorted(plain.namedparams()), strict=True
    ):
        assert p.dtype == np.float16
        # Of parameters that have been apart by some roundings for seven steps.
        assert_near(p.grad, q.grad, HALF_SUMS, f"gradient of {name}")
        assert_near(p.array, q.array, HALF_RESULTS, name)


def test_an_input_that_is_written_before_the_backward():
    """Chainer's nodes keep their inputs, and see what is written to them."""
    found = []
    static = sdbr.static_graph(lambda x, w: F.linear(x, w), on_dynamic="raise")
    for function in (F.linear, static):
        for _ in range(3):
            x, w = chainer.Variable(np.ones((2, 3), "e")), chainer.Variable(np.ones((4, 3), "e"))
            y = function(x, w)
            x.array[...] = 2
            y.grad = np.ones((2, 4), "e")
            y.backward()
        found.append(w.grad)
    np.testing.assert_array_equal(*found)
    assert static.schedule_manager.statistics.python_ops == 0


def test_floats_of_several_dtypes_stay_chainers():
    static = sdbr.static_graph(F.matmul)
    x, y = np.ones((2, 3), "e"), np.ones((3, 2), "f")
    for _ in range(3):
        got = static(x, y)
    assert got.dtype == F.matmul(x, y).dtype
    assert static.schedule_manager.statistics.python_ops > 0


@pytest.mark.parametrize("cached", [True, False])
def test_what_a_loss_has_computed_stays(cached):
    """Chainer's backward uses the forward's probabilities, or those of what is written since."""

    def call(x):
        return F.softmax_cross_entropy(x, T, cache_score=cached)

    found = []
    static = sdbr.static_graph(lambda x: call(x), on_dynamic="raise")
    for function in (call, static):
        for _ in range(3):
            x = chainer.Variable(CASES["softmax_cross_entropy"][1][0].copy())
            y = function(x)
            x.array[...] = 0
            y.backward()
        found.append(x.grad)
    assert_near(found[1], found[0], HALF_RESULTS, "gradient")
    assert static.schedule_manager.statistics.python_ops == 0


def test_numbers_that_a_call_computes_are_rounded_before_they_are_used():
    def call(x):
        return x * (float(x.array[0, 0]) * 0.1)

    for (y, _), (want, _) in both(call, [positive(5, 4)]):
        np.testing.assert_array_equal(y, want)


@pytest.mark.parametrize("key", [[0, 2, 2], np.array([1, 1])])
def test_items_that_are_added_up_stay_chainers(key):
    static = sdbr.static_graph(lambda x: x[key], on_dynamic="raise")
    for _ in range(4):
        (y, grads), (want, others) = (
            run(f, [normal(5, 4) * 0 + 1]) for f in (static, lambda x: x[key])
        )
        np.testing.assert_array_equal(y, want)
        np.testing.assert_array_equal(grads, others)
    assert static.schedule_manager.statistics.python_ops > 0


@pytest.mark.parametrize("ratio", [0.1, 0.3, 0.5])
def test_dropout_draws_and_scales_as_chainer(ratio):
    found = []
    static = sdbr.static_graph(lambda x: F.dropout(x, ratio), on_dynamic="raise")
    for function in (lambda x: F.dropout(x, ratio), static):
        np.random.seed(3)
        found.append([run(function, [normal(5, 4) * 0 + np.float16(0.7)]) for _ in range(3)])
        found[-1].append(np.random.random_sample())
    np.testing.assert_equal(*found)
    assert static.schedule_manager.statistics.replays == 2
    assert static.schedule_manager.statistics.python_ops == 0


def test_numbers_that_change_are_rounded_before_they_are_used():
    static = sdbr.static_graph(lambda x, c: x * c, on_dynamic="raise")
    x = np.full((3, 2), 0.5, "e")
    with np.errstate(over="ignore"):
        for c in (0.1, 0.2, 0.3, 1e5, 0.7):
            v = chainer.Variable(x)
            np.testing.assert_array_equal(static(v, c).array, (v * c).array)
    assert static.schedule_manager.statistics.replays == 4


class Normed(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.bn = L.BatchNormalization(4)

    def forward(self, x):
        return F.sum(self.bn(x) * x)


def test_running_averages_in_float32():
    found = []
    for static in (False, True):
        with chainer.using_config("dtype", chainer.mixed16):
            model = Normed()
        assert model.bn.gamma.dtype == np.float32
        model = sdbr.static_graph(model, on_dynamic="raise") if static else model
        for k in range(4):
            model.cleargrads()
            model(np.roll(CASES["relu"][1][0], k)).backward()
        found.append(model)
    plain, static = found
    assert static.schedule_manager.statistics.python_ops == 0
    for name in ("avg_mean", "avg_var"):
        assert_near(getattr(static.bn, name), getattr(plain.bn, name), RESULTS, name)
    assert_near(static.bn.gamma.grad, plain.bn.gamma.grad, HALF_GRADIENTS, "gradient")


VIEWS = {
    "items": lambda x: x * x[::-1],
    "broadcast": lambda x: F.broadcast_to(x, (4, 3)) * 2 * F.broadcast_to(x, (4, 3)),
    "diagonal": lambda x: F.diagonal(F.reshape(x, (3, 1)) + np.zeros((3, 3), "e")) * x,
    "transpose": lambda x: F.transpose(x) * x,
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_show_what_is_written_before_the_backward(name):
    found = []
    static = sdbr.static_graph(lambda x: VIEWS[name](x), on_dynamic="raise")
    for function in (VIEWS[name], static):
        for _ in range(4):
            x = chainer.Variable(np.array([1, 2, 3], "e"))
            y = function(x)
            x.array[...] = [10, 20, 40]
            y.grad = np.ones(y.shape, "e")
            y.backward()
        found.append(x.grad)
    np.testing.assert_array_equal(*found)
    assert static.schedule_manager.statistics.replays == 3


def test_results_on_one_memory():
    def call(x):
        y = F.tanh(x)
        return y, y[1:], F.broadcast_to(y, (2, 3))

    static = sdbr.static_graph(call, on_dynamic="raise")
    for _ in range(3):
        y, *views = static(chainer.Variable(np.array([1, 2, 3], "e")))
        y.array[...] = 7
        assert all((view.array == 7).all() for view in views)
    assert static.schedule_manager.statistics.replays == 2
    assert static.schedule_manager.statistics.python_ops == 0


def test_on_a_gpu_halves_are_chainers(monkeypatch):
    """Its libraries multiply them as they are."""
    assert not MACHINES["cuda"].widens
    monkeypatch.setitem(MACHINES, "numpy", MACHINES["numpy"])
    MACHINES["numpy"] = dataclasses.replace(MACHINES["numpy"], widens=False)
    static = sdbr.static_graph(lambda x: F.relu(x), backend="numpy", on_dynamic="raise")
    for _ in range(3):
        static(CASES["relu"][1][0])
    (node,) = static.schedule_manager.static_schedule.forward.lowered.nodes
    assert "float16" in node.reason


@pytest.mark.parametrize("function", [F.tanh, F.sigmoid, F.softmax, F.log_softmax])
def test_gradients_are_rounded_step_by_step(function):
    """Where they are differences of numbers that are nearly equal, the rounding is what is left."""
    x = np.array([[8, -8, 0.1], [3, -3, 2.6], [0, 9, -9]], "e")
    for (_, grads), (_, want) in both(function, [x]):
        np.testing.assert_array_equal(grads, want)


@pytest.mark.parametrize("options", [{}, {"normalize": False}, {"reduce": "no"}], ids=str)
def test_a_confident_loss(options):
    x = (np.eye(5) * 7 + np.random.RandomState(0).standard_normal((5, 5)) * 0.1).astype("e")
    t = np.arange(5, dtype="i")
    pairs = both(lambda x: F.softmax_cross_entropy(x, t, **options), [x], times=2)
    for (y, grads), (want, others) in pairs:
        assert_near(y, want, HALF_RESULTS, "loss")
        assert_near(grads[0], others[0], HALF_GRADIENTS, "gradient")
