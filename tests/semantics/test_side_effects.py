"""Row 9: side effects happen in order; static_code, reports, writes, wherever they stand."""

import sdbr

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np
import pytest
from chainer import reporter

from tests.tolerances import RESULTS, ROUNDINGS, SUMS

X = np.arange(-3, 3, dtype="f").reshape(2, 3)


def replays(f):
    return f.schedule_manager.statistics.replays


def same(make, calls=4, traces=1):
    """Results and log of a function equal those of define-by-run, and all but `traces` replay."""
    plain_log: list = []
    plain = make(plain_log)
    want = [plain(X * i).array for i in range(calls)]
    log: list = []
    static = sdbr.static_graph(make(log), on_dynamic="raise")
    got = [static(X * i).array for i in range(calls)]
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=ROUNDINGS, atol=ROUNDINGS)
    assert log == plain_log
    statistics = static.schedule_manager.statistics
    assert (statistics.traces, statistics.replays) == (traces, calls - traces)
    return log


def test_code_inside_code_runs_once():
    def make(log):
        @sdbr.static_code
        def inner(inputs):
            log.append(("inner", float(inputs[0].sum())))

        @sdbr.static_code
        def outer(inputs):
            log.append("outer")
            inner(inputs=inputs)

        def f(x):
            y = F.relu(x)
            outer(inputs=[y.array])
            inner(inputs=[y.array])
            return y

        return f

    assert len(same(make)) == 12


def test_code_may_call_a_static_chain_and_the_very_one_it_belongs_to():
    @sdbr.static_graph
    def tanh(x):
        return F.tanh(x)

    def make(log):
        @sdbr.static_code
        def code(depth, inputs):
            log.append(depth)
            return (tanh(inputs[0]).array if depth else inputs[0],)

        def f(x):
            (y,) = code(1, inputs=[x])
            (z,) = code(0, inputs=[y])
            return F.relu(x) + z

        return f

    same(make)
    assert replays(tanh) == 6

    @sdbr.static_code
    def again(depth, inputs):
        return (deeper(inputs[0], depth - 1).array if depth else inputs[0],)

    @sdbr.static_graph(on_dynamic="raise")
    def deeper(x, depth):
        (y,) = again(depth, inputs=[x])
        return F.relu(x) + y

    for i in range(3):
        want = 3 * np.maximum(X * i, 0) + X * i
        np.testing.assert_array_equal(deeper(X * i, 2).array, want)
    assert replays(deeper) == 3  # the inner calls are traced one by one, when first replayed


def test_order_among_several_codes_and_draws():
    def make(log):
        np.random.seed(3)

        @sdbr.static_code(func_name="first")
        def first():
            log.append(("first", float(np.random.rand())))

        @sdbr.static_code(func_name="second")
        def second(inputs):
            log.append(("second", float(np.random.rand()), float(inputs[0].sum())))

        def f(x):
            first()
            y = F.dropout(x)
            second(inputs=[y.array])
            first()
            return F.dropout(y)

        return f

    assert len(same(make)) == 12


@pytest.mark.parametrize("kwargs", [{}, {"inputs": None, "outputs": None}, {"inputs": ()}])
def test_without_arrays(kwargs):
    def make(log):
        @sdbr.static_code()
        def code(inputs=None, outputs=None):
            log.append((inputs, outputs))

        def f(x):
            assert code(**kwargs) is None
            return F.relu(x)

        return f

    assert len(same(make)) == 4


def test_what_may_be_returned():
    def make(log):
        @sdbr.static_code
        def number(inputs):
            return inputs[0].sum()

        @sdbr.static_code
        def listed(inputs):
            return [inputs[0], inputs[0] * 2]

        @sdbr.static_code
        def nothing(inputs):
            log.append(inputs[0].shape)
            return ()

        def f(x):
            total = number(inputs=[x])
            p, q = listed(inputs=[x])
            assert nothing(inputs=[x]) == ()
            return F.relu(x) * total + p + q

        return f

    same(make)


