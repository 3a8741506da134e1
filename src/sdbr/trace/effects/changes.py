"""What a call reads outside of links and changes itself: if it does so each time, none replays."""

from __future__ import annotations

import dis
import types

from sdbr.base.reasons import Reason, Remedy

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


def _reason(name: str, stores) -> Reason:
    what, line = repr(name), stores.line_of(name) or _line_of_use(stores.functions, name)
    text = f"{what}, an attribute or a variable that the call reads, is changed by each call"
    return Reason(text, Remedy.RUN_EVERY_TIME, line)


def _line_of_use(functions: list, name: str) -> str:
    """``file:line in function`` where code first names a thing; empty where none does."""
    for function in functions:
        codes = [function.__code__]
        for code in codes:
            codes += [c for c in code.co_consts if isinstance(c, types.CodeType)]
            line = code.co_firstlineno
            for instruction in dis.get_instructions(code):
                position = getattr(instruction, "positions", None)
                line = position.lineno if position is not None else instruction.starts_line or line
                if instruction.argval == name:
                    return f"{code.co_filename}:{line} in {code.co_name}"
    return ""
