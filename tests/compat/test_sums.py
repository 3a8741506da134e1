"""``x + y`` of what replayed calls give, and gradients of variables, without Chainer's code."""

from __future__ import annotations

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L
from chainer.functions.math.basic_math import Add

from tests.harness.comparison import assert_all_near, assert_near, copy_of, gradients_of
from tests.harness.models import MLP, Net
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