def test_configuration_around_the_code():
    def make(log):
        @sdbr.static_code
        def note():
            log.append((chainer.config.train, chainer.config.enable_backprop))

        def f(x):
            note()
            with chainer.using_config("train", False), chainer.no_backprop_mode():
                note()
            return F.relu(x)

        return f

    assert same(make)[:2] == [(True, True), (False, False)]
    with chainer.using_config("train", False), chainer.no_backprop_mode():
        assert set(same(make)) == {(False, False)}


@pytest.mark.parametrize("shift", [0, 1], ids=["first in a replay", "in the trace, too"])
def test_writing_into_inputs_is_seen_by_those_that_come_after(shift):
    def make(log):
        @sdbr.static_code
        def double(inputs):
            inputs[0] *= 2

        def f(x):
            y = F.tanh(x + shift)
            double(inputs=[y.array])
            return y + 1

        return f

    same(make)


def test_writing_into_a_derived_array_for_the_first_time_in_a_replay():
    @sdbr.static_code
    def double(inputs):
        inputs[0] *= 2

    @sdbr.static_graph(on_dynamic="raise")
    def f(x):
        y = x * 3
        double(inputs=[y])
        return F.relu(y)

    f(X * 0)
    with pytest.raises(sdbr.NotStaticError, match=r"array 0 .* hand it over in outputs"):
        f(X)


def test_writing_into_a_new_array_that_is_not_among_the_outputs():
    @sdbr.static_code
    def fill(inputs):
        inputs[1][...] = inputs[0]

    @sdbr.static_graph
    def f(x):
        y = np.zeros_like(x)
        fill(inputs=[x, y])
        return F.relu(x) + y

    with pytest.warns(sdbr.SdbrWarning, match="not among its outputs"):
        f(X)
    for i in range(3):
        np.testing.assert_array_equal(f(X * i).array, np.maximum(X * i, 0) + X * i)


def test_wrong_number_of_arguments_is_the_error_of_python():
    @sdbr.static_code
    def code(inputs):
        pass

    @sdbr.static_graph
    def f(x, ok):
        if ok:
            code(inputs=[x])
        else:
            code(inputs=[x], outputs=[x])
        return F.relu(x)

    with pytest.raises(TypeError, match="unexpected keyword argument 'outputs'"):
        f(X, False)
    for _ in range(3):
        f(X, True)
    assert replays(f) == 2


def test_raising_while_traced_leaves_nothing_behind():
    broken = [True]

    @sdbr.static_code
    def code(inputs):
        if broken:
            raise KeyError("here")

    @sdbr.static_graph(on_dynamic="raise")
    def f(x):
        code(inputs=[x])
        return F.relu(x)

    with reporter.Reporter().scope({}), pytest.raises(KeyError, match="here"):
        f(X)
    assert not chainer.reporter._get_reporters()
    broken.clear()
    for i in range(3):
        np.testing.assert_array_equal(f(X * i).array, np.maximum(X * i, 0))
    assert replays(f) == 2


class Reports(chainer.Chain):
    """Reports inside and outside of static_code, with other observers and kinds of values."""

    def __init__(self, effect):
        super().__init__()
        with self.init_scope():
            self.inner = L.Linear(3, 2, initialW=1)
        self.effect = effect

    def forward(self, x):
        y = F.sum(self.inner(x))
        self.effect(self, y)
        return y


def observed(effect, static):
    model = Reports(effect)
    if static:
        model = sdbr.static_graph(model, on_dynamic="raise")
    r = chainer.Reporter()
    r.add_observer("main", model)
    r.add_observer("inner", model.inner)
    found = []
    for i in range(4):
        observation: dict = {}
        if i != 2:  # reports outside of any scope go nowhere
            with r.scope(observation):
                model(X * i)
        else:
            model(X * i)
        found.append({k: float(getattr(v, "array", v)) for k, v in observation.items()})
    if static:
        assert model.schedule_manager.statistics.define_by_run_calls == 0
        assert model.schedule_manager.statistics.replays >= 2
    return found


@sdbr.static_code
def report_number(self, inputs):
    reporter.report({"from_code": float(inputs[0]), "both": 1.0}, self)


