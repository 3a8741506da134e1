"""Function rows; the first line of a module says which Chainer functions it holds.

Most are named like the sub-package of chainer.functions; those of math, array and loss are spread
over several.
"""

from __future__ import annotations

import importlib

#: Modules that register function rows.
FAMILIES = (
    "activation",
    "array",
    "basic_math",
    "connection",
    "convolution",
    "covariance_losses",
    "ctc",
    "distributions",
    "einsum",
    "evaluation",
    "gradients",
    "half_recurrent",
    "half_steps",
    "indexing",
    "joining",
    "loss",
    "margin_losses",
    "math",
    "matmul",
    "negative_sampling",
    "noise",
    "normalization",
    "pooling",
    "rearranging",
    "recurrent",
    "running",
    "sequences",
    "special",
)


def load_all() -> None:
    """Import every family, so that :func:`sdbr.functions.registry.lookup` knows all of them."""
    for family in FAMILIES:
        importlib.import_module(f"sdbr.functions.{family}")
