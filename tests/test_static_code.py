"""Code marked with static_code runs in every iteration, in its place among the ops."""

import warnings

import sdbr

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np
import pytest

from tests.tolerances import LAST_BIT, RESULTS, ROUNDINGS, SUMS

BACKENDS = pytest.mark.parametrize("backend", ["numpy", "cython"])


def batch(seed, n=4):
    rng = np.random.RandomState(seed)
    return rng.randn(n, 3).astype("f"), rng.randint(0, 2, n).astype("i")


class Net(chainer.Chain):
    """A classifier with one hook for the code under test."""

    def __init__(self, effect):
        super().__init__()
        with self.init_scope():
            self.l1 = L.Linear(3, 5)
            self.l2 = L.Linear(5, 2)
        self.effect = effect
        self.count = 0

    def forward(self, x):
        return self.l2(self.effect(self, F.relu(self.l1(x))))


def losses(effect, static, backend="cython", steps=6, whole_step=False, **options):
    np.random.seed(0)
    model = L.Classifier(Net(effect))
    optimizer = chainer.optimizers.SGD(0.1)
    if static:
        options.setdefault("on_dynamic", "raise")
        model = sdbr.static_graph(model, backend=backend, **options)
        if whole_step:
            optimizer = sdbr.static_optimizer(optimizer)
    optimizer.setup(model)
    found = []
    for i in range(steps):
        optimizer.update(model, *batch(i))
        found.append(float(model.loss.array))
    return found, model


def check(effect, backend, traces=1, python_ops_at_least=1):
    want, plain = losses(effect, False)
    got, model = losses(effect, True, backend)
    np.testing.assert_allclose(got, want, rtol=RESULTS)
    statistics = model.schedule_manager.statistics
    assert (statistics.traces, statistics.replays) == (traces, 6 - traces)
    assert statistics.python_ops >= python_ops_at_least * statistics.replays
    return plain, model


@BACKENDS
def test_counter_as_in_the_example_of_chainer(backend):
    @sdbr.static_code
    def tick(self):
        self.count += 1

    def effect(net, h):
        tick(net)
        return h

    plain, static = check(effect, backend)
    assert static.predictor.count == plain.predictor.count == 6


@BACKENDS
def test_in_the_whole_step(backend):
    @sdbr.static_code
    def tick(self):
        self.count += 1

    def effect(net, h):
        tick(net)
        return h

    want, _ = losses(effect, False)
    got, model = losses(effect, True, backend, whole_step=True)
    np.testing.assert_allclose(got, want, rtol=RESULTS)
    assert model.predictor.count == 6
    assert model.schedule_manager.statistics.steps >= 4


@BACKENDS
def test_inputs_are_those_of_the_iteration_and_may_be_kept(backend):
    kept = []

    @sdbr.static_code
    def keep(log, inputs):
        log.append(inputs[0])

    def effect(net, h):
        keep(kept, inputs=[h.array])
        return h

    check(effect, backend)
    plain, static = kept[:6], kept[6:]
    assert len(static) == 6
    for a, b in zip(plain, static, strict=True):
        np.testing.assert_allclose(b, a, rtol=RESULTS, atol=LAST_BIT)


def test_variables_around_the_code_may_change():
    count = 0
    seen = {"largest": 0.0}

    @sdbr.static_code
    def look(inputs):
        nonlocal count
        count += 1
        seen["largest"] = float(inputs[0].max())

    def effect(net, h):
        look(inputs=[h.array])
        return h

    check(effect, "cython")
    assert count == 12


def test_a_list_among_the_attributes_may_grow():
    @sdbr.static_code
    def note(self, inputs):
        self.log.append(float(inputs[0].sum()))

    def effect(net, h):
        note(net, inputs=[h.array])
        return h

    logs = []
    for static in (False, True):
        np.random.seed(0)
        net = Net(effect)
        net.log = []
        f = sdbr.static_graph(net, on_dynamic="raise") if static else net
        for i in range(5):
            f(batch(i)[0])
        logs.append(net.log)
    np.testing.assert_allclose(logs[1], logs[0], rtol=RESULTS)
    assert f.schedule_manager.statistics.replays == 4


