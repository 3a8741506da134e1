"""One line for every program whose verdict is not good, and counts.

``python -m tests.leaks [FILE ...] [--audit off|auto|SHARE] [-k WORD] [-v]``
"""

import argparse
import collections
from pathlib import Path

from tests.leaks.harness import FOLDER, judge, names_in


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--audit", default="off")
    parser.add_argument("-k", default="")
    parser.add_argument("-v", action="store_true", help="the right ones, too")
    options = parser.parse_args()
    audit = options.audit if options.audit in ("off", "auto") else float(options.audit)
    counts: collections.Counter = collections.Counter()
    for path in options.files or sorted(FOLDER.glob("[!_]*.py")):
        for name in names_in(path):
            if options.k not in name:
                continue
            verdict = judge(path, name, audit)
            counts[verdict.word] += 1
            if options.v or verdict.word not in ("right", "dynamic"):
                text = verdict.detail or "; ".join(verdict.warnings)
                print(f"{verdict.word:9} {path.stem}.{name}: {text[:300]}")
    print(dict(counts))


if __name__ == "__main__":
    main()
