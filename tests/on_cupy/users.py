"""Code of users on a GPU, call by call: static as define-by-run, in all that a user can see."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import sdbr

import chainer
import chainer.functions as F
import chainer.links as L
import cupy
import numpy as np
import pytest

from tests.harness.comparison import assert_near
from tests.tolerances import GRADIENTS

from .harness import DEVICE

N, D, K = 6, 4, 3
_SEEN = (chainer.Variable, cupy.ndarray, np.ndarray, int, float, list)
CALLS = 6


class Model(chainer.Chain):
    """Two layers, arrays that a user may keep on a GPU and on the host, and a forward."""

    def __init__(self, forward: Callable) -> None:
        super().__init__()
        with self.init_scope():
            self.l = L.Linear(D, D)
            self.o = L.Linear(D, K)
        self.add_persistent("mean", np.zeros(D, "f"))
        self.add_persistent("var", np.ones(D, "f"))
        self.to_device(DEVICE)
        self.memory = cupy.zeros((8, D), "f")
        self.counts = cupy.zeros(K, "i")
        self.confusion = cupy.zeros((K, K), "i")
        self.table = np.random.RandomState(5).randn(K, D).astype("f")
        self.seen = np.zeros(K)
        self.n = 0
        self.eps = 0.5
        self.h = None
        self._forward = forward

    def forward(self, *args):
        return self._forward(self, *args)


def host(i: int) -> tuple:
    """A batch as a data set gives it: pictures and labels, of which some are -1."""
    rng = np.random.RandomState(i)
    t = rng.randint(0, K, N).astype("i")
    return rng.randn(N, D).astype("f"), t


def there(i: int) -> tuple:
    """The same on the GPU."""
    return tuple([cupy.asarray(x) for x in host(i)])


def seen(thing):
    """All that can be seen of something, as what it is."""
    if isinstance(thing, chainer.Variable):
        return "Variable", thing.requires_grad, seen(thing.array)
    if isinstance(thing, cupy.ndarray):
        assert type(thing) is cupy.ndarray
        return "cupy", thing.get()
    if isinstance(thing, np.ndarray):
        assert type(thing) is np.ndarray
        return "numpy", thing.copy()
    if isinstance(thing, (list, tuple)):
        return type(thing)([seen(part) for part in thing])
    if isinstance(thing, dict):
        return {key: seen(part) for key, part in thing.items()}
    return thing


def state(model: chainer.Link) -> dict:
    """Parameters, gradients, and all other attributes of a model and of what is below it."""
    found = {}
    for path, link in model.namedlinks():
        for name, thing in sorted(link.__dict__.items()):
            if isinstance(thing, chainer.Parameter):
                found[f"{path}/{name}"] = seen(thing.array), seen(thing.grad)
            elif isinstance(thing, _SEEN) and name[0] != "_":
                found[f"{path}/{name}"] = seen(thing)
    return found


def assert_same(got, want, path: str) -> None:
    assert type(got) is type(want), f"{path}: {type(got)} for {type(want)}"
    if isinstance(want, dict):
        assert list(got) == list(want), path
        for key in want:
            assert_same(got[key], want[key], f"{path}, {key}")
    elif isinstance(want, (list, tuple)):
        assert len(got) == len(want), path
        for i, (a, b) in enumerate(zip(got, want, strict=True)):
            assert_same(a, b, f"{path}[{i}]")
    elif isinstance(want, np.ndarray):
        assert_near(got, want, GRADIENTS, path)
    elif isinstance(want, float):
        assert_near(np.array(got), np.array(want), GRADIENTS, path)
    else:
        assert got == want, path


def of_call(model, *args):
    """A call, and a backward where there is something to go back from; what was returned."""
    result = model(*args)
    first = result[0] if isinstance(result, tuple) else result
    model.cleargrads()
    if isinstance(first, chainer.Variable) and first.creator_node is not None:
        F.sum(first * first).backward()
    return seen(result)


def run(forward: Callable, given: Callable, static: bool, optimizer=None, spoil=True) -> tuple:
    """The model after some calls, or steps, and all that was seen of each."""
    np.random.seed(0)
    cupy.random.seed(0)
    model = Model(forward)
    if static:
        model = sdbr.static_graph(model)
    if optimizer is not None:
        made = optimizer()
        optimizer = (sdbr.static_optimizer(made) if static else made).setup(model)
    reporter, found = chainer.Reporter(), []
    reporter.add_observer("main", model)
    for i in range(CALLS):
        args, observation = given(i), {}
        before = seen(args)
        with reporter.scope(observation):
            result = (of_call if optimizer is None else optimizer.update)(model, *args)
        assert_same(seen(args), before, "arguments")
        if spoil:  # the caller has others for them by now
            for x in args:
                x[...] = 0
        draws = seen(np.random.rand(2)), seen(cupy.random.rand(2))
        found.append((result, state(model), seen(observation), draws))
    return model, found


def compared(forward: Callable, given: Callable, optimizer=None) -> tuple:
    """Statistics of a static model that does what a plain one does, and what was said."""
    _, want = run(forward, given, False, optimizer)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", sdbr.SdbrWarning)
        model, got = run(forward, given, True, optimizer)
    for i, (a, b) in enumerate(zip(got, want, strict=True)):
        assert_same(a, b, f"call {i}")
    said = [str(w.message) for w in caught if issubclass(w.category, sdbr.SdbrWarning)]
    return model, model.schedule_manager.statistics, said


def collected() -> tuple[Callable, list]:
    """A decorator that notes programs, and the list that it notes them in.

    It takes what makes their arguments, and how they have to run: ``python`` is how many Python ops
    each replay has, None: some; ``ways`` how many calls are traced at most, since they go other
    ways.
    """
    found: list = []

    def program(given: Callable = there, python: int | None = 0, ways: int = 1) -> Callable:
        def note(function: Callable) -> Callable:
            found.append(pytest.param(function, given, python, ways, id=function.__name__))
            return function

        return note

    return program, found


def assert_replayed(statistics, said: list, python: int | None, ways: int) -> None:
    assert not said, said
    assert statistics.define_by_run_calls == 0, statistics
    assert statistics.traces <= ways, statistics
    assert statistics.replays >= CALLS - ways, statistics
    if python is None:
        assert statistics.python_ops > 0, statistics
    else:
        assert statistics.python_ops == python * statistics.replays, statistics
