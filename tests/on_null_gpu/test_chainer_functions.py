"""Chainer's functions and links on CuPy itself: kernels compile, dtypes are the host's."""

from __future__ import annotations

import cupy
import pytest

from tests.harness.double_numbers import double_numbers
from tests.on_cupy.harness import run_case

from .harness import APART, CASES, OF_FUNCTIONS, OF_LINKS, looks, possible, second

#: Chainer has no gradient of this gradient.
ONCE = {"as_strided"}

by_case = pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])


@by_case
def test_dtypes(case):
    """Nothing becomes float64 on the way, and each kernel is made for float16 as well."""
    ran = 0
    for dtype in "fde":
        want = possible(case, dtype)
        if want is None:
            continue
        ran += 1
        got = run_case(case, dtype, on_cupy=True)
        assert set(got["classes"]) <= {cupy.ndarray}
        assert looks(case, got) == looks(case, want)
        if case.second and case.link is None and case.name not in ONCE:
            assert second(case, dtype, on_cupy=True) == second(case, dtype, on_cupy=False)
    assert ran


@by_case
def test_dtypes_with_scalars_of_double_precision(case):
    """A number of NumPy's as a hyperparameter is as good as Python's: CuPy 14 has NEP 50."""
    for dtype in case.dtypes:
        want = run_case(case, dtype, on_cupy=True)
        with double_numbers():
            got = run_case(case, dtype, on_cupy=True)
        assert looks(case, got) == looks(case, want)


def test_every_exception_is_of_the_tables():
    assert set(APART) <= {case.id for case in [*OF_FUNCTIONS, *OF_LINKS]}
