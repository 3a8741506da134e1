"""Chainer's functions on the look-alike: its code for GPUs gives what its code for CPUs gives."""

from __future__ import annotations

import pytest

from tests.equivalence.cases import CASES
from tests.tolerances import CONTRACT, HALF_GRADIENTS, HALF_RESULTS

from .apart import APART
from .harness import compare_cases

#: Chainer's kernels compute with floats whatever the dtype.
FLOATS_INSIDE = {"local_response_normalization", "roi_pooling_2d", "upsampling_2d"}
#: One of their inputs is of float16.
HALVES_INSIDE = {"convolution_2d mixed dtypes"}

BY_DTYPE = [(case, dtype) for case in CASES for dtype in case.dtypes if not APART.get(case.id)]


def tolerances(case, dtype):
    if dtype == "e" or case.id in HALVES_INSIDE:
        return HALF_RESULTS, HALF_GRADIENTS
    if case.name in FLOATS_INSIDE:
        return CONTRACT["f"]
    # Sums are in another order: nothing that computes is exact.
    return (case.tolerances or CONTRACT).get(dtype, CONTRACT[dtype])


@pytest.mark.parametrize(("case", "dtype"), BY_DTYPE, ids=[f"{c.id}-{d}" for c, d in BY_DTYPE])
def test_function(case, dtype):
    compare_cases(case, dtype, tolerances(case, dtype))


def test_every_exception_is_of_the_table():
    names = {case.id for case in CASES}
    assert set(APART) | HALVES_INSIDE <= names
    assert {case.name for case in CASES} >= FLOATS_INSIDE
