"""From an op of the table to its parity cases."""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Callable

from sdbr.ops.table import BY_NAME, Op

import numpy as np

from .harness import Case


def generator(op: Op) -> Callable | None:
    """The function ``(op, rng, dtype) -> cases`` that the cases of the family give for an op."""
    return importlib.import_module(f"{__package__}.{op.family}_cases").BY_OP.get(op.name)


def cases_of(name: str, dtype: str) -> list[Case]:
    """All cases of an op; the same on every run."""
    op = BY_NAME[name]
    rng = np.random.default_rng(zlib.crc32(f"{name} {dtype}".encode()))
    return list(generator(op)(op, rng, np.dtype(dtype)))
