"""Native functions whose gradients are not all there, or not all wanted, against define-by-run."""

from __future__ import annotations

import numpy as np
import pytest

from tests.tolerances import CONTRACT

from .cases import CASES, SOME
from .lowering import Lowered, as_inputs, assert_close, define_by_run, outputs_of


def _data(specs, seed):
    rng = np.random.default_rng(seed)
    return [make(rng, "f") for make in specs]


def _shapes(f, arrays):
    with np.errstate(all="ignore"):
        return [(y.shape, y.dtype, y.requires_grad) for y in outputs_of(f(*as_inputs(arrays)))]


def _gradients(shapes, seed):
    # Not the numbers of the inputs: where they are equal, gradients of normalizations vanish.
    rng = np.random.default_rng([seed, 1])
    return [
        rng.standard_normal(shape).astype(dtype) if requires else None
        for shape, dtype, requires in shapes
    ]


def check(f, specs, *, wanted=None, drop_gy=None):
    """Trace with one set of values, run with the same and with another, compare with Chainer."""
    arrays = _data(specs, 1)
    shapes = _shapes(f, arrays)
    gys = _gradients(shapes, 2)
    if drop_gy is not None:
        gys[drop_gy] = None
    floats = [i for i, a in enumerate(arrays) if a.dtype.kind == "f"]
    if wanted is None:
        wanted = floats
    if all(g is None for g in gys):
        wanted = []
    lowered = Lowered(f, arrays, [g is not None for g in gys], wanted)
    for seed in (1, 3):
        arrays = _data(specs, seed)
        gys = [None if g is None else h for g, h in zip(gys, _gradients(shapes, seed), strict=True)]
        np.random.seed(seed)
        want_ys, want_gxs = define_by_run(f, arrays, gys, wanted)
        np.random.seed(seed)
        got_ys, got_gxs = lowered.run("numpy", arrays, gys)
        tolerance, grad_tolerance = CONTRACT["f"]
        for i, (got, want) in enumerate(zip(got_ys, want_ys, strict=True)):
            assert_close(got, want, tolerance, f"output {i}")
        for i, got, want in zip(wanted, got_gxs, want_gxs, strict=True):
            assert (got is None) == (want is None), f"gradient {i}"
            if got is not None:
                assert_close(got, want, grad_tolerance, f"gradient {i}")
    return lowered


def _floats(specs):
    return [i for i, a in enumerate(_data(specs, 0)) if a.dtype.kind == "f"]


SEVERAL = [c for c in SOME if len(_floats(c[2])) > 1]


@pytest.mark.parametrize(("name", "f", "specs"), SEVERAL, ids=[c[0] for c in SEVERAL])
def test_one_gradient_at_a_time(name, f, specs):
    """Each input alone wants a gradient; the others' gradients are not computed."""
    every = check(f, specs)
    for i in _floats(specs):
        one = check(f, specs, wanted=[i])
        assert len(one.backward) <= len(every.backward)


@pytest.mark.parametrize("missing", [0, 1])
@pytest.mark.parametrize(
    "name",
    ["split_axis", "split_axis indices", "separate", "identity of two", "broadcast"],
)
def test_output_without_gradient(name, missing):
    """An output that nobody used counts as a zero gradient (or as none)."""
    _, f, specs = next(c for c in CASES if c[0] == name)
    check(f, specs, drop_gy=missing)
