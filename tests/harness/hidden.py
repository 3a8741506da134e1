"""Numbers that no schedule sees change: code that is taken for sdbr's own reads them."""

from __future__ import annotations

import builtins
import os
import types
from collections.abc import Callable

import sdbr


def unfollowed(function: Callable, **names) -> Callable:
    """The same code as if it were sdbr's own, with `names` for its globals."""
    code = function.__code__.replace(co_filename=os.path.join(sdbr.__path__[0], "hidden.py"))
    space = {"__name__": "sdbr.hidden", "__builtins__": builtins, **names}
    return types.FunctionType(code, space, "hidden")


def hidden(numbers: list, by: float = 0.0) -> Callable[[], float]:
    """A function that gives ``numbers[0]``, increased each time; it is not followed."""

    def number():
        NUMBERS[0] += BY  # noqa: F821
        return NUMBERS[0]  # noqa: F821

    return unfollowed(number, NUMBERS=numbers, BY=by)
