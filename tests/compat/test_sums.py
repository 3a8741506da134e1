"""``x + y`` of what replayed calls give, and gradients of variables, without Chainer's code."""

from __future__ import annotations

import contextlib
import threading

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L
from chainer.functions.math.basic_math import Add
from chainer.functions.math.sum import Sum

from tests.harness.comparison import assert_all_near, assert_near, copy_of, gradients_of
from tests.harness.models import MLP, Net
from tests.harness.nodes import Names
from tests.harness.replayed import X, digest_of, replayed
from tests.tolerances import SUMS

#: The code that the compiled was written from: where one changes, so may what that has to do.
SOURCES = {
    (Add, "forward"): "33ca7dfed897",
    (Add, "backward"): "3d6f9d199861",
    (Add, "check_type_forward"): "d2fce87ea8a5",
}


@pytest.mark.parametrize(("owner", "name"), SOURCES)
def test_chainers_code_is_what_this_was_written_from(owner, name):
    assert digest_of(owner, name) == SOURCES[owner, name]


@pytest.fixture
def of_chainer(monkeypatch):
    """Counts backwards of sums by Chainer's own code; replaced code is asked, as anywhere."""
    seen = []
    sum_to = chainer.functions.sum_to
    monkeypatch.setattr(F, "sum_to", lambda *args: seen.append(1) or sum_to(*args))
    return seen


def losses(how, steps=6):
    """Gradients and what lies on Variables, by define-by-run and by replays, and the model."""
    records = []
    for static in False, True:
        np.random.seed(0)
        model = MLP(4, 8, 3)
        model = sdbr.static_graph(model, on_dynamic="raise") if static else model
        for _ in range(steps):
            model.cleargrads()
            shown = how(model)
            records.append({**gradients_of(model), **{k: copy_of(v) for k, v in shown.items()}})
    for got, want in zip(records[steps:], records[:steps], strict=True):
        assert_all_near(got, want, SUMS, "gradient")
    assert model.schedule_manager.statistics.compiled_backwards > 3
    return model


def two_losses(model):
    loss = F.sum(model(X) ** 2) + F.sum(model(X))
    loss.backward()
    return {"loss": loss.array}


def of_the_same(model):
    y = model(X)
    z = y + y
    F.sum(z**2).backward(retain_grad=True)
    return {"y": y.grad, "z": z.grad}


def an_array_added(model):
    y = model(X)
    z = y + np.ones((5, 3), "f")
    F.sum(z**2).backward(retain_grad=True)
    return {"y": y.grad, "z": z.grad}


def given_gradients(model):
    y = model(X)
    z = y + model(X)
    z.grad = np.arange(15, dtype="f").reshape(5, 3)
    z.backward(retain_grad=True)
    return {"y": y.grad, "z": z.grad}


@pytest.mark.parametrize("how", [two_losses, of_the_same, an_array_added, given_gradients])
def test_sums_of_results(how, of_chainer):
    model = losses(how)
    assert of_chainer  # plain Chainer's
    of_chainer.clear()
    how(model)
    assert not of_chainer


def test_shapes_that_broadcast_are_chainers(of_chainer):
    def how(model):
        y = model(X)
        F.sum(y + np.ones((1, 3), "f")).backward()
        return {}

    model = losses(how)
    of_chainer.clear()
    how(model)
    assert of_chainer


@pytest.mark.parametrize("name", ["forward", "backward", "check_type_forward"])
def test_code_in_the_place_of_chainers_is_asked(monkeypatch, name):
    model = replayed(lambda: MLP(4, 8, 3), (X,))
    seen, original = [], getattr(Add, name)
    monkeypatch.setattr(Add, name, lambda *args: seen.append(name) or original(*args))
    (F.sum(model(X)) + F.sum(model(X))).backward()
    assert seen == [name]


@pytest.mark.parametrize("dtype", ["i", "d"])
def test_dtypes_that_differ_are_refused_in_chainers_words(dtype):
    model = replayed(lambda: MLP(4, 8, 3), (X,))
    with pytest.raises(chainer.utils.type_check.InvalidType, match="dtype"):
        model(X) + chainer.Variable(np.ones((5, 3), dtype))


