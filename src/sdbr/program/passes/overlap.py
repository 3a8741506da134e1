"""Collectives that begin as soon as what they send is there, and go on while other ops run."""

from __future__ import annotations

from sdbr.ops.table import BY_NAME
from sdbr.program.buffers import BufferTable, Row
from sdbr.program.builder import Instruction

#: Ops that only bring what is there into the array that is sent.
_FILLS = ("copy", "fill")
#: Where an instruction stands: the one that it is, or comes after; how manieth of those; which.
Place = tuple[int, int, int]


def overlap(
    instructions: list[Instruction], kept: set[int], table: BufferTable
) -> list[Instruction]:
    """Move each ``allreduce_begin`` behind the last op that touches what it sends.

    They keep their order, which is the same on all ranks. Copies into what is sent go along.
    Nothing moves above an op that may end the run, or runs code of Python: a step that fails, or
    is made again in another way, has sent nothing then. ``allreduce_progress`` stands behind each
    op after the first.

    Parameters
    ----------
    instructions : list of Instruction
    kept : set of int
        Not used.
    table : BufferTable
        Not used.
    """
    begins = [i for i, x in enumerate(instructions) if x.op.name == "allreduce_begin"]
    if not begins:
        return instructions
    places = _places(instructions, begins)
    order = sorted(range(len(instructions)), key=places.__getitem__)
    result: list[Instruction] = []
    under_way = False
    for i in order:
        instruction = instructions[i]
        name = instruction.op.name
        if under_way and name not in ("allreduce_begin", "allreduce_end"):
            result += [instruction, Instruction(BY_NAME["allreduce_progress"], [], [])]
            result[-1].label = instruction.label
        else:
            result.append(instruction)
        under_way = name == "allreduce_begin" or (under_way and name != "allreduce_end")
    return result


def _places(instructions: list[Instruction], begins: list[int]) -> list[Place]:
    """Where each instruction is to stand."""
    sent = {_memory(x) for i in begins for x in instructions[i].ins}
    places: list[Place] = []
    touched: dict[tuple[bool, int], Place] = {}  # where memory was touched last, and written
    written: dict[tuple[bool, int], Place] = {}
    floor: Place = (-1, 0, 0)
    before: Place = floor  # of the last collective
    for i, instruction in enumerate(instructions):
        op = instruction.op
        ins = {_memory(x) for x in instruction.ins}
        outs = {_memory(y) for y in instruction.outs} | (ins if op.writes_inputs else set())
        begins_now = op.name == "allreduce_begin"
        place = (i, 0, 0)
        if begins_now or (op.name in _FILLS and _memory(instruction.outs[0]) in sent):
            last = max([floor, *_those(written, ins), *_those(touched, outs)])
            if begins_now:
                last = max(last, before)
            place = (last[0], last[1] + 1, i)
        if begins_now:
            before = place
        elif op.asks or op.python:
            floor = max(floor, place)
        for known, operands in ((touched, ins | outs), (written, outs)):
            for operand in operands:
                known[operand] = max(place, known.get(operand, place))
        places.append(place)
    return places


def _those(known: dict, wanted: set) -> list[Place]:
    return [known[x] for x in wanted if x in known]


def _memory(row: Row) -> tuple[bool, int]:
    """What a row lies in: a slot, which several rows may name, or a root row of its own."""
    root = row.root
    return (True, root.slot.index) if root.slot is not None else (False, root.index)
