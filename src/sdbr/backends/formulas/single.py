"""Formulas of every op but the one that is made of several."""

from __future__ import annotations

from collections.abc import Callable

from sdbr.backends.formulas import (
    array,
    basic,
    convolution,
    ctc,
    integer,
    losses,
    normalization,
    pooling,
    random,
    recurrent,
    special,
)

FAMILIES = (
    basic,
    array,
    convolution,
    recurrent,
    normalization,
    losses,
    random,
    ctc,
    special,
    integer,
    pooling,
)

#: Op name -> formula.
FORMULAS: dict[str, Callable] = {}
DIRECT: dict[str, Callable] = {}
for _family in FAMILIES:
    FORMULAS.update(_family.FORMULAS)
    DIRECT.update(getattr(_family, "DIRECT", {}))
