"""A call as Chainer's graph would show it: the functions between the Variables that it hands out.

A replayed call is one node of Chainer's graph. Where the user looks at what is between its results
(their gradients are retained, one is differentiated with respect to another, a history is cut), it
is taken apart: into as few nodes as show every Variable that was handed out in its place.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from sdbr.trace.values import Value


@dataclasses.dataclass(eq=False)
class Part:
    """Functions of a call that are one node of Chainer's graph.

    Attributes
    ----------
    index : int
        0 is the call as a whole; its parts follow in the order of execution.
    outputs, inputs : list of Value
        What carries gradients, and what wants them.
    nodes : set of int or None
        Ids of the traced nodes; None for all of them.
    depth : int
        How many parts lie between it and the leaves at most.
    own : bool
        Whether the backward of one of its functions may do more than give gradients, or is that of
        ``F.forget``, which gives those of the parameters inside to nobody.
    """

    index: int
    outputs: list[Value]
    inputs: list[Value]
    nodes: set[int] | None = None
    depth: int = 0
    own: bool = False

    @property
    def is_anchored(self) -> bool:
        """Whether its node needs an input that wants a gradient, so that a backward gets there.

        Its functions lead to Variables alone that the call has made and nobody holds.
        """
        return not self.inputs


class Pattern(NamedTuple):
    """Which gradients a backward takes, and which it gives.

    Attributes
    ----------
    given, wanted : tuple of int
        Outputs of the part that carry a gradient, and inputs that want one.
    part : int
        Of which part of the call; 0 is the whole.
    everything : bool
        Whether every backward runs that may do more than give gradients.
    retained : bool
        Whether it also gives the gradients of outputs that others of them are made from.
    """

    given: tuple[int, ...]
    wanted: tuple[int, ...]
    part: int
    everything: bool
    retained: bool = False


class Behind(NamedTuple):
    """What of a call lies behind some of its outputs.

    Attributes
    ----------
    left : tuple of Part
        Those that do not.
    inputs : tuple of int
        Places of the inputs of the call that history leads to.
    outputs : tuple of int
        What the other parts show, by value index.
    """

    left: tuple[Part, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def behind(parts: list[Part], places: tuple[int, ...]) -> Behind:
    """What of a call lies behind those of its outputs.

    Parameters
    ----------
    parts : list of Part
        The call as a whole, then what it can be taken apart into.
    places : tuple of int
        Places of the outputs.
    """
    whole = parts[0]
    reached = {whole.outputs[i].index for i in places}
    shown: list[int] = []
    left = []
    for part in reversed(parts[1:]):
        if any(y.index in reached for y in part.outputs):
            shown += [y.index for y in part.outputs]
            reached.update(x.index for x in part.inputs)
        else:
            left.append(part)
    inputs = tuple([i for i, x in enumerate(whole.inputs) if x.index in reached])
    return Behind(tuple(reversed(left)), inputs, tuple(shown))


def whole_pattern(part: Part) -> Pattern:
    """All outputs of a part carry a gradient, all inputs want one."""
    return Pattern(
        tuple(range(len(part.outputs))), tuple(range(len(part.inputs))), part.index, part.own
    )


def parts_of(nodes: list, outputs: list[Value], leaves: list[Value]) -> list[Part]:
    """Take a call apart.

    Each function is in one part. A part ends in what is handed out, or where what several parts
    need is made.

    Parameters
    ----------
    nodes : list of TracedNode
        In the order of execution.
    outputs : list of Value
        Results that are Variables of the graph.
    leaves : list of Value
        Where the graph begins.

    Returns
    -------
    list of Part
        In the order of execution.
    """
    ends, end_of = _ends_of(nodes, {value.index for value in outputs})
    borders = {y.index for shown in ends for y in shown} | {x.index for x in leaves}
    members_of: list[list] = [[] for _ in ends]
    for node in nodes:
        if id(node) in end_of:
            members_of[end_of[id(node)]].append(node)
    parts: list[Part] = []
    depth_of: dict[int, int] = {}
    for end in reversed(range(len(ends))):
        members = members_of[end]
        inputs = {
            x.index: x
            for node in members
            for x in node.inputs
            if x.requires_grad and x.index in borders
        }
        depth = max((depth_of.get(index, -1) + 1 for index in inputs), default=0)
        depth_of.update((y.index, depth) for y in ends[end])
        ids = {id(node) for node in members}
        own = any(node.own or node.forgotten for node in members)
        parts.append(Part(len(parts) + 1, ends[end], list(inputs.values()), ids, depth, own))
    return parts


def _ends_of(nodes: list, heads: set[int]) -> tuple[list[list[Value]], dict[int, int]]:
    """Where the parts of a call end, the last one first: what each shows; node id -> its end.

    `heads` are the value indices of the results.
    """
    ends: list[list[Value]] = []
    end_of: dict[int, int] = {}
    readers: dict[int, set[int]] = {}  # value index -> ends of the parts that read it
    for node in reversed(nodes):
        if node.function is None or not node.backprop:
            continue
        shown = [
            y
            for y in node.outputs
            if y.requires_grad and not y.unchained and (y.index in heads or y.index in readers)
        ]
        if not shown:
            continue
        found = set().union(*(readers.get(y.index, ()) for y in shown))
        if len(found) == 1 and not any(y.index in heads for y in shown):
            (mine,) = found
        else:
            mine = len(ends)
            ends.append(shown)
        end_of[id(node)] = mine
        for x in node.inputs:
            if x.requires_grad:
                readers.setdefault(x.index, set()).add(mine)
    return ends, end_of
