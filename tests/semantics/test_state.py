"""What a call reads and leaves besides its arguments: parameters, attributes, copies, threads."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import warnings
import weakref

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.comparison import BACKENDS, assert_all_near, assert_near, copy_of, gradients_of
from tests.harness.models import MLP, Net, Recurrent, floats, labels


def pair(make, seed=0, **options):
    """A define-by-run and a static model with the same parameters."""
    np.random.seed(seed)
    plain = make()
    np.random.seed(seed)
    return plain, sdbr.static_graph(make(), on_dynamic="raise", **options)


def step(model, *args):
    """Output and gradients of one iteration."""
    y = model(*args)
    model.cleargrads()
    F.sum(y * y).backward()
    return copy_of(y.array), gradients_of(model)


def agree(plain, static, *args):
    (y, g), (z, h) = step(static, *args), step(plain, *args)
    assert_near(y, z, 1e-5, "output")
    assert_all_near(g, h, 1e-4, "gradient")


def mlp():
    return MLP(4, 8, 3)


X = floats(5, 4)(np.random.RandomState(7))
Z = floats(5, 4)(np.random.RandomState(8))


# --- parameters ---------------------------------------------------------------------------------
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "how", ["array", "data", "in place", "load_npz", "copyparams", "non-contiguous"]
)
def test_reassigned_parameters(how, backend, tmp_path):
    plain, static = pair(mlp, backend=backend)
    other = mlp()
    chainer.serializers.save_npz(tmp_path / "m.npz", other)
    for i in range(6):
        agree(plain, static, X)
        if i != 2:
            continue
        for model in (plain, static):
            new = other.l1.W.array.copy()
            if how == "array":
                model.l1.W.array = new
            elif how == "data":
                model.l1.W.data = new
            elif how == "non-contiguous":
                model.l1.W.array = np.asfortranarray(new)
            elif how == "in place":
                model.l1.W.array[...] = new
            elif how == "load_npz":
                chainer.serializers.load_npz(tmp_path / "m.npz", model)
            else:
                model.copyparams(other)
    statistics = static.schedule_manager.statistics
    assert (statistics.traces, statistics.replays) == (1, 5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_parameter_replaced_between_forward_and_backward(backend):
    """Backward uses what the Variables hold then, as in define-by-run; Python ops as well."""
    for f in (lambda x: x, F.sigmoid, lambda x: F.maxout(x, 2), lambda x: F.cumsum(x, 1)):

        def forward(self, x, f=f):
            return F.sum(f(self.l(x)) ** 2)

        plain, static = pair(lambda f=forward: Net(f, l=L.Linear(4, 4)), backend=backend)
        for i in range(4):
            got = []
            for model in (plain, static):
                y = model(chainer.Variable(X))
                model.l.W.array = np.full_like(model.l.W.array, 0.1 * (i + 1))
                model.cleargrads()
                y.backward()
                got.append((copy_of(y.array), gradients_of(model)))
            assert_near(got[1][0], got[0][0], 1e-5, "output")
            assert_all_near(got[1][1], got[0][1], 1e-4, "gradient")
        assert static.schedule_manager.statistics.replays == 3


@pytest.mark.parametrize("backend", BACKENDS)
def test_python_op_sees_in_place_update_before_backward(backend):
    class Conv(chainer.Link):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.W = chainer.Parameter(np.ones((2, 1, 3, 3), "f"))

        def forward(self, x):
            return F.sum(F.convolution_2d(x, self.W) ** 2)

    plain, static = pair(Conv, backend=backend)
    x = floats(2, 1, 5, 5)(np.random.RandomState(0))
    for i in range(4):
        got = []
        for model in (plain, static):
            v = chainer.Variable(x)
            y = model(v)
            model.W.array += 1 + i
            model.cleargrads()
            y.backward()
            got.append({"W": copy_of(model.W.grad), "x": copy_of(v.grad)})
        assert_all_near(got[1], got[0], 1e-4, "gradient")


class Product(chainer.FunctionNode):
    """Has no native row; its backward reads what it retained."""

    def forward(self, inputs):
        self.retain_inputs((0, 1))
        return (inputs[0] * inputs[1],)

    def backward(self, indexes, grads):
        a, b = self.get_retained_inputs()
        return grads[0] * b, grads[0] * a


@pytest.mark.parametrize("backend", BACKENDS)
def test_python_op_sees_arrays_replaced_before_backward(backend):
    plain, static = pair(
        lambda: Net(
            lambda self, x: F.sum(Product().apply((x, self.l.W))[0]), l=L.Linear(4, 5, nobias=True)
        ),
        backend=backend,
    )
    for i in range(4):
        got = []
        for model in (plain, static):
            v = chainer.Variable(X.copy())
            y = model(v)
            v.array = X * (i + 2)
            model.l.W.array = model.l.W.array + 1
            model.cleargrads()
            y.backward()
            got.append({"W": copy_of(model.l.W.grad), "x": copy_of(v.grad)})
        assert_all_near(got[1], got[0], 1e-4, "gradient")
    assert static.schedule_manager.statistics.replays == 3
    assert static.schedule_manager.statistics.python_ops == 6


@pytest.mark.parametrize("backend", BACKENDS)
def test_new_parameter_object_is_traced_anew(backend):
    plain, static = pair(mlp, backend=backend)
    for i in range(6):
        agree(plain, static, X)
        if i == 2:
            W = np.random.RandomState(3).randn(8, 4).astype("f")
            for model in (plain, static):
                with model.l1.init_scope():
                    model.l1.W = chainer.Parameter(W.copy())
    assert static.schedule_manager.statistics.traces == 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_replaced_child_link(backend):
    plain, static = pair(mlp, backend=backend)
    for i in range(6):
        agree(plain, static, X)
        if i == 2:
            for model in (plain, static):
                del model.l2
                with model.init_scope():
                    model.l2 = L.Linear(8, 8, initialW=0.3)
    assert static.schedule_manager.statistics.traces == 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_parameters_found_by_iteration(backend):
    """A parameter that comes later is seen by code that goes over ``self.params()``."""

    def forward(self, x):
        return F.sum(self.l(x) ** 2) + sum(F.sum(p * p) for p in self.params())

    plain, static = pair(lambda: Net(forward, l=L.Linear(4, 2)), backend=backend)
    for i in range(6):
        agree(plain, static, X)
        if i == 2:
            for model in (plain, static):
                with model.init_scope():
                    model.extra = chainer.Parameter(np.ones(3, "f"))
    assert static.schedule_manager.statistics.traces == 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_frozen_parameters_and_lazy_initialisation(backend):
    plain, static = pair(lambda: MLP(None, 8, 3), backend=backend)
    np.random.seed(1)
    y, g = step(plain, X)
    np.random.seed(1)
    z, h = step(static, X)
    assert_near(z, y, 1e-5, "first call")
    assert_all_near(h, g, 1e-4, "first gradient")
    for i in range(5):
        agree(plain, static, X)
        for model in (plain, static):
            (model.l2.disable_update if i == 1 else model.l2.enable_update)()
    assert static.schedule_manager.statistics.replays >= 4


@pytest.mark.parametrize("backend", BACKENDS)
def test_added_and_removed_link_in_a_list(backend):
    class Deep(chainer.ChainList):
        def forward(self, x):
            for link in self:
                x = F.tanh(link(x))
            return x

    plain, static = pair(lambda: Deep(L.Linear(4, 4), L.Linear(4, 4)), backend=backend)
    for i in range(7):
        agree(plain, static, X)
        for model in (plain, static):
            if i == 1:
                model.append(L.Linear(4, 2, initialW=0.5))
            if i == 4:
                del model[2]
    # The shorter list was traced before.
    assert static.schedule_manager.statistics.traces == 2


# --- arrays and numbers on the chain ------------------------------------------------------------
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
def test_arrays_on_the_chain_are_read_at_each_call(backend):
    def forward(self, x, t):
        return F.softmax_cross_entropy(self.l(x) + self.shift, t, class_weight=self.weight)

    plain, static = pair(lambda: Net(forward, l=L.Linear(4, 3)), backend=backend)
    t = np.array([0, 1, 2, 1, 0], "i")
    for i in range(6):
        for model in (plain, static):
            model.shift = np.full(3, i, "f") * np.array([1, 0, -1], "f")
            model.weight = np.array([1, 2, 3 + i], "f")
        agree(plain, static, X, t)
    assert static.schedule_manager.statistics.replays == 5
    assert static.schedule_manager.statistics.python_ops == 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_closure_array_mutated_in_place(backend):
    weight = np.array([1, 1, 1], "f")
    shift = np.zeros(3, "f")

    def forward(self, x, t):
        return F.softmax_cross_entropy(self.l(x) + shift, t, class_weight=weight)

    plain, static = pair(lambda: Net(forward, l=L.Linear(4, 3)), backend=backend)
    t = np.array([0, 1, 2, 1, 0], "i")
    for i in range(6):
        weight[...] = np.array([1, 2 + i, 3], "f")
        shift[...] = np.array([i, 0, -i], "f")
        agree(plain, static, X, t)
    statistics = static.schedule_manager.statistics
    assert (statistics.traces, statistics.second_traces, statistics.replays) == (1, 0, 5)
    assert statistics.python_ops == 0


def test_closure_array_written_during_the_call_is_dynamic():
    buffer = np.zeros((5, 4), "f")

    def forward(self, x):
        buffer[...] = np.asarray(x.array if isinstance(x, chainer.Variable) else x)
        return self.l(buffer)

    plain = Net(forward, l=L.Linear(4, 3, initialW=0.5))
    static = sdbr.static_graph(Net(forward, l=L.Linear(4, 3, initialW=0.5)))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for i in range(5):
            agree(plain, static, X + i)
    assert sum(issubclass(w.category, sdbr.SdbrWarning) for w in caught) == 1


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
        assert_near(out[1][0], out[0][0], 1e-5, "output")
        assert_all_near(out[1][1], out[0][1], 1e-4, "gradient")


@pytest.mark.parametrize("backend", BACKENDS)
def test_history_through_state(backend):
    """Truncated backpropagation: several calls, then one backward through all of them."""
    plain, static = pair(Recurrent, backend=backend)
    rng = np.random.RandomState(0)
    for _ in range(4):
        xs = [floats(2, 3)(rng) for _ in range(3)]
        got = []
        for model in (plain, static):
            model.cleargrads()
            loss = 0
            for x in xs:
                loss += F.sum(model(x) ** 2)
            loss.backward()
            loss.unchain_backward()
            got.append((copy_of(loss.array), gradients_of(model), copy_of(model.rnn.c.array)))
        assert_near(got[1][0], got[0][0], 1e-5, "loss")
        assert_all_near(got[1][1], got[0][1], 1e-4, "gradient")
        assert_near(got[1][2], got[0][2], 1e-5, "state")
    assert static.schedule_manager.statistics.replays == 12 - 2


# --- copies -------------------------------------------------------------------------------------
COPIES = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda m: pickle.loads(pickle.dumps(m)),
    "Link.copy": lambda m: m.copy("copy"),
    "Link.copy init": lambda m: m.copy("init"),
}


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("wrapped", ["instance", "method"])
def test_copies_start_empty(how, wrapped):
    model = StaticMLP() if wrapped == "method" else sdbr.static_graph(MLP(4, 8, 3))
    for _ in range(3):
        model(X)
    manager = model.schedule_manager
    twin = COPIES[how](model)
    assert isinstance(twin, type(model).__mro__[1])
    for _p, q in zip(model.params(), twin.params(), strict=True):
        if how == "copy":
            continue
        q.array = q.array + 1
    y, z = model(X), twin(X)
    assert manager.statistics.replays == 3
    assert twin.schedule_manager is not manager
    assert twin.schedule_manager.statistics.traces == 1
    twin_again = twin(X)
    assert twin.schedule_manager.statistics.replays == 1
    np.testing.assert_allclose(z.array, twin_again.array, rtol=1e-5)
    assert np.allclose(y.array, z.array) == (how == "copy")


class StaticMLP(MLP):
    def __init__(self):
        super().__init__(4, 8, 3)

    @sdbr.static_graph
    def forward(self, x):
        return super().forward(x)


def test_repeat_gives_independent_chains():
    layer = sdbr.static_graph(MLP(4, 4, 4))
    layer(X)
    twice = layer.repeat(2)
    y = twice(X)
    for _ in range(3):
        y = twice(X)
    managers = [link.schedule_manager for link in twice]
    assert managers[0] is not managers[1] is not layer.schedule_manager
    assert [m.statistics.calls for m in managers] == [4, 4]
    want = MLP.forward(twice[1], MLP.forward(twice[0], X))
    assert_near(y.array, want.array, 1e-5, "output")


def test_isinstance_and_serializers(tmp_path):
    model = sdbr.static_graph(mlp())
    assert isinstance(model, MLP) and type(model).__name__ == "MLP"
    model(X)
    chainer.serializers.save_npz(tmp_path / "m.npz", model)
    other = mlp()
    chainer.serializers.load_npz(tmp_path / "m.npz", other)
    assert_near(other(X).array, model(X).array, 1e-5, "output")


def test_a_dropped_chain_frees_its_schedules():
    model = sdbr.static_graph(L.Classifier(mlp()))
    optimizer = sdbr.static_optimizer(chainer.optimizers.Adam()).setup(model)
    t = np.zeros(5, "i")
    for _ in range(4):
        optimizer.update(model, X, t)
    with chainer.using_config("train", False), chainer.no_backprop_mode():
        for _ in range(3):
            model(X, t)
    refs = [weakref.ref(s) for c in model.schedule_manager.schedules.values() for s in c]
    refs += [weakref.ref(model), weakref.ref(model.schedule_manager), weakref.ref(optimizer)]
    del model, optimizer
    gc.collect()
    assert [r() for r in refs] == [None] * len(refs)


# --- nesting ------------------------------------------------------------------------------------
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
        assert_near(y, want[0], 1e-5, "output")
        assert_all_near(g, want[1], 1e-4, "gradient")
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
    assert_near(got.array, want.array, 1e-5, "loss")
    assert_all_near(g, gradients_of(model), 1e-4, "gradient")
    assert loss.schedule_manager.statistics.replays == 2
    two = TwoMethods(4, 8, 3)
    for _ in range(3):
        two(X)
        y = two.features(X)
    assert two.schedule_manager.statistics.replays == 2
    assert_near(y.array, F.tanh(two.l1(X)).array, 1e-5, "features")


# --- threads ------------------------------------------------------------------------------------
def in_threads(n, work):
    """Run ``work(i)`` in n threads; errors come back."""
    errors = []

    def guarded(i):
        try:
            work(i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(i,)) for i in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive(), "deadlock"
    if errors:
        raise errors[0]


@pytest.mark.parametrize("inference", [False, True])
def test_threads_on_one_chain(inference):
    np.random.seed(0)
    model = sdbr.static_graph(MLP(64, 128, 8), on_dynamic="raise")
    plain = MLP.forward
    rng = np.random.RandomState(0)
    xs = [floats(32, 64)(rng) for _ in range(8)]
    want = []
    for x in xs:
        v = chainer.Variable(x)
        y = plain(model, v)
        F.sum(y * y).backward()
        want.append((copy_of(y.array), copy_of(v.grad)))
    model(chainer.Variable(xs[0]))
    model(chainer.Variable(xs[0]))

    def work(i):
        for _ in range(30):
            v = chainer.Variable(xs[i])
            if inference:
                with chainer.using_config("train", False), chainer.no_backprop_mode():
                    y = model(v)
                assert_near(y.array, want[i][0], 1e-5, "output")
            else:
                y = model(v)
                (g,) = chainer.grad([F.sum(y * y)], [v])
                assert_near(y.array, want[i][0], 1e-5, "output")
                assert_near(g.array, want[i][1], 1e-4, "gradient")

    in_threads(8, work)
    assert model.schedule_manager.statistics.replays > 100


def test_threads_with_chains_of_their_own():
    def train(static, seed):
        rng = np.random.RandomState(seed)
        links = [
            L.Linear(a, b, initialW=rng.randn(b, a).astype("f") * 0.3)
            for a, b in ((4, 16), (16, 3))
        ]
        model = Net(
            lambda self, x, t: F.softmax_cross_entropy(self.b(F.relu(self.a(x))), t),
            a=links[0], b=links[1],
        )  # fmt: skip
        optimizer = chainer.optimizers.Adam()
        if static:
            model, optimizer = sdbr.static_graph(model), sdbr.static_optimizer(optimizer)
        optimizer.setup(model)
        for _ in range(30):
            optimizer.update(model, floats(8, 4)(rng), labels(3, 8)(rng))
        return model

    want = [train(False, i) for i in range(8)]
    got = [None] * 8

    def work(i):
        got[i] = train(True, i)

    in_threads(8, work)
    for g, w in zip(got, want, strict=True):
        for (name, p), (_, q) in zip(g.namedparams(), w.namedparams(), strict=True):
            assert_near(p.array, q.array, 1e-3, name)
        assert g.schedule_manager.statistics.steps == 29


@pytest.mark.parametrize("backend", BACKENDS)
def test_array_that_decides_about_shapes(backend):
    """Such an array is built into the program, and its contents are compared at every call."""
    places = np.array([1, 3])

    def forward(self, x):
        return F.split_axis(self.l(x), places, axis=1)[1]

    plain, static = pair(lambda: Net(forward, l=L.Linear(4, 6)), backend=backend)
    for i in range(8):
        agree(plain, static, X)
        if i == 3:
            places[1] = 5
    statistics = static.schedule_manager.statistics
    assert (statistics.traces, statistics.replays, statistics.python_ops) == (2, 6, 0)
