"""Which kernel a convolution gets: one of our own, or oneDNN in one of its ways."""

from __future__ import annotations

import dataclasses
import functools
import math
import threading
import time
import weakref
from collections.abc import Mapping, Sequence

from sdbr.backends.cpu.onednn import _onednn, library
from sdbr.backends.cpu.onednn import convolution as onednn
from sdbr.backends.cpu.onednn.convolution import Convolution
from sdbr.backends.cpu.tuning import cache, wanted
from sdbr.backends.cpu.tuning.race import operands, race
from sdbr.base.cache_folder import cache_folder
from sdbr.base.errors import BackendError

import numpy as np

#: Seconds that one process spends on timing; after that the rule decides.
TOTAL = 60.0
#: oneDNN takes memory of its own, so it has to be this much faster.
GAIN = 1.02
#: Scratch memory that a way may take: so many bytes, or so often what the operands take.
SCRATCH_BYTES, SCRATCH_OPERANDS = 16 << 20, 2
Kernel = tuple[str, Sequence[int]]


@dataclasses.dataclass
class Choice:
    """What was chosen for one convolution, and why.

    Attributes
    ----------
    way : str
        One of our own kernels' ways, or of `sdbr.backends.cpu.onednn.convolution.WAYS`.
    why : str
        ``measured``, ``rule``, ``option``, or why there was no choice.
    seconds : dict
        What is known of the ways: seconds of a run.
    sequence : sdbr.backends.cpu.onednn._onednn.Sequence or None
        What runs when oneDNN was chosen; it lives as long as this.
    """

    way: str
    why: str
    problem: Convolution
    seconds: dict[str, float]
    sequence: object = None

    @property
    def name(self) -> str:
        """The way, for a report."""
        return self.way if self.sequence is None else f"oneDNN {self.way}"

    def __str__(self) -> str:
        order = sorted(self.seconds.items(), key=lambda item: item[1])
        times = [f"{way} {seconds * 1e3:.3g} ms" for way, seconds in order]
        return f"{self.name} ({', '.join([*times, self.why])})"


class _Budget:
    """Time spent on timing by this process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.spent = 0.0

    def add(self, seconds: float) -> None:
        with self.lock:
            self.spent += seconds


_budget = _Budget()
_sequences: weakref.WeakValueDictionary = weakref.WeakValueDictionary()


def choose(
    problem: Convolution, own: Mapping[str, Kernel], specs: Sequence[tuple[tuple, np.dtype]]
) -> tuple[str, Sequence[int], Choice]:
    """The kernel for a convolution.

    Parameters
    ----------
    problem : Convolution
    own : dict
        Way -> kernel and integers of our own; the first is what is taken without measuring.
    specs : list of (shape, dtype)
        The operands of the op, for timing.

    Returns
    -------
    kernel, ints, choice

    Raises
    ------
    BackendError
        If oneDNN is demanded and not there.
    """
    asked = wanted.onednn()
    ways, why = _ways(asked, specs)
    makers = {way: functools.partial(_own, kernel) for way, kernel in own.items()}
    if asked not in ("auto", "off") and ways:
        makers = {}
    makers.update({way: functools.partial(_sequence, problem, way) for way in ways})
    seconds: dict[str, float] = {}
    if len(makers) > 1:
        way, why, seconds, made = _decide(problem, makers, own, specs)
    else:
        way, made = next(iter(makers)), {}
        why = why or ("option" if asked != "auto" else "the only one")
    try:
        kernel, sequence = made.get(way) or makers[way]()
    except BackendError as error:
        way, why = next(iter(own)), str(error)
        kernel, sequence = own[way], None
    return (*kernel, Choice(way, why, problem, seconds, sequence))


def threads() -> int:
    """How many threads a convolution may use."""
    from sdbr.base.threads import num_threads

    return num_threads()


def _ways(asked: str, specs) -> tuple[list[str], str]:
    """The ways of oneDNN that come into question; or why there is none."""
    if asked == "off":
        return [], "oneDNN is switched off"
    if any(np.dtype(dtype) != np.float32 for _, dtype in specs):
        return [], "oneDNN is used for float32 alone"
    found, text = library.find()
    if found is None:
        if asked != "auto":
            raise BackendError(f"sdbr_onednn is {asked!r}, but there is no oneDNN: {text}")
        return [], f"oneDNN: {text}"
    return [way for way in onednn.WAYS if asked in ("auto", "always", way)], ""


def _own(kernel: Kernel):
    return kernel, None


def _sequence(problem: Convolution, way: str):
    found, _ = library.find()
    key = (problem.flat(), way, threads())
    # Forward, backward and whole step of a call often hold the same convolution.
    sequence = _sequences.get(key)
    if sequence is None:
        sequence = _sequences[key] = onednn.sequence(found, *key)
    return ("foreign", (sequence.address,)), sequence


def _decide(problem: Convolution, makers, own, specs):
    """The way, why, what is known of all of them, and what was made on the way."""
    usual = _usual(problem, makers)
    if not wanted.tune():
        return usual, "rule", {}, {}
    known = _measurements(threads())
    text = problem.describe()
    seconds = {way: s for way, s in known.get(text).items() if way in makers}
    made = {}
    if len(seconds) < len(makers):
        if _budget.spent > TOTAL:
            return usual, "rule, the time for measuring is used up", {}, {}
        start = time.perf_counter()
        for way, make in makers.items():
            try:
                made[way] = make()
            except BackendError:
                continue  # oneDNN has none for this
            sequence = made[way][1]
            if sequence is not None and sequence.scratch > _most_scratch(specs):
                del made[way]
        if not made:
            return usual, "", {}, {}  # the caller finds out why
        kernels = {way: kernel for way, (kernel, _) in made.items()}
        seconds = race(kernels, operands(specs), threads())
        _onednn.trim()  # the ways that lost may have needed more than the others ever will
        known.put(text, {**dict.fromkeys(makers), **seconds})
        _budget.add(time.perf_counter() - start)
    seconds = {way: s for way, s in seconds.items() if s is not None}
    best = min(seconds, key=lambda way: seconds[way] * (1 if way in own else GAIN))
    return best, "measured", seconds, made


def _most_scratch(specs) -> int:
    operands = sum(math.prod(shape) * np.dtype(dtype).itemsize for shape, dtype in specs)
    return max(SCRATCH_BYTES, SCRATCH_OPERANDS * operands)


def _usual(problem: Convolution, makers) -> str:
    """What is mostly the fastest, where nothing is measured."""
    kernel = problem.w[2:]
    channels = min(problem.w[0] // problem.groups, problem.w[1])
    if all(n == 1 for n in kernel):
        preferred = ["plain"]
    elif channels >= 16:
        preferred = ["blocked"]
    else:
        preferred = []
    return next((way for way in preferred if way in makers), next(iter(makers)))


@functools.cache
def _measurements(threads: int) -> cache.Measurements:
    found, _ = library.find()
    version = "none" if found is None else ".".join(map(str, found.version))
    return cache.Measurements({"oneDNN": version, "threads": str(threads)}, cache_folder())
