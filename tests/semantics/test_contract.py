"""The semantics that replay preserves, one test per row of the contract, in its order.

Each is the shortest example of its row; the other files of this directory go through the cases.
"""

from __future__ import annotations

import copy
import sys

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L
from chainer import optimizers

from tests.harness.comparison import assert_all_near, assert_near, copy_of, gradients_of
from tests.harness.models import MLP, Net, Recurrent, floats
from tests.harness.threads import in_threads
from tests.harness.twins import X, mlp, pair, step
from tests.tolerances import GRADIENTS, RESULTS, ROUNDINGS, SUMS


def replays(model):
    return model.schedule_manager.statistics.replays


def test_row_01_iteration_1_computes_once():
    runs = []

    class Counted(chainer.FunctionNode):
        def forward(self, inputs):
            runs.append("forward")
            return (inputs[0] * 2,)

        def backward(self, indexes, grads):
            runs.append("backward")
            return (grads[0] * 2,)

    static = sdbr.static_graph(lambda x: F.sum(Counted().apply((x,))[0]))
    for i in range(3):
        static(chainer.Variable(X)).backward()
        assert runs == ["forward", "backward"] * (i + 1)


def test_row_02_random_numbers():
    static = sdbr.static_graph(lambda x: F.gaussian(F.dropout(x), x))
    for seed in range(3):
        found = []
        for f in (static, lambda x: F.gaussian(F.dropout(x), x)):
            np.random.seed(seed)
            v = chainer.Variable(X)
            found.append([f(v).array, f(v).array, np.random.rand(2)])
        for a, b in zip(*found, strict=True):
            assert_near(a, b, ROUNDINGS, "draw")
        assert not np.array_equal(found[0][0], found[0][1])


def test_row_03_what_the_user_holds_never_changes():
    static = sdbr.static_graph(mlp())
    kept = []
    for i in range(5):
        y = static(X + i)
        static.cleargrads()
        F.sum(y).backward()
        kept += [(y.array, y.array.copy()), (static.l1.W.grad, static.l1.W.grad.copy())]
    for array, then in kept:
        np.testing.assert_array_equal(array, then)


def test_row_04_inputs():
    """Caller arrays are held until the backward has run, and never written."""
    static = sdbr.static_graph(Net(lambda self, x: F.sum(self.l(x) ** 2), l=L.Linear(4, 3)))
    for _ in range(3):
        x = X.copy()
        before = sys.getrefcount(x)
        loss = static(x)
        assert sys.getrefcount(x) >= before
        static.cleargrads()
        loss.backward()
        np.testing.assert_array_equal(x, X)
        # An array replaced in a Variable between forward and backward is what backward sees.
        v = chainer.Variable(X.copy())
        loss = static(v)
        v.array = X * 2
        static.cleargrads()
        loss.backward()
        twice = gradients_of(static)
        want = Net(lambda self, x: F.sum(self.l(x) ** 2), l=static.l)
        w = chainer.Variable(X.copy())
        loss = want(w)
        w.array = X * 2
        want.cleargrads()
        loss.backward()
        assert_all_near(twice, gradients_of(want), GRADIENTS, "gradient")


def test_row_05_parameters_stay_the_users_arrays():
    static = sdbr.static_graph(mlp())
    optimizer = sdbr.static_optimizer(optimizers.SGD(0.1)).setup(static)
    loss = sdbr.static_graph(lambda x: F.sum(static(x) ** 2))
    held = static.l1.W.array
    for _ in range(4):
        optimizer.update(loss, X)
    assert static.l1.W.array is held
    assert loss.schedule_manager.statistics.steps == 3
    twin = copy.deepcopy(static)
    twin(X)
    assert twin.schedule_manager.owner() is twin


def test_row_06_gradients():
    plain, static = pair(mlp)
    for _ in range(3):
        found = []
        for model in (plain, static):
            model.cleargrads()
            F.sum(model(X)).backward()
            F.sum(model(X * 2)).backward(loss_scale=2.0)
            found.append(gradients_of(model))
        assert_all_near(found[1], found[0], GRADIENTS, "gradient")


