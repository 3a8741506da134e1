"""Judge sdbr by Chainer's own tests: ``python -m tests.conformance CHECKOUT``.

CHECKOUT is a folder with Chainer's sources, of which ``tests/`` is used: a copy is made in a
temporary folder. ``--decorator identity`` is the control. Prints Markdown.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

import sdbr  # noqa: E402, F401  (first: it makes Chainer importable)

from tests.conformance import checkout, table  # noqa: E402

_FUNCTIONS = "activation array connection evaluation loss math noise normalization pooling rnn util"
_LINKS = "activation connection loss model normalization rnn"
JUDGED = (
    *(f"functions_tests/{name}_tests" for name in _FUNCTIONS.split()),
    *(f"links_tests/{name}_tests" for name in _LINKS.split()),
    "distributions_tests",
)

_FILES = (
    "function function_and_function_node function_hook function_node variable link link_hook "
    "sequential optimizer backprop configuration reporter gradient_check"
)
#: What is run as it is, with Chainer fixed, and again with sdbr.
PLAIN = (
    *(f"test_{name}.py" for name in _FILES.split()),
    "graph_optimization_tests",
    "optimizers_tests",
    "optimizer_hooks_tests",
    "function_hooks_tests",
    "link_hooks_tests",
    "serializers_tests",
)

#: Of these, what is run with every optimizer static as well.
OPTIMIZERS = ("test_optimizer.py", "optimizers_tests", "optimizer_hooks_tests")


KINDS = {
    "backward": "First derivatives",
    "double": "Second derivatives",
    "step": "Whole steps",
    "inference": "Test mode",
}


def main() -> int:
    """Run what was asked for and print the tables; 1 when a check was not right."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--decorator", choices=("sdbr", "identity", "chainer"), default="sdbr")
    parser.add_argument("--logs", type=Path, help="keep the logs in this folder")
    parser.add_argument(
        "--more",
        action="store_true",
        help="judge whole steps and test mode, too",
    )
    parser.add_argument("--only", nargs="+", default=None, help="paths below tests/chainer_tests")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tests = checkout.copy(options.checkout, Path(folder))
        logs = options.logs or Path(folder)
        logs.mkdir(parents=True, exist_ok=True)
        judged = [p for p in JUDGED if _is_asked(p, options.only)]
        judged += [
            p
            for p in options.only or ()
            if p.startswith(("functions_", "links_", "distributions_")) and p not in judged
        ]
        plain = [p for p in PLAIN if _is_asked(p, options.only)]
        how = [options.decorator, *(["--more"] if options.more else [])]
        logs_judged = [_run(tests, logs, "judge", [p], *how) for p in judged]
        by_how = {}
        if plain and options.decorator == "sdbr":
            by_how = {how: [_run(tests, logs, how, plain)] for how in ("fixes", "sdbr")}
            static = [p for p in plain if p in OPTIMIZERS]
            if static:
                by_how["optimizers"] = [_run(tests, logs, "optimizers", static)]
        return _show(logs_judged, by_how)


def _is_asked(path: str, only) -> bool:
    return only is None or path in only


def _run(tests: Path, logs: Path, how: str, paths, decorator: str = "sdbr", *more) -> Path:
    name = paths[0].replace("/", ".") if len(paths) == 1 else "plain"
    log = logs / f"{decorator}.{how}.{name}.jsonl"
    command = [sys.executable, "-m", "tests.conformance.runner", "--log", str(log), "--how", how]
    command += ["--decorator", decorator, *more, *(f"chainer_tests/{p}" for p in paths)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, filter(None, sys.path)))
    done = subprocess.run(command, cwd=tests, env=environment, capture_output=True, text=True)
    last = (done.stdout.strip().splitlines() or done.stderr.strip().splitlines() or [""])[-1]
    print(f"{how} {' '.join(paths)}: {last}", file=sys.stderr, flush=True)
    if done.returncode > 1:
        print(done.stdout[-3000:], done.stderr[-3000:], file=sys.stderr)
    return log


def _show(judged: list[Path], by_how: dict) -> int:
    checks, tests = table.read(judged)
    for kind, title in KINDS.items():
        if any(c["kind"] == kind for c in checks):
            print(f"\n### {title}\n\n{table.verdict_table(checks, kind)}")
    problems = table.not_right(checks)
    if problems:
        print(f"\n### Not right\n\n{problems}")
    unusable = table.unusable(checks)
    if unusable:
        print(f"\n### Unusable\n\n{unusable}")
    if tests:
        print(f"\n### How the judged tests themselves ended\n\n{table.outcome_table(tests)}")
    if by_how:
        outcomes = {how: table.read(logs)[1] for how, logs in by_how.items()}
        print(f"\n### Tests run as they are\n\n{table.comparison(outcomes)}")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
