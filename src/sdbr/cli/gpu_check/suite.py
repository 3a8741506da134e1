"""The tests that need a GPU: kernels and whole steps, and arrays of CuPy."""

from __future__ import annotations

import collections
import importlib.util
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from sdbr.cli.bench import find_checkout
from sdbr.cli.gpu_check.job import Job
from sdbr.cli.gpu_check.tools import LINES, python, run

#: Arguments of pytest, its environment, and its part of the time.
SUITES: dict[str, tuple[tuple[str, ...], Mapping[str, str], float]] = {
    "kernels": (("-m", "gpu", "tests/parity", "tests/steps"), {}, 0.5),
    "arrays": (("tests/on_cupy",), {"SDBR_TESTS_ON": "gpu"}, 1.0),
}
SAMPLE = 7  # about every so many cases of the long tables
MOST_PROCESSES = 8
LONGEST_TEST = 60  # seconds
ENDS_WITH = 10.0  # seconds that pytest takes to come to an end
TO_WRITE = 2.0  # seconds for what is left to do then
NOTHING_TO_RUN = 5  # pytest's exit code, where no CuPy is


def measure(job: Job) -> None:
    """Run a sample of them; what the time does not suffice for is counted as skipped."""
    root = find_checkout()
    if root is None:
        job.note("tests", "left out: not a source checkout")
        return
    for name, (arguments, environment, share) in SUITES.items():
        found = suite(root, arguments, environment, job.left() * share - TO_WRITE)
        job.note(name, found)
        if found["exit_code"] not in (0, NOTHING_TO_RUN):
            job.failed.append(name)


def suite(
    root: Path, arguments: tuple[str, ...], environment: Mapping[str, str], seconds: float
) -> dict:
    """Run pytest; what it counted, and what it said of failures."""
    time_of_tests = max(1.0, seconds - ENDS_WITH)
    words = ["-m", "pytest", "-v", "--tb=short", "-rfE", "-p", "no:cacheprovider", *arguments]
    words += ["-W", "default"]  # other plugins and versions there warn of other things
    words += ["--sample", SAMPLE, "--seconds", f"{time_of_tests:.0f}"]
    if importlib.util.find_spec("xdist") is not None:
        words += ["-n", max(1, min(MOST_PROCESSES, (os.cpu_count() or 1) // 2))]
    if importlib.util.find_spec("pytest_timeout") is not None:
        # Ends the process of a test that waits for a GPU for good; others take over.
        words += ["--timeout", LONGEST_TEST, "--timeout-method", "thread"]
    code, said = run(python(*words), seconds, root, {"PYTHONHASHSEED": "0", **environment})
    counted = next((line.strip("= ") for line in reversed(said) if _COUNTS.search(line)), "")
    if not counted:
        counted = _count(said)
    # With their reasons at the end; where that did not come, as they were seen.
    failures = [line for line in said if line.startswith(("FAILED ", "ERROR "))]
    failures = failures or [line for line in said if _FAILED.search(line)]
    found = {"exit_code": code, "counted": counted, "failures": failures[:LINES]}
    if code not in (0, NOTHING_TO_RUN):
        found["said"] = said[-LINES:]
    return found


#: The last line; a test that failed, whether pytest has several processes or not.
_COUNTS = re.compile(r"\d+ (passed|failed|skipped|error|deselected).* in |no tests ran")
_FAILED = re.compile(r"^\[gw\d+\] \[ *\d+%\] (FAILED|ERROR) | (FAILED|ERROR) +\[ *\d+%\]$")


def _count(said: Sequence[str]) -> str:
    """What became of tests, where pytest did not come to its end."""
    words = re.findall(r"\b(PASSED|FAILED|SKIPPED|ERROR)\b", "\n".join(said))
    counts = [f"{n} {word.lower()}" for word, n in collections.Counter(words).most_common()]
    return f"ended before all had run: {', '.join(counts) or 'none'}"