def report_all_kinds(self, y):
    report_number(self, inputs=[y.array])
    reporter.report({"variable": y, "array": y.array, "both": y * 2}, self)
    reporter.report({"number": 3, "float": 0.5}, self.inner)
    chainer.report({"unnamed": y})
    reporter.report({"array": y.array * 2}, self)


def report_in_a_scope(self, y):
    outer = chainer.reporter.get_current_reporter() if reporter._get_reporters() else None
    report_number(self, inputs=[y.array])
    reporter.report({"outer": y}, self)
    del outer


@pytest.mark.parametrize("effect", [report_all_kinds, report_in_a_scope])
def test_reports(effect):
    want, got = observed(effect, False), observed(effect, True)
    assert got == want
    assert want[1]["main/from_code"] == want[1].get("unnamed", want[1]["main/from_code"])


def test_a_name_that_the_call_reports_first_and_the_code_again():
    def effect(self, y):
        reporter.report({"both": y}, self)
        report_number(self, inputs=[y.array])

    want = observed(effect, False)
    model = sdbr.static_graph(Reports(effect))
    r = chainer.Reporter()
    r.add_observer("main", model)
    for i in range(3):
        observation: dict = {}
        with r.scope(observation):
            if i:
                model(X * i)
            else:
                with pytest.warns(sdbr.SdbrWarning, match="reports 'both', which the call"):
                    model(X * i)
        assert float(observation["main/both"]) == 1.0 == want[0]["main/both"]


class Halved(chainer.FunctionNode):
    """static_code in forward and backward, each returning its arrays."""

    log = ()

    @sdbr.static_code(func_name="halve")
    def halve(self, what, inputs):
        Halved.log += ((what, float(inputs[0].sum())),)
        return (inputs[0] / 2,)

    def forward(self, inputs):
        return self.halve("forward", inputs=[inputs[0]])

    def backward(self, indexes, gys):
        (gx,) = self.halve("backward", inputs=[gys[0].array])
        return (chainer.Variable(gx),)


def test_returned_arrays_in_a_function_node_in_the_order_of_the_backward():
    def run(static):
        Halved.log = ()

        def f(x):
            y = Halved().apply((x,))[0]
            z = Halved().apply((y * 3,))[0]
            return F.sum(z)

        call = sdbr.static_graph(f, on_dynamic="raise") if static else f
        grads = []
        for i in range(4):
            x = chainer.Variable(X * i)
            call(x).backward()
            grads.append(x.grad)
        return Halved.log, grads, call

    want, want_grads, _ = run(False)
    got, got_grads, call = run(True)
    assert got == want and len(want) == 16
    np.testing.assert_array_equal(got_grads, want_grads)
    assert replays(call) == 3


