"""What a user looks at inside a static call: printed or checked in every run."""

from __future__ import annotations

import builtins
from typing import Any, TypeVar

from sdbr.static_code import static_code
from sdbr.trace.current import current

import chainer
import numpy as np

T = TypeVar("T")


def print(*values: Any, sep: str = " ", end: str = "\n", file: Any = None) -> None:
    """Print inside a static call, in every run of it.

    The builtin would make the call dynamic. This one is a Python op of the schedule, in its place
    among the native ones. Outside of static calls it prints as well.

    Parameters
    ----------
    *values : Variable, ndarray or object
        Of a Variable, the array. Hand over arrays and not ``float(x)``, which makes the call
        dynamic; what else there is (texts, shapes) is the same in every run.
    sep, end : str
    file : file object, optional
        By default standard output as it is at the time.

    Examples
    --------
    >>> h = F.relu(self.l1(x))
    >>> sdbr.print('largest of h:', F.max(h))
    """
    arrays = [x.array if isinstance(x, chainer.Variable) else x for x in values]
    _print(*arrays, sep=sep, end=end, file=file)


def check_finite(x: T, name: str | None = None) -> T:
    """Raise an error if an array holds NaN or infinity, in every run of a static call.

    Where nothing has happened before that a run could not take back (``static_code``, `print`), it
    is native: the run asks, and goes on. On GPUs it waits for the kernels before it.

    Parameters
    ----------
    x : Variable or ndarray
    name : str, optional
        What the error calls it.

    Returns
    -------
    Variable or ndarray
        `x` itself.

    Raises
    ------
    FloatingPointError
        It says how many numbers are NaN or infinite, and where the first is. Parameters are as
        they were before the step.
    TypeError
        If `x` is no array.
    """
    array = x.array if isinstance(x, chainer.Variable) else x
    if not hasattr(array, "dtype") or not hasattr(array, "shape"):
        raise TypeError(f"x: expected a Variable or an array, got {type(x).__name__}")
    if array.dtype.kind not in "fc":
        return x
    recorder = current()
    if recorder is not None and not recorder.depth and recorder.questions.why_closed() is not None:
        _check(array, name)
    elif not chainer.backend.get_array_module(array).isfinite(array).all():
        _complain(array, name)
    return x


def _complain(array: Any, name: str | None) -> None:
    numbers = chainer.backends.cuda.to_cpu(array)
    bad = ~np.isfinite(numbers)
    first = tuple(int(i) for i in np.argwhere(bad)[0])
    raise FloatingPointError(
        f"{name or 'x'} ({array.dtype}{list(array.shape)}): {int(bad.sum())} of {bad.size} numbers "
        f"are not finite, the first at {first}: {numbers[first]}"
    )


@static_code(func_name="sdbr.print")
def _print(*values: Any, sep: str, end: str, file: Any) -> None:
    builtins.print(*values, sep=sep, end=end, file=file)


@static_code(func_name="sdbr.check_finite")
def _check(array: Any, name: str | None) -> None:
    if not chainer.backend.get_array_module(array).isfinite(array).all():
        _complain(array, name)
