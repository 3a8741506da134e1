"""What the programs of tests/on_cupy use: models on a GPU, arrays, all that can be seen of them."""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Callable

import sdbr

import chainer
import cupy
import numpy as np
import pytest

from tests.conftest import ON
from tests.harness import device
from tests.harness.comparison import assert_near
from tests.tolerances import GRADIENTS

two_devices = pytest.mark.skipif(
    cupy.cuda.runtime.getDeviceCount() < 2, reason="there is one GPU here, and two are needed"
)


def normal(*shape: int, seed: int = 0, dtype: str = "f"):
    """Standard normal numbers on the GPU."""
    return cupy.asarray(np.random.RandomState(seed).randn(*shape).astype(dtype))


def whole(n: int, *shape: int, seed: int = 0, dtype: str = "i"):
    """Whole numbers below `n` on the GPU."""
    return cupy.asarray(np.random.RandomState(seed).randint(0, n, shape).astype(dtype))


@contextlib.contextmanager
def late_runs():
    """Nothing runs till somebody waits, or till the end; all have run afterwards.

    The driver without a device can do so. On a GPU a stream waits for a function of the host, till
    what this yields is called.
    """
    if ON == "gpu" and "host_cupy" in cupy.__file__:
        pytest.skip("needs a stream that waits for the host")
    gc.collect()  # what is freed waits for the device: nothing of the tests before is, then
    gc.disable()
    try:
        with _late() if ON != "gpu" else _held_back() as goes_on:
            yield goes_on
    finally:
        gc.enable()


@contextlib.contextmanager
def _late():
    device.setting("late").value = 1
    try:
        yield lambda: None
        device.device().wait()
    finally:
        device.setting("late").value = 0


@contextlib.contextmanager
def _held_back():
    stream, goes_on = cupy.cuda.get_current_stream(), threading.Event()
    stream.launch_host_func(lambda _: goes_on.wait(60), None)
    try:
        yield goes_on.set
    finally:
        goes_on.set()
        stream.synchronize()


def seen(thing):
    """All that can be seen of a result, on the host."""
    if isinstance(thing, chainer.Variable):
        return "Variable", seen(thing.array)
    if isinstance(thing, cupy.ndarray):
        assert type(thing) is cupy.ndarray
        return "array", thing.get()
    if isinstance(thing, (list, tuple)):
        return type(thing)([seen(part) for part in thing])
    if isinstance(thing, dict):
        return {key: seen(part) for key, part in thing.items()}
    return thing


def state(model: chainer.Link) -> list:
    """Parameters, their gradients, and persistent values."""
    params = [(name, seen(p.array), seen(p.grad)) for name, p in sorted(model.namedparams())]
    kept = [
        (path, name, seen(getattr(link, name)))
        for path, link in sorted(model.namedlinks())
        for name in sorted(link._persistent)
    ]
    return [*params, *kept]


class Way:
    """Define-by-run, or static: what makes functions and models of the one or the other.

    Attributes
    ----------
    is_static : bool
    managers : callable
        Those of all that was made.
    """

    def __init__(self, is_static: bool) -> None:
        self.is_static = is_static
        self.made: list = []

    def __call__(self, function: Callable) -> Callable:
        if not self.is_static:
            return function
        self.made.append(sdbr.static_graph(function))
        return self.made[-1]

    def model(self, forward: Callable, **links: Callable) -> chainer.Chain:
        """A chain with this forward, and links by name, on the first GPU."""
        if self.is_static:
            forward = sdbr.static_graph(forward)
        model = type("Model", (chainer.Chain,), {"forward": forward})()
        np.random.seed(1)
        cupy.random.seed(1)
        with model.init_scope():
            for name, make in links.items():
                setattr(model, name, make())
        model.to_device("@cupy:0")
        self.made.append(model)
        return model

    def optimizer(self, optimizer, model):
        """An optimizer that is set up."""
        if self.is_static:
            optimizer = sdbr.static_optimizer(optimizer)
        return optimizer.setup(model)

    def trained(self, model, optimizer, batches) -> list:
        """What there is after each step."""
        self.optimizer(optimizer, model)
        found = []
        for batch in batches:
            optimizer.update(model, *batch)
            found.append(state(model))
        return found

    def statistics(self) -> list:
        """Those of all calls."""
        return [
            thing.schedule_manager.statistics
            for thing in self.made
            if getattr(thing, "schedule_manager", None) is not None
        ]


def assert_alike(got, want, path: str = "result") -> None:
    """The same structure, with arrays that are near each other."""
    assert type(got) is type(want), path
    if isinstance(want, np.ndarray):
        assert_near(got, want, GRADIENTS, path)
    elif isinstance(want, (list, tuple)):
        assert len(got) == len(want), path
        for i, (a, b) in enumerate(zip(got, want, strict=True)):
            assert_alike(a, b, f"{path}[{i}]")
    elif isinstance(want, dict):
        assert list(got) == list(want), path
        for key in want:
            assert_alike(got[key], want[key], f"{path}[{key!r}]")
    elif isinstance(want, float):
        assert_near(np.array(got), np.array(want), GRADIENTS, path)
    else:
        assert got == want, path


def programs() -> tuple[Callable, list]:
    """A decorator that notes programs, and the list that it notes them in.

    It takes how many Python ops each replay has at least; 0: it has none.
    """
    found: list = []

    def program(python: int = 0) -> Callable:
        def note(function: Callable) -> Callable:
            found.append(pytest.param(function, python, id=function.__name__))
            return function

        return note

    return program, found


def assert_replayed(program: Callable, python: int) -> None:
    """A program does the same by replays as by define-by-run."""
    want = program(Way(False))
    way = Way(True)
    assert_alike(program(way), want)
    (statistics,) = way.statistics()
    assert statistics.define_by_run_calls == 0, statistics
    assert statistics.replays >= 3, statistics
    if python:
        assert statistics.python_ops >= python * statistics.replays, statistics
    else:
        assert statistics.python_ops == 0, statistics
