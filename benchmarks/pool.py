"""The driver's side of the workers."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from pathlib import Path
from time import monotonic
from typing import Any

from benchmarks.peers import Peer

ROOT = Path(__file__).resolve().parents[1]
THREADS = ("OMP", "OPENBLAS", "MKL", "NUMEXPR")


def thread_variables(n: int) -> dict[str, str]:
    """Return the variables that give every peer `n` threads."""
    eigen = "true" if n > 1 else "false"
    return {
        **{f"{name}_NUM_THREADS": str(n) for name in THREADS},
        "VECLIB_MAXIMUM_THREADS": str(n),
        "OMP_WAIT_POLICY": "PASSIVE",
        "XLA_FLAGS": f"--xla_cpu_multi_thread_eigen={eigen} intra_op_parallelism_threads={n}",
        "JAX_PLATFORMS": "cpu",
        "CUDA_VISIBLE_DEVICES": "",
    }


class WorkerError(Exception):
    """A worker died, took too long or answered with an error; the message is one line."""


def environment(
    own: bool, cpus: tuple[int, ...], threads: int = 1, root: Path = ROOT
) -> dict[str, str]:
    """Return the environment variables of a worker: its threads, and the sources on the path."""
    path = [str(root)]
    if own:  # the peers' environment must not pick up this one's packages
        path += [entry for entry in (str(root / "src"), os.environ.get("PYTHONPATH")) if entry]
    variables = {**os.environ, **thread_variables(threads), "PYTHONPATH": os.pathsep.join(path)}
    variables.pop("SDBR_BENCH_CPU", None)
    if cpus:
        variables["SDBR_BENCH_CPU"] = ",".join(map(str, cpus))
    return variables


def interpreter(peer: Peer, peer_python: str | None) -> str | None:
    """Return the Python that runs a peer, or None where there is none for it."""
    return sys.executable if peer.own else peer_python


class Worker:
    """A peer's process.

    Parameters
    ----------
    peer : Peer
    case : str
        Name of the case.
    python : str
        The interpreter.
    cpus : tuple of int
        The cores to stay on; empty for any.
    threads : int
    timeout : float
        Seconds after which an answer is given up on.
    log : file
        Takes what the worker prints.
    root : Path
        The tree whose benchmarks and package the worker runs.
    """

    def __init__(
        self,
        peer: Peer,
        case: str,
        python: str,
        cpus: tuple[int, ...],
        threads: int,
        timeout: float,
        log: Any,
        root: Path = ROOT,
    ):
        self.peer = peer
        self.timeout = timeout
        self.process = subprocess.Popen(
            [python, "-m", "benchmarks.worker", peer.name, case],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=root,
            env=environment(peer.own, cpus, threads, root),
        )
        self._pending = b""

    def receive(self) -> dict[str, Any]:
        """Wait for the next answer.

        Raises
        ------
        WorkerError
        """
        end = monotonic() + self.timeout
        fd = self.process.stdout.fileno()
        while b"\n" not in self._pending:
            ready, _, _ = select.select([fd], [], [], max(0.0, end - monotonic()))
            if not ready:
                raise WorkerError(f"no answer within {self.timeout:.0f} s")
            chunk = os.read(fd, 1 << 16)
            if not chunk:
                raise WorkerError(f"the worker ended with exit code {self.process.wait()}")
            self._pending += chunk
        line, _, self._pending = self._pending.partition(b"\n")
        answer = json.loads(line)
        if "error" in answer:
            raise WorkerError(answer["error"])
        return answer

    def ask(self, **request: Any) -> dict[str, Any]:
        """Send a request and wait for its answer."""
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
        except OSError:
            raise WorkerError(f"the worker ended with exit code {self.process.wait()}") from None
        return self.receive()

    def close(self) -> None:
        """End the process."""
        try:
            self.process.stdin.close()
            self.process.wait(timeout=5)
        except (OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
