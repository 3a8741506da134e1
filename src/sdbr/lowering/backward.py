"""From a lowered forward to the instructions of its backward, per gradient pattern."""

from __future__ import annotations

from sdbr.lowering.forward import Forward, LoweredNode
from sdbr.lowering.node_gradients import added, node_gradients
from sdbr.program.buffers import Row
from sdbr.program.builder import Builder
from sdbr.trace import values as v


def differentiable(
    forward: Forward, wanted: set[int], nodes: set[int] | None = None, everything: bool = False
) -> set[int]:
    """Indices of the values through which a gradient reaches one of `wanted`.

    Where `nodes` are given, ids of traced nodes, only through those. With `everything` also those
    through which it reaches a function whose backward may do more than give gradients.
    """
    needs = set(wanted)
    for lowered in forward.nodes:
        traced = lowered.traced
        if not _is_gone_through(traced, nodes):
            continue
        own = everything and traced.own
        for x in traced.inputs:
            if x.requires_grad and (
                own or (x.index in needs and (x.index in wanted or not x.unchained))
            ):
                needs.update([y.index for y in traced.outputs if y.requires_grad])
                break
    return needs


def _is_gone_through(traced: v.TracedNode, nodes: set[int] | None) -> bool:
    """Whether a backward may lead through a node: a function that keeps its history."""
    known = nodes is None or id(traced) in nodes
    return known and traced.function is not None and traced.backprop


def generate_backward(
    forward: Forward,
    builder: Builder,
    seeds: dict[int, Row],
    wanted: list[v.Value],
    nodes: set[int] | None = None,
    everything: bool = False,
    noted: dict[int, Row | None] | None = None,
) -> dict[int, Row]:
    """Emit the backward of `forward` for one gradient pattern.

    Parameters
    ----------
    forward : Forward
    builder : Builder
        Of the backward program (may be that of the forward: a whole step).
    seeds : dict
        Value index -> row of its gradient.
    wanted : list of Value
        Leaves whose gradient is wanted.
    nodes : set of int, optional
        Ids of the traced nodes to go through; all by default.
    everything : bool
        Whether to run every backward that may do more than give gradients, as ``backward()`` does
        and ``chainer.grad`` does not.
    noted : dict, optional
        Indices of values between `seeds` and `wanted` whose gradient is wanted, too: gets the rows.

    Returns
    -------
    dict
        Value index -> row of its gradient; a leaf that no gradient reaches is missing.
    """
    noted = {} if noted is None else noted
    ends = {value.index for value in wanted} | set(noted)
    needs = differentiable(forward, ends, nodes, everything)
    gradients = _Gradients(builder, seeds)
    again: dict[int, LoweredNode] = {}  # nodes inside of ``F.forget``
    builder.are_gradients(seeds.values())
    through = [node for node in forward.nodes if _is_gone_through(node.traced, nodes)]
    for lowered in reversed(through):
        traced = lowered.traced
        origin = f"{traced.label} backward", traced.line, forward.names.of_node(traced)
        builder.at(*origin)
        gys = [None if y.unchained else gradients.collect(y.index) for y in traced.outputs]
        rows = zip(traced.outputs, gys, strict=True)
        noted.update((y.index, g) for y, g in rows if y.index in noted)
        targets = _targets(traced, needs, everything)
        if not targets or all(g is None for g in gys):
            continue
        if traced.forgotten:
            lowered = _made_again(forward, traced, again, builder)
            builder.at(*origin)
        for i, g in zip(targets, node_gradients(lowered, builder, gys, targets), strict=True):
            if g is not None:
                gradients.add(traced.inputs[i].index, g)
    builder.at("gradient")
    # A parameter that two links have is wanted twice; what was collected is given once.
    found = [(index, gradients.collect(index)) for index in {x.index: None for x in wanted}]
    return {index: g for index, g in found if g is not None}


def _targets(traced: v.TracedNode, needs: set[int], everything: bool) -> tuple[int, ...]:
    """Which inputs of a node are to get a gradient."""
    return tuple(
        i
        for i, x in enumerate(traced.inputs)
        if x.requires_grad and (x.index in needs or (everything and traced.own))
    )


def _made_again(
    forward: Forward, traced: v.TracedNode, again: dict[int, LoweredNode], builder: Builder
) -> LoweredNode:
    """A node inside of an ``F.forget``, lowered anew with all others there when one is needed."""
    if id(traced) not in again:
        (group,) = [g for g in forward.trace.forgotten if id(traced) in g.nodes]
        again.update(forward.again(group.nodes, group.inputs, builder))
    return again[id(traced)]


class _Gradients:
    """The parts of each value's gradient, in the order in which they come; summed when read."""

    def __init__(self, builder: Builder, seeds: dict[int, Row]):
        self.builder = builder
        self.parts: dict[int, list[Row]] = {index: [row] for index, row in seeds.items()}

    def add(self, index: int, row: Row) -> None:
        self.parts.setdefault(index, []).append(row)

    def collect(self, index: int) -> Row | None:
        """The sum of all parts of one value, which are gone then; None where there are none."""
        parts = self.parts.pop(index, None)
        if not parts:
            return None
        total = parts[0]
        for part in parts[1:]:
            total = added(self.builder, total, part)
        return total
