"""What programs for GPUs are made of: what has no kernel there stays Chainer's own code."""

from __future__ import annotations

from sdbr.ops.table import OPS
from sdbr.program.machine import Machine

#: Families of ops with kernels for GPUs.
FAMILIES = (
    "array",
    "data",
    "elementwise",
    "fused",
    "integer",
    "loss",
    "product",
    "random",
    "recurrent",
    "reduction",
    "special",
    "update",
)
#: Ops of these that have none yet.
NOT_YET = frozenset({
    "cumsum", "cumprod", "cumprod_grad", "prod", "prod_grad", "resize", "resize_grad",
    "slstm", "slstm_grad", "tree_lstm", "tree_lstm_grad",
})  # fmt: skip
#: These are run between graphs.
_BETWEEN = frozenset({"python", "question"})

MACHINE = Machine(
    lacks=(NOT_YET | {op.name for op in OPS if op.family not in FAMILIES}) - _BETWEEN,
    draws_once=True,
    widens=False,
)
