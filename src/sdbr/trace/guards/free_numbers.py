"""Whole numbers among the arguments that a call only computes with: they are no part of its key.

Nobody knows that before a call was traced with another one, so one that never changes stays in the
key, and code that is traced sees it as it is. The first trace for another number follows it; where
nothing but arithmetic was done with it, later keys do without it.
"""

from __future__ import annotations

import operator

from sdbr.trace.arrays._scalars import Scalar
from sdbr.trace.structure import ANY_INT, Leaf, is_any_number

_NONE: frozenset[int] = frozenset()
_MOST = 512  # forms of arguments that are kept in mind


class FreeNumbers:
    """Those of one manager: numbers count in the order of the arguments, floats included."""

    def __init__(self):
        self._free: dict[tuple, frozenset[int]] = {}
        self._kept: dict[tuple, frozenset[int]] = {}

    def __bool__(self) -> bool:
        return bool(self._free)

    def shortened(self, key):
        """`key` without the numbers that are known to be free."""
        if not self._free:
            return key
        form, numbers = _form(key.arguments)
        return self._without(key, self._free.get(form, _NONE)) if numbers else key

    def to_try(self, key, others) -> frozenset[int]:
        """The whole numbers in which `key` differs from a key among `others`, and the free ones."""
        form, numbers = _form(key.arguments)
        free, kept = self._free.get(form, _NONE), self._kept.get(form, _NONE)
        found: set[int] = set()
        for other in others if numbers else ():
            other_form, other_numbers = _form(other.arguments)
            if other_form == form:
                found.update(i for i, n in numbers.items() if other_numbers.get(i, n) != n)
        return free | (found - kept)

    def settle(self, key, tried: frozenset[int], trace):
        """The key of a trace that followed the numbers `tried`: which are free is known by now."""
        form, _ = _form(key.arguments)
        if len(self._free) + len(self._kept) > _MOST:  # texts among the arguments, for one
            self._free, self._kept = {}, {}
        free = self._free.get(form, _NONE)
        if trace.dynamic is None:
            new = frozenset(i for i in tried - free if _is_free(trace, i))
            self._kept[form] = self._kept.get(form, _NONE) | (tried - free - new)
            if new:
                self._free[form] = free = free | new
        return self._without(key, free)

    def _without(self, key, free: frozenset[int]):
        if not free:
            return key
        return key._replace(arguments=_anonymous(key.arguments, free, [0]))


def free_numbers(key) -> frozenset[int]:
    """The places of those that a key does without."""
    found: set[int] = set()
    _places(key.arguments, [0], found)
    return frozenset(found)


def followed_numbers(trace) -> frozenset[int]:
    """The places of those that a trace followed, also where the key has them after all.

    What was computed of them is computed anew by each replay.
    """
    return frozenset(
        place
        for place, scalar in trace.followed.items()
        if type(place) is int and scalar.kind is int
    )


def _is_free(trace, place: int) -> bool:
    """Whether the number at this place was computed with and no more, comparisons apart."""
    scalar = trace.followed.get(place)
    if scalar is None or scalar.keyed:
        return False
    return not any(_fixes(condition, scalar) for condition in trace.conditions)


def _fixes(condition, scalar) -> bool:
    """Whether a comparison holds for one number alone, as those by which a place or a size is told.

    That of a remainder holds for many.
    """
    if condition.function is not operator.eq or not condition.outcome:
        return False
    parts = [part for part in condition.parts if isinstance(part, Scalar)]
    return any(
        scalar in part.roots and getattr(part, "function", None) is not operator.mod
        for part in parts
    )


def _parts(frozen: tuple):
    """What is in a frozen container, as pairs of a name or None; None where it is no container."""
    kind, *rest = frozen
    if kind is Leaf or not isinstance(kind, type):
        return None
    if issubclass(kind, dict):
        return list(rest[0])
    if issubclass(kind, (list, tuple)):
        return [(None, part) for part in rest[0]]
    return None


def _form(arguments: tuple) -> tuple[tuple, dict[int, int]]:
    """Frozen arguments without whole numbers, and these by their places."""
    numbers: dict[int, int] = {}
    return _anonymous(arguments, None, [0], numbers), numbers


def _anonymous(frozen: tuple, places, count: list[int], numbers: dict | None = None) -> tuple:
    parts = _parts(frozen)
    if parts is not None:
        made = [(name, _anonymous(part, places, count, numbers)) for name, part in parts]
        if issubclass(frozen[0], dict):
            return frozen[0], tuple(made)
        return frozen[0], tuple([part for _, part in made])
    if is_any_number(frozen):
        count[0] += 1
    elif frozen[0] is int:
        place, count[0] = count[0], count[0] + 1
        if numbers is not None:
            numbers[place] = frozen[1]
        if places is None or place in places:
            return ANY_INT
    return frozen


def _places(frozen: tuple, count: list[int], found: set[int]) -> None:
    for _, part in _parts(frozen) or ():
        _places(part, count, found)
    if frozen == ANY_INT:
        found.add(count[0])
    if is_any_number(frozen) or frozen[0] is int:
        count[0] += 1
