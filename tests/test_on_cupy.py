"""The tests of ``tests/on_cupy``, some files each in a process where the look-alike of CuPy is.

By hand: ``SDBR_TESTS_ON=cupy python -m pytest tests/on_cupy``; with ``SDBR_AUDIT=1e9`` every replay
is audited.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.harness import device

FOLDER = Path(__file__).parent / "on_cupy"


NAMES = sorted(path.name for path in FOLDER.glob("test_*.py"))
#: Where nothing is replayed, or the setting of audits is the test's own.
WITHOUT_REPLAYS = frozenset(
    f"test_{name}.py"
    for name in (
        "audits", "chainer_functions", "chainer_links", "chainer_uses", "failing_audits",
        "failures", "host_cupy", "host_devices", "kernels", "loops", "runs_ahead", "sizes",
        "trainings", "update_audits",
    )
)  # fmt: skip


newer = pytest.mark.skipif(np.__version__ < "2", reason="CuPy 14 promotes types as NumPy 2 does")


def parts(names: list[str], count: int):
    """The files in so many parts, each for one process."""
    every = [names[i::count] for i in range(count)]
    return pytest.mark.parametrize("names", every, ids=range(1, count + 1))


@newer
@parts(NAMES, 4)
def test_on_cupy(names, request):
    run(names, request, "off")


# Many enough for a sample of them to do.
@newer
@parts([name for name in NAMES if name not in WITHOUT_REPLAYS], 16)
def test_on_cupy_with_every_replay_audited(names, request):
    """Right programs give no alarm: what tests see is that of replays."""
    run(names, request, "1e9")


def run(names, request, audits):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += [str(FOLDER / name) for name in names]
    command += [f"--{name}={request.config.getoption(name)}" for name in ("sample", "seed")]
    # What this run of pytest tells its own processes is not for another's.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
    environment |= {"SDBR_TESTS_ON": "cupy", "SDBR_AUDIT": audits}
    environment["SDBR_TESTS_KERNELS"] = str(device.every()[0])
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


def test_the_look_alike_is_not_in_place_otherwise():
    assert not any("host_cupy" in path for path in sys.path)
    assert "host_cupy" not in str(getattr(sys.modules.get("cupy"), "__file__", ""))
