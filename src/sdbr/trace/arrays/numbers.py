"""NumPy scalars on function nodes whose making nobody has seen, and which are constants."""

from __future__ import annotations

import sys

from sdbr.trace.code.foreign import is_users
from sdbr.trace.code.frames import called_by_machinery

import numpy as np


def in_backward() -> bool:
    """Whether Chainer's own code of a gradient runs."""
    return any(frame.f_code.co_name == "backward" for frame in _frames_of_chainer()[0])


def is_written_out(thing: np.generic) -> bool:
    """Whether the code that runs now makes `thing` of nothing but itself.

    ``np.float32(0.1)`` where the user has written just that, and what a function of Chainer's that
    was given no such number computes between two operators: ``x - numpy.log(numpy.pi)``.
    """
    frames, user = _frames_of_chainer()
    frames = [
        frame for frame in frames if not called_by_machinery(frame) and not _is_operator(frame)
    ]
    if frames:
        return not any(_holds_number(frame) for frame in frames)
    return user is not None and _spells(user.f_code, thing)


def _frames_of_chainer() -> tuple[list, object]:
    """The frames of libraries down to the user's code, innermost first, and that of the user's."""
    frames = []
    frame = sys._getframe(2)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if is_users(name):
            return frames, frame
        if name[:7] == "chainer":
            frames.append(frame)
        frame = frame.f_back
    return frames, None


def _is_operator(frame) -> bool:
    """Whether `frame` is of an operator of Variables: its operands are the caller's."""
    return frame.f_globals.get("__name__") == "chainer.functions.math.basic_math"


def _holds_number(frame) -> bool:
    return any(map(_has_scalar, list(frame.f_locals.values())))


def _has_scalar(thing) -> bool:
    if isinstance(thing, (list, tuple)):
        return any(map(_has_scalar, thing))
    if isinstance(thing, dict):
        return any(map(_has_scalar, thing.values()))
    return isinstance(thing, np.generic)


def _spells(code, thing: np.generic) -> bool:
    """Whether `code` calls the class of `thing` by name and has such a number among its own."""
    kind = type(thing)
    if kind.__name__ not in code.co_names and "type" not in code.co_names:
        return False
    numbers = [c for c in code.co_consts if type(c) in (bool, int, float, complex)]
    with np.errstate(all="ignore"):
        return any(_same(kind, c, thing) for c in (*numbers, *[-c for c in numbers]))


def _same(kind: type, number, thing: np.generic) -> bool:
    try:
        return kind(number).tobytes() == thing.tobytes()
    except (TypeError, ValueError, OverflowError):
        return False
