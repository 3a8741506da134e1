"""Runs that somebody looks at: profiles at the time of kernels, audits at what ops have written."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from sdbr._executor import observer
from sdbr.backends.cuda.chains import ops_of
from sdbr.backends.cuda.recording.lanes import one_after_the_other
from sdbr.backends.cuda.together import place
from sdbr.ops.table import OPS

import numpy as np


class Watching(Protocol):
    """What looks at the ops of a run.

    Attributes
    ----------
    closely : bool
        Whether each kernel is launched by itself.
    """

    closely: bool

    def looks_at(self, r: int) -> bool:
        """Whether it wants to know what is in a row of the program."""

    def __call__(self, i: int, rows: Sequence[int], together: Sequence[int]) -> None:
        """Op `i` has run: these of its outputs are still what it wrote; `together` ran as one."""


def show(executable, ops: Sequence[int]) -> None:
    """Ops have run together: let who watches look at what none has written over another's."""
    watch, program = executable.watch, executable.program
    if watch is None:
        return
    outs = {i: [r for r in program.operands_of(i)[1] if watch.looks_at(r)] for i in sorted(ops)}
    if not any(outs.values()):
        return
    executable.in_flight.wait_quietly()  # an audit does so in any case
    written = [(i, *place(program, r)) for i in outs for r in _written(program, i)]
    writers, slots, lows, highs = np.array(written, np.int64).T
    for i, rows in outs.items():
        left = []
        for r in rows:
            slot, low, high = place(program, r)
            over = (writers > i) & (slots == slot) & (lows < high) & (highs > low)
            if not over.any():
                left.append(r)
        if left:
            watch(i, left, ops)


def _written(program, i: int) -> list[int]:
    ins, outs = program.operands_of(i)
    return [*ins, *outs] if OPS[int(program.opcodes[i])].updates else list(outs)


def _one_by_one(executable, run: Callable[[list[int], Callable[[], None]], None]) -> None:
    """Let `run` launch each kernel, and each op without one; it is told which ops these are."""
    executable.read_controls()
    for k, part in enumerate(executable.parts):
        with executable.current():
            if executable.launches[part.start] is None:
                run(list(part), functools.partial(executable.run_other, part.start))
                continue
            rows, stream = executable.prepare(part), executable.now()
            calls, recipes = executable.calls[k], executable.graphs.recipes(k, rows)
            launching = executable.launching
            launching.make_room(recipes, one_after_the_other(len(calls)))
            for call, recipe in zip(calls, recipes, strict=True):
                run(ops_of(call), functools.partial(launching.run, call, recipe, rows, stream))


def run_closely(executable) -> None:
    """Run a program kernel by kernel, and let who watches look after each.

    Kernels that make random numbers are given those of define-by-run.
    """

    def run(ops: list[int], launch: Callable[[], None]) -> None:
        launch()
        show(executable, ops)

    fed = executable.draws.are_made
    with executable.draws.fed(executable.allocate) if fed else contextlib.nullcontext():
        _one_by_one(executable, run)
        executable.finish()


def observed(executable) -> None:
    """Run a program kernel by kernel, and tell whoever profiles.

    What a kernel of several ops took is that of the first of them; launches and waits count.

    Parameters
    ----------
    executable : CudaExecutable

    Raises
    ------
    Exception
        As `CudaExecutable.run`.
    """
    watching, start = observer(), time.perf_counter()
    seconds = np.zeros(len(executable.program))

    def run(ops: list[int], launch: Callable[[], None]) -> None:
        begin = time.perf_counter()
        launch()
        executable.in_flight.wait()
        seconds[ops[0]] += time.perf_counter() - begin

    _one_by_one(executable, run)
    watching(executable, start, seconds, True)
