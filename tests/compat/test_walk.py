"""The compiled way back through Chainer's graph: when it declines, and that both ways are alike."""

from __future__ import annotations

import sdbr
from sdbr.compat import splitting
from sdbr.trace.patches import PATCHES

import chainer
import numpy as np
import pytest
from chainer import _backprop, _backprop_utils
from chainer import functions as F
from chainer import links as L

from tests.harness.comparison import assert_all_near, assert_near, copy_of, gradients_of
from tests.harness.models import MLP, Net
from tests.harness.nodes import Names
from tests.harness.replayed import T, X, digest_of, replayed
from tests.harness.threads import in_threads
from tests.tolerances import SUMS


def compiled(model) -> int:
    return model.schedule_manager.statistics.compiled_backwards


# --- Chainer's code, that this was written from -------------------------------------------------
#: Where one of these changes, so may what the compiled way has to do, and whether it is needed.
SOURCES = {
    (_backprop, "_backprop_to_all"): "7492b8a874ef",
    (_backprop, "backward"): "7ba11df51993",
    (_backprop_utils, "backprop_step"): "11b163281f7f",
    (_backprop_utils, "GradTable"): "c3182284a672",
    (_backprop_utils, "_reduce"): "a7d002d6b342",
    (chainer.Variable, "backward"): "0dee10860d2b",
    (chainer.Variable, "_set_grad_var_without_check"): "2a62b9652abd",
    (chainer.Variable, "_ensure_grad_var_up_to_date"): "933244ddf9e0",
    (chainer.Variable, "cleargrad"): "9bcc274891b3",
    (chainer.Parameter, "cleargrad"): "620511af8caa",
    (chainer.Link, "cleargrads"): "7647faffd473",
    (chainer.Link, "params"): "0f9b1e91edf1",
    (chainer.Chain, "params"): "0fea6948eb33",
    (chainer.ChainList, "params"): "e8cb0e656fa8",
}


@pytest.mark.parametrize(("owner", "name"), SOURCES)
def test_chainers_code_is_what_this_was_written_from(owner, name):
    assert digest_of(owner, name) == SOURCES[owner, name]


def test_the_compiled_code_is_in_place():
    assert chainer.__version__ in splitting.VERSIONS
    assert chainer.Variable.backward.__wrapped__ is not chainer.Variable.backward
    assert chainer.Link.cleargrads.__wrapped__ is not chainer.Link.cleargrads


# --- when it declines ---------------------------------------------------------------------------
def test_a_hook_that_comes_after_the_call_sees_the_call_as_one_function():
    model = replayed()
    loss = model(X, T)
    with Names() as hook:
        loss.backward()
    assert hook.seen == ["gradient of static_graph"]
    assert compiled(model) == 0


def test_a_hook_of_the_node_itself():
    model = replayed()
    loss = model(X, T)
    hook = Names()
    loss.creator.add_hook(hook)
    loss.backward()
    assert hook.seen == ["gradient of static_graph"]
    loss.creator.delete_hook("names")
    loss.backward()
    assert hook.seen == ["gradient of static_graph"]
    assert compiled(model) == 1


@pytest.mark.parametrize("where", ["local", "global"])
def test_the_debug_mode_looks_for_nan(where):
    model = replayed()
    model.predictor.l1.W.array[0, 0] = np.nan
    loss = model(X, T)
    config = chainer.config if where == "local" else chainer.global_config
    before = chainer.global_config.debug
    try:
        config.debug = True
        with pytest.raises(RuntimeError, match="NaN is detected on backward"):
            loss.backward()
    finally:
        if where == "local":
            del chainer.config.debug
        chainer.global_config.debug = before
    model.cleargrads()
    loss.backward()
    assert compiled(model) == 1 and np.isnan(model.predictor.l1.W.grad).any()


@pytest.mark.parametrize(
    ("owner", "name"), [(_backprop, "_backprop_to_all"), (_backprop_utils, "backprop_step")]
)
def test_code_of_users_in_the_place_of_chainers(monkeypatch, owner, name):
    model = replayed()
    original, seen = getattr(owner, name), []

    def mine(*args):
        seen.append(name)
        return original(*args)

    monkeypatch.setattr(owner, name, mine)
    model(X, T).backward()
    assert seen == [name] and compiled(model) == 0
    monkeypatch.undo()
    model(X, T).backward()
    assert seen == [name] and compiled(model) == 1