@BACKENDS
def test_returned_arrays_flow_on(backend):
    @sdbr.static_code(func_name="mask")
    def positive(inputs):
        (x,) = inputs
        return (x > 0).astype("f"), x.mean(axis=0)

    def effect(net, h):
        mask, mean = positive(inputs=[h.array])
        return h * mask - mean * 0.5

    _, static = check(effect, backend)
    (node,) = [n for n in static.schedule_manager.static_schedule.trace.nodes if n.effect]
    assert node.label == "static_code mask"


@BACKENDS
def test_outputs_made_in_the_call_start_as_they_were(backend):
    @sdbr.static_code
    def double(inputs, outputs):
        outputs[0] += 2 * inputs[0]

    def effect(net, h):
        y = np.ones((4, 5), "f")
        double(inputs=[h.array], outputs=[y])
        return h + y

    check(effect, backend)


@BACKENDS
def test_outputs_that_are_attributes_are_written_in_place(backend):
    @sdbr.static_code
    def running_mean(inputs, outputs):
        outputs[0] *= 0.9
        outputs[0] += 0.1 * inputs[0].mean(axis=0)

    def effect(net, h):
        running_mean(inputs=[h.array], outputs=[net.mean])
        return h - net.mean

    results = []
    for static in (False, True):
        np.random.seed(0)
        net = Net(effect)
        net.mean = mean = np.zeros(5, "f")
        f = sdbr.static_graph(net, backend=backend, on_dynamic="raise") if static else net
        outs = [f(batch(i)[0]).array for i in range(5)]
        assert net.mean is mean
        results.append((outs, mean.copy()))
    (plain, mean), (got, static_mean) = results
    np.testing.assert_allclose(got, plain, rtol=RESULTS, atol=ROUNDINGS)
    np.testing.assert_allclose(static_mean, mean, rtol=RESULTS, atol=LAST_BIT)
    assert f.schedule_manager.statistics.replays == 4


@BACKENDS
def test_outputs_that_are_results_are_changed_for_all_readers(backend):
    @sdbr.static_code
    def clear_first(outputs):
        outputs[0][:, 0] = 0

    def effect(net, h):
        h2 = h * 2
        clear_first(outputs=[h2.array])
        return h2 + h

    check(effect, backend)


@BACKENDS
def test_outputs_that_are_copies_leave_the_original_alone(backend):
    @sdbr.static_code
    def negate(outputs):
        outputs[0] *= -1

    def effect(net, h):
        y, z = h.array.copy(), h.array * 1.5
        negate(outputs=[y])
        negate(outputs=[z])
        return h * 2 + y + z

    check(effect, backend)


@BACKENDS
def test_a_view_as_output_is_dynamic(backend):
    @sdbr.static_code
    def negate(outputs):
        outputs[0] *= -1

    def effect(net, h):
        negate(outputs=[h.array[:, 0]])
        return h

    want, _ = losses(effect, False)
    with pytest.warns(sdbr.SdbrWarning, match="view of another array"):
        got, _ = losses(effect, True, backend, on_dynamic="fallback")
    np.testing.assert_allclose(got, want, rtol=RESULTS)


@BACKENDS
def test_variables_come_as_variables(backend):
    @sdbr.static_code
    def scale(x):
        assert isinstance(x, chainer.Variable)
        return (x.array.max(axis=1, keepdims=True),)

    def effect(net, h):
        (top,) = scale(h)
        return h / (1 + top)

    check(effect, backend)


def test_reports_inside_happen_once_per_call():
    @sdbr.static_code
    def tell(self, inputs):
        chainer.report({"norm": float(np.abs(inputs[0]).sum())}, self)

    def effect(net, h):
        tell(net, inputs=[h.array])
        return h

    class Counting(chainer.Reporter):
        reports = 0

        def report(self, values, observer=None):
            Counting.reports += 1
            super().report(values, observer)

    net = sdbr.static_graph(Net(effect), on_dynamic="raise")
    reporter = Counting()
    reporter.add_observer("net", net)
    for i in range(4):
        x, _ = batch(i)
        seen = {}
        with reporter.scope(seen):
            net(x)
        want = float(np.abs(F.relu(net.l1(x)).array).sum())
        np.testing.assert_allclose(seen["net/norm"], want, rtol=RESULTS)
        assert Counting.reports == i + 1
    assert net.schedule_manager.statistics.replays == 3


