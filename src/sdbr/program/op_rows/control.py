"""Ops of the executor itself."""

from sdbr.program.op import Rows

row = Rows()

# --- control -----------------------------------------------------------------------------------
row('python', 'x:A*', '', 'run object slot `slot`; operands are what it reads and writes', ints='slot n_inputs',
    family='control', effect=True)  # fmt: skip
row("nop", "", "", "nothing", family="control", effect=True)

ROWS = row.rows
