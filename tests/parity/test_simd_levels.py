"""The lower SIMD levels of this machine against the reference, each in a process of its own."""

import os
import pathlib
import subprocess
import sys

from sdbr.backends.cpu import _kernels

import pytest

ORDER = ["baseline", "avx2", "avx512"]
BEST = _kernels.simd_level()
LOWER = [
    level for level in _kernels.build_info()["levels"] if ORDER.index(level) < ORDER.index(BEST)
]


@pytest.mark.parametrize("level", LOWER)
def test_level(level):
    tests = pathlib.Path(__file__).with_name("test_parity.py")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", str(tests)],
        env={**os.environ, "SDBR_SIMD": level, "SDBR_TEST_EVERY": "3"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


def test_best_level_is_a_known_one():
    assert BEST in ORDER
