"""Errors of the vectorised functions in units in the last place, over float32.

``python -m benchmarks.accuracy [--every N] [FUNCTION ...]`` takes every N-th bit pattern (1: all
2 ** 32 of them, minutes per function) and prints the largest error of each function against
float64, where it is, and how many infinities and NaNs are wrong.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import sdbr.backends
from sdbr.backends.cpu._kernels import simd_level
from sdbr.program._memory import Memory
from sdbr.program.builder import Builder
from sdbr.program.program import assemble

import numpy as np

BLOCK = 1 << 20


def exact_sigmoid(x: np.ndarray) -> np.ndarray:
    """What the formula of the op gives before it is rounded."""
    return np.tanh(x * 0.5) * 0.5 + 0.5


#: In float64.
FUNCTIONS: dict[str, Callable] = {
    "exp": np.exp,
    "log": np.log,
    "tanh": np.tanh,
    "sigmoid": exact_sigmoid,
    **{
        name: getattr(np, name)
        for name in ("log1p", "expm1", "log2", "log10", "sinh", "cosh", "sin", "cos", "tan")
    },
    **{name: getattr(np, name) for name in ("arcsin", "arccos", "arctan", "arctanh")},
}
#: The smallest unit that counts: the last step of sigmoid is the sum with 1 / 2.
SMALLEST_UNIT = {"sigmoid": 2.0**-24}


class Native:
    """One op on a block of numbers."""

    def __init__(self, name: str, size: int):
        b = Builder()
        x, y = (b.table.bound((size,), np.float32, name) for name in "xy")
        b.emit(name, [x], [y])
        memory = Memory(len(b.table.slots), 0)
        self.x, self.y = np.zeros(size, np.float32), np.zeros(size, np.float32)
        memory.bind(x.slot.index, self.x)
        memory.bind(y.slot.index, self.y)
        program = assemble(b.instructions, b.table, "accuracy")
        self.run = sdbr.backends.make_executable(program, memory, "cython").run


def errors(name: str, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, int]:
    """Errors of `y` in units in the last place, and how many infinities and NaNs are wrong."""
    with np.errstate(all="ignore"):
        want = FUNCTIONS[name](x.astype(np.float64))
        rounded = want.astype(np.float32)
        unit = np.spacing(abs(rounded)).astype(np.float64)
        finite = np.isfinite(rounded) & np.isfinite(unit)
        unit = np.maximum(np.where(finite, unit, 1), SMALLEST_UNIT.get(name, 0))
        error = np.where(finite, abs(y - want) / unit, 0)
    wrong = ~np.isfinite(rounded) & (y != rounded) & ~(np.isnan(y) & np.isnan(rounded))
    return np.where(np.isnan(error), np.inf, error), int(wrong.sum())


def worst(name: str, every: int) -> tuple[float, float, int]:
    """The largest error over every N-th bit pattern, where it is, and wrong special values."""
    native = Native(name, BLOCK)
    found, wrong = (0.0, 0.0), 0
    for start in range(0, 1 << 32, BLOCK * every):
        bits = start + every * np.arange(BLOCK, dtype=np.uint64)
        native.x[:] = bits.astype(np.uint32).view(np.float32)
        native.run()
        error, bad = errors(name, native.x, native.y)
        k = int(error.argmax())
        found = max(found, (float(error[k]), float(native.x[k])))
        wrong += bad
    return (*found, wrong)


def main(argv: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="FUNCTION", help=", ".join(FUNCTIONS))
    parser.add_argument("--every", type=int, default=64, metavar="N")
    options = parser.parse_args(argv)
    print(f"every {options.every} of 2 ** 32 numbers, {simd_level()}")
    for name in options.names or FUNCTIONS:
        error, at, wrong = worst(name, options.every)
        print(f"{name:10s} {error:5.2f} ulp at {at!r}, {wrong} special values wrong", flush=True)


if __name__ == "__main__":
    main()