def test_random_draws_inside_keep_the_order():
    @sdbr.static_code
    def draw(inputs):
        return (np.random.standard_normal(inputs[0].shape).astype("f"),)

    def effect(net, h):
        h = F.dropout(h, 0.3)
        (noise,) = draw(inputs=[h.array])
        return F.dropout(h + noise, 0.3)

    check(effect, "cython")


def scaled_by(make):
    @sdbr.static_code
    def scale(inputs):
        return (inputs[0] * inputs[1],)

    def effect(net, h):
        (y,) = scale(inputs=[h.array, make()])
        return h + y

    return effect


def test_inputs_drawn_in_the_call_are_drawn_anew():
    check(scaled_by(lambda: np.random.standard_normal(5).astype("f")), "cython")


def test_unknown_input_that_changes_is_not_frozen():
    def effect():
        generator = np.random.RandomState(0)  # nobody but user code knows it
        return scaled_by(lambda: generator.standard_normal(5).astype("f"))

    want, _ = losses(effect(), False)
    with pytest.warns(sdbr.SdbrWarning, match="not static"):
        got, _ = losses(effect(), True, on_dynamic="fallback")
    np.testing.assert_allclose(got, want, rtol=RESULTS)


def test_attribute_read_outside_after_the_code_wrote_it():
    @sdbr.static_code
    def tick(self):
        self.count += 1

    def effect(net, h):
        tick(net)
        return h * net.count

    with pytest.raises(sdbr.NotStaticError, match="static_code wrote"):
        losses(effect, True)


def test_attribute_written_by_the_call_and_read_inside():
    @sdbr.static_code
    def look(self):
        self.count = float(self.h.array.sum())

    def effect(net, h):
        net.h = h
        look(net)
        return h

    with pytest.raises(sdbr.NotStaticError, match="read in static_code"):
        losses(effect, True)


def test_an_attribute_that_is_counted_beside_it():
    seen = []

    @sdbr.static_code
    def look(net):
        seen.append(net.count)

    def effect(net, h):
        look(net)
        net.count += 1
        return h

    _, plain = losses(effect, False)
    want = seen[:]
    seen.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sdbr.SdbrWarning)
        _, model = losses(effect, True, on_dynamic="fallback")
    assert (model.predictor.count, seen) == (plain.predictor.count, want)


def test_a_list_that_grows_outside_stays_dynamic():
    @sdbr.static_code
    def nothing():
        pass

    calls = []

    def effect(net, h):
        calls.append(len(calls))
        nothing()
        return h

    with pytest.raises(sdbr.NotStaticError, match="calls"):
        losses(effect, True)


def test_a_result_that_is_no_array_is_dynamic():
    @sdbr.static_code
    def value(inputs):
        return float(inputs[0].sum())

    def effect(net, h):
        return h * value(inputs=[h.array])

    with pytest.raises(sdbr.NotStaticError, match="value returned something else"):
        losses(effect, True)


def test_a_result_whose_shape_changes():
    @sdbr.static_code
    def some(inputs):
        return (inputs[0][inputs[0] > 0],)

    def effect(net, h):
        (y,) = some(inputs=[h.array])
        return h + F.sum(chainer.Variable(y))

    with pytest.raises(sdbr.NotStaticError, match="some returned"):
        losses(effect, True)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"inputs": np.zeros(3)}, "inputs: expected a list"),
        ({"inputs": [1.0]}, r"inputs\[0\]: expected an array, got float"),
        ({"outputs": [None]}, r"outputs\[0\]: expected an array, got NoneType"),
    ],
)
def test_wrong_arguments(kwargs, message):
    @sdbr.static_code
    def code(inputs=(), outputs=()):
        pass

    def effect(net, h):
        code(**kwargs)
        return h

    with pytest.raises(TypeError, match=message):
        losses(effect, True)


def test_outside_a_static_chain_it_is_a_plain_call():
    @sdbr.static_code
    def code(a, inputs):
        return a, inputs

    x = np.zeros(3)
    assert code(1, inputs=[x]) == (1, [x])
    assert code.__name__ == "code"
    with pytest.raises(TypeError, match="func: expected a function"):
        sdbr.static_code(3)


