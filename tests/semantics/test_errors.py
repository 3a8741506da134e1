"""Row 20: clear errors that name what is wrong, and schedules that stay usable."""

from __future__ import annotations

import collections
import re
import warnings

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.comparison import BACKENDS, assert_all_near, assert_near, copy_of, state_of
from tests.harness.models import MLP, Net, floats
from tests.harness.nodes import Moody
from tests.harness.twins import X, counts, mlp, step
from tests.tolerances import HALF_GRADIENTS, HALF_RESULTS, RESULTS, ROUNDINGS, SUMS


# --- arguments and results ----------------------------------------------------------------------
class Strange:
    pass


@pytest.mark.parametrize(
    ("args", "kwargs", "name"),
    [
        ((X, Strange()), {}, r"argument 1 .*Strange"),
        ((X, [X, Strange()]), {}, r"argument 1\[1\] .*Strange"),
        ((X, {"a": (X, {1, 2})}), {}, r"argument 1\['a'\]\[1\] .*set"),
        ((X,), {"extra": Strange()}, r"argument 'extra' .*Strange"),
    ],
)
def test_arguments_that_cannot_be_traced(args, kwargs, name):
    static = sdbr.static_graph(lambda x, extra=None: F.relu(x), on_dynamic="raise")
    with pytest.raises(sdbr.TraceError, match=name):
        static(*args, **kwargs)
    assert_near(static(X).array, np.maximum(X, 0), 0, "output")
    assert_near(static(X).array, np.maximum(X, 0), 0, "output")
    assert static.schedule_manager.statistics.replays == 1


def test_results_that_cannot_be_traced():
    static = sdbr.static_graph(lambda x: {"y": F.relu(x), "z": Strange()}, on_dynamic="raise")
    with pytest.raises(sdbr.NotStaticError, match=r"the result\['z'\] .*Strange"):
        static(X)


def test_a_gradient_that_is_none_as_a_variable():
    """Without backprop ``chainer.grad`` gives None, of which functions make a Variable."""

    class Net(chainer.Chain):
        def forward(self, x):
            h = x * 2
            [g] = chainer.grad([F.sum(h * h)], [h], enable_double_backprop=True)
            return F.identity(g), h

    static, x = sdbr.static_graph(Net()), chainer.Variable(np.ones((2, 3), "f"))
    with chainer.using_config("enable_backprop", False):
        with pytest.warns(sdbr.SdbrWarning, match="a Variable without an array"):
            first = static(x)
        for g, h in (first, static(x)):
            assert g.array is None
            assert_near(h.array, 2 * x.array, RESULTS, "result")
    for _ in range(3):
        g, _ = static(x)
        assert_near(g.array, 4 * x.array, RESULTS, "gradient")
    assert counts(static) == (2, 2, 1)


def test_cyclic_containers_end():
    cycle: list = []
    cycle.append(cycle)
    static = sdbr.static_graph(lambda x, more: F.relu(x), on_dynamic="raise")
    with pytest.raises(sdbr.TraceError, match="nested more than"):
        static(X, cycle)


Pair = collections.namedtuple("Pair", "first second")


def test_containers_come_back_with_their_types():
    def f(x, pair):
        assert isinstance(pair, Pair)
        ordered = collections.OrderedDict(b=F.relu(x), a=pair.first)
        found = collections.defaultdict(list, n=[x])
        return Pair(ordered, found), [(), {}, None, 1, 2.5, "s", True]

    static = sdbr.static_graph(f)
    for _ in range(4):
        (ordered, found), rest = static(X, Pair(X, None))
        assert type(ordered) is collections.OrderedDict and list(ordered) == ["b", "a"]
        assert type(found) is collections.defaultdict and found["other"] == []
        assert rest == [(), {}, None, 1, 2.5, "s", True] and ordered["a"] is X
    assert static.schedule_manager.statistics.replays >= 2


