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
    """Return the variables that give every peer `n` threads of the host, and no GPU."""
    eigen = "true" if n > 1 else "false"
    return {
        **{f"{name}_NUM_THREADS": str(n) for name in THREADS},
        "VECLIB_MAXIMUM_THREADS": str(n),
        "OMP_WAIT_POLICY": "PASSIVE",
        "XLA_FLAGS": f"--xla_cpu_multi_thread_eigen={eigen} intra_op_parallelism_threads={n}",
        "JAX_PLATFORMS": "cpu",
        "CUDA_VISIBLE_DEVICES": "",
    }


def gpu_variables() -> dict[str, str]:
    """Return the variables with which peers share a GPU: none takes all of its memory."""
    threads = {name: value for name, value in thread_variables(1).items() if "THREADS" in name}
    return {**threads, "JAX_PLATFORMS": "cuda", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}


class WorkerError(Exception):
    """A worker died, took too long or answered with an error; the message is one line."""


def environment(
    own: bool, cpus: tuple[int, ...], threads: int = 1, root: Path = ROOT, device: str = "cpu"
) -> dict[str, str]:
    """Return the environment variables of a worker: its threads, and the sources on the path."""
    path = [str(root)]
    if own:  # the peers' environment must not pick up this one's packages
        # Where the extension modules were not built in place, the package is installed.
        if any((root / "src" / "sdbr").glob("_executor*.so")):
            path.append(str(root / "src"))
        path += [entry for entry in (os.environ.get("PYTHONPATH"),) if entry]
    there = gpu_variables() if device == "cuda" else thread_variables(threads)
    variables = {**os.environ, **there, "PYTHONPATH": os.pathsep.join(path)}
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
    device : str
        ``'cpu'`` or ``'cuda'``.
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
        device: str = "cpu",
    ):
        self.peer = peer
        self.timeout = timeout
        self.process = subprocess.Popen(
            # Those of other trees may know of no devices.
            [python, "-m", "benchmarks.worker", peer.name, case, *[device] * (device != "cpu")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=root,
            env=environment(peer.own, cpus, threads, root, device),
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
        self.send(**request)
        return self.receive()

    def send(self, **request: Any) -> None:
        """Send a request."""
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
        except OSError:
            raise WorkerError(f"the worker ended with exit code {self.process.wait()}") from None

    def close(self, patience: float = 5.0) -> None:
        """End the process, by force when it takes longer than so many seconds."""
        try:
            self.process.stdin.close()
            self.process.wait(timeout=patience)
        except (OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
