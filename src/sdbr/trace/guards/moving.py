"""Numbers, alone and in arrays, that are others in later calls: each replay reads them anew."""

from __future__ import annotations

from collections.abc import Container, Iterable

from sdbr.devices.arrays import PLAIN
from sdbr.trace.arrays._scalars import Scalar, ScalarAttribute
from sdbr.trace.code.places import Place
from sdbr.trace.watch.reads import KIND_ALONE, Guard


def is_compared(guard: Guard) -> bool:
    """Whether it is about a number, which has to be what it was."""
    want = guard.want if guard.kind == "value" else None
    return type(want) is tuple and want[0] in KIND_ALONE and want is not KIND_ALONE[want[0]]


def let_move(guards: list[Guard], moving: dict[int, Scalar]) -> None:
    """Compare no more than the class of those that the call has followed.

    Parameters
    ----------
    guards : list of Guard
    moving : dict of int to Scalar
        See `Trace`.
    """
    for guard in guards:
        scalar = moving.get(guard.source.number)
        if scalar is not None and not scalar.keyed and is_compared(guard):
            guard.want = KIND_ALONE[guard.want[0]]


def let_stay(scalars: Iterable[Scalar], left: set[tuple]) -> None:
    """Let numbers be what they were where the call has `left` something that no replay does: what
    was there before.

    Parameters
    ----------
    scalars : iterable of Scalar
    left : set of (int, object)
        Identities of dictionaries, with the name.
    """
    for scalar in scalars if left else ():
        if type(scalar) is ScalarAttribute and place_of(scalar) in left:
            scalar.must_stay()


def place_of(scalar: ScalarAttribute) -> tuple[int, object]:
    """The identity of the dictionary in which it lies, and the name."""
    holder = scalar.holder
    if type(holder) is Place:
        return holder.holder.key, holder.name
    return id(holder), scalar.attribute


def may_move(guard: Guard) -> bool:
    """Whether it may be about a number, an array or the numbers in one."""
    return (
        guard.kind in ("identity", "numbers", "some")
        or is_compared(guard)
        or (guard.kind == "value" and type(guard.want) is tuple and guard.want[0] in PLAIN)
    )


def moved(guards: list[Guard], values: list, changed: Container[str]) -> set[str]:
    """Where numbers, and arrays of whole ones, lie that are others by now.

    Truth values only where the call sets them itself: what masks select has another size each time.

    Parameters
    ----------
    guards : list of Guard
    values : list
        What lies at each source.
    changed : container of str
        The guards that the call itself has let fail.
    """
    found = set()
    for guard in guards:
        thing = values[guard.source.number]
        kinds = "biu" if str(guard) in changed else "iu"
        is_array = type(thing) in PLAIN and thing.dtype.kind in kinds and may_move(guard)
        is_number = type(thing) in KIND_ALONE and is_compared(guard)
        if (is_array or is_number) and not guard.holds(values):
            found.add(str(guard.source))
    return found
