"""Every function of chainer.functions: static equals define-by-run, call by call."""

from __future__ import annotations

import pytest

from .harness import TEST, TRAINING, Mode, check, check_dynamic, check_second
from .rows import ROWS

STATIC = [row for row in ROWS if row.dynamic is None]
DYNAMIC = [row for row in ROWS if row.dynamic is not None]


def each(rows):
    return pytest.mark.parametrize("row", rows, ids=[row.id for row in rows])


BY_DTYPE = [(row, dtype) for row in STATIC for dtype in row.dtypes]


@pytest.mark.parametrize(("row", "dtype"), BY_DTYPE, ids=[f"{r.id}-{d}" for r, d in BY_DTYPE])
def test_plain_function(row, dtype):
    check(row, dtype, "function")


@each([row for row in STATIC if row.native])
def test_numpy_backend(row):
    check(row, "f", "function", backend="numpy")


@each([row for row in STATIC if row.parameters])
def test_method_of_a_chain_with_parameters(row):
    check(row, "f", "chain", Mode(inputs="first"))


@each(STATIC)
def test_test_mode(row):
    check(row, "f", "function", TEST)


@each(STATIC)
def test_arrays(row):
    check(row, "f", "function", Mode(inputs="arrays"))


@each(STATIC)
def test_second_derivatives(row):
    check_second(row, row.dtypes[-1])


@each(DYNAMIC)
@pytest.mark.parametrize("mode", [TRAINING, TEST], ids=["training", "test"])
def test_dynamic_by_nature(row, mode):
    check_dynamic(row, "f", "function", mode)