def test_no_gradient_to_begin_with():
    words = []
    for make in (lambda: MLP(4, 8, 3), lambda: replayed(lambda: MLP(4, 8, 3), (X,))):
        model = make()
        with pytest.raises(AttributeError) as error:
            (model(X) + model(X)).backward()
        words.append(str(error.value))
    assert words[0] == words[1]


def test_a_history_of_gradients_through_a_sum():
    model = replayed(lambda: MLP(4, 8, 3), (X,))
    x = chainer.Variable(X)
    y = model(X) + x[:, :3]
    (gx,) = chainer.grad([F.sum(y * y)], [x], enable_double_backprop=True)
    assert_near(gx.array[:, :3], 2 * y.array, SUMS, "gradient")
    assert gx.creator is not None


def test_what_numpy_raises_of_a_sum():
    y = replayed(lambda: MLP(4, 8, 3), (X,))(X)
    huge = np.full((5, 3), np.inf, "f")
    with np.errstate(all="raise"), pytest.raises(FloatingPointError):
        (y + huge) + (-huge)


def test_the_gradient_of_a_parameter_is_a_variable_when_asked():
    model = replayed(lambda: MLP(4, 8, 3), (X,))
    F.sum(model(X)).backward()
    for param in model.params():
        held = param.grad_var
        assert type(held) is chainer.Variable and held.array is param.grad
        assert held.requires_grad and held.creator is None and param.grad_var is held
    before = {path: copy_of(p.grad) for path, p in model.namedparams()}
    F.sum(model(X)).backward()  # added to what Variables hold by now
    for path, param in model.namedparams():
        np.testing.assert_array_equal(param.grad, 2 * before[path])
        assert param.grad_var.array is param.grad


def test_a_parameter_of_a_class_of_a_users():
    class Own(chainer.Parameter):
        """Counts what is set."""

        def _set_grad_var_without_check(self, gv):
            seen.append(type(gv))
            super()._set_grad_var_without_check(gv)

    seen = []
    model = replayed(lambda: Net(lambda s, x: F.sum(s.l(x)), l=L.Linear(4, 3)), (X,))
    model.l.b.__class__ = Own
    for _ in range(3):
        model.cleargrads()
        loss = model(X)
        loss.backward()
    assert set(seen) == {type(None), chainer.Variable}
    np.testing.assert_array_equal(model.l.b.grad, np.full(3, 5, "f"))


def both(program):
    """What a program gives with a plain model and with one whose calls are replays."""
    np.random.seed(0)
    return program(MLP(4, 8, 3)), program(replayed(lambda: MLP(4, 8, 3), (X,)))


def test_a_gradient_keeps_its_history():
    def program(model):
        leaf, w = chainer.Variable(np.zeros((5, 3), "f")), chainer.Variable(np.ones((5, 3), "f"))
        given = F.tanh(w)
        z = model(X) + leaf
        z.grad_var = given
        z.backward(retain_grad=True)
        same = leaf.grad_var is given, z.grad_var is given
        F.sum(leaf.grad_var).backward()
        return same, w.grad.tolist()

    plain, static = both(program)
    assert static == plain and plain[0] == (True, True)


@pytest.mark.parametrize("shape", [(2, 5, 3), (1, 5, 3), ()])
def test_gradients_of_more_dimensions(shape):
    def program(model):
        leaf = chainer.Variable(np.zeros((5, 3), "f"))
        z = model(X) + leaf
        try:
            chainer.backward([z], [chainer.Variable(np.ones(shape, "f"))])
        except Exception as error:
            return type(error)
        return leaf.grad.tolist()

    plain, static = both(program)
    assert static == plain


def test_code_on_the_function_before_it_is_applied():
    def program(model):
        function = Add()
        function.forward = lambda xs: (xs[0] - xs[1],)
        y = model(X)
        return function.apply((y, y))[0].array.tolist()

    plain, static = both(program)
    assert static == plain == np.zeros((5, 3)).tolist()


