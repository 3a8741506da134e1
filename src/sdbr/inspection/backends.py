"""``compare_backends``: where two backends compute something else."""

from __future__ import annotations

import dataclasses
import numbers
from typing import Any

from sdbr.inspection.debug import Debugger, found_for

import numpy as np

#: By the size of a float: what roundings may make of one op, of the largest magnitude.
TOLERANCES = {2: 2e-3, 4: 1e-5, 8: 1e-12}


def compare_backends(
    model: Any, *args: Any, tolerance: float | None = None, **kwargs: Any
) -> Comparison:
    """Run the forward of a call op by op on both backends of the host, native and NumPy.

    Each op gets what the native backend has made, on both sides, so differences do not add up:
    what differs is the op. Parameters, state and generators stay as they are.

    Parameters
    ----------
    model : chainer.Link, callable or ScheduleManager
        Static, and called before with arguments of these shapes, in this mode.
    *args, **kwargs
        Of the call.
    tolerance : float, optional
        The largest difference that counts as rounding, relative to the largest magnitude of the
        array: by default 1e-5 in float32, 1e-12 in float64, 2e-3 in float16. What is not a float
        has to be the same.

    Returns
    -------
    Comparison

    Raises
    ------
    TypeError, ValueError, BackendError
        See :func:`sdbr.debug`; ValueError also for a `tolerance` that is no number or below 0.
    """
    if tolerance is not None and not (isinstance(tolerance, numbers.Real) and tolerance >= 0):
        raise ValueError(f"tolerance: expected a number from 0 on, or None, got {tolerance!r}")
    found = found_for(model, args, kwargs)
    native, other = Debugger(*found, "native"), Debugger(*found, "numpy")
    program = native.program
    differs = nan = None
    for i in range(len(program)):
        native.step()
        other.step()
        for a, b in zip(native.results(), other.results(), strict=True):
            if nan is None and any(x.dtype.kind == "f" and np.isnan(x).any() for x in (a, b)):
                nan = Found(i, *_named(program, i))
            largest, relative = difference(a, b)
            most = TOLERANCES.get(a.dtype.itemsize, 0.0) if tolerance is None else tolerance
            if differs is None and relative > (most if a.dtype.kind == "f" else 0.0):
                differs = Found(i, *_named(program, i), largest, relative)
        for row in native.result_rows(i):
            other.window(row)[...] = native.window(row)
    return Comparison(len(program), differs, nan)


def _named(program, i: int) -> tuple[str, str, str]:
    label, link, line = program.origin(i)
    return label or program.describe_op(i).split()[1], link, line


def difference(a: np.ndarray, b: np.ndarray) -> tuple[float, float]:
    """The largest difference, and the same relative to the largest magnitude of `a`.

    NaN is the same as NaN, and an infinity as itself; beside anything else they are infinitely far.
    """
    with np.errstate(all="ignore"):
        x, y = a.astype(np.float64), b.astype(np.float64)
        same = (x == y) | (np.isnan(x) & np.isnan(y))
        if same.all():
            return 0.0, 0.0
        apart = np.where(same, 0.0, np.abs(x - y))
        apart[np.isnan(apart)] = np.inf
        largest = float(apart.max())
        magnitude = float(np.abs(x[np.isfinite(x)]).max(initial=0.0))
    return largest, largest / magnitude if magnitude else np.inf


@dataclasses.dataclass(frozen=True)
class Found:
    """An op.

    Attributes
    ----------
    op : int
        Its index in the forward program.
    label, link, line : str
        Chainer label, path of the link, user source line.
    largest, relative : float
        The largest difference, and how much of the largest magnitude of the array it is.
    """

    op: int
    label: str
    link: str
    line: str
    largest: float = 0.0
    relative: float = 0.0

    def __str__(self) -> str:
        return f"op {self.op}, {' '.join(filter(None, (self.label, self.link)))} at {self.line}"


@dataclasses.dataclass(frozen=True)
class Comparison:
    """What :func:`compare_backends` has found.

    Attributes
    ----------
    ops : int
        How many there are.
    differs : Found or None
        The first op whose results differ by more than roundings.
    nan : Found or None
        The first op with a NaN in its results, on either side.
    """

    ops: int
    differs: Found | None
    nan: Found | None

    def __str__(self) -> str:
        lines = [f"{self.ops} ops: native and numpy agree"]
        if self.differs is not None:
            lines = [
                f"{self.differs} is the first that differs: by {self.differs.largest:.3g}, "
                f"{self.differs.relative:.3g} of the largest magnitude"
            ]
        if self.nan is not None:
            lines.append(f"a NaN first appears in {self.nan}")
        return "\n".join(lines)
