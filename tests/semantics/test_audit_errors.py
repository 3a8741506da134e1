"""Row 20: errors while an audit compares gradients, define-by-run's and those of the audit."""

from __future__ import annotations

from unittest import mock

import sdbr
from sdbr.audit.gradients import gradients

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np
import pytest

from tests.tolerances import ANOTHER_ORDER, RESULTS, ROUNDINGS


class Fails(chainer.FunctionNode):
    """Raises in its backward when it is told to."""

    now = False

    def forward(self, inputs):
        return (inputs[0] * 2,)

    def backward(self, indexes, gys):
        if Fails.now:
            raise TypeError("the backward of a user")
        return (gys[0] * 2,)


def calls(static, n: int = 4):
    with chainer.using_config("sdbr_audit", 1e9):
        for i in range(n):
            x = chainer.Variable(np.full((2, 3), i + 1, "f"))
            F.sum(static(x)).backward()
            np.testing.assert_allclose(x.grad, 2 * np.exp(2 * x.array), rtol=RESULTS)


def doubled(x):
    return F.exp(Fails().apply((x,))[0])


@pytest.mark.parametrize("name", ["things_of", "_facts"])
def test_mistakes_around_the_backward_are_raised(name):
    static = sdbr.static_graph(doubled)
    calls(static, 1)
    wrong = mock.patch(f"sdbr.audit.gradients.{name}", side_effect=TypeError("a mistake of ours"))
    with wrong, pytest.raises(TypeError, match="a mistake of ours"):
        calls(static)


def test_mistakes_beside_the_backward_are_told():
    """Where errors of define-by-run are expected as well."""
    static = sdbr.static_graph(doubled)
    calls(static, 1)
    with (
        mock.patch("sdbr.audit.gradients.gradients", _mistaken),
        pytest.warns(sdbr.SdbrWarning, match=r"could not compare the gradients.*a mistake of ours"),
    ):
        calls(static)
    audits = static.schedule_manager.audits
    assert audits.inconclusive == 4
    assert not audits.gradients
    assert static.schedule_manager.statistics.replays == 4


def _mistaken(ys, xs, gys, inputs, others=(), more=None):
    gradients(ys, xs, gys, inputs, others, more)
    raise TypeError("a mistake of ours")


def test_a_wrong_use_of_chainer_surfaces():
    """An error of chainer.grad itself, which no function has raised."""
    static = sdbr.static_graph(doubled)
    calls(static, 1)

    def misused(ys, xs, gys, inputs, others=(), more=None):
        return chainer.grad(ys[0], xs, gys)

    with (
        mock.patch("sdbr.audit.gradients.gradients", misused),
        pytest.warns(sdbr.SdbrWarning, match="could not compare the gradients"),
    ):
        calls(static)


def test_errors_of_define_by_run_are_inconclusive(recwarn):
    """One that the backward of a function raises, there alone, tells nothing of the replay."""
    static = sdbr.static_graph(doubled)
    calls(static, 1)

    def failing(*args):
        Fails.now = True
        try:
            return gradients(*args)
        finally:
            Fails.now = False

    with mock.patch("sdbr.audit.gradients.gradients", failing):
        calls(static)
    assert static.schedule_manager.audits.inconclusive == 4
    assert not [w for w in recwarn if issubclass(w.category, sdbr.SdbrWarning)]


def test_errors_of_both_reach_the_user():
    """The error of the user's own backward, as in define-by-run."""
    static = sdbr.static_graph(doubled)
    calls(static, 2)
    with chainer.using_config("sdbr_audit", 1e9), mock.patch.object(Fails, "now", True):
        x = chainer.Variable(np.ones((2, 3), "f"))
        y = F.sum(static(x))
        with pytest.raises(TypeError, match="the backward of a user"):
            y.backward()
    calls(static, 2)


class Bad(chainer.FunctionNode):
    """Raises on large numbers, in its forward or in its backward; counts its calls."""

    calls = 0

    def __init__(self, forward: bool):
        self.in_forward = forward

    def forward(self, inputs):
        Bad.calls += 1
        self.large = inputs[0].max() > 50
        if self.large and self.in_forward:
            raise FloatingPointError("too large")
        return (inputs[0] * 1,)

    def backward(self, indexes, gys):
        if self.large:
            raise FloatingPointError("too large")
        return (gys[0] * 1,)


class Noisy(chainer.Chain):
    """Statistics and a draw before what may raise."""

    def __init__(self, place: str):
        super().__init__()
        self.place = place
        with self.init_scope():
            self.bn = L.BatchNormalization(3, use_beta=False)
            self.fc = L.Linear(3, 3)

    def forward(self, x, t):
        h = F.dropout(self.bn(x), 0.3)
        if self.place != "label":
            h = Bad(self.place == "forward").apply((h * x,))[0]
        chainer.report({"mean": F.mean(h)}, self)
        return F.softmax_cross_entropy(self.fc(h), t)


