"""Programs that may crash, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def apart(module: str, *arguments: str, limit: float = 300) -> str:
    """What ``python -m module`` printed; a crash or an error of it fails the test.

    Parameters
    ----------
    limit : float
        Seconds after which it counts as stuck.
    """
    command = [sys.executable, "-X", "faulthandler", "-m", module, *arguments]
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        timeout=limit,
        check=False,
    )
    assert done.returncode == 0, f"{done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-6000:]}"
    return done.stdout