def test_decorator_arguments():
    for wrong, error in (
        ({"backend": "tpu"}, sdbr.BackendError),
        ({"on_dynamic": "ignore"}, ValueError),
        ({"memory": "small"}, ValueError),
        ({"max_schedules": 0}, ValueError),
        ({"verbosity_level": "loud"}, ValueError),
        ({"validate_every": -1}, ValueError),
        ({"unknown": 1}, TypeError),
    ):
        with pytest.raises(error, match=next(iter(wrong))):
            sdbr.static_graph(mlp(), **wrong)
    with pytest.raises(TypeError, match=r"target: expected .* got int"):
        sdbr.static_graph(3)
    with pytest.raises(TypeError, match="neither forward nor __call__"):
        sdbr.static_graph(chainer.Link())


# --- backends and devices -----------------------------------------------------------------------
def test_unknown_backend():
    static = sdbr.static_graph(mlp())
    wrong = r"expected one of auto, cython, numpy, cuda, off, got 'tpu'"
    with pytest.raises(sdbr.BackendError, match=wrong), chainer.using_config("sdbr_backend", "tpu"):
        static(X)
    assert static(X).shape == (5, 3)


def test_cuda_is_not_available_for_numpy_arrays():
    static = sdbr.static_graph(mlp(), backend="cuda")
    with pytest.raises(sdbr.BackendError, match=r"cuda.*available: .*cython.*numpy"):
        static(X)


def test_mixed_devices(monkeypatch):
    class Foreign:
        shape, dtype, ndim = (5, 4), np.dtype("f"), 2

    types = chainer.get_array_types()
    monkeypatch.setattr(chainer, "get_array_types", lambda: (*types, Foreign))
    static = sdbr.static_graph(lambda x, y: x)
    with pytest.raises(sdbr.BackendError, match=r"mix NumPy arrays and arrays of .*test_errors"):
        static(X, Foreign())


# --- dtypes -------------------------------------------------------------------------------------
@pytest.mark.parametrize("backend", BACKENDS)
def test_half_precision_is_native(backend):
    def make():
        np.random.seed(0)
        with chainer.using_config("dtype", np.float16):
            return L.Classifier(MLP(4, 8, 3))

    plain, static = make(), sdbr.static_graph(make(), backend=backend, on_dynamic="raise")
    t = np.array([0, 1, 2, 0, 1], "i")
    for i in range(4):
        x = (X + i).astype(np.float16)
        for model in (plain, static):
            model.cleargrads()
            model(x, t).backward()
        assert static.loss.dtype == plain.loss.dtype
        assert_near(static.loss.array, plain.loss.array, HALF_RESULTS, "loss")
        for p, q in zip(static.params(), plain.params(), strict=True):
            assert_near(p.grad, q.grad, HALF_GRADIENTS, "gradient")
    assert static.schedule_manager.statistics.replays == 3
    assert static.schedule_manager.statistics.python_ops == 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_not_native_in_half_precision_runs_as_python_ops(backend):
    static = sdbr.static_graph(lambda x: F.softplus(F.relu(x)), backend=backend, on_dynamic="raise")
    for i in range(4):
        x = (X + i).astype(np.float16)
        np.testing.assert_array_equal(static(x).array, F.softplus(F.relu(x)).array)
    assert static.schedule_manager.statistics.replays == 3
    assert static.schedule_manager.statistics.python_ops == 3
    nodes = static.schedule_manager.static_schedule.forward.lowered.nodes
    assert [("float16" in node.reason) for node in nodes] == [False, True]


@pytest.mark.parametrize("backend", BACKENDS)
def test_mixed_precision_and_integers(backend):
    def f(x, n):
        h = F.cast(x, "d") * 2
        return F.cast(h, "f"), n * 2, F.sum(h), n == 3

    static = sdbr.static_graph(f, backend=backend, on_dynamic="raise")
    for i in range(4):
        n = np.arange(6).reshape(2, 3) + i
        got, want = static(X, n), f(X, n)
        for g, w in zip(got, want, strict=True):
            assert_near(getattr(g, "array", g), getattr(w, "array", w), ROUNDINGS, "output")
    assert static.schedule_manager.statistics.replays == 3


