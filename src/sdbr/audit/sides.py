"""The two runs of an audited call, and ``static_code``, which runs in one of them only."""

from __future__ import annotations

import copy
from typing import Any

from sdbr.audit.contents import copy_of, overwrite, same_bytes
from sdbr.audit.draws import Given, Noted
from sdbr.audit.noise import Rounding
from sdbr.audit.reports import Reported, deliver, noting
from sdbr.audit.samples import Applied
from sdbr.audit.snapshot import Changes, Snapshot
from sdbr.audit.told import Repeating, Telling
from sdbr.devices.arrays import ARRAYS, Array, is_writeable
from sdbr.trace.effects.sides import Side, entered

import chainer
import numpy as np


class Code:
    """One call of ``static_code``: what it gave, and what it wrote into its arrays.

    Parameters
    ----------
    func : callable
    arrays, before : list
        Its arrays, and copies from before it ran.
    result, error, reports, changes :
        What came of it.
    """

    def __init__(
        self,
        func,
        arrays: list,
        before: list,
        result,
        error,
        reports: list[Reported],
        changes: Changes,
    ):
        self.func = func
        self.changes = changes
        same = same_bytes(list(zip(arrays, before, strict=True)))
        # What it has only read is the other run's own, to the last bit.
        self.contents = [
            None if is_same else copy_of(array) for array, is_same in zip(arrays, same, strict=True)
        ]
        self.result = copied(result)
        self.error = error
        self.reports = reports

    def repeat(self, arrays: list) -> Any:
        """Leave behind what the call has left behind."""
        for array, contents in zip(arrays, self.contents, strict=True):
            if contents is None:
                continue
            if array.shape == contents.shape and is_writeable(array):
                overwrite(array, contents)
        self.changes.put()
        deliver(self.reports, by_code=True)
        if self.error is not None:
            raise self.error
        return copied(self.result)


def copied(result):
    """A result of ``static_code`` with arrays of its own."""
    if isinstance(result, (list, tuple)):
        return type(result)([copied(x) for x in result])
    return copy_of(result) if isinstance(result, ARRAYS) else copy.copy(result)


def arrays_in(thing) -> list:
    """The arrays in arguments, in order, those of Variables as well."""
    if isinstance(thing, chainer.Variable):
        thing = thing._data[0]
    if isinstance(thing, (np.ndarray, np.generic)):
        return [np.asarray(thing)]
    if isinstance(thing, Array):
        return [thing]
    if isinstance(thing, dict):
        thing = list(thing.values())
    return [a for x in thing for a in arrays_in(x)] if isinstance(thing, (list, tuple)) else []


class PlainSide(Side):
    """Define-by-run as if nothing were decorated.

    Parameters
    ----------
    before : Snapshot
        What is put back afterwards; the replay puts in place again what ``static_code`` wrote.
    philox_seed : int, optional
        See `Noted`.
    """

    is_plain = True

    def __init__(self, before: Snapshot, philox_seed: int | None = None):
        super().__init__()
        self.before = before
        self.nodes: list[Applied] = []
        self.codes: list[Code] = []
        self.draws = Noted(philox_seed)
        self.telling = Telling(self.draws)

    def apply(self, original, function, inputs):
        return self.telling.apply(original, function, inputs)

    def draw(self, original, generator, args, kwargs):
        return self.draws.draw(original, generator, args, kwargs)

    def facts(self):
        return {**self.telling.facts(), **self.draws.facts()}

    def applied(self, function, outputs) -> None:
        self.nodes.append(Applied(function, outputs))

    def code(self, func, args, kwargs):
        arrays = arrays_in((args, kwargs))
        entry, before = Snapshot(self.before.roots), [copy_of(array) for array in arrays]
        result = error = None
        with noting() as reports, entered(None):  # static calls of its own are its affair
            try:
                result = func(*args, **kwargs)
            except Exception as e:
                error = e
        self.codes.append(Code(func, arrays, before, result, error, reports, entry.changes()))
        deliver(reports, by_code=True)  # this run may be the one that counts
        if error is not None:
            raise error
        return result


class ReplaySide(Side):
    """The replay beside it: ``static_code`` gives what it gave in define-by-run.

    Parameters
    ----------
    plain : PlainSide
    goes_on : bool
        Whether define-by-run has come to no end, so that there are draws that it has not made.
    """

    def __init__(self, plain: PlainSide, goes_on: bool = False):
        super().__init__()
        self.codes = list(plain.codes)
        self.draws = Given(plain.draws, goes_on)
        self.repeating = Repeating(plain.telling)
        self.problem = ""

    def apply(self, original, function, inputs):
        return self.repeating.apply(original, function, inputs)

    def draw(self, original, generator, args, kwargs):
        return self.draws.draw(original, generator, args, kwargs, self.is_feeding)

    def facts(self):
        return {**self.repeating.given, **self.draws.facts()}

    def code(self, func, args, kwargs):
        for i, code in enumerate(self.codes):
            if code.func is func:
                del self.codes[i]
                return code.repeat(arrays_in((args, kwargs)))
        if (getattr(func, "__module__", None) or "").partition(".")[0] == "sdbr":
            return func(*args, **kwargs)  # of Chainer's own code, where it is recorded whole
        name = getattr(func, "__qualname__", func)
        self.problem = f"static_code {name} runs once more than in define-by-run"
        return func(*args, **kwargs)


class Again(ReplaySide):
    """Define-by-run once more, on disturbed inputs: nothing that runs once runs again.

    Parameters
    ----------
    plain : PlainSide
    units : int
        Of the disturbance; without any, functions round as they do.
    """

    is_plain = True
    is_quiet = True

    def __init__(self, plain: PlainSide, units: int = 0):
        super().__init__(plain)
        self.nodes: list[Applied] = []
        self.rounding = Rounding(units) if units else None

    def apply(self, original, function, inputs):
        outputs = super().apply(original, function, inputs)
        if self.rounding is not None:
            self.rounding.disturb(function, inputs, outputs)
        return outputs

    def backward_begins(self) -> None:
        """Functions round otherwise there as well; what nodes told was in the forward."""
        self.repeating.left = []
        if self.rounding is None:
            super().backward_begins()

    def applied(self, function, outputs) -> None:
        self.nodes.append(Applied(function, outputs))
