"""The main job on a GPU: digits, by define-by-run and static."""

from __future__ import annotations

import tempfile

from sdbr.cli.gpu_check.job import Job
from sdbr.cli.gpu_check.tools import LINES, python, run

ARGUMENTS: tuple[str, ...] = ()  # as by hand


def measure(job: Job) -> None:
    """Train; what it printed."""
    with tempfile.TemporaryDirectory() as folder:
        words = ["-m", "sdbr", "demo", "--device", f"@cupy:{job.ordinal}", *ARGUMENTS]
        words += ["--out", f"{folder}/demo.png"]
        no_bars = {"TQDM_DISABLE": "1"}
        code, said = run(python(*words), job.left(), environment=no_bars)
    job.note("demo", {"exit_code": code, "said": said[-LINES:]})
    if code != 0:
        job.failed.append("demo")