# --- data ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("bad", [3, 99, -7])
def test_labels_out_of_range_update_nothing(bad, backend):
    np.random.seed(0)
    model = sdbr.static_graph(L.Classifier(MLP(4, 8, 3)), backend=backend, on_dynamic="raise")
    optimizer = sdbr.static_optimizer(chainer.optimizers.Adam()).setup(model)
    good = np.array([0, 1, 2, 0, 1], "i")
    wrong = good.copy()
    wrong[3] = bad
    with chainer.using_config("sdbr_backend", backend):
        for _ in range(3):
            optimizer.update(model, X, good)
        assert model.schedule_manager.statistics.steps == 2
        before, t = state_of(model), optimizer.t
        rules = [(p.update_rule.t, copy_of(p.update_rule.state["m"])) for p in model.params()]
        for _ in range(2):
            with pytest.raises(IndexError) as caught:
                optimizer.update(model, X, wrong)
            assert str(bad) in str(caught.value)
            after = state_of(model)
            # model.loss and its kind are the only things that may have been computed.
            for name in before.keys() - {"//loss", "//y", "//accuracy"}:
                np.testing.assert_array_equal(after[name], before[name])
            assert optimizer.t == t
            for p, (rule_t, m) in zip(model.params(), rules, strict=True):
                assert p.update_rule.t == rule_t
                np.testing.assert_array_equal(p.update_rule.state["m"], m)
        optimizer.update(model, X, good)
        assert optimizer.t == t + 1
    twin = L.Classifier(MLP(4, 8, 3))
    twin.copyparams(model)
    assert_near(model(X, good).array, twin(X, good).array, RESULTS, "loss")


@pytest.mark.parametrize("backend", BACKENDS)
def test_labels_out_of_range_in_a_call(backend):
    static = sdbr.static_graph(lambda x, t: F.softmax_cross_entropy(x, t), backend=backend)
    good = np.array([0, 1, 2, 0, -1], "i")
    want = F.softmax_cross_entropy(X, good).array
    for _ in range(2):
        static(X, good)
        with pytest.raises(
            IndexError, match=r"softmax_cross_entropy|SoftmaxCrossEntropy|out of"
        ) as caught:
            static(X, good + 4)
        assert_near(static(X, good).array, want, RESULTS, "loss")
    text = "".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
    assert "test_errors.py" in text and "[5,4" in text.replace(" ", "")


# --- errors inside ------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("whole_step", [False, True])
def test_an_error_in_a_python_op(backend, whole_step, monkeypatch):
    def forward(self, x):
        return F.sum(Moody().apply((self.l(x),))[0] ** 2)

    model = sdbr.static_graph(Net(forward, l=L.Linear(4, 3)), backend=backend, on_dynamic="raise")
    twin = Net(forward, l=L.Linear(4, 3))
    twin.copyparams(model)
    optimizer = chainer.optimizers.Adam()
    if whole_step:
        optimizer = sdbr.static_optimizer(optimizer)
    optimizer.setup(model)
    other = chainer.optimizers.Adam().setup(twin)
    with chainer.using_config("sdbr_backend", backend):
        for i in range(9):
            mood = {3: "forward", 5: "backward"}.get(i, "good")
            monkeypatch.setattr(Moody, "mood", mood)
            if mood != "good":
                before = state_of(model)
                with pytest.raises(ZeroDivisionError, match=f"{mood} is moody") as caught:
                    optimizer.update(model, X + i)
                text = "".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
                assert "test_errors.py" in text and "Moody" in text
                assert_all_near(state_of(model), before, 0, "state")
                assert optimizer.t == other.t
                continue
            optimizer.update(model, X + i)
            other.update(twin, X + i)
            assert_all_near(state_of(model), state_of(twin), SUMS, f"step {i}")
    statistics = model.schedule_manager.statistics
    assert statistics.traces == 1
    assert statistics.steps == (6 if whole_step else 0)


