"""Functions of float32 within 2 to 4 units in the last place, at each SIMD level."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT))

from benchmarks.accuracy import FUNCTIONS, Native, errors, worst  # noqa: E402

#: Units in the last place that a function may be off by.
LIMITS = {"sinh": 4.0, "cosh": 3.0, "tan": 3.0, "arcsin": 3.0}
#: A prime: all exponents, other mantissas in each.
EVERY = 40009


@pytest.mark.parametrize("name", FUNCTIONS)
def test_within_two_units(name, monkeypatch):
    monkeypatch.setattr("benchmarks.accuracy.BLOCK", 1 << 15)
    error, at, wrong = worst(name, EVERY)
    assert wrong == 0
    assert error <= LIMITS.get(name, 2.0), (
        f"{name}({at!r}) is off by {error:.2f} units in the last place"
    )


@pytest.mark.parametrize("name", FUNCTIONS)
def test_where_it_is_hard(name):
    """Near 0 and 1, where results overflow or are denormal, and at special values."""
    tiny, top = np.finfo("f").smallest_subnormal, np.finfo("f").max
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, tiny, -tiny, 1.2e-38, -1.2e-38, top, -top]
    near = [c + d * 2.0**-k for c in (0, 1) for k in range(2, 40) for d in (-1, 1)]
    hard = [
        88.72283,
        88.72284,
        -87.33654,
        -103.97207,
        -103.97209,
        -103.2789,
        9.010913,
        -17.5,
        0.0595,
        0.2052303,
    ]
    x = np.array(special + near + hard, "f")
    native = Native(name, len(x))
    native.x[:] = x
    native.run()
    error, wrong = errors(name, x, native.y)
    assert wrong == 0 and error.max() <= LIMITS.get(name, 2.0), x[error.argmax()]
    if name in ("log1p", "expm1", "tanh", "sinh", "sin", "tan", "arcsin", "arctan", "arctanh"):
        assert np.signbit(native.y[:2]).tolist() == [False, True]


@pytest.mark.parametrize("level", ["avx2", "baseline"])
def test_other_levels(level):
    code = "import benchmarks.accuracy as a; a.BLOCK = 1 << 15; a.main(['--every', '160009'])"
    environment = {**os.environ, "SDBR_SIMD": level}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    lines = done.stdout.splitlines()[1:]
    assert len(lines) == len(FUNCTIONS)
    for line in lines:
        name, error = line.split()[:2]
        assert float(error) <= LIMITS.get(name, 2.0) and " 0 special values wrong" in line, line
