"""The same on NumPy's arrays and on CuPy's: what runs both, and brings results to the host."""

from __future__ import annotations

import contextlib

import chainer
import cupy
import numpy as np

from tests.equivalence.harness import (
    TRAINING,
    Case,
    as_inputs,
    assert_near,
    configured,
    random_state,
)

DEVICE = "@cupy:0"


def host(array):
    """An array as NumPy's; None as it is."""
    return None if array is None else cupy.asnumpy(array)


def all_of(result) -> list:
    """The Variables and arrays in a result, in order."""
    if isinstance(result, (chainer.Variable, np.ndarray, cupy.ndarray)):
        return [result]
    if isinstance(result, dict):
        result = list(result.values())
    if isinstance(result, (list, tuple)):
        return [y for part in result for y in all_of(part)]
    return []


def moved(arrays, on_cupy: bool) -> list:
    return [cupy.asarray(a) if on_cupy else a for a in arrays]


@contextlib.contextmanager
def seeded(number: int = 1):
    """All generators; a list that it yields says at the end whether NumPy's was drawn from."""
    np.random.seed(number)
    cupy.random.seed(number)
    before, drawn = random_state(), []
    yield drawn
    drawn.append(random_state() != before)


def run_case(case: Case, dtype: str, on_cupy: bool) -> dict:
    """One call of a case of the table of functions, and a backward, define-by-run."""
    xs = as_inputs(moved(case.data(0, dtype), on_cupy), "variables")
    with configured(case, dtype, TRAINING):
        link = _link(case, on_cupy)
        with seeded() as drawn:
            ys = all_of(case.call(*xs) if link is None else case.call(link, *xs))
        _backward(ys, on_cupy)
    state = [] if link is None else [host(x) for x in arrays_of(link)]
    return {
        "drawn": drawn[0],
        "outputs": [host(getattr(y, "array", y)) for y in ys],
        "classes": [type(getattr(y, "array", y)) for y in ys],
        "gradients": [host(x.grad) for x in xs if isinstance(x, chainer.Variable)] + state,
    }


def _link(case: Case, on_cupy: bool):
    if case.link is None:
        return None
    np.random.seed(3)
    link = case.link()
    if on_cupy:
        link.to_device(DEVICE)
    link.cleargrads()
    return link


def arrays_of(model) -> list:
    """Parameters with their gradients and what else links keep, in order."""
    found = []
    for _, link in sorted(model.namedlinks()):
        for _, value in sorted(link.__dict__.items()):
            if isinstance(value, chainer.Parameter):
                found += [value.array, value.grad]
            else:
                found += [getattr(x, "array", x) for x in all_of(value)]
    return found


def compare_cases(case: Case, dtype: str, tolerances) -> None:
    """What the two give; where random numbers are drawn, only of which form it is."""
    want = run_case(case, dtype, on_cupy=False)
    got = run_case(case, dtype, on_cupy=True)
    assert set(got["classes"]) <= {cupy.ndarray}
    for part, tolerance in zip(("outputs", "gradients"), tolerances, strict=True):
        for ours, theirs in zip(got[part], want[part], strict=True):
            _compare(ours, theirs, tolerance, part, want["drawn"])


def _compare(ours, theirs, tolerance, what, drawn) -> None:
    assert (ours is None) == (theirs is None), what
    if theirs is None:
        return
    if theirs.dtype.kind in "iu":
        # Indices are of other widths.
        ours = ours.astype(theirs.dtype)
    if drawn:
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype), what
    else:
        assert_near(np.asarray(ours), np.asarray(theirs), tolerance, what)


def _backward(ys, on_cupy: bool) -> None:
    ends = [
        y
        for y in ys
        if isinstance(y, chainer.Variable) and y.creator_node is not None and y.dtype.kind == "f"
    ]
    rng = np.random.default_rng(11)
    for y in ends:
        (y.grad,) = moved([np.asarray(rng.standard_normal(y.shape), y.dtype)], on_cupy)
    if ends:
        chainer.backward(ends)
