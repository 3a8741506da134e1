"""The op table: one row per operation that a program may hold.

Everything that concerns operations is generated from this table or checked
against it: opcodes, dispatch, disassembly, ``docs/ops.md`` and the parity
tests. A row names its operands in order, inputs before outputs; a program
stores them in that order.

Conventions
-----------
* ``T`` is float32 or float64 and is the same for all operands marked ``T``;
  ``I`` is any NumPy integer dtype (labels); ``A`` is any native dtype.
* *elementwise* ops broadcast: every operand row has the shape of the output,
  stride 0 where it is repeated. Reduction-like ops work on canonical shapes
  given in ``doc``; the lowering reshapes (a view) before it emits them.
* ``inplace`` lists the inputs that the first output may share memory with,
  element for element (same shape and strides).
"""

from __future__ import annotations

from sdbr.ops import fused
from sdbr.ops.op import Op, numbered
from sdbr.ops.single import SINGLE

OPS: tuple[Op, ...] = (*SINGLE, *numbered((fused,), len(SINGLE)))
BY_NAME: dict[str, Op] = {op.name: op for op in OPS}
