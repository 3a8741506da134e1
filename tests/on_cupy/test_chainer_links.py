"""Chainer's links on the look-alike: results, gradients and what they keep."""

from __future__ import annotations

import pytest

from tests.equivalence.link_cases import CASES
from tests.tolerances import CONTRACT, HALF_GRADIENTS, HALF_RESULTS

from .harness import compare_cases

#: Cases that cannot run on CuPy, or where Chainer's code for GPUs gives something else.
APART: dict[str, str] = {}

BY_DTYPE = [(case, dtype) for case in CASES for dtype in case.dtypes if case.id not in APART]


@pytest.mark.parametrize(("case", "dtype"), BY_DTYPE, ids=[f"{c.id}-{d}" for c, d in BY_DTYPE])
def test_link(case, dtype):
    if dtype == "e":
        tolerances = HALF_RESULTS, HALF_GRADIENTS
    else:
        tolerances = (case.tolerances or CONTRACT).get(dtype, CONTRACT[dtype])
    compare_cases(case, dtype, tolerances)


def test_every_exception_is_of_the_table():
    assert set(APART) <= {case.id for case in CASES}
