"""One peer on one case, in a process of its own: answers requests until its input ends.

``python -m benchmarks.worker PEER CASE`` reads one JSON object per line from standard input and
writes one per line to standard output; everything that a framework prints goes to standard error.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from time import perf_counter
from typing import Any, TextIO

from benchmarks.machine import stay_on_cores


def main() -> int:
    """Serve; the exit code is 0 when the input has ended."""
    answers = _keep_standard_output()
    stay_on_cores()
    from benchmarks import cases
    from benchmarks.peers import PEERS
    from benchmarks.peers.base import LeftOut

    peer, case = PEERS[sys.argv[1]], cases.load(sys.argv[2])
    try:
        runner = peer.make(case)
    except (LeftOut, ImportError) as reason:
        _answer(answers, {"left_out": " ".join(str(reason).split())})
        return 0
    versions = {"python": platform.python_version(), **runner.versions()}
    _answer(answers, {"ready": True, "versions": versions})
    for line in sys.stdin:
        request = json.loads(line)
        try:
            _answer(answers, _serve(runner, request))
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


def _serve(runner: Any, request: dict[str, Any]) -> dict[str, Any]:
    part = request.get("part", "")
    if request["do"] == "check":
        return {"values": [float(value) for value in runner.check(part)]}
    if request["do"] == "calibrate":
        return {"n": _calibrate(runner, part, request["seconds"])}
    if request["do"] == "time":
        return {"seconds": _time(runner, part, request["n"]) / request["n"]}
    if request["do"] == "facts":
        return {"facts": runner.facts()}
    raise ValueError(f"unknown request {request['do']!r}")


def _time(runner: Any, part: str, n: int) -> float:
    # Every turn starts from the same weights, so that a long one does not drift into another
    # regime (dead units, denormal moments); the first steps after a reset are not timed.
    runner.reset()
    runner.run(part, min(n, 3))
    start = perf_counter()
    runner.run(part, n)
    return perf_counter() - start


def _calibrate(runner: Any, part: str, seconds: float) -> int:
    n = 1
    while True:
        taken = _time(runner, part, n)
        if taken >= seconds / 4:
            return max(1, round(n * seconds / taken))
        n *= 4


if __name__ == "__main__":
    sys.exit(main())
