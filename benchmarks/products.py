"""Matrix products one by one: ``python -m benchmarks.products``.

GFLOP/s of our own kernels and of SciPy's BLAS for the three products of a linear layer with `n`
rows, `m` outputs and `k` inputs, float32, one thread: ``y = x @ w.T + b``, ``gx = gy @ w`` and
``gw = gy.T @ x``. The best of many runs, by the thread's own clock.
"""

from __future__ import annotations

import argparse

from sdbr.backends.cpu import _kernels

import chainer
import numpy as np

SIZES = (
    (64, 128, 64), (64, 10, 128), (100, 1000, 1000), (1024, 128, 128), (1024, 512, 128),
    (400, 800, 200), (400, 10000, 200), (512, 512, 512), (1000, 1000, 1000),
)  # fmt: skip


def gflops(kernel: str, ints: list[int], operands: list[np.ndarray], seconds: float) -> float:
    """The rate of the fastest run."""
    n, m, k = ints[:3]
    return 2e-9 * n * m * k / min(_kernels.kernel_seconds(kernel, ints, operands, seconds, 1000))


def main(argv: list[str] | None = None) -> int:
    """Print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.products", description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.5, help="for each figure")
    seconds = parser.parse_args(argv).seconds
    chainer.config.sdbr_num_threads = 1
    rng = np.random.default_rng(0)
    print("| n, m, k | y: own | BLAS | gx: own | BLAS | gw: own | BLAS |")
    print("| --- " * 7 + "|")
    for n, m, k in SIZES:
        shapes = ((n, k), (m, k), (m,), (n, m))
        x, w, b, y = (rng.random(shape, dtype=np.float32) for shape in shapes)
        products = (
            ("linear", [n, m, k, 0, 1], [x, w, b, y]),
            ("gemm", [n, k, m, 0, 0, 0, m], [y, w, x]),
            ("gemm", [m, k, n, 1, 0, 0, m], [y, x, w]),
        )
        rates = [
            gflops(f"{name}{way}_f4", ints, operands, seconds)
            for name, ints, operands in products
            for way in ("", "_blas")
        ]
        print(f"| {n}, {m}, {k} | " + " | ".join(f"{rate:.0f}" for rate in rates) + " |")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
