"""Devices, memory, streams and generators of CuPy's look-alike."""

from __future__ import annotations

import threading

import cupy
import numpy as np
import pytest
from chainer.backends import cuda

from tests.harness.threads import join, start

# --- devices and memory --------------------------------------------------------------------------


def test_devices():
    assert cupy.cuda.runtime.getDeviceCount() == 2 and cupy.cuda.Device() == cupy.cuda.Device(0)
    x = cupy.zeros(2)
    with cupy.cuda.Device(1) as device:
        y = cupy.ones(2)
        assert cupy.cuda.runtime.getDevice() == device.id == 1
        assert y.device == device != x.device and hash(y.device) == hash(device)
        assert x[1:].device.id == 0 and x.get().tolist() == [0, 0]
        for mix in (lambda: x + y, lambda: x.sum(), lambda: x + 1, lambda: x.astype("f")):
            with pytest.raises(ValueError, match="different from the current device"):
                mix()
        assert x.copy().device == device and cupy.array(x).device == device
        assert cuda.to_gpu(x, 0) is x and cuda.to_gpu(x, 1).device == device
        cupy.copyto(y, x)
    assert y.get().tolist() == [0, 0] and cupy.cuda.Device().id == 0
    with pytest.raises(cupy.cuda.runtime.CUDARuntimeError):
        cupy.cuda.Device(2).use()
    seen = []
    with cupy.cuda.Device(1):
        join(start(lambda: seen.append(cupy.cuda.Device().id)))
    assert seen == [0]


def test_memory():
    pool = cupy.get_default_memory_pool()
    before, used = pool.requests, pool.used_bytes()
    x = cupy.zeros(1000, "f")
    address = x.data.ptr
    assert (pool.requests - before, pool.used_bytes() - used) == (1, 4096)
    view = x[5:]
    view[...] = 1
    assert (x.T, x.reshape(10, 100)) and pool.requests - before == 1
    del x
    assert pool.used_bytes() - used == 4096
    del view
    assert pool.used_bytes() == used and pool.n_free_blocks() > 0
    assert cupy.empty(1000, "f").data.ptr == address, "a freed block is handed out again"
    pool.free_all_blocks()
    assert (pool.n_free_blocks(), pool.free_bytes()) == (0, 0)
    assert pool.total_bytes() == pool.used_bytes()
    requests = pool.requests
    with cupy.cuda.using_allocator(lambda size: cupy.cuda.MemoryPool().malloc(size)):
        cupy.zeros(3)
    assert pool.requests == requests
    free, total = cupy.cuda.runtime.memGetInfo()
    assert 0 < free <= total


def test_memory_of_others():
    held = np.arange(4.0)
    memory = cupy.cuda.UnownedMemory(held.ctypes.data, held.nbytes, held)
    x = cupy.ndarray((4,), memptr=cupy.cuda.MemoryPointer(memory, 0))
    x += 1
    assert held.tolist() == [1, 2, 3, 4]


def test_streams():
    stream = cupy.cuda.Stream()
    assert cupy.cuda.get_current_stream() == cupy.cuda.Stream.null != stream
    with stream:
        assert cupy.cuda.get_current_stream() is stream
        event = stream.record()
        cupy.cuda.Stream.null.wait_event(event)
    assert cupy.cuda.get_current_stream().ptr == 0 and event.done
    stream.synchronize()


# --- random numbers ------------------------------------------------------------------------------


def test_generators_are_deterministic_and_apart_by_device():
    def draw():
        return [
            cupy.random.rand(3, dtype="f"),
            cupy.random.normal(size=(2, 2)),
            cupy.random.randint(0, 9, 5),
            cupy.random.gamma(2.0, size=3),
            cupy.random.permutation(4),
        ]

    cupy.random.seed(5)
    first = draw()
    cupy.random.seed(5)
    for x, y in zip(first, draw(), strict=True):
        assert (type(x), x.dtype, x.shape) == (cupy.ndarray, y.dtype, y.shape)
        np.testing.assert_array_equal(x.get(), y.get())
    assert not (cupy.random.rand(3, dtype="f") == first[0]).any()
    state = cupy.random.get_random_state()
    with cupy.cuda.Device(1):
        assert cupy.random.get_random_state() is not state
    assert cupy.random.get_random_state() is state


def test_which_numbers_are_drawn():
    state = cupy.random.RandomState(0)
    assert isinstance(state._lock, type(threading.Lock()))
    assert state.rand(2, dtype="f").dtype == np.float32
    assert state.rand(2).dtype == np.float64
    state.standard_normal(3, dtype="f"), state.uniform(-1, 1, (2,), "f"), state.randint(3)
    calls = ["uniform", "uniform_double", "normal", "uniform", "generate"]
    assert state._generator.calls == calls
    with pytest.raises(TypeError, match="float32 and float64"):
        state.rand(2, dtype="e")
    with pytest.raises(TypeError, match="integer"):
        state.seed(0.5)
    many = state.uniform(-2, 2, 1000, "f")
    assert -2 <= float(many.min()) < -1 < 1 < float(many.max()) <= 2


def test_distributions_have_their_shapes():
    state = cupy.random.RandomState(0)
    for name, arguments in {
        "beta": (1.0, 2.0), "binomial": (5, 0.5), "chisquare": (2.0,), "exponential": (2.0,),
        "geometric": (0.5,), "gumbel": (), "laplace": (), "logistic": (), "lognormal": (),
        "pareto": (2.0,), "poisson": (3.0,), "rayleigh": (), "standard_cauchy": (),
        "standard_exponential": (), "standard_gamma": (2.0,), "standard_t": (3.0,),
        "weibull": (2.0,), "normal": (), "uniform": (),
    }.items():  # fmt: skip
        drawn = getattr(state, name)(*arguments, size=(2, 3))
        assert type(drawn) is cupy.ndarray and drawn.shape == (2, 3), name
        assert cupy.isfinite(drawn).all(), name
    assert state.dirichlet(cupy.ones(3), size=2).sum(axis=1).get() == pytest.approx([1, 1])
    assert state.choice(5, 3, replace=False).shape == (3,)
    assert state.choice(cupy.arange(5), 4, p=cupy.full(5, 0.2)).shape == (4,)
    assert state.normal(cupy.zeros(3), cupy.ones(3), dtype="f").shape == (3,)
