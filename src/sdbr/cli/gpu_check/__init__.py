"""``python -m sdbr gpu-check``: what a GPU does right, and what it takes there, in one call.

Writes ``gpu-check.json`` and ``gpu-check.log``, and in a checkout ``gpu-check.md``. Each part is a
process of its own with a share of the minutes; one that fails, dies or takes too long is recorded,
and the rest goes on.
"""

from __future__ import annotations

import argparse
import importlib
import signal
import sys
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

from sdbr.base.errors import BackendError
from sdbr.base.version import VERSION
from sdbr.cli.bench import find_checkout
from sdbr.cli.gpu_check.conduct import DONE, RESULT, Conductor, command
from sdbr.cli.gpu_check.parts import BY_NAME, PARTS, Part
from sdbr.devices.driver import Driver
from sdbr.devices.nvrtc import nvrtc


def main(argv: Sequence[str] = ()) -> int:
    """Check and measure; the exit code is 0 if all that was found is right, 2 without a GPU."""
    options = _parse(argv)
    parts = chosen(options.only, options.cpu_minutes)
    on_gpu = [part for part in parts if not part.asked]
    missing = what_is_missing(options.device) if on_gpu or not parts else []
    left_out = [BY_NAME[name] for name in options.only if BY_NAME[name] not in parts]
    for part in left_out:
        why = "it needs --cpu-minutes" if part.asked else "it needs a source checkout"
        missing.append(f"--only {part.name}: {why}")
    if missing:
        print("\n".join(f"sdbr gpu-check: {text}" for text in missing), file=sys.stderr)
        return 2
    # So that what has been started ends, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    facts = {
        "command": " ".join(["python -m sdbr gpu-check", *_without_folders(argv)]),
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "sdbr": VERSION,
        "minutes": options.minutes,
    }
    conductor = Conductor(options.out, facts, command(options.device))
    conductor.run(on_gpu, 60 * options.minutes)
    conductor.run([part for part in parts if part.asked], 60 * options.cpu_minutes)
    states = {name: found["state"] for name, found in conductor.result["parts"].items()}
    print(", ".join(f"{name}: {state}" for name, state in states.items()))
    _page(options.out)
    return int(any(state != DONE for state in states.values()))


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    lines = "\n".join(f"  {part.name:<10}{part.text}" for part in PARTS)
    parser = argparse.ArgumentParser(
        prog="sdbr gpu-check",
        description="Check this machine's GPU, and measure what programs take there.",
        epilog=f"parts, in this order:\n{lines}\n\nWhat a part leaves of its share of the minutes "
        "is for those behind it. docs/gpu.md says more.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, default=Path(), metavar="DIR", help="for the files")
    parser.add_argument("--device", type=int, default=0, metavar="N", help="which GPU")
    parser.add_argument("--minutes", type=_positive, default=8.0, metavar="M", help="for all parts")
    parser.add_argument(
        "--cpu-minutes", type=_positive, default=0.0, metavar="M",
        help="for the part `threads`, which runs where this is given",
    )  # fmt: skip
    parser.add_argument(
        "--only", action="append", default=[], choices=sorted(BY_NAME), metavar="PART",
        help="this part alone; may be given several times",
    )  # fmt: skip
    return parser.parse_args(argv)


def _positive(text: str) -> float:
    number = float(text)
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"expected minutes above 0, got {text}")
    return number


def what_is_missing(ordinal: int) -> list[str]:
    """What there has to be, and is not: a driver with that GPU, and the compiler."""
    missing = []
    try:
        count = Driver().count
        if not 0 <= ordinal < count:
            missing.append(f"--device {ordinal}: the driver has {count}")
    except BackendError as error:
        missing.append(str(error))
    try:
        nvrtc()
    except BackendError as error:
        missing.append(str(error).partition("; ")[0])
    return missing


def chosen(only: Sequence[str], cpu_minutes: float) -> list[Part]:
    """The parts that run: those that are named, or all that are not asked for by an option."""
    is_here = find_checkout() is not None

    def wanted(part: Part) -> bool:
        if part.asked:
            return cpu_minutes > 0 and (not only or part.name in only)
        return not only or part.name in only

    return [part for part in PARTS if wanted(part) and (is_here or not part.checkout)]


def _without_folders(argv: Sequence[str]) -> list[str]:
    return [Path(word).name if "/" in word else word for word in argv]


def _page(folder: Path) -> None:
    """The page of what was found, where there are the sources that make it."""
    root = find_checkout()
    if root is None:
        return
    sys.path.insert(0, str(root))
    page = importlib.import_module("benchmarks.gpu_page")
    try:
        text = page.text(folder / RESULT)
        (folder / "gpu-check.md").write_text(text)
        print(text)
    except Exception as error:  # the figures are there, whatever the page is
        print(f"sdbr gpu-check: no page: {type(error).__name__}: {error}", file=sys.stderr)
