"""One peer on one case after the other, in a process of its own: answers until its input ends.

``python -m benchmarks.worker PEER CASE [DEVICE]`` reads one JSON object per line from standard
input and writes one per line to standard output; everything that a framework prints goes to
standard error. The first answer is about the case that is named; ``{"do": "load", "case": ...}``
goes on to another one.
"""

from __future__ import annotations

import dataclasses
import gc
import json
import os
import platform
import sys
from time import perf_counter, process_time, thread_time
from typing import Any, TextIO

from benchmarks.machine import stay_on_cores

#: On a GPU, of the first steps those that are compared, and those that are run before any is timed.
CHECKED, WARM = 3, 30
#: Launches that wait for a GPU at most: a driver lets nobody launch more than some thousand.
AHEAD = 32


def main() -> int:
    """Serve; the exit code is 0 when the input has ended."""
    answers = _keep_standard_output()
    stay_on_cores()
    peer, first, *device = sys.argv[1:]
    server = Server(peer, *device)
    _answer(answers, server.load(first))
    for line in sys.stdin:
        request = json.loads(line)
        try:
            _answer(answers, server.serve(request))
        except Exception as error:  # the driver leaves the peer out and goes on
            _answer(answers, {"error": f"{type(error).__name__}: {' '.join(str(error).split())}"})
    return 0


def _keep_standard_output() -> TextIO:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return answers


def _answer(answers: TextIO, message: dict[str, Any]) -> None:
    answers.write(json.dumps(message) + "\n")
    answers.flush()


class Server:
    """A peer, and the case that it has.

    Parameters
    ----------
    peer : str
    device : str
        ``'cpu'`` or ``'cuda'``.
    """

    def __init__(self, peer: str, device: str = "cpu"):
        self.peer, self.device = peer, device
        self.runner: Any = None

    def load(self, name: str) -> dict[str, Any]:
        """Go on to a case; why it is left out, where the peer does not take part in it."""
        from benchmarks import cases
        from benchmarks.peers import PEERS
        from benchmarks.peers.base import LeftOut

        self.runner = None
        gc.collect()
        case = cases.load(name)
        if self.device == "cuda":
            case = dataclasses.replace(case, check_steps=CHECKED)
        try:
            runner = PEERS[self.peer].make(case, self.device)
            if self.device == "cuda":
                runner.prepare()
        except (LeftOut, ImportError) as reason:
            return {"left_out": " ".join(str(reason).split())}
        except Exception as error:
            text = " ".join(str(error).split())
            return {"left_out": f"{type(error).__name__}: {text}"}
        self.runner = runner
        versions = {"python": platform.python_version(), **runner.versions()}
        return {"ready": True, "versions": versions}

    def serve(self, request: dict[str, Any]) -> dict[str, Any]:
        """Do what is asked for.

        Raises
        ------
        ValueError
            If nobody knows how.
        """
        if request["do"] == "load":
            return self.load(request["case"])
        runner, part, n = self.runner, request.get("part", ""), request.get("n", 1)
        if request["do"] == "check":
            return {"values": [float(value) for value in runner.check(part)]}
        if request["do"] == "calibrate":
            if self.device == "cuda":
                _begin(runner, part, WARM)
            return {"n": _calibrate(runner, part, request["seconds"])}
        if request["do"] == "time":
            return {"seconds": _time(runner, part, n) / n}
        if request["do"] == "latency":
            return {"seconds": _latency(runner, part, n) / n}
        if request["do"] == "processor":
            return _processor(runner, part, min(n, AHEAD))
        if request["do"] == "facts":
            return {"facts": runner.facts()}
        raise ValueError(f"unknown request {request['do']!r}")


def _begin(runner: Any, part: str, n: int = 3) -> None:
    # Every turn starts from the same weights, so that a long one does not drift into another
    # regime (dead units, denormal moments); the first steps after a reset are not timed.
    runner.reset()
    runner.run(part, n)
    runner.wait()


def _time(runner: Any, part: str, n: int) -> float:
    """Seconds of n steps; they are waited for together."""
    _begin(runner, part, min(n, 3))
    start = perf_counter()
    runner.run(part, n)
    runner.wait()
    return perf_counter() - start


def _latency(runner: Any, part: str, n: int) -> float:
    """Seconds of n steps; each is waited for."""
    _begin(runner, part, min(n, 3))
    start = perf_counter()
    for _ in range(n):
        runner.run(part, 1)
        runner.wait()
    return perf_counter() - start


def _processor(runner: Any, part: str, n: int) -> dict[str, float]:
    """Seconds of processors for a step, without those that pass while it is waited for.

    Of the thread that calls it, and of all threads: some frameworks go backward on another one.
    """
    _begin(runner, part)
    thread, process = thread_time(), process_time()
    runner.run(part, n)
    thread, process = thread_time() - thread, process_time() - process
    runner.wait()
    return {"seconds": thread / n, "process": process / n}


def _calibrate(runner: Any, part: str, seconds: float) -> int:
    n = 1
    while True:
        taken = _time(runner, part, n)
        if taken >= seconds / 4:
            return max(1, round(n * seconds / taken))
        n *= 4


if __name__ == "__main__":
    sys.exit(main())