def test_an_error_in_the_traced_call(monkeypatch):
    static = sdbr.static_graph(lambda x: Moody().apply((x,))[0])
    with monkeypatch.context() as patch:
        patch.setattr(Moody, "mood", "forward")
        with pytest.raises(ZeroDivisionError, match="forward is moody"):
            static(X)
    for _ in range(3):
        assert_near(static(X).array, X * 2, 0, "output")
    assert static.schedule_manager.statistics.replays == 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_wrong_shapes_fail_as_in_define_by_run(backend):
    static = sdbr.static_graph(mlp(), backend=backend)
    step(static, X)
    step(static, X)
    with pytest.raises(chainer.utils.type_check.InvalidType):
        static(floats(5, 3)(np.random.RandomState(0)))
    step(static, X)
    assert static.schedule_manager.statistics.replays == 2


def test_second_derivative_names_the_switch():
    static = sdbr.static_graph(lambda x: F.sum(F.tanh(x) ** 2))
    for i in range(3):
        x = chainer.Variable(X)
        y = static(x)
        (g,) = chainer.grad([y], [x], enable_double_backprop=True)
        if i == 0:
            continue
        with pytest.raises(sdbr.SdbrError, match="enable_double_backprop=True"):
            F.sum(g * g).backward()


def test_double_backprop_with_the_switch():
    def f(x):
        return F.sum(F.tanh(x) ** 2)

    static = sdbr.static_graph(f, enable_double_backprop=True)
    for _ in range(3):
        found = []
        for function in (f, static):
            x = chainer.Variable(X)
            (g,) = chainer.grad([function(x)], [x], enable_double_backprop=True)
            F.sum(g * g).backward()
            found.append(copy_of(x.grad))
        assert_near(found[1], found[0], SUMS, "second derivative")


# --- what an error of an op says ------------------------------------------------------------------
def told(error) -> str:
    """The message and the notes of an exception."""
    return "\n".join([str(error), *getattr(error, "__notes__", [])])


EMBED = L.EmbedID(10, 4)
INDICES = np.array([0, 1, 2, 3, 0], "i")


def with_bad(array, value=99):
    array = array.copy()
    array[2] = value
    return array


