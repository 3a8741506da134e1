"""Functions that move the same data again, as unrolled networks do that stack their weights."""

from __future__ import annotations

import dataclasses

from sdbr.functions import registry
from sdbr.functions.array import MovesData
from sdbr.trace import values as v
from sdbr.trace.gradients import GradientNode

_SIMPLE = (bool, int, float, str, type(None))


def without_repeats(nodes: list, trace: v.Trace, function_rows: registry.Lookups) -> list:
    """The nodes without those that do what one before does, whose results serve in their place.

    Only functions that move data, of parameters or of each other: what they are given cannot have
    changed in between. Their gradients then meet in one place before they are taken apart. Where
    code of the user runs in between (`static_code`), which may write both, all nodes stay; also
    where some run twice (``F.forget``).

    Parameters
    ----------
    nodes : list of TracedNode
    trace : Trace
    function_rows : Lookups

    Returns
    -------
    list of TracedNode
        Nodes whose inputs are results of others now are copies.
    """
    if trace.lasting or any(
        isinstance(node, GradientNode) or node.effect or node.forgotten for node in nodes
    ):
        return nodes
    fixed = {x.index for x in v.handed_out(trace)}
    fixed.update(x.source.index for x in trace.values if x.kind == v.ALIAS)
    for node in nodes:
        if node.rebind:
            fixed.update(x.index for x in v.values_in([r.values for r in node.rebind]))
    known: dict[tuple, v.TracedNode] = {}
    moved: set[int] = set()  # results that are made of parameters by moving data
    stands_for: dict[int, v.Value] = {}
    result = []
    for node in nodes:
        inputs = [stands_for.get(x.index, x) for x in node.inputs]
        if any(a is not b for a, b in zip(inputs, node.inputs, strict=True)):
            node = dataclasses.replace(node, inputs=inputs)
        key = _key(node, moved, function_rows)
        if key is not None:
            first = known.setdefault(key, node)
            if first is not node and not any(y.index in fixed or y.held for y in node.outputs):
                stands_for.update(
                    (y.index, x) for x, y in zip(first.outputs, node.outputs, strict=True)
                )
                continue
            moved.update(y.index for y in node.outputs)
        result.append(node)
    return result


def _key(node: v.TracedNode, moved: set[int], function_rows: registry.Lookups) -> tuple | None:
    """What two nodes that do the same have in common, or None."""
    if node.function is None or node.effect or node.rebind or node.scalars or node.states:
        return None
    row = function_rows[type(registry.function_of(node.function))]
    if row is None or not issubclass(row, MovesData):
        return None
    if not all(x.kind == v.PARAMETER or x.index in moved for x in node.inputs):
        return None
    if any(x.unchained for x in (*node.inputs, *node.outputs)):
        return None
    attributes = []
    for name, thing in sorted(vars(node.template).items()):
        thing = tuple(thing) if isinstance(thing, list) else thing
        parts = thing if isinstance(thing, tuple) else (thing,)
        if not all(isinstance(part, _SIMPLE) for part in parts):
            return None
        attributes.append((name, type(thing), thing))
    inputs = tuple(x.index for x in node.inputs)
    return type(node.function), node.backprop, inputs, tuple(attributes)
