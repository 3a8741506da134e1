"""Who holds an object."""

from __future__ import annotations

import gc
import sys
from typing import Any


def referrers(things: list) -> list:
    """The objects that hold one of `things`, without the arguments of this very look.

    From Python 3.13 on the tuple of the arguments is among what `gc.get_referrers` finds; nobody
    but the list that is returned holds it.
    """
    found = gc.get_referrers(*things)
    kept: list[Any] = []
    for holder in found:
        if type(holder) is not tuple or sys.getrefcount(holder) > _HELD_BY_A_LIST:
            kept.append(holder)
    return [holder for holder in kept if holder is not things and holder is not found]


def _count_in_a_list() -> int:
    """What `sys.getrefcount` says of what a list and a loop hold, as above."""
    count = 0
    for thing in [(object(),)]:
        count = sys.getrefcount(thing)
    return count


_HELD_BY_A_LIST = _count_in_a_list()
