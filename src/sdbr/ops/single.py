"""The ops of every family but ``fused``, which is made of some of them.

The order of the families is that of the opcodes.
"""

from __future__ import annotations

from sdbr.ops import (
    array,
    control,
    convolution,
    ctc,
    data,
    elementwise,
    integer,
    loss,
    normalization,
    pooling,
    product,
    random,
    recurrent,
    reduction,
    special,
    update,
)
from sdbr.ops.op import Op, numbered

FAMILIES = (
    control,
    data,
    elementwise,
    random,
    reduction,
    product,
    loss,
    update,
    array,
    convolution,
    recurrent,
    normalization,
    ctc,
    special,
    integer,
    pooling,
)


#: Their ops.
SINGLE: tuple[Op, ...] = numbered(FAMILIES)
