"""The graph of a program, with the ops of one link folded into one box."""

from __future__ import annotations

import dataclasses

from sdbr.ops.table import OPS
from sdbr.program.buffers import BOUND, OWNED, STAGED


@dataclasses.dataclass
class Box:
    """What is drawn as one thing: some ops of one link, an argument or a result.

    Attributes
    ----------
    title : str
        The path of the link, or what the argument or result is called.
    ops : list of int
        Indices in the program; empty for arguments and results.
    names : list of str
        Those of the ops, each once.
    shape : str
        Of what the last of them gives.
    python : bool
        Whether a Python op is among them.
    """

    title: str
    ops: list[int] = dataclasses.field(default_factory=list)
    names: list[str] = dataclasses.field(default_factory=list)
    shape: str = ""
    python: bool = False


def folded(link: str, depth: int | None) -> str:
    """The first `depth` parts of a path; all of them for None."""
    if depth is None:
        return link
    lead = "/" if link.startswith("/") else ""
    parts = [part for part in link.split("/") if part]
    return lead + "/".join(parts[:depth])


def graph_of(program, depth: int | None = None) -> tuple[list[Box], list[tuple[int, int]]]:
    """The boxes of a program, and from which to which data flow.

    Ops that follow each other and are of one link are one box, so there is never a way around.

    Parameters
    ----------
    program : Program
    depth : int, optional
        How many parts of the paths of links are told apart.

    Returns
    -------
    list of Box, list of (int, int)
        Each box comes after those that it reads from.
    """
    boxes: list[Box] = []
    edges: dict[tuple[int, int], None] = {}
    makers: dict[int, list[int]] = {}  # root row -> boxes that have written it
    base = program.rows["base"].tolist()
    links = [folded(program.origin(i)[1], depth) for i in range(len(program))]
    current = -1
    for i, code in enumerate(program.opcodes.tolist()):
        ins, outs = program.operands_of(i)
        for row in ins:
            if base[row] not in makers and _is_argument(program, row):
                boxes.append(Box(_slot(program, row).name, shape=_shape(program, row)))
                makers[base[row]] = [len(boxes) - 1]
        if current < 0 or i == 0 or links[i] != links[i - 1]:
            current = len(boxes)
            boxes.append(Box(links[i]))
        box = boxes[current]
        box.ops.append(i)
        name = program.origin(i)[0] or OPS[code].name
        box.names += [name] if name not in box.names else []
        box.python |= code == 0
        box.shape = _shape(program, outs[0]) if outs else box.shape
        for row in ins:
            edges.update({(k, current): None for k in makers.get(base[row], ()) if k != current})
        for row in outs:
            before = [] if row == base[row] else makers.get(base[row], [])
            makers[base[row]] = [*(k for k in before if k != current), current]
    for row, made in makers.items():
        slot = _slot(program, row)
        if slot.kind == OWNED:
            edges.update({(k, len(boxes)): None for k in made})
            boxes.append(Box(slot.name, shape=_shape(program, row)))
    return _sorted(boxes, list(edges))


def _is_argument(program, row: int) -> bool:
    """Whether it is none of the parameters and persistents, which would hide the rest."""
    slot = _slot(program, row)
    return slot.kind in (BOUND, STAGED) and not program.path_of(row)


def _slot(program, row: int):
    return program.slots[program.rows["slot"][row]]


def _shape(program, row: int) -> str:
    return program.describe_row(row).rpartition(":")[2]


def _sorted(boxes: list[Box], edges: list[tuple[int, int]]):
    """Arguments that a box reads late were met after it has begun: they go before."""
    order = sorted(range(len(boxes)), key=lambda k: (bool(boxes[k].ops) or _ends(k, edges), k))
    place = {k: i for i, k in enumerate(order)}
    return [boxes[k] for k in order], [(place[a], place[b]) for a, b in edges]


def _ends(k: int, edges: list[tuple[int, int]]) -> bool:
    return any(b == k for _, b in edges)
