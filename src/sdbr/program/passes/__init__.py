"""Passes over the instructions of a program; each can be switched off by name.

``chainer.config.sdbr_disabled_passes`` (or ``SDBR_DISABLED_PASSES``) is a
comma-separated list of names out of `PASSES`.

A pass is a function of a module of its own, named like the pass:

    pass_(instructions, kept, table) -> instructions

`kept` holds the indices of the root rows that are read after the program; rows in slots count as
kept. What a pass makes new comes from `table`. `TRANSFORMS` lists them in the order they run in.
"""

from __future__ import annotations

from collections.abc import Callable

from sdbr.base.errors import SettingError
from sdbr.base.settings import entry
from sdbr.program.buffers import BufferTable
from sdbr.program.builder import Instruction
from sdbr.program.machine import Machine
from sdbr.program.passes.accumulation import accumulation
from sdbr.program.passes.common_subexpressions import common_subexpressions
from sdbr.program.passes.constant_folding import constant_folding
from sdbr.program.passes.dead_code import dead_code
from sdbr.program.passes.elementwise import elementwise
from sdbr.program.passes.fusion import fusion
from sdbr.program.passes.inplace import inplace
from sdbr.program.passes.normalization import normalization
from sdbr.program.passes.overlap import overlap
from sdbr.program.passes.pooling import pooling
from sdbr.program.passes.recomputation import Recipes, recipes
from sdbr.program.passes.recurrent import recurrent

#: Passes from instructions to instructions, in order: before and after it is known what the
#: backward makes again.
FIRST: tuple[tuple[str, Callable], ...] = (
    ("dead_code", dead_code),
    ("constant_folding", constant_folding),
    ("common_subexpressions", common_subexpressions),
    ("fusion", fusion),
    ("pooling", pooling),
    ("recurrent", recurrent),
    ("accumulation", accumulation),
    ("normalization", normalization),
)
SECOND: tuple[tuple[str, Callable], ...] = (
    ("dead_code", dead_code),
    ("elementwise", elementwise),
    ("overlap", overlap),
)
TRANSFORMS = (*FIRST, *SECOND)

#: What backends ask for, and can do without.
REQUESTS = ("branches",)

#: All names. ``recomputation`` works on a forward and its backward together; ``views`` lets an op
#: write into the memory that is handed out, instead of a copy at the end; ``inplace`` belongs to
#: the memory plan.
PASSES = (
    *dict.fromkeys(name for name, _ in TRANSFORMS),
    *REQUESTS,
    "recomputation",
    "views",
    "inplace",
)

__all__ = [
    "FIRST",
    "PASSES",
    "REQUESTS",
    "SECOND",
    "TRANSFORMS",
    "Recipes",
    "enabled",
    "inplace",
    "recipes",
    "shaped",
    "transform",
]


def enabled() -> frozenset[str]:
    """Names of the passes that are on."""
    off = entry("sdbr_disabled_passes")
    names = {n.strip() for n in off.split(",")} if isinstance(off, str) else set(off)
    unknown = names - set(PASSES) - {""}
    if unknown:
        raise SettingError(
            f"sdbr_disabled_passes: unknown {sorted(unknown)}, expected some of {PASSES}"
        )
    return frozenset(PASSES) - names


def transform(
    instructions: list[Instruction],
    kept: set[int],
    table: BufferTable,
    on: frozenset[str],
    which: tuple[tuple[str, Callable], ...] = TRANSFORMS,
) -> list[Instruction]:
    """Run the transforms that are on.

    Parameters
    ----------
    instructions : list of Instruction
    kept : set of int
        Root row indices that are read after the program.
    table : BufferTable
    on : frozenset of str
        See `enabled`.
    which : tuple
        `FIRST`, `SECOND` or both.

    Returns
    -------
    list of Instruction
    """
    for name, run in which:
        if name in on:
            instructions = run(instructions, kept, table)
    return instructions


def shaped(
    instructions: list[Instruction],
    kept: set[int],
    table: BufferTable,
    on: frozenset[str],
    machine: Machine,
) -> list[Instruction]:
    """Run what a backend asks for, the last of all passes.

    Returns
    -------
    list of Instruction
        The very list that was given where the program is right for the backend as it is.
    """
    for name, run in machine.requests:
        if name in on or name not in PASSES:
            instructions = run(instructions, kept, table)
    return instructions
