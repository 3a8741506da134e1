"""A step of a case for a profiler: ``python -m benchmarks.steps CASE [--device cuda]``.

Some steps run before it, so that all is compiled and recorded; the profiler is told where it begins
and ends (``ncu --profile-from-start off``).
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import sys
from collections.abc import Iterator

from benchmarks import cases
from benchmarks.peers import OWN, PEERS

BEFORE = 5


@contextlib.contextmanager
def profiled(device: str) -> Iterator[None]:
    """What runs meanwhile is to be profiled, where a profiler of GPUs is there."""
    if device != "cuda":
        yield
        return
    driver = ctypes.CDLL("libcuda.so.1")
    driver.cuProfilerStart()
    try:
        yield
    finally:
        driver.cuProfilerStop()


def main(argv: list[str] | None = None) -> int:
    """Run the steps."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.steps", description=__doc__)
    parser.add_argument("case", choices=cases.NAMES, metavar="CASE")
    parser.add_argument("--device", choices=tuple(OWN), default="cpu")
    parser.add_argument("--peer", choices=tuple(PEERS))
    parser.add_argument("--steps", type=int, default=1, metavar="N", help="that are profiled")
    options = parser.parse_args(argv)
    peer = PEERS[options.peer or OWN[options.device]]
    runner = peer.make(cases.load(options.case), options.device)
    part = runner.case.parts[0]
    runner.run(part, BEFORE)
    runner.wait()
    with profiled(options.device):
        runner.run(part, options.steps)
        runner.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
