"""``validate_every``: define-by-run beside the replay, without leaving traces."""

from __future__ import annotations

import array

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L
from chainer import optimizers

from tests.harness.comparison import BACKENDS, check
from tests.harness.draws import STOCHASTIC, run
from tests.harness.hidden import hidden
from tests.harness.models import MODELS, Net, Recurrent, data, floats
from tests.harness.steps import BATCH, OPTIMIZERS, classifier, train
from tests.harness.twins import X
from tests.tolerances import LONG, RESULTS


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", MODELS)
def test_models_pass(name, backend):
    """Results, gradients, state and reports are those of a call that is not validated."""
    make, fresh, _ = MODELS[name]
    steps = 5 + name.startswith("lazy")
    check(make, fresh, backend=backend, optimizer=optimizers.Adam, steps=steps, validate_every=2)


def test_recurrent_state():
    check(Recurrent, data(floats(2, 3)), steps=7, traces=2, validate_every=1)


@pytest.mark.parametrize("name", STOCHASTIC)
def test_draws_are_made_once(name):
    W = np.random.RandomState(1).randn(4, 4).astype("f")
    plain, static = (Net(STOCHASTIC[name], l=L.Linear(4, 4, initialW=W)) for _ in range(2))
    sdbr.static_graph(static, validate_every=1, on_dynamic="raise")
    want, got = run(plain, 3), run(static, 3)
    for g, w in zip(got, want, strict=True):
        for key in w:
            np.testing.assert_allclose(g[key], w[key], rtol=LONG, atol=RESULTS)
    assert static.schedule_manager.statistics.replays == 4


def test_steps_go_piece_by_piece():
    _, model, _ = train(
        classifier, BATCH, OPTIMIZERS["adam"], static=True, steps=5, validate_every=2
    )
    statistics = model.schedule_manager.statistics
    assert (statistics.replays, statistics.steps) == (4, 0)
    assert "validate_every" in model.schedule_manager.step_reason


FACTOR = [1.0]
factor = hidden(FACTOR)


@pytest.fixture
def set_factor():
    """Sets it for the time of a test."""
    yield lambda value: FACTOR.__setitem__(0, value)
    FACTOR[0] = 1.0


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_first_op_that_differs_is_named(backend, set_factor):
    def forward(self, x):
        return F.sum(F.tanh(F.leaky_relu(self.l(x), factor())) ** 2)

    static = sdbr.static_graph(Net(forward, l=L.Linear(4, 3)), validate_every=3, backend=backend)
    for _ in range(3):
        static(X)
    set_factor(2.0)
    with pytest.raises(sdbr.ValidationError) as caught:
        static(X)
    message = str(caught.value)
    assert "op 1 of the forward program (LeakyReLU / at" in message
    assert "test_validation.py" in message and "leaky_relu" in message
    # An error ends a replay that does not count: the next one is looked at, too.
    set_factor(1.0)
    static(X)
    set_factor(2.0)
    static(X)  # only every third replay is looked at


def test_another_path_is_named(set_factor):
    def forward(self, x):
        h = self.l(x)
        return F.tanh(h) if factor() == 1 else F.relu(h)

    static = sdbr.static_graph(Net(forward, l=L.Linear(4, 3)), validate_every=1)
    static(X)
    static(X)
    set_factor(2.0)
    with pytest.raises(
        sdbr.ValidationError, match=r"function 1 .*Tanh.* in define-by-run it is ReLU"
    ):
        static(X)


TIMES = array.array("i", [0])  # what no audit puts back


class Wrong(chainer.FunctionNode):
    """Its gradient is another one every time."""

    def forward(self, inputs):
        return (inputs[0] * 1,)

    def backward(self, indexes, grads):
        TIMES[0] += 1
        return (grads[0] * TIMES[0],)


def test_gradients_that_differ_are_named():
    static = sdbr.static_graph(
        Net(lambda self, x: F.sum(Wrong().apply((self.l(x),))[0]), l=L.Linear(4, 3)),
        validate_every=2,
    )
    static(X).backward()
    static(X).backward()
    with pytest.raises(sdbr.ValidationError, match="gradient of parameter"):
        static(X).backward()
