"""One measurement in a fresh process: ``python -m benchmarks.probe NAME [ARGUMENTS]`` prints JSON.

The driver's side is `ask`; the measurements are functions of the micro modules.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from typing import Any

from benchmarks.machine import stay_on_cores

PROBES = {
    "calls": "benchmarks.micro_calls:calls",
    "ops": "benchmarks.micro_calls:ops",
    "growth": "benchmarks.micro_calls:growth",
    "dispatch": "benchmarks.micro_dispatch:dispatch",
    "build": "benchmarks.micro_dispatch:build_times",
    "first": "benchmarks.micro_process:first",
    "memory": "benchmarks.micro_process:memory",
}


class ProbeError(Exception):
    """A measurement failed; the message is the last line that it printed."""


def ask(name: str, *arguments: str, cpus: tuple[int, ...], timeout: float) -> Any:
    """Run a probe in a process of its own and return what it found.

    Raises
    ------
    ProbeError
    """
    from benchmarks.pool import ROOT, environment

    command = [sys.executable, "-m", "benchmarks.probe", name, *arguments]
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=environment(True, cpus),
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
        )
    except subprocess.TimeoutExpired:
        raise ProbeError(f"no answer within {timeout:.0f} s") from None
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise ProbeError(said[-1] if said else f"exit code {done.returncode}")
    return json.loads(done.stdout.splitlines()[-1])


def main() -> int:
    """Run the probe that is named on the command line."""
    stay_on_cores()
    module, _, function = PROBES[sys.argv[1]].partition(":")
    found = getattr(importlib.import_module(module), function)(*sys.argv[2:])
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
