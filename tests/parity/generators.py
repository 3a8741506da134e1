"""From an op of the table to its parity cases."""

from __future__ import annotations

import zlib
from collections.abc import Callable

from sdbr.ops.table import BY_NAME, Op

import numpy as np

from . import (
    array_cases,
    convolution_cases,
    ctc_cases,
    elementwise_cases,
    fused_cases,
    index_cases,
    integer_cases,
    loss_cases,
    normalization_cases,
    pooling_cases,
    recurrent_cases,
    scan_cases,
)
from .harness import Case

#: Ops of the executor itself; tests of the executors cover them.
WITHOUT_CASES = {"python", "nop", "fork"}


def generator(op: Op) -> Callable | None:
    """The function ``(op, rng, dtype) -> cases`` of an op, or None."""
    if op.name in elementwise_cases.BY_OP:
        plain = elementwise_cases.BY_OP[op.name]
        return lambda _, rng, dtype: plain(rng, dtype)
    for table in (
        array_cases.BY_OP,
        ctc_cases.BY_OP,
        fused_cases.BY_OP,
        index_cases.BY_OP,
        integer_cases.BY_OP,
        loss_cases.BY_OP,
        normalization_cases.BY_OP,
        pooling_cases.BY_OP,
        recurrent_cases.BY_OP,
        scan_cases.BY_OP,
    ):
        if op.name in table:
            return table[op.name]
    for table in (array_cases.BY_FAMILY, convolution_cases.BY_FAMILY):
        if op.family in table:
            return table[op.family]
    if op.name in elementwise_cases.ELEMENTWISE and (
        not op.floats or op.name in elementwise_cases.FLOATS
    ):
        return elementwise_cases.elementwise
    return None


def cases_of(name: str, dtype: str) -> list[Case]:
    """All cases of an op; the same on every run."""
    op = BY_NAME[name]
    rng = np.random.default_rng(zlib.crc32(f"{name} {dtype}".encode()))
    return list(generator(op)(op, rng, np.dtype(dtype)))
