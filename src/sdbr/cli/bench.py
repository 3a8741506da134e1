"""``python -m sdbr bench``: hands over to ``benchmarks/`` of the source checkout."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

MARK = Path("benchmarks") / "driver.py"


def main(argv: list[str] | None = None) -> int:
    """Run the benchmarks; the exit code is 2, with one line on stderr, where there are none."""
    root = find_checkout()
    if root is None:
        print(
            "sdbr bench: error: the benchmarks are not part of the wheel; run this in a checkout "
            "of sdbr's sources (the directory that holds benchmarks/)",
            file=sys.stderr,
        )
        return 2
    # Only the root: the directory of the cases would shadow installed modules of the same name.
    sys.path.insert(0, str(root))
    return importlib.import_module("benchmarks.driver").main(argv)


def find_checkout() -> Path | None:
    """Return the root of the source checkout: around this package, or the current directory."""
    around = Path(__file__).resolve().parents[3]
    here = Path.cwd()
    for root in (around, here):
        if (root / MARK).is_file() and (root / "src" / "sdbr").is_dir():
            return root
    return None