def test_a_scope_of_reports_inside_the_call_is_its_own_affair():
    class Scoped(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.l = L.Linear(3, 2, initialW=1)

        def forward(self, x):
            seen = {}
            with reporter.report_scope(seen):
                reporter.report({"inside": F.sum(self.l(x))})
            reporter.report({"outside": F.sum(x)}, self)
            return seen["inside"] * 2

    static = sdbr.static_graph(Scoped(), on_dynamic="raise")
    r = chainer.Reporter()
    r.add_observer("main", static)
    for i in range(3):
        observation: dict = {}
        with r.scope(observation):
            assert float(static(X * i).array) == 4 * i * X.sum()
        assert {k: float(v.array) for k, v in observation.items()} == {"main/outside": i * X.sum()}
    assert static.schedule_manager.statistics.replays == 2


@pytest.mark.parametrize("where", ["attribute", "argument", "inside a list", "computed"])
def test_numbers_that_are_handed_over_may_change(where):
    class Scaled(chainer.Chain):
        def __init__(self):
            super().__init__()
            self.scale = 1.0

        @sdbr.static_code
        def multiply(self, numbers, inputs):
            number = numbers[0] if isinstance(numbers, list) else numbers
            assert type(number) is float
            return (inputs[0] * number,)

        def forward(self, x, scale):
            number = scale if where == "argument" else self.scale
            number = number * 2 - 1 if where == "computed" else number
            number = [number, 3] if where == "inside a list" else number
            (y,) = self.multiply(number, inputs=[x])
            return F.relu(x) + y

    static = sdbr.static_graph(Scaled(), on_dynamic="raise")
    for scale in (1.0, 2.5, -0.5, 2.5):
        static.scale = scale
        got = static(X, scale if where == "argument" else 7.0).array
        factor = 2 * scale - 1 if where == "computed" else scale
        np.testing.assert_allclose(got, np.maximum(X, 0) + X * np.float32(factor), rtol=ROUNDINGS)
    assert static.schedule_manager.statistics.traces == 1


class Ordered(chainer.Chain):
    """Reads and writes parameters and persistent values between the ops that use them."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l = L.Linear(3, 4)
            self.bn = L.BatchNormalization(4)
            self.m = L.Linear(4, 1)
        self.seen = ()

    @sdbr.static_code
    def look(self, where):
        weight, mean = float(self.l.W.array.sum()), float(self.bn.avg_mean.sum())
        self.seen = (*self.seen, (ord(where), weight, mean))

    @sdbr.static_code
    def clip(self):
        self.l.W.array[...] = np.clip(self.l.W.array, -0.3, 0.3)

    @sdbr.static_code
    def halve(self):
        self.bn.avg_mean *= 0.5

    def forward(self, x):
        self.look("a")
        self.clip()
        self.look("b")
        h = self.bn(self.l(x))
        self.look("c")
        self.halve()
        with chainer.using_config("train", False):
            k = self.bn(h)
        self.look("d")
        return F.sum(self.m(F.relu(h) + k))


@pytest.mark.parametrize("whole", [False, True], ids=["parts", "whole step"])
def test_order_among_writes_to_parameters_and_persistent_values(whole):
    def run(static):
        np.random.seed(0)
        model = Ordered()
        optimizer = chainer.optimizers.SGD(0.1)
        if static:
            model = sdbr.static_graph(model, on_dynamic="raise")
            optimizer = sdbr.static_optimizer(optimizer) if whole else optimizer
        optimizer.setup(model)
        rng = np.random.RandomState(1)
        for _ in range(6):
            optimizer.update(model, rng.randn(4, 3).astype("f"))
        return [p.array for p in model.params()] + [model.bn.avg_mean, model.bn.avg_var], model

    want, plain = run(False)
    got, static = run(True)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=SUMS, atol=RESULTS)
    assert len(plain.seen) == 24
    np.testing.assert_allclose(static.seen, plain.seen, rtol=SUMS, atol=RESULTS)
    statistics = static.schedule_manager.statistics
    assert (statistics.replays, statistics.steps) == (5, 5 if whole else 0)


class Meddling(chainer.Chain):
    """Does things in its forward that no schedule repeats."""

    def __init__(self, meddle):
        super().__init__()
        self.meddle = meddle
        with self.init_scope():
            self.layer = L.Linear(4, 3)

    def forward(self, x):
        self.meddle(self.layer.W)
        return F.dropout(self.layer(x))


def shrink(w):
    w.array = w.array * 0.5


def shrink_data(w):
    w.data = w.data * 0.5


def copy_data(w):
    w.copydata(chainer.Variable(np.ones((3, 4), "f")))


def clear(w):
    w.cleargrad()


def reseed(w):
    np.random.seed(7)


@pytest.mark.parametrize("meddle", [shrink, shrink_data, copy_data, clear, reseed])
def test_effects_of_a_call_are_not_lost(meddle):
    x = np.random.RandomState(0).randn(5, 4).astype("f")
    model = Meddling(meddle)
    static = sdbr.static_graph(model.copy("copy"))
    with pytest.warns(sdbr.SdbrWarning, match="not static"):
        for _ in range(4):
            results = []
            for each in (model, static):
                np.random.seed(0)
                each.layer.W.grad = np.ones((3, 4), "f")
                results.append((each(x).array, each.layer.W.array.copy(), each.layer.W.grad))
            for got, want in zip(*results, strict=True):
                np.testing.assert_equal(got, want)
