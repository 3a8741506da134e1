"""``python -m sdbr bench``: the command line of the benchmarks."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from datetime import datetime, timezone
from typing import Any

from benchmarks import cases, machine, micro, plot, report
from benchmarks.measure import Settings, measure
from benchmarks.peers import PEERS

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
    facts = machine.describe()
    print("\n".join(f"{name}: {text}" for name, text in facts.items()))
    settings = Settings(
        rounds=options.rounds,
        seconds=options.seconds,
        timeout=options.timeout,
        cpus=machine.last_cores(options.threads),
        threads=options.threads,
        peer_python=options.peer_python,
        peers=tuple(options.peers),
    )
    if settings.peer_python is None:
        print("torch and jax are left out: no --peer-python (see benchmarks/README.md)")
    result = {
        "command": report.command(arguments),
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": facts,
        "load_at_start": machine.load(),
        "settings": {
            "rounds": settings.rounds,
            "seconds_per_turn": settings.seconds,
            "threads": settings.threads,
        },
    }
    outcomes = []
    for name in options.cases:
        outcomes.append(measure(name, settings, _progress))
        _progress("")
        print("\n" + report.table(outcomes[-1]), flush=True)
    result["cases"] = report.as_json(outcomes)
    if options.micro:
        result["micro"] = micro.main(settings, _progress)
    result["load_at_end"] = machine.load()
    _write(options, result, outcomes)
    return 1 if any(outcome.wrong for outcome in outcomes) else 0


def _parse(arguments: list[str]) -> tuple[argparse.Namespace, str]:
    parser = argparse.ArgumentParser(
        prog="python -m sdbr bench",
        description="Time sdbr and its peers on the same networks, in turn.",
        epilog=f"cases: {', '.join(cases.NAMES)}; micro: what a call, an op and a guard cost",
    )
    parser.add_argument("names", nargs="*", metavar="CASE|micro", help="default: all cases")
    parser.add_argument("--json", metavar="FILE", help="write all figures")
    parser.add_argument("--plot", metavar="FILE", help="write a picture of the medians")
    parser.add_argument("--rounds", type=int, default=15, metavar="N")
    parser.add_argument("--seconds", type=float, default=0.1, help="per turn of one peer")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="per peer")
    parser.add_argument("--timeout", type=float, default=900.0, help="for one answer of a peer")
    parser.add_argument(
        "--peer-python",
        metavar="PYTHON",
        default=os.environ.get(PEER_PYTHON),
        help=f"the interpreter that has torch and jax (default: ${PEER_PYTHON})",
    )
    parser.add_argument("--peers", type=lambda text: text.split(","), default=list(PEERS))
    options = parser.parse_args(arguments)
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
    if min(options.rounds, options.threads) < 1 or min(options.seconds, options.timeout) <= 0:
        return "--rounds, --seconds, --threads and --timeout must be above 0"
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


def _write(options: argparse.Namespace, result: dict[str, Any], outcomes: list[Any]) -> None:
    if options.json:
        with open(options.json, "w") as file:
            json.dump(result, file, indent=1)
            file.write("\n")
        print(f"\nwrote {options.json}")
    if options.plot:
        try:
            machine_name = result["machine"]["processor"]
            plot.draw(options.plot, outcomes, machine_name, options.threads)
        except ImportError:
            print("no picture: matplotlib is missing (pip install 'sdbr[bench]')")
        else:
            print(f"wrote {options.plot}")


if __name__ == "__main__":
    sys.exit(main())