def test_row_07_several_calls_in_one_iteration():
    plain, static = pair(mlp)
    for _ in range(3):
        found = []
        for model in (plain, static):
            ys = [model(X * k) for k in (1, 2, 3)]
            model.cleargrads()
            F.sum(ys[0] * ys[1] * ys[2]).backward()
            found.append(gradients_of(model))
        assert_all_near(found[1], found[0], GRADIENTS, "gradient")


def test_row_08_state_outside_the_arguments():
    plain, static = pair(Recurrent)
    rng = np.random.RandomState(0)
    for i in range(6):
        x = floats(2, 3)(rng)
        assert_near(static(x).array, plain(x).array, RESULTS, f"call {i}")
        assert_near(static.rnn.c.array, plain.rnn.c.array, RESULTS, f"state {i}")
    assert replays(static) == 4


def test_row_09_side_effects_in_order():
    def forward(self, x):
        chainer.report({"a": F.sum(x)}, self)
        self.latest = self.l(x)
        chainer.report({"b": F.max(self.latest), "a": F.mean(self.latest)}, self)
        return self.latest

    plain, static = pair(lambda: Net(forward, l=L.Linear(4, 3)))
    for _ in range(3):
        seen = []
        for model in (plain, static):
            reporter = chainer.Reporter()
            reporter.add_observer("main", model)
            with reporter.scope({}):
                assert model(X) is model.latest
                seen.append({k: copy_of(v.array) for k, v in reporter.observation.items()})
        assert_all_near(seen[1], seen[0], RESULTS, "reported")
    assert replays(static) == 2


def test_row_10_nothing_is_frozen_by_accident():
    def forward(self, x, done):
        return self.l(x) * (1 - done)[:, None] + np.ones(3, "f")

    plain, static = pair(lambda: Net(forward, l=L.Linear(4, 3)))
    rng = np.random.RandomState(0)
    for _ in range(4):
        done = rng.randint(0, 2, 5).astype("f")
        assert_near(static(X, done).array, plain(X, done).array, RESULTS, "output")
    assert replays(static) == 3


def test_row_11_python_scalars():
    plain, static = pair(lambda: Net(lambda self, x: self.l(x) * self.beta, l=L.Linear(4, 3)))
    for i in range(6):
        plain.beta = static.beta = 1.0 + i // 2
        assert_near(static(X).array, plain(X).array, RESULTS, "output")

    def counting(self, x):
        self.n = getattr(self, "n", 0) + 1
        return self.l(x)

    counts = sdbr.static_graph(Net(counting, l=L.Linear(4, 3)), on_dynamic="raise")
    for i in range(5):
        counts(X)
        assert counts.n == i + 1 and type(counts.n) is int
    assert counts.schedule_manager.statistics.replays == 3


def test_row_12_the_cache_key():
    static = sdbr.static_graph(lambda x, n=1: F.relu(x) * n)
    variants = [
        lambda: static(X),
        lambda: static(X[:3]),
        lambda: static(X.astype("d")),
        lambda: static(chainer.Variable(X)),
        lambda: static(X, 2),
        lambda: static(X, n=2),
    ]
    for _ in range(3):
        for call in variants:
            call()
            with chainer.using_config("train", False):
                call()
    assert static.schedule_manager.statistics.traces == 2 * len(variants)
    assert replays(static) == 4 * len(variants)


def test_row_13_arguments_and_results():
    def f(batch, *, names):
        (x, y), extra = batch["pair"], batch.get("extra")
        return {names[0]: [F.relu(x), (y, extra)], names[1]: 3.5}

    static = sdbr.static_graph(f)
    for _ in range(4):
        found = static({"pair": (X, chainer.Variable(X)), "extra": None}, names=("a", "b"))
        assert list(found) == ["a", "b"] and found["b"] == 3.5
        assert isinstance(found["a"][0], chainer.Variable) and found["a"][1][1] is None
    with pytest.warns(sdbr.SdbrWarning, match="argument 0"), pytest.raises(TypeError):
        static(object(), names=("a", "b"))  # define-by-run, which has its own error
    with pytest.raises(sdbr.TraceError, match="argument 0"):
        sdbr.static_graph(f, on_dynamic="raise")(object(), names=("a", "b"))


