"""The frames and lines of user code, as it runs."""

from __future__ import annotations

import sys

from sdbr.trace.code.foreign import is_users


def user_frames(last=None):
    """The frames of user code, innermost first, up to but without `last`."""
    frame = sys._getframe(1)
    while frame is not None and frame is not last:
        if is_users(frame.f_globals.get("__name__", "")):
            yield frame
        frame = frame.f_back


def user_line() -> str:
    """``file:line in function`` of the innermost frame of user code.

    That is outside Chainer, sdbr, NumPy, other compiled packages and the standard library.
    """
    frame = sys._getframe(1)
    while frame is not None:
        if is_users(frame.f_globals.get("__name__", "")):
            return line_of(frame)
        frame = frame.f_back
    return ""


def line_of(frame) -> str:
    """``file:line in function`` of a frame."""
    code = frame.f_code
    return f"{code.co_filename}:{frame.f_lineno} in {code.co_name}"


def stack_level() -> int:
    """The ``stacklevel`` of a warning that the caller issues: the first frame that called us."""
    level, frame = 0, sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in (
        "sdbr",
        "chainer",
    ):
        frame = frame.f_back
        level += 1
    return level + 1
