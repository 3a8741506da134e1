"""Another thread spoils indices while they are used: ``python -m tests.soak.spoiling``.

It writes wild numbers over them and puts the good ones back, again and again, while native code
runs without the interpreter lock. Each time there must be a result or an `IndexError`; where they
never met, as many runs have shown that both are told apart. Runs in a process of its own
(`test_spoiled.py`), where a fault costs no other test; the last line that was printed names what
was running.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import threading
import time
import warnings
from collections.abc import Callable

import sdbr

import chainer
import numpy as np

from tests.harness.threads import LIMIT, attempts, join, start, switch_interval

from .spoiled_calls import calls
from .spoiled_ops import OPS, op_run

#: Kinds of wild numbers: far away, just outside, and a few among good ones.
WILD = ("far", "near", "few")

#: As many runs at least, however slow the machine is for the moment.
FEWEST = 32

#: Calls before anything is spoiled: they are traced, and replayed.
FIRST = 4


def wild(array: np.ndarray, kind: str) -> np.ndarray:
    """What the thread writes over good indices."""
    rng = np.random.default_rng(3)
    info = np.iinfo(array.dtype)
    if kind == "near":
        return (array + 10_000).astype(array.dtype)
    spoiled = rng.choice([info.max, info.min, info.max // 3, -(10**6)], array.shape).astype(
        array.dtype
    )
    return spoiled if kind == "far" else np.where(rng.random(array.shape) < 0.01, spoiled, array)


def spoil(
    run: Callable, indices: list[np.ndarray], seconds: float, others: Callable = lambda: 0
) -> tuple[int, int]:
    """Run while a thread spoils `indices`; how many results and errors there were.

    Parameters
    ----------
    others : callable
        Calls so far that were no replays; runs go on until they are few.
    """
    good = [a.copy() for a in indices]
    bad = [[wild(a, kind) for a in good] for kind in WILD]
    run()
    over = threading.Event()

    def spoiler():
        for k in itertools.count():
            if over.is_set():
                return
            for to, spoiled in zip(indices, bad[k % len(bad)], strict=True):
                np.copyto(to, spoiled)
            for to, right in zip(indices, good, strict=True):
                np.copyto(to, right)

    results = errors = 0
    with switch_interval(1e-6):
        thread = start(spoiler)
        try:
            end = time.monotonic() + seconds
            for k in attempts(f"{FEWEST} runs, most of them replays", seconds + LIMIT):
                if k >= max(FEWEST, 2 * others() + 1) and time.monotonic() >= end:
                    break
                try:
                    run()
                    results += 1
                except IndexError:
                    errors += 1
        finally:
            over.set()
            join(thread)
    for to, right in zip(indices, good, strict=True):
        np.copyto(to, right)
    run()
    return results, errors


def main(arguments: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=("ops", "calls"))
    parser.add_argument("--seconds", type=float, default=0.4, help="per op or call")
    parser.add_argument("--only", nargs="*", metavar="NAME", help="these ops or calls")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore", sdbr.SdbrWarning)
    # An audit runs twice on the same data, and here they are others each time.
    chainer.config.sdbr_audit = "off"
    if options.what == "ops":
        for name in options.only or OPS:
            for dtype in ("i4", "i8"):
                print(name, dtype, end=" ", flush=True)
                print(*spoil(*op_run(name, dtype), options.seconds / 2), flush=True)
    else:
        for name, call in calls():
            if name in (options.only or [name]):
                print(name, end=" ", flush=True)
                for _ in range(FIRST):
                    call.run()
                statistics = call.schedule_manager.statistics

                def others(of=statistics):
                    return of.traces + of.define_by_run_calls

                counts = spoil(call.run, call.indices, options.seconds, others)
                print(*counts, statistics.replays, others(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
