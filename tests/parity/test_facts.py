"""What the op table says of ops besides what they compute."""

from __future__ import annotations

from sdbr.ops.table import BY_NAME, OPS

import numpy as np
import pytest

from tests.tolerances import PARITY

from .generators import cases_of

CUT = [op.name for op in OPS if op.cut]
#: Cut along -> the axis of an operand of so many axes; None: every part sees all of it.
AXES = {
    "elements": lambda ndim: 0,
    "outer": lambda ndim: 0,
    "matrices": lambda ndim: 0,
    "samples": lambda ndim: 0 if ndim > 1 else None,
    "channels": lambda ndim: 1 if ndim > 1 else 0,
}


def test_effects():
    kept = [op for op in OPS if op.draws or op.python or op.updates]
    assert [op.name for op in kept if not op.effect] == []
    assert [op.name for op in OPS if op.again and (op.effect or op.reads_indices)] == []
    assert [op.name for op in OPS if op.moves and (op.effect or not op.step)] == []


def test_steps_are_walked_together():
    for op in OPS:
        if op.step:
            assert len(op.outputs) == 1 and not op.ints
            assert {axes for axes in op.axes if axes} <= {("s", "...")}


def test_activations_are_numbered_alike():
    forward = {op.activation: op.name for op in OPS if op.activation}
    backward = {op.activation_grad: op.name for op in OPS if op.activation_grad}
    assert {n: f"{name}_grad" for n, name in forward.items()} == backward


def _axes(op, case) -> list[int | None]:
    """Along which axis each operand is cut."""
    if op.cut != "rows":
        return [AXES[op.cut](x.view.ndim) for x in case.operands]
    transposed = "trans_a" in op.ints and case.ints[0]
    inputs = [k in op.by_row or None for k in range(len(case.ins))]
    return [None if cut is None else int(bool(transposed)) for cut in inputs] + [0]


def _part(x: np.ndarray, axis: int | None, part: slice) -> np.ndarray:
    return x if axis is None else x[(slice(None),) * axis + (part,)]


def _computed(op, case, ins, outs):
    attributes = op.attributes(case.ints, case.floats)
    op.compute([x.copy() for x in ins], outs, attributes)
    return outs


@pytest.mark.parametrize("name", CUT)
def test_parts_can_be_computed_apart(name):
    op = BY_NAME[name]
    found = 0
    for case in cases_of(name, "f8"):
        arrays = [x.view for x in case.operands]
        if op.cut == "elements":
            arrays = [x.reshape(-1) for x in arrays]
        axes = _axes(op, case)
        cut = {x.shape[axis] for x, axis in zip(arrays, axes, strict=True) if axis is not None}
        n, n_in = max(cut), len(case.ins)
        finite = all(np.isfinite(x).all() for x in arrays[:n_in] if x.dtype.kind == "f")
        if cut != {n} or n < 2 or not finite or not all(x.size for x in arrays):
            continue
        found += 1
        ins, outs = arrays[:n_in], arrays[n_in:]
        want = _computed(op, case, ins, [x.copy() for x in outs])
        got = [x.copy() for x in outs]
        for part in (slice(0, n // 2), slice(n // 2, n)):
            _computed(
                op,
                case,
                [_part(x, axis, part) for x, axis in zip(ins, axes, strict=False)],
                [_part(x, axis, part) for x, axis in zip(got, axes[n_in:], strict=True)],
            )
        for w, g in zip(want, got, strict=True):
            np.testing.assert_allclose(g, w, PARITY["f8"], PARITY["f8"])
        if found == 12:
            break
    assert found
