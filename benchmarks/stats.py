"""Median and spread of repeated measurements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Spread:
    """Median, 10th and 90th percentile, and the measurements themselves."""

    median: float
    p10: float
    p90: float
    samples: tuple[float, ...]


def spread(samples: Sequence[float]) -> Spread:
    """Summarise measurements.

    Raises
    ------
    ValueError
        If there are none.
    """
    if not samples:
        raise ValueError("no measurements")
    p10, median, p90 = np.percentile(samples, [10, 50, 90])
    return Spread(float(median), float(p10), float(p90), tuple(samples))


def seconds_as_text(seconds: float) -> str:
    """Return a time with a fitting unit and three digits."""
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if abs(seconds) * scale >= 1:
            return f"{_three_digits(seconds * scale)} {unit}"
    return f"{_three_digits(seconds * 1e9)} ns"


def _three_digits(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def threads_as_text(n: int) -> str:
    """Return '1 thread' or '2 threads'."""
    return f"{n} thread{'s' if n > 1 else ''}"
