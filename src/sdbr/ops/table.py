"""The op table: every op that a program may hold.

Everything that concerns ops is generated from this table or checked
against it: opcodes, dispatch, disassembly, the reference, what passes ask,
``docs/ops.md`` and the parity tests. An op names its operands in order, inputs
before outputs; a program stores them in that order.

Conventions
-----------
* An operand is written ``name:class[axes]``. ``T`` is float32 or float64 and is the
  same for all operands marked ``T``; ``I`` is any NumPy integer dtype (labels); ``B``
  is bool, ``D`` is float64, ``S`` is any native dtype, the same for all operands marked
  ``S``, and ``A`` is any native dtype. ``*`` behind it: any number of them, ``?``: one
  or none.
* Axes are names, which stand for one length in the whole op, or numbers;
  ``[s...]`` is any shape, the same for all that say ``s``; ``[]`` is one element, in
  any number of axes. What axes cannot say is the `rule` of the op. Programs are
  checked against both before any backend sees them.
* *elementwise* ops broadcast: every operand has the shape of the output,
  stride 0 where it is repeated. Reduction-like ops work on canonical shapes;
  the lowering reshapes (a view) before it emits them.
* ``inplace`` lists the inputs that the first output may share memory with,
  element for element (same shape and strides).
"""

from __future__ import annotations

from sdbr.ops import fused
from sdbr.ops.op import Op, numbered
from sdbr.ops.single import SINGLE

OPS: tuple[Op, ...] = (*SINGLE, *numbered((fused,), len(SINGLE)))
BY_NAME: dict[str, Op] = {op.name: op for op in OPS}
