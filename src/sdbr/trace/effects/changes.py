"""What a call reads outside of links and changes itself: if it does so each time, none replays."""

from __future__ import annotations

from sdbr.base.reasons import Reason, Remedy
from sdbr.trace.effects.stores import last_word

#: Traces of one key; a call may set up something at first.
_TIMES = 3
#: The same for what may come back, as a counter that begins anew after some calls.
CYCLE = 5


def why_never_replayed(changed: dict, earlier: list, left: dict, stores) -> Reason | None:
    """Why a call can never be replayed that changed what it reads, as it did each time before.

    Parameters
    ----------
    changed : dict
        See `Guards`; of the call that was just traced.
    earlier : list of dict
        The same of the traces of its key before it.
    left : dict
        What calls of any key have changed last, by place.
    stores : Stores
        Of the call.
    """
    for place, change in changed.items():
        times = 1 + sum(place in other for other in earlier)
        enough = times >= (CYCLE if change.may_return else _TIMES)
        if enough and place in left and change.follows(left[place]):
            return _reason(change.name, stores)
    return None


def changed_number(trace, recorder) -> Reason | None:
    """Why a call can never be replayed that writes a number which it reads and does not follow."""
    written = {(id(write.link), write.name): write.link for write in trace.writes}
    for read in trace.reads:
        link = read.link
        if (id(link), read.name) not in written:
            continue
        scalar = trace.followed.get((id(link), read.name))
        if scalar is not None and not scalar.keyed:
            continue
        now = link.__dict__.get(read.name)
        if _is_number(read.value) and _is_number(now) and repr(now) != repr(read.value):
            if scalar is None and type(read.value) is int:
                continue  # the next trace follows it
            if scalar is not None:
                scalar.keyed = False  # else each call had a key of its own
            line = recorder.floats.left_at.get(scalar) or recorder.outside.stores.line_of(read.name)
            text = (
                f"attribute {read.name!r} of {type(link).__name__}, to which the call assigns "
                f"another number, here {now!r:.60}, is used where it cannot be followed"
            )
            return Reason(text, Remedy.PASS_NUMBERS, line)
    return None


def _is_number(thing) -> bool:
    return isinstance(thing, (int, float)) and not isinstance(thing, bool)


def _reason(name: str, stores) -> Reason:
    last = last_word(name)
    text = f"{name!r}, which the call reads, is changed by each call"
    return Reason(text, Remedy.RUN_EVERY_TIME, stores.line_of(last) or "")
