"""The parts of the check, in the order in which they run."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Part:
    """One part: a process of its own.

    Attributes
    ----------
    name, text : str
        For the command line.
    module : str
        Of this package; its `measure` does it.
    share : float
        Of the time, beside those of the others.
    checkout : bool
        Whether it needs the sources: tests and benchmarks are not part of the wheel.
    asked : bool
        Whether it runs only where it is asked for.
    """

    name: str
    text: str
    module: str
    share: float
    checkout: bool = False
    asked: bool = False


PARTS = (
    Part("facts", "versions, and what doctor says", "facts", 12),
    Part(
        "rates", "the rates of copies and of products in FP32 and TF32: what all else is held "
        "against", "rates", 12,
    ),
    Part("constants", "launches, graphs, branches, events, copies, draws", "constants", 15),
    Part("demo", "the digits, trained there by define-by-run and static", "demo", 20, True),
    Part("tests", "pytest -m gpu, and tests/on_cupy with CuPy itself", "suite", 75, True),
    Part("memcheck", "some of these under compute-sanitizer", "memcheck", 30, True),
    Part("cases", "the benchmarks against their peers: bench --device cuda", "cases", 265, True),
    Part("products", "our own products against cuBLASLt, by size", "products", 8),
    Part("large", "large kernels against copies of their bytes", "large", 12),
    Part("ncu", "the longest kernels, by Nsight Compute", "profiles", 25, True),
    Part("threads", "benchmarks on the processor by threads (--cpu-minutes)", "threads", 0, True,
         True),
)  # fmt: skip
BY_NAME = {part.name: part for part in PARTS}
