"""Several elementwise ops as one: the formulas of its steps, one after another."""

from __future__ import annotations

from sdbr.backends.formulas.single import FORMULAS
from sdbr.ops.fused import decode

import numpy as np


def fused(ins, outs, attributes) -> None:
    """Run the steps on whole arrays; what a step writes is rounded to the dtype of the op."""
    # Of one axis, for NumPy 1 computes with scalars in float64; inputs stay as they are given.
    registers = {i: np.reshape(x, -1) for i, x in enumerate(ins)}
    size, dtype = outs[0].size, outs[0].dtype
    for step in decode(attributes["steps"], attributes["numbers"]):
        named = dict(zip(step.op.floats, step.numbers, strict=True))
        y = np.empty(size, dtype)
        with np.errstate(all="ignore"):
            y[...] = FORMULAS[step.op.name](*(registers[r] for r in step.ins), **named)
        registers[step.out] = y
    for i, out in enumerate(outs):
        out[...] = registers[len(ins) + i].reshape(out.shape)