def test_while_a_call_is_traced_in_another_thread():
    model = replayed()
    loss = model(X, T)
    with PATCHES:
        loss.backward()
    assert compiled(model) == 0
    model(X, T).backward()
    assert compiled(model) == 1


class Mine(chainer.FunctionNode):
    """A function of a user's."""

    def forward(self, inputs):
        # Not `* 2`: before NumPy 2, an array without dimensions times an int is a float64.
        return (np.asarray(inputs[0] + inputs[0]),)

    def backward(self, indexes, gys):
        return (gys[0] + gys[0],)


class Old(chainer.Function):
    """The same in the old style."""

    def forward(self, inputs):
        return (np.asarray(inputs[0] + inputs[0]),)

    def backward(self, inputs, gys):
        return (np.asarray(gys[0] + gys[0]),)


@pytest.mark.parametrize(
    "double",
    [
        lambda x: Mine().apply((x,))[0],
        lambda x: Old()(x),
        lambda x: F.forget(lambda y: y + y, x),
    ],
    ids=["own", "old", "forget"],
)
def test_code_of_users_in_the_graph(double):
    model = replayed()
    double(model(X, T)).backward()
    assert compiled(model) == 0
    got = gradients_of(model)
    model.cleargrads()
    (model(X, T) * 2).backward()
    assert compiled(model) == 1
    assert_all_near(got, gradients_of(model), SUMS, "gradient")


def test_a_backward_that_somebody_has_put_on_a_node():
    model = replayed()
    loss = model(X, T)
    product = loss * 3
    node, seen = product.creator, []
    own = node.backward
    node.backward = lambda *args: seen.append(1) or own(*args)
    product.backward()
    assert seen == [1] and compiled(model) == 0


def test_graphs_without_a_replayed_call(monkeypatch):
    seen = []
    original = _backprop_utils.GradTable
    monkeypatch.setattr(
        _backprop_utils, "GradTable", lambda **kwargs: seen.append(1) or original(**kwargs)
    )
    x = chainer.Variable(X)
    F.sum(x * x).backward()
    assert seen == [1]
    model = replayed()
    model(X, T).backward()
    assert seen == [1]


def test_gradients_with_a_history():
    model = replayed()
    x = chainer.Variable(X)
    for _ in range(3):
        loss = model(x, T)
    loss.backward(enable_double_backprop=True)
    with pytest.raises(sdbr.SdbrError, match="enable_double_backprop=True"):
        F.sum(x.grad_var**2).backward()
    loss = model(x, T)
    loss.grad = np.ones((), "f")
    chainer.backward([loss], enable_double_backprop=True)
    assert compiled(model) == 0


def test_a_gradient_that_lies_on_a_sibling():
    """That of `y` stays where it is: a gradient comes to `y` in another way."""
    model = replayed()
    loss = model(X, T)
    model.y.grad = mine = np.ones((5, 3), "f")
    loss.backward()
    assert compiled(model) == 0 and model.y.grad is mine
    got = gradients_of(model)
    model.cleargrads()
    model(X, T).backward()
    assert compiled(model) == 1
    assert_all_near(got, gradients_of(model), SUMS, "gradient")


def test_classes_of_users_derived_from_variable():
    class Loss(chainer.Variable):
        def backward(self, *args, **kwargs):
            seen.append(1)
            super().backward(*args, **kwargs)

    seen = []
    model = replayed()
    loss = model(X, T)
    loss.__class__ = Loss
    loss.backward()
    assert seen == [1] and compiled(model) == 1


def test_deprecated_losses_of_one_element_are_warned_of():
    model = replayed(lambda: Net(lambda s, x: F.sum(s.l(x), keepdims=True), l=L.Linear(4, 3)), (X,))
    loss = model(X)
    with pytest.warns(DeprecationWarning, match="only one element"):
        loss.backward()
    assert loss.shape == (1, 1) and model.l.W.grad is not None


