"""Row 5: links and parameters stay the user's; whatever happens to them is noticed."""

from __future__ import annotations

import subprocess
import sys

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.comparison import BACKENDS, assert_all_near, assert_near, copy_of, gradients_of
from tests.harness.models import MLP, Net, by_hand, floats, small_sequential
from tests.harness.twins import POINTS, X, agree, counts, mlp, pair, step, twins
from tests.tolerances import GRADIENTS, RESULTS


@pytest.mark.parametrize("calls", [1, 2, 3, 4])
def test_a_parameter_of_another_dtype_fails_as_in_define_by_run(calls):
    """However the next call is served: by a trace, the slower path or the compiled one."""
    x = np.ones((2, 4), "f")
    model = sdbr.static_graph(L.Linear(4, 3))
    for _ in range(calls):
        model(x)
    arrays = [p.array for p in model.params()]
    for p in model.params():
        p.array = p.array.astype("d")
    with pytest.raises(chainer.utils.type_check.InvalidType):
        model(x)
    for p, array in zip(model.params(), arrays, strict=True):
        p.array = array
    model(x)
    before = model.schedule_manager.statistics.replays
    np.testing.assert_array_equal(model(x).array, F.linear(x, model.W, model.b).array)
    assert model.schedule_manager.statistics.replays == before + 1


def test_a_sequential_whose_layers_change():
    model = sdbr.static_graph(small_sequential())
    x = np.random.RandomState(0).randn(6, 4).astype("f")

    def replace_first():
        model[0] = L.Linear(4, 5)

    changes = [
        lambda: None,
        lambda: model.append(F.tanh),
        lambda: model.insert(1, F.sigmoid),
        lambda: model.__delitem__(1),
        replace_first,
        lambda: model.pop(),
        lambda: model.extend(chainer.Sequential(F.relu, L.Linear(4, 2))),
    ]
    for i, change in enumerate(changes):
        change()
        for j in range(2):
            want = by_hand(model, x + j)
            assert_near(model(x + j).array, want, RESULTS, f"change {i}, call {j}")
    # A trace for each change but the deletion, which brings earlier layers back.
    assert counts(model) == (len(changes) - 1, len(changes) + 1, 0)


def test_parameter_of_another_shape_before_backward():
    x = np.ones((5, 4), "f")
    model = sdbr.static_graph(L.Linear(4, 3))
    model(x)
    y = model(x)
    model.W.array = np.ones((3, 6), "f")
    y.grad = np.ones_like(y.array)
    with pytest.raises(sdbr.SdbrError, match=r"parameter W .* another shape"):
        y.backward()


def test_parameter_made_read_only_is_not_written():
    model = sdbr.static_graph(L.Classifier(L.Linear(4, 3)))
    optimizer = sdbr.static_optimizer(chainer.optimizers.SGD(0.1))
    optimizer.setup(model)
    x, t = np.ones((5, 4), "f"), np.zeros(5, "i")
    for _ in range(3):
        optimizer.update(model, x, t)
    weight = model.predictor.W.array
    weight.flags.writeable = False
    before = weight.copy()
    for _ in range(2):
        with pytest.raises(ValueError, match="read-only"):
            optimizer.update(model, x, t)
        np.testing.assert_array_equal(weight, before)
    weight.flags.writeable = True
    optimizer.update(model, x, t)
    assert not np.array_equal(weight, before)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "change", [lambda w: w[:, :2].copy(), lambda w: w.astype("d"), lambda w: w[None]]
)
def test_a_parameter_of_another_shape_before_the_backward(change, backend):
    """The error names the parameter and both shapes; gradients stay as they were."""
    plain, static = twins(lambda: MLP(4, 8, 3), backend=backend, on_dynamic="raise")
    for k in range(6):
        w = static.l2.W.array
        static.cleargrads()
        loss = F.sum(static(POINTS + k) ** 2)
        if k in (2, 4):
            static.l2.W.array = change(w)
            with pytest.raises(sdbr.SdbrError, match=r"parameter W .*float32\[8, 8\].*another"):
                loss.backward()
            static.l2.W.array = w
            assert all(g is None for g in gradients_of(static).values())
            continue
        loss.backward()
        plain.cleargrads()
        F.sum(plain(POINTS + k) ** 2).backward()
        assert_all_near(gradients_of(static), gradients_of(plain), GRADIENTS, f"call {k}")
    assert static.schedule_manager.statistics.replays >= 3


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
            assert_near(got[1][0], got[0][0], RESULTS, "output")
            assert_all_near(got[1][1], got[0][1], GRADIENTS, "gradient")
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
        assert_all_near(got[1], got[0], GRADIENTS, "gradient")


class Product(chainer.FunctionNode):
    """Has no native code; its backward reads what it retained."""

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
        assert_all_near(got[1], got[0], GRADIENTS, "gradient")
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
    assert_near(z, y, RESULTS, "first call")
    assert_all_near(h, g, GRADIENTS, "first gradient")
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


SHARED = """
import sys
import sdbr
import chainer
import numpy as np

link = chainer.links.Linear(3, 2)
model = sdbr.static_graph(chainer.Sequential(link))
optimizer = sdbr.static_optimizer(chainer.optimizers.SGD(0.1)).setup(model)
for _ in range(3):
    optimizer.update(lambda x: chainer.functions.sum(model(x)), np.ones((2, 3), "f"))
for p in (*model.params(), chainer.Parameter(np.ones(2, "f"))):
    assert sys.getsizeof(p.__dict__) < sys.getsizeof({**p.__dict__}), p
"""


@pytest.mark.skipif(sys.version_info < (3, 11), reason="there Chainer's have tables of their own")
def test_dictionaries_of_parameters_share_their_keys():
    """Each with a table of its own, steps of many small parameters take a fifth longer.

    In a process of its own: who asks for ``dir`` of one Parameter takes that away from all.
    """
    subprocess.run([sys.executable, "-c", SHARED], timeout=120, check=True)
