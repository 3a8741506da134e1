"""Where arrays lie, and what is said where they lie apart."""

from unittest import mock

import sdbr
from sdbr import backends
from sdbr.backends.cuda import gpus
from sdbr.base.errors import BackendError

import chainer
import chainer.functions as F
import chainer.links as L
import cupy
import numpy as np
import pytest

from .programs import assert_alike, normal, seen, two_devices


class Model(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.layer = L.Linear(3, 2)

    @sdbr.static_graph
    def forward(self, x, y=None):
        return self.layer(x) if y is None else self.layer(x) + y


@pytest.fixture
def model():
    found = Model()
    found.to_device("@cupy:0")
    return found


def test_auto_is_cuda_there(model):
    for _ in range(3):
        model(normal(2, 3))
    assert model.schedule_manager.static_schedule.backend == "cuda"
    assert model.schedule_manager.static_schedule.device == 0
    assert "cuda" in backends.available()


def test_host_and_gpu_have_schedules_of_their_own(model):
    here, there = np.ones((2, 3), "f"), cupy.ones((2, 3), "f")
    for _ in range(2):
        for device, x in (("@numpy", here), ("@cupy:0", there)):
            model.to_device(device)
            for _ in range(2):
                y = model(x)
            assert type(y.array) is type(x)
    statistics = model.schedule_manager.statistics
    assert (statistics.traces, statistics.replays) == (2, 6)
    devices = {key.device for key in model.schedule_manager.schedules}
    assert devices == {None, 0}


@two_devices
def test_each_gpu_has_schedules_of_its_own(model):
    results = []
    for device in (0, 1, 0, 1):
        model.to_device(f"@cupy:{device}")
        with cupy.cuda.Device(device):
            for _ in range(2):
                y = model(cupy.ones((2, 3), "f"))
                assert y.array.device.id == device
                results.append(seen(y))
    assert_alike(results, results[:1] * 8)
    assert model.schedule_manager.statistics.traces == 2


def test_arrays_of_the_host_that_nobody_sends(model):
    """What Chainer says of them; such a call may come again."""
    for _ in range(2):
        with pytest.raises(TypeError, match="incompatible array types are mixed"):
            model(normal(2, 3), np.ones((2, 2), "f"))
        assert model(normal(2, 3)).shape == (2, 2)


@two_devices
def test_arrays_that_lie_apart(model):
    with cupy.cuda.Device(1):
        other = cupy.ones((2, 2), "f")
    with pytest.raises(BackendError, match="array 0 lies on GPU 0, array 1 lies on GPU 1"):
        model(normal(2, 3), other)
    assert model(normal(2, 3)).shape == (2, 2)


@pytest.mark.parametrize("name", ["cython", "numpy"])
def test_backends_of_the_host(model, name):
    with (
        chainer.using_config("sdbr_backend", name),
        pytest.raises(BackendError, match=f"'{name}' takes arrays of NumPy.* lie on GPU 0"),
    ):
        model(normal(2, 3))


def test_cuda_with_arrays_of_the_host():
    with (
        chainer.using_config("sdbr_backend", "cuda"),
        pytest.raises(
            BackendError, match=r"takes arrays of CuPy.*available: .*to_device\('@cupy:0'\)"
        ),
    ):
        Model()(np.ones((2, 3), "f"))


def test_what_is_missing_is_said(model):
    def require():
        raise BackendError("no CUDA driver: libcuda.so.1")

    with mock.patch.object(gpus, "require", require):
        assert "cuda" not in backends.available()
        with pytest.raises(BackendError, match="no CUDA driver"):
            model(normal(2, 3))
    assert model(normal(2, 3)).shape == (2, 2)


def test_an_attribute_of_the_host():
    class Shifted(Model):
        @sdbr.static_graph
        def forward(self, x):
            return self.layer(x) + cupy.asarray(self.shift)

    model = Shifted()
    model.to_device("@cupy:0")
    model.shift = np.ones(2, "f")
    first = model(normal(2, 3))
    for k in range(4):
        if k % 2:
            model.shift = np.full(2, k, "f")
        else:
            model.shift[...] = k
        assert_alike(seen(model(normal(2, 3)) - k), seen(first - 1))
    assert model.schedule_manager.statistics.replays == 4


def test_kernels_are_compiled_when_they_are_first_run(model, executables):
    model(normal(2, 3))
    assert executables == []
    model(normal(2, 3))
    assert len(executables) == 1


def test_explain(model):
    for _ in range(3):
        model(normal(2, 3))
    text = str(sdbr.explain(model))
    assert "forward: 1 native, 0 Python ops (linear)" in text


def test_numbers_of_the_host_stay_there():
    call = sdbr.static_graph(lambda x, a: F.relu(x) * a)
    results = [seen(call(chainer.Variable(normal(2, 3)), float(k))) for k in range(4)]
    assert_alike(results[3], seen(F.relu(normal(2, 3)) * 3.0))
    assert call.schedule_manager.statistics.traces == 1
