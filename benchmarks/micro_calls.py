"""What one call costs: native, of a decorated chain, of a static update; and how it grows."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import sdbr
from sdbr._executor import loop_seconds
from sdbr.call.step.whole import last_runner

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np

from benchmarks.micro_dispatch import repeated
from benchmarks.stats import Spread, spread

ROUNDS = 21
SECONDS = 0.01
OPS = ("add", "multiply", "copy", "relu", "exp", "sigmoid", "tanh", "sqrt")
SIZES = (1, 1_024, 65_536)


def time_call(call: Callable[[], Any]) -> Spread:
    """Return the time of a call: median and spread over turns of about 10 ms each."""
    n = 1
    while _seconds(call, n) < SECONDS / 4:
        n *= 4
    n = max(1, int(n * SECONDS / _seconds(call, n)))
    return spread([_seconds(call, n) / n for _ in range(ROUNDS)])


def _seconds(call: Callable[[], Any], n: int) -> float:
    start = perf_counter()
    for _ in range(n):
        call()
    return perf_counter() - start


def record(name: str, found: Spread, **more: Any) -> dict[str, Any]:
    """Return a measurement as plain data, in microseconds."""
    times = {"median_us": found.median, "p10_us": found.p10, "p90_us": found.p90}
    return {"name": name, **more, **{key: 1e6 * value for key, value in times.items()}}


def calls() -> list[dict[str, Any]]:
    """Return the fixed costs; each is compared with the same call define-by-run."""
    chainer.global_config.sdbr_backend = "cython"
    x = np.ones((1, 4), np.float32)
    model, optimizer, t = _tiny_step()
    found = [
        record("native call: run() of a program with one nop", time_call(repeated("nop", 1).run)),
        record("call of a decorated chain, one op, test mode", time_call(_infer(_One(), x, True))),
        record("the same define-by-run", time_call(_infer(_One(), x, False))),
        record("call of a decorated chain and backward", time_call(_backward(_One(), x, True))),
        record("the same define-by-run", time_call(_backward(_One(), x, False))),
    ]
    step = time_call(lambda: optimizer.update(model, x, t))
    found.append(record("static step: Linear(4, 2), cross entropy, Adam", step))
    kernels = _kernel_seconds(optimizer)
    if kernels is not None:
        found.append(record("its kernels alone", kernels))
    reported = time_call(_reported_step(x, t))
    found.append(record("static step of L.Classifier, current reporter", reported))
    return found


class _One(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.w = chainer.Parameter(np.ones((1, 4), np.float32))

    def forward(self, x):
        return self.w + x


class _Loss(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l1 = L.Linear(4, 2)

    def forward(self, x, t):
        return F.softmax_cross_entropy(self.l1(x), t)


def _infer(model: chainer.Chain, x: np.ndarray, static: bool) -> Callable[[], Any]:
    model = sdbr.static_graph(model) if static else model

    def call():
        with chainer.no_backprop_mode():
            return model(x)

    call()
    return call


def _backward(model: chainer.Chain, x: np.ndarray, static: bool) -> Callable[[], Any]:
    model = sdbr.static_graph(model) if static else model
    grad = np.ones_like(x)

    def call():
        model.cleargrads()
        y = model(x)
        y.grad = grad
        y.backward()

    call()
    return call


def _tiny_step() -> tuple[Any, Any, np.ndarray]:
    model = sdbr.static_graph(_Loss())
    optimizer = sdbr.static_optimizer(chainer.optimizers.Adam()).setup(model)
    return model, optimizer, np.zeros(1, np.int32)


def _reported_step(x: np.ndarray, t: np.ndarray) -> Callable[[], Any]:
    model = sdbr.static_graph(L.Classifier(L.Linear(4, 2)))
    optimizer = sdbr.static_optimizer(chainer.optimizers.Adam()).setup(model)
    reporter = chainer.Reporter()
    reporter.add_observer("main", model)

    def call():
        with reporter.scope({}):
            optimizer.update(model, x, t)

    return call


def _kernel_seconds(optimizer: Any) -> Spread | None:
    """Return the time of the loop over the step's program, where there is one."""
    runner = last_runner(optimizer)
    if runner is None:
        return None
    return spread([loop_seconds(runner.executable, 50) for _ in range(ROUNDS)])


def ops() -> list[dict[str, Any]]:
    """Return nanoseconds per op on arrays of three sizes; a program of 100 equal ops each."""
    found = []
    for op in OPS:
        for size in SIZES:
            n = 100 if size < 10_000 else 10
            executable = repeated(op, n, size)
            executable.run()
            times = spread([loop_seconds(executable, 3) / n for _ in range(ROUNDS)])
            found.append(record(op, times, size=size))
    return found


def growth() -> dict[str, list[dict[str, Any]]]:
    """Return the time of a call against the number of parameters, and against the number of ops."""
    chainer.global_config.sdbr_backend = "cython"
    x = np.ones(1, np.float32)
    return {
        "parameters": [_grown(_Parameters(n), x, n) for n in (1, 10, 100, 1_000)],
        "ops": [_grown(_Ops(n), x, n) for n in (1, 10, 100, 1_000, 5_000)],
    }


def _grown(model: chainer.Chain, x: np.ndarray, n: int) -> dict[str, Any]:
    return record("call, test mode", time_call(_infer(model, x, True)), n=n)


class _Parameters(chainer.Chain):
    """One op that reads n parameters: what grows is the guards."""

    def __init__(self, n: int):
        super().__init__()
        with self.init_scope():
            for i in range(n):
                setattr(self, f"w{i}", chainer.Parameter(np.ones(1, np.float32)))
        self.n = n

    def forward(self, x):
        return F.concat([getattr(self, f"w{i}") for i in range(self.n)] + [x], axis=0)


class _Ops(chainer.Chain):
    """n additions."""

    def __init__(self, n: int):
        super().__init__()
        self.n = n

    def forward(self, x):
        y = chainer.as_variable(x)
        for _ in range(self.n):
            y = y + x
        return y
