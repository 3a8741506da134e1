"""Each program against define-by-run: ``python -m benchmarks.wild [NAME ...] [--calls 200]``.

A program is set up twice from the same seeds, plain and static, and both go on call by call in
turn. Of each call the least processor time of all rounds counts, as a sum over calls 1 to 16 and
17 to the last. What both have computed, and their parameters in the end, are compared.
"""

from __future__ import annotations

import argparse
import gc
import random
import time
import warnings
from collections import Counter
from typing import Any

import sdbr  # noqa: F401  (first: it makes Chainer importable)

import chainer
import numpy as np

from benchmarks import machine
from benchmarks.wild.programs import PROGRAMS
from benchmarks.wild.way import Program, Way

FIRST = 16
LIMIT = 1.1

#: By which what is computed may differ, relative to the largest: rounding grows with the steps.
TOLERANCES = {"float32": 2e-3, "float64": 1e-9}


class Side:
    """One of the two, with generators of its own."""

    def __init__(self, name: str, static: bool) -> None:
        self.way = Way(static)
        np.random.seed(0)
        random.seed(0)
        self.program: Program = PROGRAMS[name](self.way)
        self.results: list[list[np.ndarray]] = []
        self._save()

    def _save(self) -> None:
        self.states = np.random.get_state(), random.getstate()

    def call(self, i: int) -> float:
        """Make a call; its processor time."""
        np.random.set_state(self.states[0])
        random.setstate(self.states[1])
        start = time.thread_time()
        result = self.program.step(i)
        seconds = time.thread_time() - start
        self._save()
        self.results.append(numbers(result))
        return seconds

    def end(self) -> list[np.ndarray]:
        """The parameters and persistent values as they are."""
        found = []
        for link in self.program.links:
            state: dict = {}
            chainer.serializers.DictionarySerializer(state).save(link)
            found += [np.array(state[name]) for name in sorted(state)]
        return found


def numbers(result: Any) -> list[np.ndarray]:
    """What a call has computed, as arrays that do not change any more."""
    if isinstance(result, (list, tuple)):
        return [x for part in result for x in numbers(part)]
    return [np.array(result.array if isinstance(result, chainer.Variable) else result)]


def difference(expected: list[np.ndarray], found: list[np.ndarray]) -> float:
    """The largest, relative to the largest of an array or to 1."""
    if [x.shape for x in expected] != [x.shape for x in found]:
        return float("inf")
    worst = 0.0
    for a, b in zip(expected, found, strict=True):
        if a.size:
            if not (np.isfinite(a) == np.isfinite(b)).all():
                return float("inf")
            off, size = np.nan_to_num(abs(a.astype("d") - b)), np.nan_to_num(abs(a.astype("d")))
            worst = max(worst, float(off.max() / max(1.0, size.max())))
    return worst


def measure(name: str, calls: int, rounds: int) -> dict[str, Any]:
    """Ratios, differences, and how the calls were served."""
    best = np.full((2, calls), np.inf)
    worst = 0.0
    for _ in range(rounds):
        sides = [Side(name, static) for static in (False, True)]
        gc.collect()
        for i in range(calls):
            for k, side in enumerate(sides):
                best[k, i] = min(best[k, i], side.call(i))
        for a, b in zip(sides[0].results, sides[1].results, strict=True):
            worst = max(worst, difference(a, b))
        worst = max(worst, difference(sides[0].end(), sides[1].end()))
    first, later = (best[:, part].sum(1) for part in (slice(0, FIRST), slice(FIRST, None)))
    return {
        "plain": float(np.median(best[0])),
        "first": float(first[1] / first[0]),
        "later": float(later[1] / later[0]) if calls > FIRST else 0.0,
        "difference": worst,
        **served(sides[1].way),
    }


def again_in_double(name: str, calls: int) -> float:
    """What differs in float64: infinite if that is not rounding, too.

    A choice (argmax, a rectifier) may fall otherwise by rounding, and training goes on from there.
    """
    with chainer.using_config("dtype", np.dtype("float64")):
        found = measure(name, calls, 1)["difference"]
    return found if found <= TOLERANCES["float64"] else float("inf")


