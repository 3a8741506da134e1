"""The benchmarks against their peers, on the GPU."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from sdbr.cli.bench import find_checkout
from sdbr.cli.gpu_check.job import Job
from sdbr.cli.gpu_check.tools import LINES, python, run

CASES = ("mlp_tiny", "chain_50", "mlp_digits", "mlp_mnist", "lstm_ptb", "deep_chain", "infer_tiny")
PEERS = ("chainer", "sdbr-cuda", "sdbr-uncaptured", "torch", "torch-graph", "jax")
#: Compiled last, with those that it is held against: that takes longer than all the rest.
COMPILED = ("mlp_tiny", "mlp_digits", "mlp_mnist")
PEERS_COMPILED = ("chainer", "sdbr-cuda", "torch.compile")
SHARE = 0.8  # of the time that is left, for those that are not compiled
ROUNDS, SECONDS = 7, 0.05  # of each turn
TIMEOUT = 90  # seconds for one answer of a peer: what compiles longer is left out
ENDS_WITH, TO_WRITE = 10.0, 3.0  # seconds for the round that has begun, and for what is left then
_LOOK = 1.0  # seconds between looks at what was measured


def measure(job: Job) -> None:
    """Run the driver of the benchmarks; it writes its file after each case."""
    root = find_checkout()
    if root is None:
        job.note("bench", "left out: not a source checkout")
        return
    _bench(job, root, "bench", CASES, PEERS, SHARE * job.left())
    _bench(job, root, "compiled", COMPILED, PEERS_COMPILED, job.left())


def _bench(
    job: Job, root: Path, name: str, cases: Sequence[str], peers: Sequence[str], seconds: float
) -> None:
    path = job.path.with_suffix(".bench.json")
    words = ["-m", "sdbr", "bench", *cases, "--device", "cuda", "--peers", ",".join(peers)]
    words += ["--rounds", ROUNDS, "--seconds", SECONDS, "--timeout", TIMEOUT]
    words += ["--minutes", f"{max(1.0, seconds - ENDS_WITH) / 60:.3f}"]
    words += ["--peer-python", sys.executable, "--json", path]
    finish = threading.Event()
    watcher = threading.Thread(target=_watch, args=(job, name, path, finish), daemon=True)
    watcher.start()
    code, said = run(python(*words), seconds - TO_WRITE, root)
    finish.set()
    watcher.join()
    _take(job, name, path)
    path.unlink(missing_ok=True)
    if code != 0:
        job.failed.append(name)
        job.note(f"{name} failed", {"exit_code": code, "said": said[-LINES:]})


def _watch(job: Job, name: str, path: Path, finish: threading.Event) -> None:
    while not finish.wait(_LOOK):
        _take(job, name, path)


def _take(job: Job, name: str, path: Path) -> None:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return
    if found != job.found.get(name):
        job.note(name, found)
