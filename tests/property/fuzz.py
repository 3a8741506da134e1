"""Random cases for as long as wanted: ``python -m tests.property.fuzz --seconds 600``.

Each seed draws some hundred networks. A failing one shrinks, is written to a folder as a script
that needs nothing of these tests, and the next seed follows. In between come as many programs, each
of a seed of its own. One program again: ``--only programs --seed 17 --cases 1 --seeds 1``. Mutants
are programs for executors with a few numbers changed, a hundred times as many; they are for the
address sanitizer: ``make sanitize ARGS="--fuzz --seconds 600"``. Prints the number of cases tried;
the exit code is 1 if anything failed.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import time
from pathlib import Path

import sdbr  # noqa: F401  (first: it makes Chainer importable)

from hypothesis import HealthCheck, Phase, given, seed, settings

from .cases import Tally, cases, check
from .mutants import Mutants
from .operations import TEMPLATES, all_templates, discovered, gradients
from .program_cases import Programs


class OutOfTime(Exception):
    """The time is over, in the middle of a seed."""


class Fuzz:
    """Cases until a time, failures as scripts.

    Parameters
    ----------
    end : float
        When to stop, by `time.monotonic`.
    folder : Path
        Where scripts go.
    shrink : float
        Seconds that a failing case may take to shrink.
    """

    def __init__(self, end: float, folder: Path, shrink: float):
        self.end, self.folder, self.shrink = end, folder, shrink
        self.tally = Tally()
        self.failures: list[Path] = []
        self.smallest: str | None = None
        self.failed_at = 0.0
        self.places: list[int] = []

    def one(self, case) -> None:
        """Check a case; remember the smallest failure of this seed."""
        now = time.monotonic()
        if self.smallest is None and now > self.end:
            raise OutOfTime
        if self.smallest is not None and now > self.failed_at + self.shrink:
            return  # small enough
        try:
            check(self.shuffled(case), self.tally)
        except AssertionError as error:
            text = str(error)
            if self.smallest is None:
                self.failed_at = now
            if self.smallest is None or len(text) < len(self.smallest):
                self.smallest = text
            raise

    def shuffled(self, case):
        """The case with other statements in the places of those that hypothesis likes to draw."""
        body, *others = case
        drawn = [(self.places[i], picks, axis) for i, picks, axis in body["drawn"]]
        return ({**body, "drawn": drawn}, *others)

    def seed(self, number: int, n_cases: int) -> None:
        """All cases of one seed, or those up to the first failure."""
        self.smallest = None
        self.places = []
        for kind in (TEMPLATES, discovered(), gradients()):
            places = list(range(len(self.places), len(self.places) + len(kind)))
            random.Random(number).shuffle(places)
            self.places += places

        @seed(number)
        @settings(
            max_examples=n_cases,
            deadline=None,
            database=None,
            phases=[Phase.generate, Phase.shrink],
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        )
        @given(cases)
        def run(case):
            self.one(case)

        try:
            run()
        except OutOfTime:
            raise
        except BaseException as error:
            # Also what hypothesis says when a failure did not come again while it shrank.
            if self.smallest is None or isinstance(error, KeyboardInterrupt):
                raise
        if self.smallest is not None:
            self.write(number)

    def write(self, number: int) -> None:
        """Write the smallest failure as a script."""
        message, _, script = self.smallest.partition("\n\n")
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"case_{number}.py"
        quoted = "".join(f"# {line}\n" for line in message.splitlines())
        path.write_text(f"{quoted}\n{script}")
        self.failures.append(path)
        print(f"FAILED: {path}\n{message}", flush=True)

    def report(self, seconds: float) -> str:
        """What was tried."""
        t = self.tally
        unused = [x for x in all_templates() if x not in t.used]
        lines = [
            f"{t['cases']} cases in {seconds:.0f} s, {len(self.failures)} seeds with a failure",
            f"calls {t['calls']}: traced {t['traces']}, replayed {t['replays']} "
            f"(whole steps {t['steps']}), define-by-run {t['define_by_run_calls']}",
            f"arrays compared {t['arrays']}, of which {t['arrays without digits']} hang on the "
            "last digits of the data",
            f"cases that Chainer itself refuses {t['refused by Chainer']}",
            f"statements used {len(t.used)} of {len(all_templates())}"
            + (f", not: {', '.join(unused[:8])}" if unused else ""),
        ]
        return "\n".join(lines + [str(path) for path in self.failures])


def try_programs(programs: Programs, seeds: range, end: float) -> None:
    """The programs of some seeds."""
    for number in seeds:
        if time.monotonic() > end:
            raise OutOfTime
        wrong = programs.check(number)
        if wrong:
            print(f"FAILED: {programs.failures[-1]}\n{wrong}", flush=True)


def try_mutants(mutants: Mutants, seeds: range, end: float) -> None:
    """The mutants of some numbers. One that is neither refused nor run ends the process."""
    for number in seeds:
        if time.monotonic() > end:
            raise OutOfTime
        mutants.check(number)


def main(arguments: list[str] | None = None) -> int:
    """The command; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument(
        "--cases", type=int, default=100, help="networks per seed, programs in a row"
    )
    parser.add_argument("--shrink", type=float, default=60, help="seconds per failure")
    parser.add_argument("--folder", type=Path, default=Path("build/fuzz"))
    parser.add_argument("--only", choices=["networks", "programs", "mutants"])
    parser.add_argument("--seeds", type=int, help="how many; without it, until the time is over")
    options = parser.parse_args(arguments)
    start = time.monotonic()
    end = start + options.seconds
    fuzz = Fuzz(end, options.folder, options.shrink)
    programs = Programs(options.folder)
    mutants = Mutants(options.folder) if options.only in (None, "mutants") else None
    number = options.seed
    try:
        for step in itertools.count() if options.seeds is None else range(options.seeds):
            if options.only in (None, "networks"):
                fuzz.seed(options.seed + step, options.cases)
            if mutants is not None:
                try_mutants(mutants, range(100 * number, 100 * (number + options.cases)), end)
            if options.only in (None, "programs"):
                try_programs(programs, range(number, number + options.cases), end)
            number += options.cases
    except (OutOfTime, KeyboardInterrupt):
        pass
    if options.only in (None, "networks"):
        print(fuzz.report(time.monotonic() - start))
    if mutants is not None:
        print(mutants.report())
    if options.only in (None, "programs"):
        print("\n".join([programs.report(), *map(str, programs.failures)]))
    return 1 if fuzz.failures or programs.failures else 0


if __name__ == "__main__":
    sys.exit(main())
