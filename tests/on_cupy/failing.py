"""Steps and calls in which something fails: what makes it fail, what is looked at afterwards."""

import contextlib
import functools
import gc

from sdbr.backends.cuda._in_flight import in_flight
from sdbr.base.errors import BackendError

import chainer.functions as F
import chainer.links as L
import cupy
import pytest
from chainer import optimizers

from tests.harness import device

from .programs import normal, seen, state, whole

STEPS = 5
#: What each function of the driver gives, and what an error of it says.
STATUSES = {
    "cuCtxPushCurrent_v2": (201, "INVALID_CONTEXT"),
    "cuGraphLaunch": (2, "OUT_OF_MEMORY.*smaller batches"),
    "cuLaunchKernel": (701, "LAUNCH_OUT_OF_RESOURCES.*more registers"),
    "cuMemAlloc_v2": (2, "OUT_OF_MEMORY"),
    "cuMemcpyHtoDAsync_v2": (1, "error 1"),
    "cuModuleGetFunction": (500, "NOT_FOUND"),
    "cuModuleLoadData": (209, r"NO_BINARY_FOR_GPU.*driver runs CUDA up to 13\.0.*newer NVRTC"),
    "cuStreamCreate": (2, "OUT_OF_MEMORY"),
    "cuStreamSynchronize": (1, "error 1"),
}
WRITTEN = "may have been written"
#: What is lost where something else than that fails while it is given back.
LEFT = ("graphs", "nodes", "events")


def perceptron(self, x, t):
    return F.softmax_cross_entropy(self.out(F.dropout(F.tanh(self.layer(x)), 0.3)), t)


def made(way):
    model = way.model(perceptron, layer=lambda: L.Linear(3, 4), out=lambda: L.Linear(4, 2))
    return model, way.optimizer(optimizers.Adam(0.1), model)


@functools.cache
def batches():
    return [(normal(5, 3, seed=k), whole(2, 5, seed=k)) for k in range(STEPS)]


def everything(model):
    """Parameters, gradients, moments, and how many steps were made."""
    moments = [
        (name, p.update_rule.t, seen(dict(p.update_rule.state or {})))
        for name, p in sorted(model.namedparams())
    ]
    return state(model), moments


def step(model, optimizer, k):
    """One step, whose draws are those of its number."""
    cupy.random.seed(k)
    optimizer.update(model, *batches()[k])
    return everything(model)


@contextlib.contextmanager
def nothing_is_left(executables, but=()):
    """All that was taken is given back when the last holder is gone."""
    gc.collect()
    executables.clear()
    pool = cupy.get_default_memory_pool()
    batches()
    in_flight(device.device(0))  # is there once
    before, used = device.balance(), pool.used_bytes()
    yield
    executables.clear()
    gc.collect()
    assert {**device.balance(), **dict.fromkeys(but)} == {**before, **dict.fromkeys(but)}
    assert pool.used_bytes() == used


def told(run):
    """The error of what failed, as text and class; None without one."""
    try:
        run()
    except Exception as error:
        return type(error), str(error), isinstance(error, BackendError)
    return None


class NoMemory:
    """An allocator that has nothing for the `n`th request, counted from now on."""

    def __init__(self, n):
        self.left = n
        self.before = cupy.cuda.get_allocator()

    def __call__(self, size):
        self.left -= 1
        if not self.left:
            raise cupy.cuda.memory.OutOfMemoryError(size, 0)
        return self.before(size)

    def __enter__(self):
        cupy.cuda.set_allocator(self)
        return lambda: self.left <= 0

    def __exit__(self, *args):
        cupy.cuda.set_allocator(self.before)


def call(self, x):
    return F.sum(F.sigmoid(self.layer(F.dropout(x, 0.4))) ** 2)


def of_calls(way):
    model = way.model(call, layer=lambda: L.Linear(3, 4))
    return model, [normal(5, 3, seed=k) for k in range(STEPS)]


def called(model, x, k):
    """A call and its backward."""
    cupy.random.seed(k)
    model.cleargrads()
    y = model(x)
    y.backward()
    return seen(y), state(model)


def _failing(name, n, status):
    # What is no longer used and given back meanwhile would fail in the place of the step, and be
    # lost: the driver does not take it.
    gc.collect()
    return device.failing(name, n, status)


def ways_to_fail():
    for name, (status, _) in STATUSES.items():
        yield pytest.param(functools.partial(_failing, name, status=status), id=name)
    yield pytest.param(NoMemory, id="memory")
