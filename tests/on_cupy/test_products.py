"""Products that cuBLASLt does, of arrays of CuPy: whole steps, and calls with their backwards."""

import functools

import sdbr

import chainer
import chainer.functions as F
import chainer.links as L
import pytest
from chainer import optimizers

from tests.conftest import ON
from tests.harness import device

from .programs import Way, assert_alike, normal, seen, state, two_devices, whole

pytestmark = pytest.mark.skipif(ON == "gpu", reason="a double without a device")
STEPS = 6


@pytest.fixture
def races():
    """However small they are."""
    with device.by_library():
        yield functools.cache(lambda number: device.Races(device.handle(number), None))


def perceptron(self, x, t):
    return F.softmax_cross_entropy(self.out(F.relu(self.layer(x))), t)


def made(way):
    return way.model(perceptron, layer=lambda: L.Linear(3, 4), out=lambda: L.Linear(4, 2))


def by(executables):
    """What did products."""
    return {str(c) for x in executables for c in x.products.choices.values()}


@pytest.mark.parametrize("late", [0, 1])
def test_whole_steps(executables, late):
    """Also where nothing runs before somebody waits."""
    batches = [(normal(5, 3, seed=k), whole(2, 5, seed=k)) for k in range(STEPS)]
    want, way = Way(False), Way(True)
    want = want.trained(made(want), optimizers.Adam(), batches)
    model = made(way)
    optimizer = way.optimizer(optimizers.Adam(), model)
    device.setting("late").value = late
    try:
        for batch in batches:
            optimizer.update(model, *batch)
        sdbr.synchronize()
    finally:
        device.setting("late").value = 0
    assert_alike(state(model), want[-1])
    statistics = model.schedule_manager.statistics
    assert (statistics.steps, statistics.python_ops) == (STEPS - 1, 0)
    names = ("relu_aux_bias", "bias", "bgrad", "drelu")
    assert by(executables) == {f"cuBLASLt ({name})" for name in names}


@two_devices
def test_each_device_has_a_handle(executables):
    """A model that moves; forwards and backwards by hand."""
    found = []
    for way in (Way(False), Way(True)):
        model, of_way = made(way), []
        for name in ("@cupy:0", "@cupy:1", "@cupy:0"):
            model.to_device(name)
            for k in range(3):
                x, t = normal(5, 3, seed=k), whole(2, 5, seed=k)
                model.cleargrads()
                loss = model(*(chainer.get_device(name).send(a) for a in (x, t)))
                loss.backward()
                of_way.append((seen(loss), state(model)))
        found.append(of_way)
    assert_alike(*found[::-1])
    assert {text.split()[0] for text in by(executables)} == {"cuBLASLt"}
    assert {x.products.races.handle for x in executables} == {device.handle(0), device.handle(1)}
    (statistics,) = way.statistics()
    assert statistics.replays > 4