def seen_of(place, static, audit, whole):
    """What is there after each of some steps, of which some raise."""
    np.random.seed(0)
    Bad.calls = 0
    model, optimizer = Noisy(place), chainer.optimizers.SGD(0.01)
    if static:
        model = sdbr.static_graph(model)
        optimizer = sdbr.static_optimizer(optimizer) if whole else optimizer
    optimizer.setup(model)
    rng = np.random.RandomState(1)
    seen = []
    for i in range(9):
        wrong = i in (1, 2, 6)
        x = rng.randn(4, 3).astype("f") * (50 if wrong and place != "label" else 1)
        t = np.full(4, 9 if wrong and place == "label" else 0, "i")
        raised = None
        with chainer.using_config("sdbr_audit", audit):
            try:
                if whole:
                    optimizer.update(model, x, t)
                else:
                    loss = model(x, t)
                    model.cleargrads()
                    loss.backward()
                    optimizer.update()
            except (IndexError, FloatingPointError, ValueError) as e:
                raised = type(e)
        assert (raised is not None) == wrong
        seen += [raised, int(np.random.get_state()[2]), Bad.calls]
        seen += [p.grad is None for p in model.params()]
        seen += [model.bn.avg_mean.copy(), model.bn.avg_var.copy()]
        seen += [p.array.copy() for p in model.params()]
    return seen, model


@pytest.mark.parametrize("whole", [False, True], ids=["parts", "whole step"])
@pytest.mark.parametrize("audit", ["off", "auto", 1e9])
@pytest.mark.parametrize("place", ["label", "forward", "backward"])
def test_what_was_done_before_an_error_stays(place, audit, whole):
    """As in define-by-run, whether or not the call is an audited one."""
    want, _ = seen_of(place, False, "off", whole)
    got, model = seen_of(place, True, audit, whole)
    assert len(got) == len(want)
    for i, (g, w) in enumerate(zip(got, want, strict=True)):
        if isinstance(w, np.ndarray):
            np.testing.assert_allclose(g, w, ANOTHER_ORDER, ROUNDINGS, err_msg=str(i))
        else:
            assert g == w, i
    statistics = model.schedule_manager.statistics
    assert model.schedule_manager.audits.failed == 0
    assert statistics.replays >= 4
    assert statistics.steps >= (4 if whole else 0)


@pytest.mark.parametrize("audit", ["off", 1e9])
def test_an_interrupt_in_the_backward_of_a_step_leaves_cleared_gradients(audit):
    class Stops(chainer.FunctionNode):
        def forward(self, inputs):
            return (inputs[0] * 1,)

        def backward(self, indexes, gys):
            if stop:
                raise KeyboardInterrupt
            return (gys[0] * 1,)

    class Net(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.a, self.b = L.Linear(3, 3), L.Linear(3, 1)

        def forward(self, x):
            return F.mean(self.b(Stops().apply((self.a(x),))[0]))

    stop = False
    model = sdbr.static_graph(Net())
    optimizer = sdbr.static_optimizer(chainer.optimizers.SGD(0.01)).setup(model)
    with chainer.using_config("sdbr_audit", "off"):
        for _ in range(3):
            optimizer.update(model, np.ones((2, 3), "f"))
    before = [p.array.copy() for p in model.params()]
    stop = True
    with chainer.using_config("sdbr_audit", audit), pytest.raises(KeyboardInterrupt):
        optimizer.update(model, np.ones((2, 3), "f"))
    if audit == "off":  # an audit that is broken off puts everything back
        assert [p.grad is None for p in model.params()] == [True] * 4
    for p, array in zip(model.params(), before, strict=True):
        np.testing.assert_array_equal(p.array, array)
    stop = False
    optimizer.update(model, np.ones((2, 3), "f"))
    assert all(p.grad is not None for p in model.params())


def test_what_an_audited_call_reports_before_it_raises_is_reported():
    """Once, as define-by-run does it; a replay alone reports when all is computed."""

    class Told(chainer.Reporter):
        def report(self, values, observer=None):
            told.append(sorted(values))
            super().report(values, observer)

    class Net(chainer.Chain):
        def forward(self, x):
            chainer.report({"mean": F.mean(x)}, self)
            return Bad(True).apply((x,))[0]

    told: list = []
    model = sdbr.static_graph(Net())
    listener = Told()
    listener.add_observer("main", model)
    with chainer.using_config("sdbr_audit", 1e9), listener.scope({}):
        for i in range(4):
            x = np.full((2, 3), 100 if i == 2 else i, "f")
            if i == 2:
                with pytest.raises(FloatingPointError):
                    model(x)
            else:
                model(x)
    assert told == [["mean"]] * 4
    assert model.schedule_manager.audits.failed == 0