@BACKENDS
def test_an_exception_keeps_its_type_and_changes_nothing(backend):
    fail = []

    @sdbr.static_code
    def look(inputs):
        if fail:
            raise KeyError("here")

    def effect(net, h):
        look(inputs=[h.array])
        return h

    for whole_step in (False, True):
        _, model = losses(effect, True, backend, whole_step=whole_step)
        optimizer = sdbr.static_optimizer(chainer.optimizers.SGD(0.1)).setup(model)
        for i in range(3):
            optimizer.update(model, *batch(i))
        before = [p.array.copy() for p in model.params()]
        fail.append(True)
        with pytest.raises(KeyError, match="here"):
            optimizer.update(model, *batch(0))
        fail.clear()
        for p, q in zip(model.params(), before, strict=True):
            np.testing.assert_array_equal(p.array, q)
        replays = model.schedule_manager.statistics.replays
        optimizer.update(model, *batch(0))
        assert model.schedule_manager.statistics.replays == replays + 1


def test_writing_into_an_argument():
    @sdbr.static_code
    def count(outputs):
        outputs[0] += 1

    @sdbr.static_graph
    def f(x, n):
        count(outputs=[n])
        return F.relu(x) * n

    x, n, m = np.ones((2, 3), "f"), np.zeros(3, "f"), np.zeros((2, 2), "f")[:, 0]
    for i in range(1, 4):
        np.testing.assert_array_equal(f(x, n).array, np.full((2, 3), i))
        np.testing.assert_array_equal(n, np.full(3, i))
    assert f.schedule_manager.statistics.replays == 2
    with pytest.warns(sdbr.SdbrWarning, match="not C-contiguous"):
        f(x[:, :2], m)


def test_a_list_that_is_passed_stays_the_same_list():
    @sdbr.static_code
    def note(log, inputs):
        log.append(float(inputs[0].sum()))

    log = []

    @sdbr.static_graph
    def f(x):
        note(log, inputs=[x])
        return F.relu(x)

    for i in range(4):
        f(np.full((2,), i, "f"))
    assert log == [0, 2, 4, 6]


class Doubled(chainer.FunctionNode):
    """A user's function with static_code in both directions, as Chainer's documentation has it."""

    runs = ()

    @sdbr.static_code
    def double(self, inputs, outputs):
        outputs[0][...] = 2 * inputs[0]
        Doubled.runs += (inputs[0].sum(),)

    def forward(self, inputs):
        y = np.empty_like(inputs[0])
        self.double(inputs=[inputs[0]], outputs=[y])
        return (y,)

    def backward(self, indexes, gys):
        gx = np.empty_like(gys[0].array)
        self.double(inputs=[gys[0].array], outputs=[gx])
        return (chainer.Variable(gx),)


def test_in_forward_and_backward_of_a_function_node():
    def effect(net, h):
        return Doubled().apply((h,))[0]

    Doubled.runs = ()
    check(effect, "cython", python_ops_at_least=2)
    n = len(Doubled.runs)
    assert n == 24
    np.testing.assert_allclose(Doubled.runs[12:], Doubled.runs[:12], rtol=SUMS, atol=ROUNDINGS)


@BACKENDS
def test_beside_define_by_run(backend):
    @sdbr.static_code
    def scale(self, inputs, outputs):
        self.count += 1
        outputs[0][...] = inputs[0] * 2
        return (inputs[0].mean(axis=0),)

    def effect(net, h):
        y = np.empty_like(h.array)
        (mean,) = scale(net, inputs=[h.array], outputs=[y])
        return h + y - mean

    want, _ = losses(effect, False)
    got, model = losses(effect, True, backend, validate_every=2)
    np.testing.assert_allclose(got, want, rtol=RESULTS)
    assert model.schedule_manager.statistics.replays == 5
    assert model.predictor.count == 6


@BACKENDS
def test_a_parameter_that_changes_between_two_equal_functions(backend):
    @sdbr.static_code
    def grow(self, inputs):
        inputs[0][...] *= 1.25

    def effect(net, h):
        first = F.concat([net.l1.b, net.l1.b], 0)
        grow(net, inputs=[net.l1.b.array])
        second = F.concat([net.l1.b, net.l1.b], 0)
        return h * first[None, :5] + second[None, 5:]

    check(effect, backend)
