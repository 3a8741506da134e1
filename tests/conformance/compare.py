"""When two arrays count as equal."""

from __future__ import annotations

import numpy as np

from tests.tolerances import CONFORMANCE


def coarsest(arrays) -> str:
    """The least precise of the float dtypes, as a character."""
    found = {a.dtype.char for a in arrays if a is not None} & set(CONFORMANCE)
    return next((c for c in CONFORMANCE if c in found), "d")


def difference(got, want, tolerance: float) -> str | None:
    """How `got` differs from `want`, or None. Anything but floats has to be equal."""
    if got is None or want is None:
        return None if got is want else f"{_name(got)} instead of {_name(want)}"
    if (got.shape, got.dtype) != (want.shape, want.dtype):
        return f"{_name(got)} instead of {_name(want)}"
    if want.dtype.kind != "f":
        return None if np.array_equal(got, want) else "not equal"
    finite = np.isfinite(want)
    if not np.array_equal(got[~finite], want[~finite], equal_nan=True):
        return "other NaN or infinities"
    if not finite.any():
        return None
    a, b = got[finite].astype("d"), want[finite].astype("d")
    scale = np.max(np.abs(b)) or 1.0
    error = np.max(np.abs(a - b)) / scale
    return None if error <= tolerance else f"off by {error:.2g} of the largest magnitude"


def _name(array) -> str:
    return "None" if array is None else f"{array.dtype.name}{list(array.shape)}"
