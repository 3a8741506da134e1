"""From instructions to a program: passes, memory plan, flat arrays."""

from __future__ import annotations

import time

from sdbr.base.logs import logger
from sdbr.program import memory as memory_plan
from sdbr.program import passes
from sdbr.program.buffers import Row
from sdbr.program.builder import Builder
from sdbr.program.program import Program, assemble

import chainer

_log = logger("build")


def build(
    instructions, table, kept, name, reuse, which=passes.TRANSFORMS
) -> tuple[Program, set[int]]:
    """Run the passes, then those of the backend, plan memory and assemble.

    Parameters
    ----------
    instructions : list of Instruction
    table : BufferTable
    kept : list of Row
        Arena rows that are read after the program.
    name : str
    reuse : bool
    which : tuple
        The passes that are left to run.

    Returns
    -------
    Program, set of int
        The program and the root row indices that live on.
    """
    start = time.perf_counter()
    on = passes.enabled()
    roots = {row.root.index for row in kept}
    instructions = passes.transform(instructions, roots, table, on, which)
    shaped = passes.shaped(instructions, roots, table, on, table.machine)
    portable = shaped is instructions
    instructions = shaped
    aliases = passes.inplace(instructions, roots) if "inplace" in on and reuse else {}
    arena = memory_plan.plan(instructions, table, kept, f"{name} arena", reuse, aliases)
    program = assemble(instructions, table, name, arena)
    program.portable = portable
    _log.info(
        "%s: %d ops, %d of them Python ops, %d bytes of memory, in %.1f ms",
        name,
        len(program),
        program.python_ops,
        program.arena_bytes,
        (time.perf_counter() - start) * 1e3,
    )
    if getattr(chainer.config, "sdbr_keep_instructions", False):
        program.instructions, program.kept = instructions, kept  # what tests look at
    return program, roots


def owned_copy(builder: Builder, row: Row, name: str, forward_views: bool) -> Row:
    """An owned row with the contents of `row`.

    Where `forward_views` is true and an op of `builder` fills all of an arena row of its own, it
    writes there directly; else the row is copied.
    """
    root = row.root
    owned = builder.table.owned(row.shape, row.dtype, name)
    if (
        forward_views
        and root.slot is None
        and root.index in builder.made
        and row.offset == 0
        and row.nbytes == root.nbytes
        and row.is_contiguous
    ):
        root.slot = owned.slot
    else:
        builder.emit("copy", [row], [owned])
    return owned
