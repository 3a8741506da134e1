"""The second trace of a call whose constants came from untracked places."""

from __future__ import annotations

from sdbr.trace.values import Value


def contents_of_constants(trace) -> list:
    """What the constants of a trace hold now."""
    return [x.source.tobytes() if x.kind == "constant" else None for x in trace.values]


def confirm(trace, first, before) -> None:
    """Compare the constants of two traces of one call; a difference makes the second dynamic.

    `before` are the contents of the first trace's constants just before the second call: an array
    that outlives the calls may change between them, but not during one.
    """
    if len(trace.nodes) != len(first.nodes) or len(trace.values) != len(first.values):
        trace.dynamic = trace.dynamic or (
            "two traces of the same call differ in their functions",
            "",
        )
        return
    for a, b, contents in zip(trace.values, first.values, before, strict=True):
        same = a.kind == b.kind and a.shape == b.shape and a.dtype == b.dtype
        if same and a.kind == "constant":
            same = a.source.tobytes() == contents
        if not same:
            trace.dynamic = trace.dynamic or (
                "an array was computed by Python code that sdbr cannot see into, and it changes "
                "from call to call",
                "",
            )
            return
    for a, b in zip(trace.reports, first.reports, strict=True):
        for name, x in a.items.items():
            y = b.items.get(name)
            if type(x) is not Value and repr(x) != repr(y):
                trace.dynamic = trace.dynamic or (
                    f"the reported value {name!r} was computed in Python",
                    "",
                )
    if repr_scalars(trace.result) != repr_scalars(first.result):
        trace.dynamic = trace.dynamic or ("a returned number was computed in Python", "")


def repr_scalars(structure):
    """Comparable form of a result structure."""
    if isinstance(structure, Value):
        return ("value", structure.index)
    if isinstance(structure, dict):
        return [(k, repr_scalars(x)) for k, x in structure.items()]
    if isinstance(structure, (list, tuple)):
        return [repr_scalars(x) for x in structure]
    return repr(structure)
