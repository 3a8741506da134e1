"""What of a traced call is handed to the user, and how."""

from __future__ import annotations

from sdbr.trace import values as v
from sdbr.trace.values import Trace, Value


def output_values(trace: Trace) -> list[Value]:
    """The distinct values that are handed to the user, in order."""
    return list({value.index: value for value in v.handed_out(trace)}.values())


def returned_as_is(value: Value) -> bool:
    """Leaves that come back are the caller's own objects, not copies."""
    return value.kind in (v.ARGUMENT, v.PARAMETER, v.ATTRIBUTE)


def is_made(value: Value) -> bool:
    """Whether a Variable that is handed out is a leaf of the graph, made by the call itself."""
    return (
        value.is_variable
        and value.requires_grad
        and (value.kind in (v.ALIAS, v.CONSTANT) or (value.kind == v.RESULT and value.unchained))
    )
