"""Benchmarks on the processor by the number of threads."""

from __future__ import annotations

import json
import os
import sys

from sdbr.cli.bench import find_checkout
from sdbr.cli.gpu_check.job import Job
from sdbr.cli.gpu_check.tools import LINES, python, run

CASES = ("mlp_mnist", "lenet", "lstm_ptb", "transformer", "vgg_cifar")
PEERS = "sdbr-cython,torch"
THREADS = (1, 2, 4, 8, 16)
ROUNDS = 3
SECONDS = 0.3  # of a turn


def measure(job: Job) -> None:
    """Run the driver for each number of threads that this machine has cores for."""
    root = find_checkout()
    if root is None:
        job.note("threads", "left out: not a source checkout")
        return
    numbers = [n for n in THREADS if n <= (os.cpu_count() or 1)]
    for k, n in enumerate(numbers):
        path = job.path.with_suffix(".bench.json")
        seconds = job.left() / (len(numbers) - k)
        words = ["-m", "sdbr", "bench", *CASES, "--threads", n, "--peers", PEERS]
        words += ["--rounds", ROUNDS, "--seconds", SECONDS, "--json", path]
        words += ["--peer-python", sys.executable, "--minutes", f"{0.9 * seconds / 60:.3f}"]
        code, said = run(python(*words), seconds, root)
        try:
            job.note(str(n), json.loads(path.read_text()))
        except (OSError, ValueError):
            job.note(str(n), {"error": said[-LINES:]})
        path.unlink(missing_ok=True)
        if code != 0:
            job.failed.append(str(n))
