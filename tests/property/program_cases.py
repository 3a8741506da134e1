"""Random programs: run plain and static, audits off and on, and counted."""

from __future__ import annotations

import collections
import warnings
from pathlib import Path

import numpy as np

from tests.leaks.harness import Run, Verdict, compare, execute, judge

from .programs import Program
from .runner import other_rounding

AUDITS = ("off", "auto")
#: Part of what is said when a replay was not what define-by-run gave.
AUDIT_FAILED = "sdbr does not see what the call depends on"


class Programs:
    """Runs programs; keeps what came of them.

    Parameters
    ----------
    folder : Path
        Where sources are written, for Python reads the lines of what it runs from files. Those of
        programs that fail stay there.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self.counts: collections.Counter = collections.Counter()
        self.runs: collections.Counter = collections.Counter()
        self.failures: list[Path] = []
        self.programs = 0

    def check(self, seed: int) -> str:
        """Run the program of a seed; what is wrong with it, most often nothing."""
        program = Program(seed)
        self.programs += 1
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"program_{seed}.py"
        path.write_text(program.source)
        wrong = []
        for audit in AUDITS:
            verdict = judge(path, "p_program", audit)
            found = fault(verdict)
            word = verdict.word
            if found and word != "error" and unstable(path):
                word = "hangs on the last digits"
            elif found:
                wrong.append(f"audits {audit}: {found}")
            self.counts[word] += 1
            self.counts["raises in both"] += bool(verdict.raised)
            for name in ("calls", "traces", "replays", "define_by_run_calls", "steps"):
                self.runs[name] += verdict.statistics.get(name, 0)
        if not wrong:
            path.unlink()
            return ""
        self.failures.append(path)
        return f"seed {seed}: {'; '.join(wrong)}\n\n{program.source}"

    def report(self) -> str:
        """What was tried."""
        runs, total = self.runs, self.programs
        words = ", ".join(f"{word} {n}" for word, n in self.counts.most_common())
        return (
            f"{total} programs, each with audits {' and '.join(AUDITS)}: {words}\n"
            f"calls {runs['calls']}: traced {runs['traces']}, replayed {runs['replays']} (whole "
            f"steps {runs['steps']}), define-by-run {runs['define_by_run_calls']}"
        )


def fault(verdict: Verdict) -> str:
    """What is wrong with a verdict: a difference, or an audit that did not pass."""
    if verdict.word in ("silent", "error", "told"):
        return f"{verdict.word}: {verdict.detail}; warnings: {verdict.warnings}"
    failed = [text for text in verdict.warnings if AUDIT_FAILED in text]
    return f"an audit failed: {failed[0]}" if failed else ""


class Nudged(Run):
    """Plain, on data that are off by some units of the last digit.

    Parameters
    ----------
    seed : int
    """

    def __init__(self, seed: int):
        super().__init__(False)
        self.noise = np.random.RandomState(seed)

    def array(self, *shape, dtype="f"):
        data = super().array(*shape, dtype=dtype)
        size = 8 * np.finfo(dtype).eps
        return (data * (1 + self.noise.uniform(-size, size, shape))).astype(dtype)


def unstable(path: Path) -> bool:
    """Whether define-by-run itself gives something else when last digits are others."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain = Run(False)
        execute(path, "p_program", plain)
        for seed in range(6):
            nudged = Nudged(seed)
            with other_rounding(np.random.RandomState(seed)):
                execute(path, "p_program", nudged)
            if compare(nudged.seen, plain.seen):
                return True
    return False
