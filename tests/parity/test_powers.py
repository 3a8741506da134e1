"""Powers of float32: within a unit in the last place of the true ones, at each SIMD level."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import sdbr.backends
from sdbr.backends.cpu import _kernels
from sdbr.program._memory import Memory
from sdbr.program.builder import Builder
from sdbr.program.program import assemble

import numpy as np
import pytest

from tests.tolerances import POWERS

#: Levels that this machine and the build have, the best one among them.
ORDER = ["baseline", "avx2", "avx512"]
LEVELS = [
    level
    for level in ORDER[: ORDER.index(_kernels.simd_level()) + 1]
    if level in _kernels.build_info()["levels"]
]

TINY, TOP = np.finfo("f").smallest_subnormal, np.finfo("f").max
LEAST = np.finfo("f").tiny
SPECIAL = np.array(
    [
        *(0, 1, 2, 3, 0.5, 0.3, 1.5, 2.5, TINY, LEAST, 1e-41, TOP, 1e30, np.inf, np.nan),
        *(2.0**23 + 1, 2.0**24, 8388607.5, 1 - 2.0**-24, 1 + 2.0**-23),
    ],
    "f",
)
SPECIAL = np.concatenate([SPECIAL, -SPECIAL])
#: More than some rows of 256, of which only the middle one has what is rare.
PLAIN = 800


def run(name: str, *xs: np.ndarray, floats: tuple = ()) -> np.ndarray:
    """One elementwise op."""
    b, y = Builder(), np.empty(xs[0].shape, np.float32)
    arrays = [*xs, y]
    rows = [b.table.bound(a.shape, a.dtype, str(i)) for i, a in enumerate(arrays)]
    b.emit(name, rows[:-1], rows[-1:], floats=floats)
    memory = Memory(len(b.table.slots), 0)
    for row, array in zip(rows, arrays, strict=True):
        memory.bind(row.slot.index, array)
    program = assemble(b.instructions, b.table, "powers")
    sdbr.backends.make_executable(program, memory, "cython").run()
    return y


def bases_and_exponents() -> list[tuple[np.ndarray, np.ndarray]]:
    """All pairs of special numbers, plain ones, and both side by side."""
    rng = np.random.default_rng(0)
    x = np.exp2(rng.uniform(-126, 127.9, 20000)).astype("f")
    y = (rng.uniform(-160, 160, x.size) / np.log2(x.astype("d"))).astype("f")
    near = (1 + rng.uniform(-1, 1, x.size) * 2.0 ** rng.integers(-23, -1, x.size)).astype("f")
    far = (rng.uniform(-160, 160, x.size) / np.log2(near.astype("d"))).astype("f")
    far[~np.isfinite(far)] = 1
    pairs = np.meshgrid(SPECIAL, SPECIAL)
    mixed = [part[:PLAIN].copy() for part in (x, y)]
    mixed[0][300], mixed[1][301], mixed[0][302] = -2, np.inf, 0
    signed = [np.where(np.arange(x.size) % 2, -x, x).astype("f"), np.round(y)]
    return [tuple(p.ravel() for p in pairs), (x, y), (near, far), tuple(mixed), tuple(signed)]


def check(found: np.ndarray, x: np.ndarray, y: np.ndarray) -> None:
    """Assert that these are x ** y."""
    with np.errstate(all="ignore"):
        want = np.power(x.astype("d"), y.astype("d"))
        rounded = want.astype("f")
    special = ~np.isfinite(rounded) | (rounded == 0)
    np.testing.assert_array_equal(found[special], rounded[special])
    signed = special & ~np.isnan(rounded)
    np.testing.assert_array_equal(np.signbit(found[signed]), np.signbit(rounded[signed]))
    unit = np.spacing(abs(rounded[~special])).astype("d")
    error = abs(found[~special] - want[~special]) / unit
    assert error.max(initial=0) <= 1, (x[~special][error.argmax()], y[~special][error.argmax()])


def check_all() -> None:
    """All ops that raise to a power."""
    for x, y in bases_and_exponents():
        check(run("power", x, y), x, y)
        ones = np.ones_like(x)
        grad = run("power_grad_x", x, y, ones)
        with np.errstate(all="ignore"):
            less = y - np.float32(1)
            want = y * np.power(x.astype("d"), less.astype("d")).astype("f")
        np.testing.assert_allclose(grad, want, rtol=POWERS, atol=2 * TINY)
    x, y = bases_and_exponents()[3]
    for p in (1.7, -1.5, 4.0, -3.0, -0.5):
        p32 = np.float32(p)
        for base in (x, SPECIAL, x[:300], x[300:301]):
            check(run("pow_constant", base, floats=(p,)), base, np.full_like(base, p32))
            grad = run("pow_constant_grad", base, np.full_like(base, 2), floats=(p,))
            with np.errstate(all="ignore"):
                want = np.power(base.astype("d"), np.float64(p32 - np.float32(1))).astype("f")
                want = p32 * want * np.float32(2)
            np.testing.assert_allclose(grad, want, rtol=POWERS, atol=8 * TINY)
    for p in (2.0, 0.3, 1e-40, -2.0):
        for exponent in (y, SPECIAL):
            found = run("rpow_constant", exponent, floats=(p,))
            check(found, np.full_like(exponent, p), exponent)


@pytest.mark.parametrize("level", LEVELS)
def test_powers(level):
    """Signs of zeros and of infinities, NaN, denormal results; blocks with and without them."""
    done = subprocess.run(
        [sys.executable, "-c", "from tests.parity.test_powers import check_all; check_all()"],
        env={**os.environ, "SDBR_SIMD": level},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
