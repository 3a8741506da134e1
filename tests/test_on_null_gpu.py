"""The tests of ``tests/on_null_gpu``, where CuPy itself is installed: each file in its own process.

By hand: ``SDBR_TESTS_ON=null python -m pytest tests/on_null_gpu``. Compiled kernels are kept where
CuPy keeps them (``CUPY_CACHE_DIR``); the first run compiles about 2,000.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness import null_gpu

FOLDER = Path(__file__).parent / "on_null_gpu"
#: CuPy 13 prints what goes wrong in a reduction, and goes on.
OPTIONS = ("-q", "-p", "no:cacheprovider", "-W", "error::pytest.PytestUnraisableExceptionWarning")


@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.glob("test_*.py")))
def test_on_null_gpu(name, request):
    reason = null_gpu.why_not()
    if reason is not None:
        pytest.skip(reason)
    command = [sys.executable, "-m", "pytest", *OPTIONS, str(FOLDER / name)]
    command += [f"--{name}={request.config.getoption(name)}" for name in ("sample", "seed")]
    # What this run of pytest tells its own processes is not for another's.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
    environment["SDBR_TESTS_ON"] = "null"
    done = subprocess.run(
        command,
        cwd=FOLDER.parents[1],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=3600,
    )
    assert done.returncode == 0, done.stdout
