"""NaN, infinities and signed zeros spread through outputs and gradients as in define-by-run."""

from __future__ import annotations

import numpy as np
import pytest

from tests.tolerances import SUMS

from .cases import CASES, SOME
from .lowering import Lowered, as_inputs, define_by_run, outputs_of

SPECIAL = {"nan": [np.nan], "infinity": [np.inf, -np.inf], "zero": [0.0, -0.0]}

# NumPy itself may sum the elements of one factor before it multiplies them with the other.
ORDER_IS_OPEN = {"einsum sums first"}
SPREADING = [
    pytest.param(*case, backend, id=f"{case[0]}-{backend}")
    for backend, cases in (("cython", CASES), ("numpy", SOME))
    for case in cases
    if case[0] not in ORDER_IS_OPEN
]


def sprinkled(rng, x, kind):
    """`x` with special values in about a third of the places."""
    if x is None or x.dtype.kind != "f" or not x.size:
        return x
    values = np.array(SPECIAL[kind], x.dtype)
    where = rng.random(x.shape) < 0.3
    return np.where(where, values[rng.integers(values.size, size=x.shape)], x).astype(x.dtype)


def assert_alike(got, want, what):
    """The same NaN, the same infinities, and finite numbers that are close."""
    assert np.array_equal(np.isnan(got), np.isnan(want)), f"{what}: NaN elsewhere"
    infinite = np.isinf(want) | np.isinf(got)
    assert np.array_equal(got[infinite], want[infinite]), f"{what}: other infinities"
    finite = np.isfinite(want)
    scale = np.max(abs(want), where=finite, initial=0)
    assert (abs(got[finite] - want[finite]) <= SUMS * scale).all(), f"{what}: other numbers"


@pytest.mark.parametrize(("name", "f", "specs", "backend"), SPREADING)
def test_special_values(name, f, specs, backend):
    rng = np.random.default_rng(7)
    arrays = [make(rng, "f") for make in specs]
    with np.errstate(all="ignore"):
        ys = outputs_of(f(*as_inputs(arrays)))
    gys = [rng.standard_normal(y.shape).astype(y.dtype) if y.requires_grad else None for y in ys]
    floats = [i for i, a in enumerate(arrays) if a.dtype.kind == "f"]
    wanted = floats if any(g is not None for g in gys) else []
    lowered = Lowered(f, arrays, [g is not None for g in gys], wanted)
    for kind in SPECIAL:
        for place in ("inputs", "gradients"):
            xs, gs = arrays, gys
            if place == "inputs":
                xs = [sprinkled(rng, a, kind) for a in arrays]
            else:
                gs = [sprinkled(rng, g, kind) for g in gys]
            np.random.seed(1)
            want = define_by_run(f, xs, gs, wanted)
            np.random.seed(1)
            got = lowered.run(backend, xs, gs)
            for part, got_arrays, want_arrays in zip(
                ("output", "gradient"), got, want, strict=True
            ):
                for i, (g, w) in enumerate(zip(got_arrays, want_arrays, strict=True)):
                    if w is not None:
                        assert_alike(np.asarray(g), w, f"{kind} in {place}: {part} {i}")
