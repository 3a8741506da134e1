"""Which nodes of a trace are lowered: those whose results or effects somebody can see."""

from __future__ import annotations

from sdbr.lowering.caught import may_raise
from sdbr.trace import values as v
from sdbr.trace.questions import Question


def live_nodes(trace: v.Trace) -> list[v.TracedNode]:
    """All function nodes (any may have an effect), questions, and NumPy calls in use or that may
    raise."""
    used: set[int] = set()

    def use(values):
        used.update([x.source.index if x.kind == v.ALIAS else x.index for x in values])

    use(v.handed_out(trace))
    live = []
    for node in reversed(trace.nodes):
        if (
            node.function is not None
            or node.effect
            or node.lasting
            or node.draws
            or type(node) is Question
            or any(y.index in used for y in node.outputs)
            or may_raise(node)
        ):
            live.append(node)
            use(node.inputs)
            if node.rebind:
                use(v.values_in([r.values for r in node.rebind]))
    live.reverse()
    return live
