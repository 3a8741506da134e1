"""Row 14: of nested static chains the outermost wins; everything that can be decorated."""

from __future__ import annotations

import functools

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.comparison import BACKENDS, assert_all_near, assert_near, gradients_of
from tests.harness.models import MLP, StaticMLP
from tests.harness.twins import POINTS, X, counts, mlp, pair, statistics_of, step
from tests.tolerances import GRADIENTS, RESULTS

XS = np.random.RandomState(0).randn(6, 4).astype("f")


def check(call, plain, manager_of=lambda call: call) -> None:
    """Four calls equal the plain ones, gradients too; three were replays."""
    for i in range(4):
        x, x_plain = (chainer.Variable(XS + i) for _ in range(2))
        y, y_plain = call(x), plain(x_plain)
        F.sum(y * y).backward()
        F.sum(y_plain * y_plain).backward()
        assert_near(y.array, y_plain.array, RESULTS, f"call {i}")
        assert_near(x.grad, x_plain.grad, GRADIENTS, f"gradient of call {i}")
    assert counts(manager_of(call)) == (1, 3, 0)


class Net(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.a = L.Linear(4, 4)

    def forward(self, x):
        return F.relu(self.a(x))

    @staticmethod
    @sdbr.static_graph
    def of_nobody(x):
        return F.tanh(x) * 2

    @sdbr.static_graph
    def first(self, x):
        return F.tanh(self.a(x))

    @sdbr.static_graph
    def second(self, x):
        return F.sigmoid(self.first(x))


def test_functions():
    def plain(x):
        return F.tanh(x) * 3

    def with_factor(factor, x):
        return F.tanh(x) * factor

    check(sdbr.static_graph(plain), plain)
    check(sdbr.static_graph()(lambda x: F.tanh(x) * 3), plain)
    check(sdbr.static_graph(functools.partial(with_factor, 3)), plain)
    net = Net()
    check(sdbr.static_graph(net.forward), net.forward)
    check(net.of_nobody, lambda x: F.tanh(x) * 2)


class Doubled:
    def __call__(self, x):
        return F.tanh(x) * 2


def test_a_callable_object():
    check(sdbr.static_graph(Doubled()), Doubled())


def test_functions_that_call_each_other():
    @sdbr.static_graph
    def power(n, x):
        return x if n == 0 else F.tanh(power(n - 1, x))

    @sdbr.static_graph
    def outer(x):
        return power(3, x) + 1

    check(outer, lambda x: F.tanh(F.tanh(F.tanh(x))) + 1)
    assert power.schedule_manager is None or counts(power) == (0, 0, 0)
    check(lambda x: power(2, x), lambda x: F.tanh(F.tanh(x)), lambda _: power)


def test_two_methods_on_one_chain():
    net = Net()
    check(net.first, lambda x: F.tanh(net.a(x)), lambda _: net)
    other = Net()
    for x in (XS, XS + 1, XS + 2):
        want = F.sigmoid(F.tanh(other.a(x))).array
        assert_near(other.second(x).array, want, RESULTS, "second")
        assert_near(other.first(x).array, F.tanh(other.a(x)).array, RESULTS, "first")
    report = sdbr.explain(other).to_dict()
    assert [m["name"] for m in report["managers"]] == ["Net.second", "Net.first"]
    for name in ("first", "second"):
        function = getattr(Net, name)
        manager = other._sdbr_managers[function._sdbr_function]
        assert (manager.statistics.traces, manager.statistics.replays) == (1, 2)


class Base(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.a = L.Linear(4, 4)

    @sdbr.static_graph
    def forward(self, x):
        return self.a(x)


class Extended(Base):
    @sdbr.static_graph
    def forward(self, x):
        return F.relu(super().forward(x))


class Wrapping(Base):
    def forward(self, x):
        return F.relu(super().forward(x))


@pytest.mark.parametrize("kind", [Extended, Wrapping])
def test_inherited_methods(kind):
    net = kind()
    check(net, lambda x: F.relu(net.a(x)))
    assert net.schedule_manager.name == f"{kind.__name__}.forward"


@pytest.mark.parametrize("order", ["inside first", "outside first"])
def test_the_outermost_static_chain_wins(order):
    class Outer(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.inner = sdbr.static_graph(Net())

        @sdbr.static_graph
        def forward(self, x):
            return F.tanh(self.inner(x) / 8)  # its gradient is all cancellation where it saturates

    net = Outer()
    calls = [
        lambda: check(net.inner, lambda x: F.relu(net.inner.a(x))),
        lambda: check(net, lambda x: F.tanh(F.relu(net.inner.a(x)) / 8)),
    ]
    for call in calls if order == "inside first" else calls[::-1]:
        call()


@pytest.mark.parametrize("options", [{}, {"backend": "numpy"}])
def test_what_cannot_be_decorated(options):
    for target, got in ((3, "int"), ("forward", "str"), (Net, "the class Net")):
        with pytest.raises(TypeError, match=f"target: expected .* got {got}"):
            sdbr.static_graph(target, **options)
    with pytest.raises(TypeError, match="unexpected keyword argument 'max_schedule'; it takes"):
        sdbr.static_graph(Net(), max_schedule=3)


class WithHelper(Base):
    @sdbr.static_graph
    def helper(self, x):
        return F.tanh(self.a(x))


@pytest.mark.parametrize("first", ["helper", "forward"])
def test_the_manager_of_a_chain_is_that_of_its_forward(first):
    """Whichever of its methods was called first, and however often the other one was."""
    net = WithHelper()
    calls = {"helper": net.helper, "forward": net}
    for name in (first, *calls):
        calls[name](XS)
    net.helper(XS)
    forward = Base.forward._sdbr_function
    assert net.schedule_manager is net._sdbr_managers[forward]
    assert net.schedule_manager.statistics.calls == (2 if first == "forward" else 1)


def test_partial_and_callable_object():
    class Square:
        def __call__(self, x):
            return F.square(x)

    x = np.full((2, 3), 2, "f")
    for f, want in ((functools.partial(F.clipped_relu, z=1.5), 1.5), (Square(), 4)):
        static = sdbr.static_graph(f)
        for _ in range(3):
            np.testing.assert_array_equal(static(x).array, np.full((2, 3), want, "f"))
        assert static.schedule_manager.statistics.replays == 2


def test_sequential_with_functions_of_all_sorts():
    """Lambdas, methods, functools.partial and bare callables in a Sequential."""
    import functools

    class Doubler:
        def __call__(self, x):
            return x * 2

    np.random.seed(0)
    plain = chainer.Sequential(
        L.Linear(4, 8),
        lambda x: x * 0.5,
        F.relu,
        functools.partial(F.leaky_relu, slope=0.3),
        Doubler(),
        L.Linear(8, 2),
    )
    static = sdbr.static_graph(plain.copy(mode="copy"))
    for k in range(4):
        assert_near(static(POINTS + k).array, plain(POINTS + k).array, RESULTS, "output")
    assert static.schedule_manager.statistics.replays == 3
    with pytest.raises(chainer.utils.type_check.InvalidType):
        static(POINTS[:, :3])
    assert_near(static(POINTS).array, plain(POINTS).array, RESULTS, "output")


@pytest.mark.parametrize("backend", BACKENDS)
def test_nested_static_chains(backend):
    """The outermost wins; the inner one still works by itself."""

    class Outer(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.inner = StaticMLP()
                self.out = L.Linear(3, 2)

        def forward(self, x):
            return self.out(F.relu(self.inner(x)))

    plain, static = pair(Outer, backend=backend)
    with chainer.using_config("use_static_graph", False):
        want = step(plain, X)
    for _ in range(4):
        y, g = step(static, X)
        assert_near(y, want[0], RESULTS, "output")
        assert_all_near(g, want[1], GRADIENTS, "gradient")
    assert static.schedule_manager.statistics.replays == 3
    assert static.inner.schedule_manager.statistics.replays == 0
    for _ in range(3):
        static.inner(X)
    assert static.inner.schedule_manager.statistics.replays == 2


def test_static_function_and_methods():
    model = mlp()

    @sdbr.static_graph
    def loss(x, t):
        return F.softmax_cross_entropy(model(x), t)

    class TwoMethods(MLP):
        @sdbr.static_graph
        def forward(self, x):
            return super().forward(x)

        @sdbr.static_graph
        def features(self, x):
            return F.tanh(self.l1(x))

    t = np.zeros(5, "i")
    for _ in range(3):
        got = loss(X, t)
        model.cleargrads()
        got.backward()
        g = gradients_of(model)
    want = F.softmax_cross_entropy(model(X), t)
    model.cleargrads()
    want.backward()
    assert_near(got.array, want.array, RESULTS, "loss")
    assert_all_near(g, gradients_of(model), GRADIENTS, "gradient")
    assert loss.schedule_manager.statistics.replays == 2
    two = TwoMethods(4, 8, 3)
    for _ in range(3):
        two(X)
        y = two.features(X)
    assert two.schedule_manager.statistics.replays == 2
    assert_near(y.array, F.tanh(two.l1(X)).array, RESULTS, "features")


def test_decorating_again_takes_the_new_options():
    static = sdbr.static_graph(mlp(), backend="numpy")
    static(X)
    again = sdbr.static_graph(static, backend="cython")
    assert again is static and type(static).__mro__[1] is MLP
    for _ in range(3):
        static(X)
    assert (statistics_of(static).calls, statistics_of(static).traces) == (3, 1)
    assert static.schedule_manager.static_schedule.backend == "cython"


class Logged(chainer.Chain):
    """Whose static method is wrapped, with the attributes that ``functools.wraps`` copies."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.fc = L.Linear(4, 3)

    @sdbr.static_graph
    def _loss(self, x, t):
        return F.softmax_cross_entropy(self.fc(x), t)

    @functools.wraps(_loss)
    def forward(self, x, t):
        type(self).runs += 1
        return self._loss(x, t)

    runs = 0


@pytest.mark.parametrize("how", ["link", "method", "function"])
def test_what_is_wrapped_around_a_static_function_runs_in_every_step(how):
    model = Logged()
    Logged.runs = 0
    optimizer = sdbr.static_optimizer(chainer.optimizers.SGD(0.1)).setup(model)

    @functools.wraps(Logged._loss)
    def function(x, t):
        Logged.runs += 1
        return model._loss(x, t)

    lossfun = {"link": model, "method": model.forward, "function": function}[how]
    t = np.zeros(5, "i")
    for i in range(4):
        optimizer.update(lossfun, X, t)
        assert Logged.runs == i + 1
    assert model.schedule_manager.statistics.replays == 3


class TwiceTheLoss(Logged):
    @functools.wraps(Logged._loss)
    def forward(self, x, t):
        return self._loss(x, t) * 2


def test_an_instance_whose_method_is_wrapped_around_a_static_one():
    model = sdbr.static_graph(TwiceTheLoss())
    t = np.zeros(5, "i")
    for _ in range(3):
        found = model(X, t)
    assert_near(found.array, (model._loss(X, t) * 2).array, RESULTS, "loss")
    assert model.schedule_manager.statistics.replays == 2


class Half:
    """A mixin behind `chainer.Link`: Chainer prefers its ``__call__`` to ``forward``."""

    def __call__(self, *args):
        return self.forward(*args) * 0.5


class Halved(chainer.Chain, Half):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.fc = L.Linear(4, 3, initialW=np.eye(3, 4, dtype="f"))

    def forward(self, x, t):
        return F.softmax_cross_entropy(self.fc(x), t)


class StaticHalved(Halved):
    forward = sdbr.static_graph(Halved.forward)


class DynamicHalved(Halved):
    @sdbr.static_graph
    def forward(self, x, t):
        y = self.fc(x)
        return F.softmax_cross_entropy(y if float(str(y.array.sum())) < 1e9 else -y, t)


@pytest.mark.filterwarnings("ignore::sdbr.SdbrWarning")
@pytest.mark.parametrize("audit", ["off", "auto"])
@pytest.mark.parametrize("how", [StaticHalved, DynamicHalved, lambda: sdbr.static_graph(Halved())])
def test_the_call_of_a_mixin_runs_in_steps(how, audit):
    t = np.array([0, 1, 2, 0, 1], "i")
    biases = []
    for make, around in ((Halved, lambda o: o), (how, sdbr.static_optimizer)):
        model = make()
        optimizer = around(chainer.optimizers.SGD(1.0)).setup(model)
        with chainer.using_config("sdbr_audit", audit):
            for _ in range(4):
                optimizer.update(model, X, t)
        biases.append(model.fc.b.array)
    assert_near(biases[1], biases[0], RESULTS, "bias")
    statistics = model.schedule_manager.statistics
    if how is DynamicHalved:
        assert statistics.define_by_run_calls == 3
    else:
        assert statistics.replays == 3


class Losses:
    """No link, with a static method."""

    fc = L.Linear(4, 3)

    @sdbr.static_graph
    def loss(self, x, t):
        return F.softmax_cross_entropy(self.fc(x), t)


class Strict(Losses):
    """The same, to be told of by an error."""

    @sdbr.static_graph(on_dynamic="raise")
    def loss(self, x, t):
        return F.softmax_cross_entropy(self.fc(x), t)


def test_a_method_of_what_is_no_link_as_loss_function():
    """Each object has schedules of its own, so others follow where none of them is used again."""
    optimizer = sdbr.static_optimizer(chainer.optimizers.SGD(1.0)).setup(Losses.fc)
    with pytest.warns(sdbr.SdbrWarning, match=r"Losses\.loss: its objects are called too seldom"):
        for k in range(12):
            optimizer.update(Losses().loss, X, np.zeros(5, "i"))
            assert optimizer.t == k + 1
    with pytest.raises(sdbr.NotStaticError, match="its objects are called too seldom"):
        for _ in range(12):
            Strict().loss(X, np.zeros(5, "i"))


def test_a_function_that_is_given_the_link_as_loss_function():
    """It is served as a method of the link, in whole steps."""

    def loss_of(model, x, t, scale=1.0):
        return F.softmax_cross_entropy(model(x), t) * scale

    static = sdbr.static_graph(loss_of)
    own, plain = (mlp() for _ in range(2))
    plain.copyparams(own)
    fast = sdbr.static_optimizer(chainer.optimizers.Adam()).setup(own)
    slow = chainer.optimizers.Adam().setup(plain)
    for k in range(12):
        x, t = X + k, np.full(5, k % 2, "i")
        fast.update(static, own, x, t, scale=0.5)
        slow.update(loss_of, plain, x, t, scale=0.5)
        for (name, a), (_, b) in zip(own.namedparams(), plain.namedparams(), strict=True):
            assert_near(a.array, b.array, RESULTS, name)
    statistics = own.schedule_manager.statistics
    assert (statistics.calls, statistics.traces, statistics.steps) == (12, 1, 11)
    assert statistics.python_ops == 0
