"""The rounding errors of a call that sums: of its replays, and of Chainer's own code."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import sdbr

import chainer
import numpy as np

from tests.harness.programs import programs_of

#: What is exact beside a dtype.
WIDER = {"f": np.float64, "d": np.longdouble}


@dataclasses.dataclass(frozen=True)
class Case:
    """A call that sums.

    Attributes
    ----------
    call : callable
        Of the inputs, floats as Variables; returns a Variable or several.
    inputs : sequence of callable
        ``maker(rng) -> array``: what is of float64 is rounded to the dtype of the test.
    ops : str
        Names of ops that sum, in one string: programs of the call have to hold each.
    rounds : int
        How many calls are measured: many where a call has a few numbers for a result.
    """

    call: Callable
    inputs: Sequence[Callable]
    ops: str
    rounds: int = 1


def measured(case: Case, dtype: str) -> dict[str, tuple[float, float, float]]:
    """For outputs and gradients by name: errors of replays and of Chainer, and the last place.

    Each is a root of a mean of squares, over all elements of all rounds.
    """
    static = sdbr.static_graph(lambda *xs: case.call(*xs), on_dynamic="raise")
    rng = np.random.default_rng(np.random.randint(2**31, size=4))
    _run(static, *_drawn(case, rng, dtype))  # traced
    found: dict[str, np.ndarray] = {}
    for _ in range(case.rounds):
        arrays, gys = _drawn(case, rng, dtype)
        with chainer.using_config("sdbr_backend", "off"):
            exact = _run(case.call, [_as(x, WIDER[dtype]) for x in arrays], gys)
            plain = _run(case.call, arrays, gys)
        for name, got in _run(static, arrays, gys).items():
            terms = squares(got, plain[name], exact[name])
            found[name] = found.get(name, 0) + terms
    _assert_replays(static, case)
    return {name: tuple(np.sqrt(s[1:] / s[0])) for name, s in found.items()}


def _assert_replays(static, case: Case) -> None:
    """All that was measured ran natively, by the ops that the case names."""
    statistics = static.schedule_manager.statistics
    assert (statistics.traces, statistics.replays) == (1, case.rounds), statistics
    assert (statistics.compiled_backwards, statistics.python_ops) == (case.rounds, 0)
    ran = {i.op.name for p in programs_of(static) for i in p.instructions}
    assert set(case.ops.split()) <= ran, ran


def _as(x: np.ndarray, dtype) -> np.ndarray:
    return x.astype(dtype) if x.dtype.kind == "f" else x


def _drawn(case: Case, rng, dtype: str) -> tuple[list, Callable]:
    """Inputs, and what makes gradients of outputs: the same ones in each run."""
    arrays = [_as(np.asarray(make(rng)), dtype) for make in case.inputs]
    seed = rng.integers(2**31)

    def gys(ys):
        own = np.random.default_rng(seed)
        return [np.asarray(own.standard_normal(y.shape)).astype(dtype).astype(y.dtype) for y in ys]

    return arrays, gys


def _run(call: Callable, arrays: list, gys: Callable) -> dict[str, np.ndarray]:
    """One call and its backward."""
    xs = [chainer.Variable(x.copy()) if x.dtype.kind == "f" else x for x in arrays]
    ys = call(*xs)
    ys = list(ys) if isinstance(ys, (tuple, list)) else [ys]
    found = {f"output {i}": y.array.copy() for i, y in enumerate(ys)}
    for y, gy in zip(ys, gys(ys), strict=True):
        y.grad = gy
    chainer.backward(ys)
    found |= {f"gradient {i}": x.grad for i, x in enumerate(xs) if isinstance(x, chainer.Variable)}
    return {name: x for name, x in found.items() if x is not None}


def squares(got: np.ndarray, plain: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """How many elements, and sums of squares: of both errors, and of the last place."""
    assert got.dtype == plain.dtype and exact.dtype == WIDER[got.dtype.char]
    last = np.spacing(np.abs(exact).astype(got.dtype)).astype(exact.dtype)
    sums = [((x - exact) ** 2).sum(dtype="d") for x in (got, plain)]
    return np.array([got.size, *sums, (last**2).sum(dtype="d")])