# --- what it does as Chainer does ---------------------------------------------------------------
def test_lazy_sums():
    """Gradients are added when all are there."""
    records = []
    for static in False, True:
        np.random.seed(0)
        model = MLP(4, 8, 3)
        model = sdbr.static_graph(model) if static else model
        with chainer.using_config("lazy_grad_sum", True):
            for _ in range(5):
                model.cleargrads()
                x = chainer.Variable(X)
                y = model(x)
                (F.sum(y * y) + F.sum(model(x))).backward()
                records.append({**gradients_of(model), "x": copy_of(x.grad)})
    assert compiled(model) >= 8
    for got, want in zip(records[5:], records[:5], strict=True):
        assert_all_near(got, want, SUMS, "gradient")


def test_a_sum_is_written_to_the_newest_array_alone():
    model = replayed(lambda: Net(lambda s, x: F.sum(s.l(x) ** 2), l=L.Linear(4, 3)), (X,))
    model(X).backward()
    first = model.l.W.grad
    before = first.copy()
    model(X).backward()
    second = model.l.W.grad
    assert second is not first and (first == before).all()
    np.testing.assert_array_equal(second, before + before)
    assert second.flags.owndata and second.base is None
    assert compiled(model) == 2


@pytest.mark.parametrize("kind", ["strided", "fortran", "read-only", "double", "broadcast"])
def test_unusual_gradients_of_users(kind):
    """They are added to as in define-by-run, or refused in its words."""
    make = {
        "strided": lambda: np.ones((3, 8), "f")[:, ::2],
        "fortran": lambda: np.asfortranarray(np.arange(12, dtype="f").reshape(3, 4)),
        "read-only": lambda: np.broadcast_to(np.float32(2), (3, 4)),
        "double": lambda: np.ones((3, 4)),
        "broadcast": lambda: np.ones((1, 4), "f"),
    }[kind]
    found = []
    for static in False, True:
        np.random.seed(0)
        model = Net(lambda s, x: F.sum(s.l(x) ** 2), l=L.Linear(4, 3))
        model = sdbr.static_graph(model) if static else model
        for _ in range(4):
            loss = model(X)
            model.cleargrads()
            model.l.W._grad = make()  # past Chainer's own check
            try:
                loss.backward()
                found.append(model.l.W.grad.copy())
            except (TypeError, ValueError, chainer.utils.type_check.InvalidType) as error:
                found.append(type(error).__name__)
    for got, want in zip(found[4:], found[:4], strict=True):
        if isinstance(want, str):
            assert got == want
        else:
            assert_near(got, want, SUMS, kind)
    assert compiled(model) == 3


def test_a_parameter_of_two_replayed_calls():
    records = []
    for static in False, True:
        np.random.seed(0)
        shared = L.Linear(4, 4)
        nets = [Net(lambda s, x: F.tanh(s.shared(s.l(x))), l=L.Linear(4, 4)) for _ in range(2)]
        for net in nets:
            with net.init_scope():
                net.shared = shared
        if static:
            nets = [sdbr.static_graph(net, on_dynamic="raise") for net in nets]
        for _ in range(4):
            for net in nets:
                net.cleargrads()
            loss = F.sum(nets[1](nets[0](X)) ** 2)
            loss.backward()
            records.append({**gradients_of(nets[0]), "other": copy_of(nets[1].l.W.grad)})
    for got, want in zip(records[4:], records[:4], strict=True):
        assert_all_near(got, want, SUMS, "gradient")
    assert [compiled(net) for net in nets] == [3, 3]


def test_after_an_error_everything_is_as_before():
    """A parameter of another shape: the configuration, the instance and the lock are free again."""
    model = replayed()
    loss = model(X, T)
    right = model.predictor.l2.W.array
    model.predictor.l2.W.array = np.zeros((4, 8), "f")
    with pytest.raises(sdbr.SdbrError, match=r"is float32\[4, 8\] in the backward"):
        loss.backward()
    assert "enable_backprop" not in chainer.config._local.__dict__
    model.predictor.l2.W.array = right
    model.cleargrads()
    loss.backward()
    got = gradients_of(model)
    model.cleargrads()
    model(X, T).backward()
    assert_all_near(got, gradients_of(model), SUMS, "gradient")
    assert compiled(model) == 2


