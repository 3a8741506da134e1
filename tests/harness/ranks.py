"""Scripts on several processes, started by ``mpiexec``."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

with_mpi = pytest.mark.skipif(
    importlib.util.find_spec("mpi4py") is None or shutil.which("mpiexec") is None,
    reason="mpi4py or mpiexec is not installed: pip install '.[mpi]'",
)


def start(ranks: int, script: Path, *args: str, timeout: float = 300.0):
    """Run a script on so many processes: what `subprocess.run` gives, or its `TimeoutExpired`."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = str(ROOT / "src")
    environment["OMPI_ALLOW_RUN_AS_ROOT"] = environment["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
    environment["PRTE_MCA_rmaps_default_mapping_policy"] = ":oversubscribe"
    command = ["mpiexec", "-n", str(ranks), sys.executable, str(script), *args]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, stdout=pipe, stderr=pipe, text=True, env=environment, cwd=ROOT
    ) as mpiexec:
        try:
            out, error = mpiexec.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            mpiexec.terminate()  # it ends the ranks; killed, it would leave them behind
            try:
                mpiexec.wait(60)
            finally:
                mpiexec.kill()
            raise
    return subprocess.CompletedProcess(command, mpiexec.returncode, out, error)
