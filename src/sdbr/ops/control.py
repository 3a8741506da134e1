"""Ops of the executor itself."""

from sdbr.ops.op import Rows

row = Rows()

# --- control -----------------------------------------------------------------------------------
row('python', 'x:A*', '', 'run object slot `slot`; operands are what it reads and writes', ints='slot n_inputs', effect=True)  # fmt: skip
row("nop", "", "", "nothing", effect=True)
row('fork', '', '', 'the next n1 + n2 + n3 + n4 ops are four branches (0: none) that may run at the same time',
    ints='n1 n2 n3 n4', effect=True)  # fmt: skip

ROWS = row.rows
