"""Ops of the executor itself."""

from __future__ import annotations

from sdbr.ops.op import Rows

row = Rows()


row(
    "python",
    "x:A*",
    "y:A*",
    "run object slot `slot`; operands are what it reads and writes",
    ints="slot n_inputs",
    effect=True,
    python=True,
)

row("nop", "", "", "nothing", lambda ins, outs, attributes: None, direct=True, effect=True)

row(
    "fork",
    "",
    "",
    "the next n1 + n2 + n3 + n4 ops are four branches (0: none) that may run at the same time",
    lambda ins, outs, attributes: None,
    ints="n1 n2 n3 n4",
    direct=True,
    effect=True,
)

ROWS = row.rows