@pytest.mark.parametrize("name", ["backward", "backward_accumulate"])
@pytest.mark.parametrize("where", ["function", "class"])
def test_code_that_comes_after_the_forward(monkeypatch, name, where):
    def program(model):
        model.cleargrads()
        z = model(X) + model(X)
        with monkeypatch.context() as m:
            if where == "class":
                m.setattr(Add, name, lambda self, i, gys, *given: (3 * gys[0],) * len(i))
            else:
                setattr(z.creator, name, lambda i, gys, *given: (3 * gys[0],) * len(i))
            F.sum(z).backward()
        return gradients_of(model)

    plain, static = both(program)
    assert_all_near(static, plain, SUMS, "gradient")


@pytest.mark.parametrize("by_chainer", [False, True])
def test_a_loss_scale_reaches_what_the_backward_reaches(by_chainer):
    class Heads(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.p, self.v = L.Linear(4, 2), L.Linear(4, 1)

        def forward(self, x):
            return self.p(x), self.v(x)

    found = []
    for static in False, True:
        np.random.seed(0)
        model = Heads()
        model = sdbr.static_graph(model, on_dynamic="raise") if static else model
        for _ in range(4):
            model.cleargrads()
            losses = [F.sum(model(X)[i]) for i in (1, 0, 0)]
            with Names() if by_chainer else contextlib.nullcontext():
                losses[0].backward()
                losses[1].backward()
                losses[2].backward(loss_scale=8.0)
            scales = {name: p._loss_scale for name, p in model.namedparams()}
            found.append((scales, model.p.b.grad.tolist(), model.v.b.grad.tolist()))
    assert found[4:] == found[:4]
    assert found[0][0] == {"/p/W": 8.0, "/p/b": 8.0, "/v/W": None, "/v/b": None}
    assert bool(model.schedule_manager.statistics.compiled_backwards) != by_chainer
    assert model.schedule_manager.statistics.replays > 4


@pytest.mark.parametrize("is_view", [False, True])
def test_arrays_that_somebody_holds_are_not_written_to(monkeypatch, is_view):
    """The second gradient of a leaf is a Variable of such an array, or of a view of one."""
    x = chainer.Variable(X)
    kept = np.arange(28, dtype="f").reshape(7, 4)
    before = kept.copy()
    rows = slice(1, 6)
    own = kept[rows].copy()

    def backward(self, indexes, gys):
        if self.inputs[0].shape != X.shape:
            return (chainer.Variable(np.ones(self.inputs[0].shape, "f")),)
        return (chainer.Variable(kept[rows] if is_view else own),)

    with chainer.using_config("lazy_grad_sum", True):  # else each step of Chainer's sums by itself
        model = replayed(lambda: MLP(4, 8, 3), (X,))
        loss = F.sum(model(X)) + F.sum(x) + F.sum(x)
        monkeypatch.setattr(Sum, "backward", backward)
        loss.backward()
    np.testing.assert_array_equal(kept, before)
    np.testing.assert_array_equal(own, before[rows])
    np.testing.assert_array_equal(x.grad, 2 * own)
    assert model.schedule_manager.statistics.compiled_backwards == 1


def test_what_gets_no_gradient_is_not_gone_through(monkeypatch):
    model = replayed(lambda: MLP(4, 8, 3), (X,))
    loss = F.sum(model(X)) + F.sum(model(X) ** 2)
    monkeypatch.setattr(Sum, "backward", lambda self, indexes, gys: (None,))
    loss.backward()
    assert all(p.grad is None for p in model.params())
    assert model.schedule_manager.statistics.compiled_backwards == 0


def test_sums_of_a_thread_whose_backward_ends_before_another(monkeypatch):
    """What goes back is known for each thread by itself."""
    model = replayed(lambda: MLP(4, 8, 3), (X,))
    losses = [F.sum(model(X)), F.sum(model(X))]
    main, other_is_in, done = threading.get_ident(), threading.Event(), threading.Event()
    other = threading.Thread(target=losses[1].backward)
    backward = Sum.backward

    def meeting(self, indexes, gys):
        if threading.get_ident() == main:
            other.start()
            assert other_is_in.wait(10)
        else:
            other_is_in.set()
            assert done.wait(10)
        return backward(self, indexes, gys)

    with monkeypatch.context() as m:
        m.setattr(Sum, "backward", meeting)
        losses[0].backward()
        done.set()
        other.join()
    assert model.schedule_manager.statistics.compiled_backwards == 2
    assert "sdbr_compiled" in vars((model(X) + model(X)).creator)
