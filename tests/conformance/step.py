"""Judges whole steps: the function under a loss, with its float inputs as parameters."""

from __future__ import annotations

import traceback
import warnings

import chainer
import numpy as np
from chainer import functions as F

from tests.conformance.compare import coarsest, difference
from tests.conformance.data import Data
from tests.conformance.decorators import Decorator
from tests.conformance.judge import (
    CALLS,
    DYNAMIC,
    EXCEPTION,
    NOT_REPLAYED,
    RIGHT,
    UNUSABLE,
    WRONG,
    Verdict,
)  # fmt: skip
from tests.conformance.probe import State
from tests.tolerances import CONFORMANCE


class StepProbe:
    """A chain whose loss is the sum of the function's outputs, weighted by gradients.

    Parameters
    ----------
    func : callable
    xs, params : sequence
    immutable : bool
        As in :class:`tests.conformance.probe.Probe`.
    given : sequence of bool
        Which outputs have a gradient.
    decorate : callable
    """

    def __init__(self, func, xs, params, immutable: bool, given, decorate):
        n = len(xs)
        absent = [i for i, x in enumerate(xs) if x is None]
        floats = [i for i, x in enumerate(xs) if x is not None and x.dtype.kind == "f"]

        def loss(self, *args):  # the other inputs, then the gradients: flat, as a step wants it
            rest = iter(args)
            inputs = [
                None if i in absent else getattr(self, f"x{i:02}") if i in floats else next(rest)
                for i in range(n)
            ]
            ys = func(inputs, tuple(kept)) if immutable else func(*inputs)
            ys = ys if isinstance(ys, (list, tuple)) else (ys,)
            ys = [y * next(rest) for y, has in zip(ys, given, strict=True) if has]
            wide = np.result_type(np.float32, *[y.dtype for y in ys])
            return sum(F.sum(F.cast(y, wide)) for y in ys)

        kind = type("StepProbe", (chainer.Chain,), {"loss": decorate(loss), "plain": loss})
        self.chain = kind()
        kept = [chainer.Parameter(p.copy()) if immutable else p for p in params]
        self._names = [(p, p.name) for p in kept]
        with self.chain.init_scope():
            for i in floats:
                setattr(self.chain, f"x{i:02}", chainer.Parameter(xs[i].copy()))
            for i, p in enumerate(kept):
                setattr(self.chain, f"p{i:02}", p)
        self.floats = floats
        self.params = [getattr(self.chain, f"x{i:02}") for i in floats] + kept
        self.state = State(func)

    def close(self) -> None:
        for p, name in self._names:
            p.name = name


def judge_steps(func, xs, gys, params, immutable: bool, decorator: Decorator) -> Verdict:
    """Five updates of MomentumSGD in both ways; parameters have to move alike.

    Parameters
    ----------
    func, xs, gys, params, immutable, decorator
        As for :func:`tests.conformance.judge.judge`.
    """
    draws = np.random.get_state()
    given = [True] if gys is None else [g is not None for g in gys]
    probe = StepProbe(func, xs, params, immutable, given, decorator.decorate)
    beginning = probe.state.save()
    values = [p.array.copy() for p in probe.params]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _verdict(probe, xs, gys, decorator)
    finally:
        probe.state.restore(beginning)
        for p, value in zip(probe.params, values, strict=True):
            p.array[...] = value
            p.grad_var = None
            p.update_rule = None
        probe.close()
        np.random.set_state(draws)