def test_no_gradient_to_begin_with():
    model = replayed(lambda: MLP(4, 8, 3), (X,))
    y = model(X)
    with pytest.raises(sdbr.SdbrError, match="got no gradient of any output"):
        y.backward()
    y.grad = np.ones_like(y.array)
    y.backward()
    assert compiled(model) == 1 and y.grad is None


def test_the_configuration_during_a_backward():
    """Functions of Chainer's see no_backprop_mode, whatever was set before."""
    model = replayed(lambda: MLP(4, 8, 3), (X,))
    for before in (True, False, None):
        if before is not None:
            chainer.config.enable_backprop = before
        try:
            with chainer.using_config("enable_backprop", True):
                loss = F.sum(model(X) ** 2)
                loss.backward()
        finally:
            if before is not None:
                assert chainer.config.enable_backprop is before
                del chainer.config.enable_backprop
        assert model.l1.W.grad_var.creator is None
    assert compiled(model) == 3


def test_threads():
    """Each goes back through graphs of its own; what they share are the parameters' arrays."""
    model = replayed(lambda: MLP(4, 8, 3), (X,))
    xs = [np.random.RandomState(i).randn(5, 4).astype("f") for i in range(4)]
    want, got = {}, {}
    for i, x in enumerate(xs):
        v = chainer.Variable(x)
        F.sum(model(v) ** 2).backward()
        want[i] = copy_of(v.grad)

    def work(i):
        for _ in range(200):
            v = chainer.Variable(xs[i])
            F.sum(model(v) ** 2).backward()
            if i not in got or not np.allclose(got[i], want[i]):
                got[i] = copy_of(v.grad)

    before = compiled(model)
    in_threads(4, work)
    assert_all_near(dict(sorted(got.items())), want, SUMS, "gradient of thread")
    assert compiled(model) == before + 800


# --- cleargrads ---------------------------------------------------------------------------------
def cleared(link) -> dict:
    return {
        path: (str(p._grad), p._grad_var, p._grad_valid, type(p._grad_initializer))
        for path, p in link.namedparams()
    }


def linked():
    class Own(chainer.Chain):
        """Hides one of its parameters."""

        def params(self, include_uninit=True):
            return (p for p in super().params(include_uninit) if p.name != "b")

    class Slow(chainer.Parameter):
        def cleargrad(self):
            super().cleargrad()
            self.cleared = True

    chain = chainer.Chain(a=L.Linear(3, 2), b=L.Linear(None, 2), c=Own(d=L.Linear(2, 2)))
    with chain.init_scope():
        chain.p = chainer.Parameter(np.ones(3, "f"))
        chain.e = chainer.ChainList(L.Linear(2, 2), chainer.Sequential(L.Linear(2, 2), F.relu))
        chain.slow = Slow(np.ones(2, "f"))
    return chain


@pytest.mark.parametrize("name", ["a", "b", "c", "e", ""])
def test_cleared_gradients(name):
    found = []
    for way in chainer.Link.cleargrads.__wrapped__, chainer.Link.cleargrads:
        link = linked() if not name else linked()[name]
        for i, p in enumerate(link.params()):
            if p.array is not None and i % 2:
                p.grad_var = chainer.Variable(np.zeros_like(p.array))
        way(link)
        found.append(cleared(link))
        if not name:
            assert link.slow.cleared
    assert found[0] == found[1]


def test_clearing_by_code_of_users(monkeypatch):
    link, seen = L.Linear(3, 2), []
    monkeypatch.setattr(link.W, "cleargrad", lambda: seen.append("W"), raising=False)
    link.cleargrads()
    assert seen == ["W"] and link.b.grad is None
    monkeypatch.setattr(chainer.Parameter, "cleargrad", lambda self: seen.append("any"))
    L.Linear(3, 2).cleargrads()
    assert seen == ["W", "any", "any"]
