"""Tests under compute-sanitizer, which looks at every access to memory of the device."""

from __future__ import annotations

from sdbr.cli.bench import find_checkout
from sdbr.cli.gpu_check.job import Job
from sdbr.cli.gpu_check.suite import ENDS_WITH, TO_WRITE
from sdbr.cli.gpu_check.tools import LINES, find, python, run

TESTS = 40
_FOUND = 9  # exit code where it found something


def measure(job: Job) -> None:
    """Run some tests of kernels and whole steps."""
    tool, root = find("compute-sanitizer"), find_checkout()
    if tool is None or root is None:
        missing = "compute-sanitizer was not found" if tool is None else "not a source checkout"
        job.note("memcheck", f"left out: {missing}")
        return
    command = [tool, "--tool", "memcheck", "--error-exitcode", str(_FOUND), "--print-limit", "20"]
    words = ["-m", "pytest", "-v", "--tb=short", "-rfE", "-p", "no:cacheprovider", "-m", "gpu"]
    words += ["tests/parity", "tests/steps", "--at-most", TESTS]
    words += ["--seconds", f"{max(1.0, job.left() - 2 * ENDS_WITH):.0f}"]
    code, said = run([*command, *python(*words)], job.left() - TO_WRITE, root)
    errors = [line for line in said if "ERROR SUMMARY" in line or "Invalid __" in line]
    job.note("memcheck", {"exit_code": code, "errors": errors[:LINES], "said": said[-LINES:]})
    if code != 0:
        job.failed.append("memcheck")
