"""One case at one size: replays and define-by-run in turn, processor time, the shortest of many."""

from __future__ import annotations

import gc
import time
from typing import Any, NamedTuple

import sdbr

import chainer
import numpy as np

from benchmarks.ops.case import Case, Size

#: Calls before the clock starts: a trace, perhaps a second one, a build, and replays.
WARM = 4
#: Fewest and most rounds, however long they take.
LEAST, MOST = 3, 400


class Times(NamedTuple):
    """Seconds of the processor, the least of all rounds."""

    forward: float
    backward: float

    @property
    def both(self) -> float:
        """One call and its backward."""
        return self.forward + self.backward


class Runner:
    """A function on its inputs: a call, and a backward from all of its outputs.

    All that are compared read the same arrays: of two copies one may lie on huge pages and the
    other not, which alone makes a pass over 8 MB take up to twice as long.

    Parameters
    ----------
    call : callable
    arrays : list of numpy.ndarray
        The inputs.
    gradients : list
        Of the outputs; filled by the first run.
    """

    def __init__(self, call: Any, arrays: list[np.ndarray], gradients: list[np.ndarray]):
        self.call = call
        self.inputs = [chainer.Variable(a) if a.dtype.kind == "f" else a for a in arrays]
        self.variables = [x for x in self.inputs if isinstance(x, chainer.Variable)]
        self.gradients = gradients

    def run(self) -> tuple[float, float]:
        """Time a call, and its backward; 0 where there is nothing to go backward from."""
        for x in self.variables:
            x.cleargrad()
        start = time.thread_time()
        results = self.call(*self.inputs)
        called = time.thread_time()
        ends = list(_ends(results))
        if not ends:
            return called - start, 0.0
        if not self.gradients:
            rng = np.random.default_rng(3)
            self.gradients += [np.asarray(rng.standard_normal(y.shape), y.dtype) for y in ends]
        for y, gradient in zip(ends, self.gradients, strict=True):
            y.grad = gradient
        begun = time.thread_time()
        chainer.backward(ends)
        return called - start, time.thread_time() - begun


def _ends(results: Any):
    """Floating point Variables that have a history, at any depth."""
    if isinstance(results, (tuple, list)):
        for result in results:
            yield from _ends(result)
    elif isinstance(results, chainer.Variable):
        yield from [results] * (results.creator_node is not None and results.dtype.kind == "f")


class Measured(NamedTuple):
    """What came out for one case at one size."""

    static: Times
    plain: Times
    python_ops: int
    rounds: int


def measure(case: Case, size: Size, dtype: str, seconds: float) -> Measured:
    """Replays and define-by-run in turn, for about `seconds` of the processor.

    Raises
    ------
    RuntimeError
        If a call that was timed was no replay.
    """

    def call(*inputs):
        return case.call(*inputs)

    arrays = case.arrays(size, dtype)
    static = sdbr.static_graph(call, on_dynamic="raise")
    gradients: list[np.ndarray] = []
    runners = Runner(static, arrays, gradients), Runner(case.call, arrays, gradients)
    for _ in range(WARM):
        for runner in runners:
            runner.run()
    statistics = static.schedule_manager.statistics
    calls, ops = statistics.replays, statistics.python_ops
    samples: tuple[list, list] = ([], [])
    gc.collect()
    end = time.thread_time() + seconds
    while len(samples[0]) < LEAST or (len(samples[0]) < MOST and time.thread_time() < end):
        order = 1 if len(samples[0]) % 2 else -1  # what one has read is near for the other
        for runner, taken in list(zip(runners, samples, strict=True))[::order]:
            taken.append(runner.run())
    rounds = len(samples[0])
    if statistics.replays - calls != rounds:
        raise RuntimeError(f"{case.name}: {statistics}: calls that are not replays")
    static_times, plain = (Times(*map(min, zip(*taken, strict=True))) for taken in samples)
    return Measured(static_times, plain, (statistics.python_ops - ops) // rounds, rounds)


def settings(dtype: str):
    """The configuration under which cases are timed: one thread, no audits."""
    entries = {"sdbr_audit": "off", "sdbr_num_threads": 1, "dtype": np.dtype(dtype)}
    return [chainer.using_config(name, value) for name, value in entries.items()]
