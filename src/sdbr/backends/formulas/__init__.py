"""The NumPy reference: what each op of the table computes, one line where one line is enough.

A formula takes the inputs as arrays, then the attributes by name, and returns
the outputs (one array or a tuple); the executor writes them into place. Ops
that look at the old contents or at the shape of an output, or that write an
input, are in `DIRECT` and get ``(ins, outs, attributes)``. Each module has
`FORMULAS` and `DIRECT` of its own; here they are joined.

Attributes are Python numbers, so that an array keeps its dtype when it meets
one. Indices that come from data are checked before anything is written.
"""

from __future__ import annotations

from collections.abc import Callable

from sdbr.backends.formulas import fused, single

#: Op name -> formula. `python` is the executor's own.
FORMULAS: dict[str, Callable] = dict(single.FORMULAS)
DIRECT: dict[str, Callable] = {**single.DIRECT, "fused": fused.fused}
