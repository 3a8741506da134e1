"""One part: ``python -m sdbr.cli.gpu_check.child PART FILE SECONDS GPU``."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

from sdbr.cli.gpu_check.job import Job
from sdbr.cli.gpu_check.parts import BY_NAME


def main(argv: Sequence[str]) -> int:
    """Do it; the exit code is 1 where something that it is to find failed."""
    name, path, seconds, ordinal = argv
    job = Job(Path(path), float(seconds), int(ordinal))
    job.note("part", name)
    importlib.import_module(f"sdbr.cli.gpu_check.{BY_NAME[name].module}").measure(job)
    if job.failed:
        print(f"failed: {', '.join(job.failed)}")
    return int(bool(job.failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
