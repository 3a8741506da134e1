"""``python -m sdbr gpu-check``: what this machine's GPU does right, and what launching costs there.

Writes ``gpu-check.json``. In a source checkout the tests that need a GPU run as well.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from sdbr.backends.cuda.launch import THREADS
from sdbr.backends.cuda.plan import source
from sdbr.backends.cuda.words import KERNEL, WordsStruct
from sdbr.base.errors import BackendError
from sdbr.base.version import VERSION
from sdbr.cli import doctor
from sdbr.cli.bench import find_checkout
from sdbr.devices.compiled import cubin
from sdbr.devices.driver import Device, Driver, Stream
from sdbr.devices.nvrtc import nvrtc

import numpy as np

NODES = (1, 4, 16, 64, 256)
ROUNDS = 7  # of which the median counts


def main(argv: Sequence[str] = ()) -> int:
    """Check and measure; the exit code is 0 if all that was found is right, 2 without a GPU."""
    parser = argparse.ArgumentParser(
        prog="python -m sdbr gpu-check",
        description="Check this machine's GPU, and measure what launches cost.",
    )
    parser.add_argument("--out", type=Path, default=Path(), metavar="DIR", help="for the JSON")
    parser.add_argument("--device", type=int, default=0, metavar="N", help="which GPU")
    parser.add_argument("--launches", type=int, default=200, help="of each round")
    options = parser.parse_args(argv)
    try:
        device = Device(Driver(), options.device)
        compiler = nvrtc()
    except BackendError as error:
        print(f"sdbr gpu-check: {error}", file=sys.stderr)
        return 2
    facts = {
        "device": device.name,
        "architecture": device.architecture,
        "driver": ".".join(map(str, device.driver.version)),
        "nvrtc": compiler.name,
        "sdbr": VERSION,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "machine": platform.machine(),
        "doctor": doctor.report({"GPU": list(doctor.gpu())}).splitlines(),
        "microseconds": launches(device, cubin(*source(()), device.architecture), options.launches),
        "tests": tests(),
    }
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "gpu-check.json"
    path.write_text(json.dumps(facts, indent=1) + "\n")
    print(json.dumps({**facts, "doctor": None}, indent=1))
    print(f"wrote {path}")
    return int(bool(facts["tests"] and facts["tests"]["exit_code"]))


def launches(device: Device, code: bytes, n: int) -> dict[str, float]:
    """Microseconds of launches that do nothing.

    Parameters
    ----------
    device : Device
    code : bytes
        Machine code with the kernel that writes words.
    n : int
        Launches of a round.

    Returns
    -------
    dict
        For a kernel, and for graphs of some numbers of kernels one after another: processor time of
        a launch, and the time from launch to launch when nobody waits in between.
    """
    found = {}
    with device.current():
        module, stream = device.load(code), device.stream()
        function, nothing = module.function(KERNEL), WordsStruct(base=0, count=0)

        def launch() -> None:
            stream.launch(function, 1, THREADS, nothing)

        found["kernel, processor"], found["kernel, one after another"] = _timed(launch, stream, n)
        for nodes in NODES:
            with stream.capture() as made:
                for _ in range(nodes):
                    launch()
            processor, between = _timed(lambda graph=made[0]: graph.launch(stream), stream, n)
            found[f"graph of {nodes}, processor"] = processor
            found[f"graph of {nodes}, one after another"] = between
    return found


def _timed(launch, stream: Stream, n: int) -> tuple[float, float]:
    processor, between = [], []
    for _ in range(1 + ROUNDS):
        stream.synchronize()
        start, used = time.perf_counter(), time.thread_time()
        for _ in range(n):
            launch()
        used = time.thread_time() - used
        stream.synchronize()
        processor.append(1e6 * used / n)
        between.append(1e6 * (time.perf_counter() - start) / n)
    return statistics.median(processor[1:]), statistics.median(between[1:])


def tests() -> dict | None:
    """What the tests say that need a GPU; None where there are no sources."""
    root = find_checkout()
    if root is None:
        return None
    command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "tests/parity", "tests/steps"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    return {"exit_code": done.returncode, "output": done.stdout.splitlines()[-40:]}
