"""Runs cases with arrays of CuPy, define-by-run and static; what they give comes to the host."""

from __future__ import annotations

import sdbr

import chainer
import cupy
import numpy as np

from tests.equivalence.harness import TRAINING, Case, assert_near, configured

CALLS = 5  # of which the first ones are traced


def host(array):
    """A copy on the host."""
    return None if array is None else cupy.asnumpy(array).copy()


def variables_of(result) -> list:
    """The Variables and arrays in a result, in order."""
    if isinstance(result, (chainer.Variable, cupy.ndarray)):
        return [result]
    if isinstance(result, dict):
        return [y for part in result.values() for y in variables_of(part)]
    if isinstance(result, (list, tuple)):
        return [y for part in result for y in variables_of(part)]
    return []


def run_once(call, case: Case, dtype: str, step: int, as_arrays: bool) -> dict:
    """One call with fresh inputs, and a backward where there is something to go backward from."""
    xs = []
    for array in case.data(step, dtype):
        x = cupy.asarray(array)
        wanted = array.dtype.kind == "f" and not as_arrays
        xs.append(chainer.Variable(x) if wanted else x)
    rng = np.random.default_rng([11, step])
    np.random.seed(step + 1)
    cupy.random.seed(step + 1)
    ys = variables_of(call(*xs))
    arrays = [getattr(y, "array", y) for y in ys]
    assert all(type(y) is cupy.ndarray for y in arrays)
    ends = [y for y in ys if isinstance(y, chainer.Variable) and y.creator_node is not None]
    ends = [y for y in ends if y.dtype.kind == "f"]
    for y in ends:
        y.grad = cupy.asarray(np.asarray(rng.standard_normal(y.shape), y.dtype))
    record = {"outputs": [host(y) for y in arrays]}
    if ends:
        chainer.backward(ends)
    record["gradients"] = [host(x.grad) for x in xs if isinstance(x, chainer.Variable)]
    record["arguments"] = [host(getattr(x, "array", x)) for x in xs]
    record["next draw"] = [host(cupy.random.rand(2))]
    return record


def check(case: Case, dtype: str = "f", as_arrays: bool = False):
    """Traced, then replayed with fresh inputs: as define-by-run in each call.

    Returns
    -------
    ScheduleManager
    """

    def function(*xs):
        return case.call(*xs)

    with configured(case, dtype, TRAINING):
        want = [run_once(function, case, dtype, i, as_arrays) for i in range(CALLS)]
        static = sdbr.static_graph(on_dynamic="raise")(function)
        for i in range(CALLS):
            got = run_once(static, case, dtype, i, as_arrays)
            for part, tolerance in zip(
                ("outputs", "gradients", "arguments", "next draw"),
                (*case.tolerance(dtype), 0.0, 0.0),
                strict=True,
            ):
                assert len(got[part]) == len(want[i][part])
                for k, (ours, theirs) in enumerate(zip(got[part], want[i][part], strict=True)):
                    assert_near(ours, theirs, tolerance, f"call {i}: {part} {k}")
    manager = static.schedule_manager
    statistics = manager.statistics
    assert statistics.define_by_run_calls == 0, statistics
    assert statistics.replays == CALLS - statistics.traces >= CALLS - case.traces, statistics
    return manager


def reasons(manager) -> list[str]:
    """Why functions of the last schedule are Python ops."""
    return [node.reason for node in manager.static_schedule.forward.lowered.nodes if node.reason]