def served(way: Way) -> dict[str, Any]:
    """How the static calls were served, and why those that were not replays ran."""
    managers = way.managers()
    count: Counter[str] = Counter()
    why: Counter[str] = Counter()
    ways = 0
    for manager in managers:
        statistics = manager.statistics.to_dict()
        count.update({k: statistics[k] for k in ("calls", "traces", "replays")})
        why.update(manager.define_by_run_reasons)
        for group in manager.schedules.values():
            ways = max(ways, sum(bool(s.answers) and s.dynamic is None for s in group))
    dynamic = sum(why.values())
    if count["replays"] >= 0.5 * count["calls"]:
        kind = f"{ways} ways" if ways > 1 else "replays"
    elif any(m.back_off.declined for m in managers):
        kind = "backed off"
    else:
        kind = "dynamic" if dynamic else "traced"
    reason = why.most_common(1)[0][0] if why else ""
    return {"kind": kind, "why": reason, **count, "define_by_run": dynamic}


def row(name: str, got: dict[str, Any]) -> str:
    """A line of the table."""
    return (
        f"{name:20}{got['plain'] * 1e6:8.0f}{got['first']:8.2f}{got['later']:8.2f}"
        f"{got['difference']:10.1e}{got['traces']:7}{got['replays']:8}{got['define_by_run']:7}"
        f"  {got['kind']}" + (f": {got['why']}" if got["why"] else "")
    )


def markdown(found: dict[str, Any]) -> str:
    """The table as it stands in ``docs/performance.md``."""
    lines = ["| program | plain, us | 1-16 | 17-200 | how it is served |", "| - | - | - | - | - |"]
    for name, got in found.items():
        later = f"{got['later']:.2f}"
        why = got["why"].partition(";")[0] if got["kind"] in ("dynamic", "backed off") else ""
        lines.append(
            f"| {name} | {got['plain'] * 1e6:.0f} | {got['first']:.2f} | "
            f"{f'**{later}**' if got['later'] > LIMIT else later} | "
            f"{got['kind']}{why and ': '}{why} |"
        )
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    """Print the table; 1 where numbers differ or a ratio is above the limit."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.wild", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PROGRAMS))
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--double", action="store_true", help="float64, which differs less")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--markdown", action="store_true", help="the table once more, for the page")
    options = parser.parse_args(argv)
    unknown = set(options.names) - set(PROGRAMS)
    if unknown:
        parser.error(f"no program {', '.join(sorted(unknown))}")
    dtype = "float64" if options.double else "float32"
    found: dict[str, Any] = {}
    print(f"{'':20}{'us':>8}{'1-16':>8}{'17-':>8}{'differs':>10} traced replays others")
    with warnings.catch_warnings(), chainer.using_config("dtype", np.dtype(dtype)):
        warnings.simplefilter("ignore")
        for name in options.names or PROGRAMS:
            got = found[name] = measure(name, options.calls, options.rounds)
            if not got["difference"] <= TOLERANCES[dtype] and not options.double:
                got["difference"] = again_in_double(name, options.calls)
            print(row(name, got), flush=True)
    above = [name for name, got in found.items() if got["later"] > LIMIT]
    limit = TOLERANCES[dtype]
    wrong = [name for name, got in found.items() if not got["difference"] <= limit]
    largest = max(found, key=lambda name: found[name]["later"])
    print(f"largest ratio after {FIRST} calls: {found[largest]['later']:.2f} ({largest})")
    print(
        f"above {LIMIT}: {', '.join(above) or 'none'}; numbers differ: {', '.join(wrong) or 'none'}"
    )
    if options.markdown:
        print(markdown(found))
    if options.json:
        machine.save(options.json, programs=found)
    return int(bool(above or wrong))


if __name__ == "__main__":
    raise SystemExit(main())
