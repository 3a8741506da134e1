"""``python -m sdbr bench``: the command line of the benchmarks."""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from benchmarks import cases, machine, micro, plot, report
from benchmarks.conditions import Settings
from benchmarks.crew import Crew
from benchmarks.measure import Outcome, measure
from benchmarks.peers import PEERS, of_device

PEER_PYTHON = "SDBR_BENCH_PEER_PYTHON"


def main(argv: list[str] | None = None) -> int:
    """Run the benchmarks that are named, or all cases.

    Returns
    -------
    int
        0; 1 when a peer computed something else than Chainer; 2 for a wrong command.
    """
    arguments = sys.argv[1:] if argv is None else list(argv)
    options, problem = _parse(arguments)
    if problem:
        print(f"sdbr bench: error: {problem}", file=sys.stderr)
        return 2
    if options.ways:
        return _ways(options)
    facts = machine.describe(options.device)
    print("\n".join(f"{name}: {text}" for name, text in facts.items()))
    on_gpu = options.device == "cuda"
    settings = Settings(
        rounds=options.rounds,
        seconds=options.seconds,
        timeout=options.timeout,
        # Whoever launches and whoever goes backward are different threads in some frameworks.
        cpus=() if on_gpu else machine.last_cores(options.threads),
        threads=options.threads,
        peer_python=options.peer_python,
        peers=tuple(options.peers),
        device=options.device,
        end=time.monotonic() + 60 * options.minutes,
    )
    if settings.peer_python is None:
        print("torch and jax are left out: no --peer-python (see benchmarks/README.md)")
    result = {
        "command": report.command(arguments),
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": facts,
        "load_at_start": machine.load(),
        "device": settings.device,
        "settings": {
            "rounds": settings.rounds,
            "seconds_per_turn": settings.seconds,
            "threads": settings.threads,
        },
    }
    outcomes = _measure_all(options, settings, result)
    if options.micro:
        result["micro"] = micro.main(settings, _progress)
    result["load_at_end"] = machine.load()
    _write(options, result, outcomes)
    return 1 if any(outcome.wrong for outcome in outcomes) else 0


def _ways(options: argparse.Namespace) -> int:
    """Ways to write a step, then each rule with each hook; 1 where a way is above its limit."""
    codes = []
    for name, more in (("ways", []), ("rules", ["--product"])):
        command = [sys.executable, "-m", f"benchmarks.{name}", *more]
        command += ["--rounds", str(options.rounds)]
        if options.peer_python:
            command += ["--peer-python", options.peer_python]
        if options.json:
            path = Path(options.json)
            command += [
                "--json",
                str(path.with_name(f"{path.stem}-{name}{path.suffix}").absolute()),
            ]
        codes.append(subprocess.call(command, cwd=Path(__file__).parents[1]))
    return max(codes)


def _measure_all(
    options: argparse.Namespace, settings: Settings, result: dict[str, Any]
) -> list[Outcome]:
    """Measure the cases; the file with the figures is right after each of them."""
    outcomes: list[Outcome] = []
    with tempfile.TemporaryFile() as log:
        crew = Crew(settings, log)
        try:
            for name in options.cases:
                if settings.left():
                    outcomes.append(measure(name, settings, crew, _progress))
                else:
                    left_out = dict.fromkeys(settings.peers, "no time was left for it")
                    outcomes.append(Outcome(name, settings.device, left_out=left_out))
                _progress("")
                print("\n" + report.table(outcomes[-1]), flush=True)
                result["cases"] = report.as_json(outcomes)
                _write_json(options, result)
        finally:
            crew.close()
    result.setdefault("cases", [])
    return outcomes


def _parse(arguments: list[str]) -> tuple[argparse.Namespace, str]:
    parser = argparse.ArgumentParser(
        prog="python -m sdbr bench",
        description="Time sdbr and its peers on the same networks, in turn.",
        epilog=f"cases: {', '.join(cases.NAMES)}; micro: what a call, an op and a guard cost",
    )
    parser.add_argument("names", nargs="*", metavar="CASE|micro", help="default: all cases")
    parser.add_argument(
        "--ways", action="store_true",
        help="instead: ways to write a step, and each update rule with each hook; their figures "
        "go to FILE-ways.json and FILE-rules.json",
    )  # fmt: skip
    parser.add_argument("--json", metavar="FILE", help="write all figures")
    parser.add_argument("--plot", metavar="FILE", help="write a picture of the medians")
    parser.add_argument("--rounds", type=int, default=15, metavar="N")
    parser.add_argument("--seconds", type=float, default=0.1, help="per turn of one peer")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="per peer")
    parser.add_argument(
        "--device", choices=("cpu", "cuda"), default="cpu",
        help="cuda: the first GPU; latency and the time of processors are measured as well",
    )  # fmt: skip
    parser.add_argument(
        "--minutes", type=float, default=math.inf, metavar="M", help="after which none begins"
    )
    parser.add_argument("--timeout", type=float, default=900.0, help="for one answer of a peer")
    parser.add_argument(
        "--peer-python",
        metavar="PYTHON",
        default=os.environ.get(PEER_PYTHON),
        help=f"the interpreter that has torch and jax (default: ${PEER_PYTHON})",
    )
    parser.add_argument("--peers", type=lambda text: text.split(","), help="default: all there")
    options = parser.parse_args(arguments)
    options.peers = options.peers or list(of_device(options.device))
    options.micro = "micro" in options.names
    options.cases = [name for name in options.names if name != "micro"]
    if not options.names:
        options.cases = list(cases.NAMES)
    return options, _problem(options)


def _problem(options: argparse.Namespace) -> str:
    for name in options.cases:
        if name not in cases.NAMES:
            return f"no case {name!r}; there are {', '.join(cases.NAMES)}, and micro"
    for name in options.peers:
        if name not in PEERS:
            return f"no peer {name!r}; there are {', '.join(PEERS)}"
        if options.device not in PEERS[name].devices:
            return f"peer {name!r} does not run with --device {options.device}"
    times = options.seconds, options.timeout, options.minutes
    if min(options.rounds, options.threads) < 1 or min(times) <= 0:
        return "--rounds, --seconds, --threads, --timeout and --minutes must be above 0"
    if options.peer_python is not None:
        found = shutil.which(options.peer_python)
        if found is None:
            return f"--peer-python {options.peer_python}: no such program"
        # The worker's directory is another one. Links stay: a virtual environment is one.
        options.peer_python = os.path.abspath(found)
    for path in (options.json, options.plot):
        if path and not os.path.isdir(os.path.dirname(os.path.abspath(path))):
            return f"{path}: no such directory"
    return ""


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{text[:100]}", end="", file=sys.stderr, flush=True)


def _write_json(options: argparse.Namespace, result: dict[str, Any]) -> None:
    """Whoever reads the file meanwhile finds the one before, or this one."""
    if options.json:
        with open(f"{options.json}.new", "w") as file:
            json.dump(result, file, indent=1)
            file.write("\n")
        os.replace(f"{options.json}.new", options.json)


def _write(options: argparse.Namespace, result: dict[str, Any], outcomes: list[Any]) -> None:
    if options.json:
        _write_json(options, result)
        print(f"\nwrote {options.json}")
    if options.plot:
        try:
            machine_name = result["machine"]["processor"]
            plot.draw(options.plot, outcomes, machine_name, options.threads)
        except ImportError:
            print("no picture: matplotlib is missing (pip install '.[bench]')")
        else:
            print(f"wrote {options.plot}")


if __name__ == "__main__":
    sys.exit(main())