def _verdict(probe, xs, gys, decorator) -> Verdict:
    chain = probe.chain
    data = Data(xs, gys, (), [p.array for p in probe.params[len(probe.floats) :]])

    def plain(numbers):
        optimizer = chainer.optimizers.MomentumSGD(0.01).setup(chain)
        return [_update(probe, optimizer, chain.plain, data.take(n), i) for i, n in numbers]

    try:
        plain([(0, 0)])
        saved = probe.state.save()
        again = [plain([(0, 0)]) for _ in range(2) if probe.state.restore(saved) is None]
        if _compare(again[0][0], again[1][0]):
            return Verdict(UNUSABLE, "define-by-run differs from define-by-run")
        kind = data.settle(lambda d: plain_record(probe, chain, d), again[0][0]["values"])
        probe.state.restore(saved)
        want = plain(enumerate(CALLS))
    except Exception as error:
        return Verdict(UNUSABLE, f"define-by-run: {error!r}"[:300])
    probe.state.restore(saved)
    found = _static(probe, decorator, data, want)
    found.data = kind
    found.python_ops = decorator.python_ops(chain)
    found.steps = decorator.steps(chain)
    return found


def plain_record(probe, chain, data) -> dict:
    """One update of a fresh optimizer, for the choice of data."""
    optimizer = chainer.optimizers.MomentumSGD(0.01).setup(chain)
    return _update(probe, optimizer, chain.plain, data, 1)["values"]


def _static(probe, decorator, data, want) -> Verdict:
    chain = probe.chain
    optimizer = decorator.optimizer(chainer.optimizers.MomentumSGD(0.01)).setup(chain)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for at, number in enumerate(CALLS):
            before = decorator.replays(chain)
            saved = probe.state.save()
            try:
                got = _update(probe, optimizer, chain.loss, data.take(number), at)
            except Exception as error:
                where = "".join(traceback.format_exception(error)[-3:])
                text = f"step {at}: {type(error).__name__}: {error}\n{where}"
                return Verdict(EXCEPTION, text[:1500])
            found = _compare(got, want[at])
            if found is not None:
                return Verdict(WRONG, f"step {at}: {found}")
            if at and decorator.replays(chain) == before:
                reason = decorator.declared(chain, caught)
                if reason is None:
                    return Verdict(NOT_REPLAYED, f"step {at}: {decorator.facts(chain)}")
                return Verdict(DYNAMIC, reason)
            del saved
    return Verdict(RIGHT)


def _update(probe, optimizer, loss, data, at: int) -> dict:
    """One update from the values in `data`; what it left behind."""
    n = len(probe.floats)
    starts = [data.xs[i] for i in probe.floats] + list(data.params)
    for p, value in zip(probe.params, starts, strict=True):
        p.array[...] = value
    np.random.seed(1000 + at)
    others = [x for i, x in enumerate(data.xs) if x is not None and i not in probe.floats]
    gys = [np.ones((), "f")] if data.gys is None else [g for g in data.gys if g is not None]
    optimizer.update(loss, *others, *gys)
    moves = [p.array.astype("d") - s for p, s in zip(probe.params, starts, strict=True)]
    sizes = [float(np.max(np.abs(s), initial=0)) for s in starts]
    return {
        "moves": moves,
        "sizes": sizes,
        "coarsest": coarsest([*data.xs, *data.params]),
        "state": probe.state.arrays(),
        "values": {"parameters": [p.array.copy() for p in probe.params[:n]]},
        "draw": np.random.rand(),
    }


def _compare(got: dict, want: dict) -> str | None:
    values, gradients = CONFORMANCE[want["coarsest"]]
    for i, (a, b) in enumerate(zip(got["moves"], want["moves"], strict=True)):
        if not np.array_equal(np.isfinite(a), np.isfinite(b)):
            return f"parameter {i}: other NaN or infinities"
        finite = np.isfinite(b)
        # A parameter is rounded when it moves.
        limit = gradients * np.max(np.abs(b[finite]), initial=0) + values * want["sizes"][i]
        error = np.max(np.abs(a[finite] - b[finite]), initial=0)
        if error > limit:
            return f"parameter {i}: off by {error:.2g}, moved by {np.max(np.abs(b[finite])):.2g}"
    for i, (a, b) in enumerate(zip(got["state"], want["state"], strict=True)):
        found = difference(a, b, values)
        if found is not None:
            return f"state {i}: {found}"
    return None if got["draw"] == want["draw"] else "the next draw"
