"""Errors of our own code, and those that handlers of signals raise while it works."""

from __future__ import annotations

import os

_HERE = os.path.dirname(os.path.dirname(__file__)) + os.sep
_COMPILED = os.path.join("src", "sdbr") + os.sep  # as Cython writes it


def annotate(error: BaseException, note: str) -> None:
    """Say where an error came from, without changing its type."""
    if hasattr(error, "add_note"):
        error.add_note(note)
    elif error.args and isinstance(error.args[0], str):
        error.args = (f"{error.args[0]}\n{note}", *error.args[1:])


def is_of_ours(failure: BaseException) -> bool:
    """Whether an error is one of code of this package: others are the user's, to be raised."""
    place = failure.__traceback__
    if not isinstance(failure, Exception) or place is None:
        return False
    while place.tb_next is not None:
        place = place.tb_next
    return place.tb_frame.f_code.co_filename.startswith((_HERE, _COMPILED))
