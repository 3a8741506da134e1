"""Judges one gradient check: a decorated call against define-by-run, call by call."""

from __future__ import annotations

import dataclasses
import traceback
import warnings

import numpy as np

from tests.conformance.compare import coarsest, difference
from tests.conformance.data import Data, like
from tests.conformance.decorators import Decorator
from tests.conformance.probe import Probe, infer, run
from tests.tolerances import CONFORMANCE

RIGHT, DYNAMIC, WRONG = "right", "declared dynamic", "wrong"
EXCEPTION, NOT_REPLAYED, UNUSABLE = "exception", "not replayed", "unusable"
VERDICTS = (RIGHT, DYNAMIC, WRONG, EXCEPTION, NOT_REPLAYED)

#: Which data each call gets; the first one traces.
CALLS = (0, 1, 0, 2, 0)
#: Tries of other last digits where a result was another one.
NUDGES = 4


@dataclasses.dataclass
class Verdict:
    """What came of one check.

    Attributes
    ----------
    verdict : str
    detail : str
        What was wrong, where; why it is dynamic.
    python_ops : int
        Runs of Python ops.
    data : str
        How the other data were made.
    steps : int
        Whole steps among the replays.
    """

    verdict: str
    detail: str = ""
    python_ops: int = 0
    data: str = ""
    steps: int = 0


def judge(
    func, xs, gys, params, immutable: bool, decorator: Decorator, ggs=(), inference: bool = False
) -> Verdict:
    """Run `func` five times, define-by-run and decorated, and compare.

    Parameters
    ----------
    func : callable
    xs : sequence of (ndarray or None)
    gys : sequence of (ndarray or None), or None
        Gradients of the outputs; None for a loss.
    params : sequence of Parameter or ndarray
    immutable : bool
        Whether `func` takes the parameters, as arrays made into Parameters.
    decorator : Decorator
    ggs : sequence of (ndarray or None)
        Gradients of the first derivatives; with these the second derivatives are judged.
    inference : bool
        Judge forwards in test mode, without a graph, instead.
    """
    draws = np.random.get_state()
    probe = Probe(func, params, immutable, decorator.decorate)
    beginning = probe.state.save()
    values = [None if p.array is None else p.array.copy() for p in probe.params]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _Judge(probe, xs, gys, ggs, decorator, inference).verdict()
    finally:
        probe.state.restore(beginning)
        for p, value in zip(probe.params, values, strict=True):
            if value is not None:
                p.array[...] = value
            p.grad_var = None
        probe.close()
        np.random.set_state(draws)


class _Judge:
    def __init__(self, probe, xs, gys, ggs, decorator, inference):
        self.probe = probe
        self.xs, self.gys, self.ggs = xs, gys, ggs
        self.decorator = decorator
        self.inference = inference

    def verdict(self) -> Verdict:
        try:
            self._reference(0, None, keep=True)  # what only happens once: parameters made, draws
            first = self._reference(0, None)
            again = self._reference(0, None)
        except Exception as error:
            return Verdict(UNUSABLE, f"define-by-run: {error!r}"[:300])
        if _compare(first, again, self._tolerances(first)):
            return Verdict(UNUSABLE, "define-by-run differs from define-by-run")
        data = Data(self.xs, self.gys, self.ggs, [p.array for p in self.probe.params])
        kind = data.settle(lambda d: self._reference(1, d), first)
        judged = self._calls(data)
        judged.data = kind
        judged.python_ops = self.decorator.python_ops(self.probe.chain)
        return judged

    def _calls(self, data) -> Verdict:
        chain, decorator = self.probe.chain, self.decorator
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for at, number in enumerate(CALLS):
                before = decorator.replays(chain)
                found = self._one(at, data.take(number))
                if found is not None:
                    return found
                if at and decorator.replays(chain) == before:
                    reason = decorator.declared(chain, caught)
                    if reason is None:
                        return Verdict(NOT_REPLAYED, f"call {at}: {decorator.facts(chain)}")
                    return Verdict(DYNAMIC, reason)
        return Verdict(RIGHT)

    def _one(self, at: int, data) -> Verdict | None:
        """One call in both ways; None when it was right."""
        state = self.probe.state
        for p, value in zip(self.probe.params, data.params, strict=True):
            p.array[...] = value
        saved = state.save()
        want = self._reference(at, data, keep=True)
        state.restore(saved)
        try:
            got = self._run(self.probe.chain, at, data)
        except Exception as error:
            where = "".join(traceback.format_exception(error)[-3:])
            return Verdict(EXCEPTION, f"call {at}: {type(error).__name__}: {error}\n{where}"[:1500])
        found = _compare(got, want, self._tolerances(want))
        if not found:
            return None
        state.restore(saved)
        noise = self._noise(at, data, want)
        wrong = [f"{part}: {text}" for part, text in found.items() if part not in noise]
        if wrong:
            return Verdict(WRONG, f"call {at}: {wrong[0]}")
        return Verdict(UNUSABLE, f"only rounding: {', '.join(found)}")

    def _noise(self, at: int, data, want: dict) -> set[str]:
        """What of define-by-run's own results is another one where last digits are others.

        So it is where equal numbers are taken from each other: the gradient of a cross entropy
        whose target is the softmax of its input.
        """
        rng = np.random.RandomState(at)
        found: set[str] = set()
        for _ in range(NUDGES):
            xs = [None if x is None else _nudged(x, rng) for x in data.xs]
            other = self._reference(at, dataclasses.replace(data, xs=xs))
            found |= set(_compare(other, want, self._tolerances(want)))
        return found

    def _reference(self, at: int, data, keep: bool = False) -> dict:
        """Define-by-run; leaves the state as it was unless `keep`."""
        saved = None if keep else self.probe.state.save()
        chain = self.probe.chain
        try:
            return self._run(lambda *xs: chain.plain(*xs), at, data or self)
        finally:
            if saved is not None:
                self.probe.state.restore(saved)

    def _run(self, call, at: int, data) -> dict:
        xs = [None if x is None else like(x, x) for x in data.xs]
        if self.inference:
            record = infer(call, xs, 1000 + at)
        else:
            record = run(call, xs, data.gys, data.ggs, self.probe.params, 1000 + at)
        record["state"] = self.probe.state.arrays()
        return record

    def _tolerances(self, record) -> tuple[float, float]:
        arrays = [*self.xs, *(p.array for p in self.probe.params), *record["forward"]]
        return CONFORMANCE[coarsest(arrays)]


def _compare(got: dict, want: dict, tolerances) -> dict[str, str]:
    """What differs, by part and number, and how."""
    differing = {}
    for part, wanted in want.items():
        tolerance = tolerances["gradient" in part or "derivative" in part]
        if len(got[part]) != len(wanted):
            differing[part] = f"{len(got[part])} arrays instead of {len(wanted)}"
            continue
        for i, (a, b) in enumerate(zip(got[part], wanted, strict=True)):
            found = difference(a, b, tolerance)
            if found is not None:
                differing[f"{part} {i}"] = found
    return differing


def _nudged(x, rng):
    """`x`, each number off by one unit in the last place at most."""
    if x.dtype.kind != "f":
        return x
    return like(np.nextafter(x, rng.choice([-np.inf, 0, np.inf], x.shape).astype(x.dtype)), x)