OPS = {
    "SoftmaxCrossEntropy": lambda x, i: F.softmax_cross_entropy(x, i),
    "SelectItem": lambda x, i: F.select_item(x, i),
    "EmbedIDFunction": lambda x, i: EMBED(i) + x,
    "GetItem": lambda x, i: F.get_item(x, (i,)),
    "Permutate": lambda x, i: F.permutate(x, np.zeros(5, "i") + i),
    "ScatterAdd": lambda x, i: F.scatter_add(x, (i,), np.ones((5, 4), "f")),
    "Hinge": lambda x, i: F.hinge(x, i),
    "numpy take": lambda x, i: F.relu(x) * np.take(np.arange(5, dtype="f"), i)[:, None],
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("label", OPS)
def test_an_index_from_data_names_the_op(label, backend):
    """IndexError as in define-by-run, with program, op, index, shapes and the user's line."""
    function = OPS[label]
    static = sdbr.static_graph(function, backend=backend)
    want = function(X, INDICES)
    for _ in range(3):
        static(X, INDICES)
    bad = with_bad(INDICES)
    with pytest.raises(IndexError):
        function(X, bad)
    for _ in range(2):
        with pytest.raises(IndexError) as caught:
            static(X, bad)
        text = told(caught.value)
        assert (
            re.search(rf"; {label}( EMBED)? at ", text)
            and "test_errors.py" in text
            and "99" in text
        )
        assert "in forward, op " in text and "int32[5" in text
        replays = static.schedule_manager.statistics.replays
        assert_near(static(X, INDICES).array, want.array, RESULTS, "output")
        assert static.schedule_manager.statistics.replays == replays + 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_type_check_in_a_python_op_names_the_op(backend, monkeypatch):
    """An exception that Chainer itself raises inside a replay keeps its type."""
    monkeypatch.setattr(Moody, "mood", "good")
    static = sdbr.static_graph(lambda x: Moody().apply((x,))[0], backend=backend)
    for _ in range(3):
        static(X)

    def check(self, in_types):
        chainer.utils.type_check.expect(in_types[0].ndim == 7)

    with monkeypatch.context() as patch:
        patch.setattr(Moody, "check_type_forward", check)
        with pytest.raises(chainer.utils.type_check.InvalidType) as caught:
            static(X)
    text = told(caught.value)
    assert "op 0 python" in text and "float32[5,4]" in text and "test_errors.py" in text
    assert_near(static(X).array, 2 * X, 0, "output")


def test_an_error_without_a_text_keeps_its_arguments(monkeypatch):
    monkeypatch.setattr(Moody, "mood", "good")
    static = sdbr.static_graph(lambda x: Moody().apply((x,))[0])
    for _ in range(3):
        static(X)

    def forward(self, inputs):
        raise KeyError(3, "x")

    with monkeypatch.context() as patch:
        patch.setattr(Moody, "forward", forward)
        with pytest.raises(KeyError) as caught:
            static(X)
    assert caught.value.args[0] == 3


def test_the_first_call_fails_as_in_define_by_run():
    for label, function in OPS.items():
        static = sdbr.static_graph(function)
        for _ in range(2):
            with pytest.raises(IndexError):
                static(X, with_bad(INDICES))
        for _ in range(3):
            static(X, INDICES)
        assert static.schedule_manager.statistics.replays == 2, label


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: sdbr.static_code(3), TypeError, "func: expected a function.*got int"),
        (lambda: sdbr.static_optimizer(3), TypeError, "optimizer: expected .*got int"),
        (
            lambda: sdbr.static_optimizer(chainer.optimizers.Adam),
            TypeError,
            "got the class Adam",
        ),
        (lambda: sdbr.explain(3), TypeError, "obj: expected a link.*got int"),
        (lambda: sdbr.profile("x"), TypeError, "obj: expected a link.*got str"),
        (lambda: sdbr.static_graph(None)(None), TypeError, "target: expected .*got NoneType"),
    ],
)
def test_arguments_of_the_public_functions(call, error, text):
    """The argument, what was expected, what came."""
    with pytest.raises(error, match=text):
        call()


def test_there_is_a_manager_before_the_first_call():
    class Decorated(Net):
        @sdbr.static_graph
        def predict(self, x):
            return self.forward(x)

        @sdbr.static_graph
        def __call__(self, x):
            return self.forward(x)

    net = Decorated(lambda self, x: F.relu(x))
    assert net.schedule_manager.name == "Decorated.__call__"
    assert net.static_schedule is None
    assert net.schedule_manager is net.schedule_manager
    for _ in range(3):
        net(X)
    assert net.schedule_manager.statistics.replays == 2
    copied = net.copy()
    assert copied.schedule_manager is not net.schedule_manager
    assert copied.schedule_manager.statistics.calls == 0 and copied.static_schedule is None
    assert not hasattr(chainer.Chain(), "schedule_manager")
    with chainer.using_config("use_static_graph", False):
        assert not hasattr(Decorated(None), "schedule_manager")  # as in Chainer


def test_an_entry_of_the_configuration_that_is_no_setting():
    static = sdbr.static_graph(lambda x: F.relu(x))
    static(X)
    with (
        chainer.using_config("sdbr_bakend", "numpy"),
        pytest.warns(
            sdbr.SdbrWarning,
            match=r"chainer\.config\.sdbr_bakend is no setting; did you mean sdbr_backend\?",
        ) as told,
    ):
        for _ in range(3):
            static(X)
    assert len(told) == 1
    with chainer.using_config("sdbrx", 1), warnings.catch_warnings():
        warnings.simplefilter("error")  # a user's own
        static(X)