def test_row_14_the_outermost_static_chain_wins():
    inner = sdbr.static_graph(mlp())
    outer = sdbr.static_graph(Net(lambda self, x: F.tanh(self.inner(x)), inner=inner))
    for _ in range(3):
        outer(X)
    assert replays(outer) == 2 and inner.schedule_manager.statistics.calls == 0


def test_row_15_double_backprop():
    def penalty(f):
        x = chainer.Variable(X)
        (g,) = chainer.grad([F.sum(f(x))], [x], enable_double_backprop=True)
        F.sum(g * g).backward()
        return x.grad

    def f(x):
        return F.tanh(x) ** 2

    with_switch = sdbr.static_graph(f, enable_double_backprop=True)
    without = sdbr.static_graph(f)
    for i in range(3):
        assert_near(penalty(with_switch), penalty(f), SUMS, "penalty")
        if i:
            with pytest.raises(sdbr.SdbrError, match="enable_double_backprop"):
                penalty(without)
        else:
            penalty(without)


def test_row_16_modes():
    plain, static = pair(lambda: MLP(4, 8, 3, F.relu, 0.5))
    for i, (train, backprop) in enumerate([(1, 1), (1, 0), (0, 1), (0, 0)] * 2):
        found = []
        for model in (plain, static):
            np.random.seed(i)
            with (
                chainer.using_config("train", bool(train)),
                chainer.using_config("enable_backprop", bool(backprop)),
            ):
                found.append(model(X))
        assert_near(found[1].array, found[0].array, RESULTS, "output")
        assert (found[1].creator is None) == (found[0].creator is None)
        assert found[1].requires_grad == found[0].requires_grad
    assert replays(static) == 4


def test_row_17_hooks_see_what_chainer_shows():
    static = sdbr.static_graph(mlp())
    for _ in range(3):
        static(X)
    with chainer.function_hooks.TimerHook() as hook:
        static(X)
    assert len(hook.call_history) == 5
    assert replays(static) == 2


def test_row_18_everything_is_supported():
    class Old(chainer.function.Function):
        def forward(self, inputs):
            self.kept = inputs[0] > 0
            return (np.where(self.kept, inputs[0], 0.1 * inputs[0]).astype("f"),)

        def backward(self, inputs, grads):
            return (np.where(self.kept, grads[0], 0.1 * grads[0]).astype("f"),)

    def forward(self, x):
        return F.sum(F.normalize(F.maxout(Old()(self.l(x)), 2)) ** 3)

    plain, static = pair(lambda: Net(forward, l=L.Linear(4, 6)))
    rng = np.random.RandomState(0)
    for _ in range(4):
        x = floats(5, 4)(rng)
        (y, g), (z, h) = step(static, x), step(plain, x)
        assert_near(y, z, RESULTS, "output")
        assert_all_near(g, h, GRADIENTS, "gradient")
    assert replays(static) == 3
    assert static.schedule_manager.statistics.python_ops > 0


def test_row_19_threads_get_schedules_of_their_own():
    static = sdbr.static_graph(MLP(4, 64, 3))
    want = MLP.forward(static, X).array
    for _ in range(2):
        static(X)
    outputs = []

    def work(_):
        for _ in range(20):
            outputs.append(static(X).array)

    in_threads(4, work)
    assert len(outputs) == 80
    for y in outputs:
        assert_near(y, want, RESULTS, "output")


def test_row_20_errors_name_the_op_and_leave_the_schedule_usable():
    static = sdbr.static_graph(lambda x, t: F.softmax_cross_entropy(F.tanh(x), t))
    good = np.array([0, 1, 2, 3, -2], "i")  # negative labels wrap
    want = F.softmax_cross_entropy(F.tanh(X), good).array
    for _ in range(3):
        assert_near(static(X, good).array, want, RESULTS, "loss")
        with pytest.raises(IndexError) as caught:
            static(X, good + 1)
        if replays(static):
            text = "".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
            assert "softmax_cross_entropy" in text and "test_contract.py" in text
