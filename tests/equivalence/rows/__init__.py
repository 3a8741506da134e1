"""The table for chainer.functions: one module per family, named like those of Chainer."""

from __future__ import annotations

import importlib

FAMILIES = (
    "activation",
    "array",
    "composite",
    "connection",
    "evaluation",
    "joining",
    "loss",
    "math",
    "matmul",
    "noise",
    "normalization",
    "operators",
    "pooling",
    "rnn",
)

ROWS = [
    row for family in FAMILIES for row in importlib.import_module(f"equivalence.rows.{family}").ROWS
]
