"""Other ways to call what a case calls: among other functions, twice before the backward."""

from __future__ import annotations

import dataclasses

import sdbr

import chainer
import chainer.functions as F
import numpy as np

from .harness import (
    REPLAYS,
    TRAINING,
    Case,
    ChainSubject,
    Subject,
    as_inputs,
    assert_near,
    check,
    configured,
    copy_of,
    seeded,
    variables_of,
)


def among_others(case: Case) -> Case:
    """The same case, its inputs made and its outputs used by other functions of the call."""

    def call(*xs):
        made = [x * 1.25 if _is_float(x) else x for x in xs]
        result = case.call(*[x / 1.25 if _is_float(x) else x for x in made])
        total = sum([F.cast(F.sum(x), np.float64) for x in made if _is_float(x)])
        return _map(lambda y: y * 2 + F.cast(total, y.dtype), result), result, made

    return dataclasses.replace(case, call=call, exact=False)


def _is_float(x) -> bool:
    return isinstance(x, chainer.Variable) and x.dtype.kind == "f"


def _map(function, result):
    if isinstance(result, (tuple, list)):
        return [_map(function, part) for part in result]
    return function(result) if _is_float(result) else result


def check_among_others(case: Case, dtype: str = "f", how: str = "function") -> None:
    """See `among_others`; what is native stays native."""
    check(among_others(case), dtype, how)


def check_two_live_calls(case: Case, dtype: str = "f") -> None:
    """Two calls, a backward through both at once, and one more through the first of them."""
    with configured(case, dtype, TRAINING):
        want = [_two_calls(Subject(case, dtype, None), case, dtype, i) for i in range(3)]
        subject = Subject(case, dtype, {"on_dynamic": "raise"})
        for i in range(case.traces - 1):
            subject.target(*as_inputs(case.data(20 + i, dtype), "variables"))
        for i in range(3):
            got = _two_calls(subject, case, dtype, i)
            for part, arrays in want[i].items():
                tolerance = case.tolerance(dtype)["gradient" in part]
                for k, (g, w) in enumerate(zip(got[part], arrays, strict=True)):
                    assert_near(g, w, tolerance, f"step {i}: {part} {k}")
    statistics = subject.statistics
    assert statistics.define_by_run_calls == 0, statistics
    assert statistics.traces == case.traces, statistics
    assert statistics.replays == 5, statistics


def _two_calls(subject: Subject, case: Case, dtype: str, step: int) -> dict:
    np.random.seed(step)
    inputs = [as_inputs(case.data(2 * step + k, dtype), "variables") for k in range(2)]
    calls = [variables_of(subject.target(*xs)) for xs in inputs]
    outputs = [copy_of(getattr(y, "array", y)) for ys in calls for y in ys]
    rng = np.random.default_rng([17, step])
    ends = [seeded(ys, rng) for ys in calls]
    if ends[0]:
        chainer.backward([*ends[0], *ends[1]])
    variables = [x for xs in inputs for x in xs if isinstance(x, chainer.Variable)]
    gradients = [copy_of(x.grad) for x in variables]
    seeded(calls[0], rng)
    if ends[0]:
        chainer.backward(ends[0])
    again = [copy_of(x.grad) for x in variables]
    return {"outputs": outputs, "gradients": gradients, "gradients of two": again}


def check_step(case: Case, dtype: str = "f") -> None:
    """Whole steps: forward, backward and update of a chain whose inputs are parameters."""
    with configured(case, dtype, TRAINING):
        want = _steps(case, dtype, None)
        got = _steps(case, dtype, {"on_dynamic": "raise"})
    for i, (ours, theirs) in enumerate(zip(got, want, strict=True)):
        for name, array in theirs.items():
            assert_near(ours[name], array, case.tolerance(dtype)[1], f"step {i}: {name}")


def _steps(case: Case, dtype: str, options: dict | None) -> list[dict]:
    """Three steps more than are traced; everything that each leaves behind."""

    def call(*xs):
        ys = [y for y in variables_of(case.call(*xs)) if _is_float(y)]
        return sum([F.sum(F.cast(y * y, np.dtype(dtype)) * (1 + i)) for i, y in enumerate(ys)])

    subject = ChainSubject(dataclasses.replace(case, call=call), dtype, options)
    optimizer = chainer.optimizers.MomentumSGD(0.01)
    if options is not None:
        optimizer = sdbr.static_optimizer(optimizer)
    optimizer.setup(subject.model)
    held = subject.parameters
    records = []
    calls = case.traces + REPLAYS
    for step in range(calls):
        arrays = [a for i, a in enumerate(case.data(step, dtype)) if i not in held]
        np.random.seed(step)
        optimizer.update(subject.model, *as_inputs(arrays, "constants"))
        record = {"t": np.array(optimizer.t)}
        for name, p in sorted(subject.model.namedparams()):
            record[name] = copy_of(p.array)
            record[f"gradient {name}"] = copy_of(p.grad)
            for key, state in (p.update_rule.state or {}).items():
                record[f"{key} {name}"] = copy_of(state)
        records.append(record)
    if options is not None:
        statistics = subject.statistics
        assert statistics.define_by_run_calls == 0, statistics
        assert (statistics.traces, statistics.replays) == (case.traces, REPLAYS), statistics
        grads = [g for key, g in records[0].items() if key.startswith("gradient")]
        halves = any(p.dtype == np.float16 for p in subject.model.params())
        if not halves and any(np.any(g) for g in grads):
            assert statistics.steps == REPLAYS, statistics
        case.assert_native(dtype, statistics)
    return records
