"""Numbers that no schedule sees change: code that is taken for sdbr's own reads them."""

from __future__ import annotations

import builtins
import os
import types
from collections.abc import Callable

import sdbr


def hidden(numbers: list, by: float = 0.0) -> Callable[[], float]:
    """A function that gives ``numbers[0]``, increased each time; it is not followed."""

    def number():
        NUMBERS[0] += BY  # noqa: F821
        return NUMBERS[0]  # noqa: F821

    code = number.__code__.replace(co_filename=os.path.join(sdbr.__path__[0], "hidden.py"))
    space = {"__name__": "sdbr.hidden", "__builtins__": builtins, "NUMBERS": numbers, "BY": by}
    return types.FunctionType(code, space, "hidden")
