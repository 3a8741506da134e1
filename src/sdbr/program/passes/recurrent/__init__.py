"""Unrolled loops: the products of all steps in one.

Three things are looked for, in any program:

* products of different rows with one matrix that do not depend on each other (the input products
  of all steps, the output layer of all steps, and what goes backward through them) become one
  product of all rows, which are given places side by side;
* sums of products over the steps (gradients of weights) become one product of as many rows, and
  sums of sums (gradients of biases) one sum; where rows cannot lie side by side they are copied;
* other terms of a sum that an op can add to what is there are added by that op: lateral products
  to input products, gradients of a table.

Nothing is put together where a dependence (`_dependences`) leads from one step to the next, and
nothing at all where clearly more memory would be alive than before.
"""

from __future__ import annotations

import itertools

from sdbr.program import memory
from sdbr.program._walks import bytes_without_a_slot
from sdbr.program.buffers import BufferTable
from sdbr.program.builder import Instruction
from sdbr.program.passes.accumulation import accumulation
from sdbr.program.passes.elementwise import elementwise
from sdbr.program.passes.inplace import inplace
from sdbr.program.passes.recurrent.recurrence import Plan
from sdbr.program.passes.recurrent.repetition import find_products, find_totals

#: So much more memory may be alive than before: what goes backward from a stacked output layer is
#: there for all steps at once. What a cache holds is no matter.
MORE = 1.05


def recurrent(
    instructions: list[Instruction], kept: set[int], table: BufferTable
) -> list[Instruction]:
    """Put the products of all steps together; see the module.

    Parameters
    ----------
    instructions : list of Instruction
    kept : set of int
        Root row indices that are read after the program; new roots are added.
    table : BufferTable
    """
    totals = find_totals(instructions, kept)
    products = find_products(instructions, kept)
    if not totals and not products:
        return instructions
    cache, most = table.machine.cache, None
    for chosen, stacking in ((products, True), (products, False), ({}, False)):
        plan = Plan(instructions, kept, table, totals, chosen, stacking)
        result = plan.run()
        fits = in_arena(result) <= cache  # then not more than that is alive at any time
        if not fits and most is None:
            there = plan.moves.taken_back()
            before = footprint(instructions, kept, table)
            most = max(MORE * before, before + cache)
            plan.moves.again(there)
        if fits or footprint(result, plan.kept, table) <= most:
            kept |= plan.kept
            return result
        plan.moves.undo()
    return instructions


def in_arena(instructions: list[Instruction]) -> int:
    """Bytes of all that instructions make, were it all alive at once."""
    return bytes_without_a_slot(instructions)


def footprint(instructions: list[Instruction], kept: set[int], table: BufferTable) -> int:
    """Most bytes that are alive at a time when the passes that save memory have run."""
    instructions = [instruction.copy() for instruction in instructions]
    for later in (accumulation, elementwise):
        instructions = later(instructions, kept, table)
    lives = memory.lifetimes(instructions)
    aliases = inplace(instructions, kept)
    spans: dict[int, list[int]] = {}
    for index, (root, first, last) in lives.items():
        while root.index in aliases:
            root = aliases[root.index]
        span = spans.setdefault(root.index, [root.nbytes, first, last])
        span[1] = min(span[1], first)
        span[2] = len(instructions) if index in kept else max(span[2], last)
    changes = [0] * (len(instructions) + 2)
    for nbytes, first, last in spans.values():
        changes[first] += nbytes
        changes[last + 1] -= nbytes
    return max(itertools.accumulate(changes))
