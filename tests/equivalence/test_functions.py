"""Every function of chainer.functions: static equals define-by-run, call by call."""

from __future__ import annotations

import dataclasses

import sdbr

import pytest

from .harness import TEST, TRAINING, Mode, check, check_batches, check_dynamic, check_second
from .rows import ROWS
from .variations import check_among_others, check_step, check_two_live_calls

STATIC = [row for row in ROWS if row.dynamic is None]


def some_of(rows, most: int = 3) -> list:
    """At most so many rows of each name, from the first to the last of them."""
    by_name: dict = {}
    for row in rows:
        by_name.setdefault(row.name, []).append(row)
    return [
        of_name[i]
        for of_name in by_name.values()
        for i in sorted({round(k * (len(of_name) - 1) / (most - 1)) for k in range(most)})
    ]


# For other ways to call: what options do is seen in the plain call of every row.
SOME = some_of(STATIC)
DYNAMIC = [row for row in ROWS if row.dynamic is not None]


def each(rows):
    return pytest.mark.parametrize("row", rows, ids=[row.id for row in rows])


def dtype_of(row) -> str:
    """The dtype in which cancellation hides least."""
    return "d" if "d" in row.dtypes else row.dtypes[0]


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


@each(SOME)
def test_arrays(row):
    check(row, "f", "function", Mode(inputs="arrays"))


# Name of the row -> the inputs whose first axis is the batch.
BATCHES = {
    "average_pooling_2d": (0,),
    "batch_normalization": (0,),
    "bilinear": (0, 1),
    "concat axis -1": (0, 1),
    "convolution_2d": (0,),
    "deconvolution_2d": (0,),
    "dropout ratio": (0,),
    "embed_id": (0,),
    "gaussian": (0, 1),
    "gumbel_softmax": (0,),
    "layer_normalization": (0,),
    "linear": (0,),
    "lstm": (0, 1),
    "matmul (3, 4) (4, 5) 00": (0,),
    "max_pooling_2d": (0,),
    "mean (2, 3, 4) axis None keepdims False": (0,),
    "mean_squared_error": (0, 1),
    "pad_sequence": (0, 1),
    "reshape -1": (0,),
    "select_item": (0, 1),
    "sigmoid_cross_entropy": (0, 1),
    "softmax_cross_entropy": (0, 1),
    "sum (2, 3, 4) axis 0 keepdims False": (0,),
    "where": (0, 1, 2),
    "zoneout": (0, 1),
}


@pytest.mark.parametrize("name", BATCHES)
def test_two_batch_sizes(name):
    (row,) = [row for row in STATIC if row.id == name]
    check_batches(dataclasses.replace(row, batch=BATCHES[name]))


# Their running averages are updated in place.
UPDATED = {"batch_normalization running", "batch_renormalization"}


@each([row for row in SOME if row.dtypes != "e" and row.id not in UPDATED])
def test_layouts(row):
    check(row, dtype_of(row), "function", Mode(inputs="layouts"))


@each([row for row in STATIC if row.id in UPDATED])
def test_running_averages_that_are_not_contiguous(row):
    reason = "an array that a function may update in place is not contiguous"
    row = dataclasses.replace(row, dynamic=reason)
    check_dynamic(row, "d", "function", Mode(inputs="scattered"))
    with pytest.raises(sdbr.NotStaticError, match=reason):  # contiguous while it is traced
        check(row, "d", "function", Mode(inputs="layouts"))


@each(SOME)
def test_among_other_functions(row):
    check_among_others(row, dtype_of(row))


@each([row for row in SOME if row.parameters and row.loss])
def test_whole_steps(row):
    check_step(row, dtype_of(row))


@each([row for row in SOME if row.partial])
def test_two_calls_before_their_backward(row):
    check_two_live_calls(row, dtype_of(row))


# The second derivative of x / x is rounding error and nothing else.
@each([row for row in STATIC if row.id != "operator x / x"])
def test_second_derivatives(row):
    check_second(row, dtype_of(row))


@each(DYNAMIC)
@pytest.mark.parametrize("mode", [TRAINING, TEST], ids=["training", "test"])
def test_dynamic_by_nature(row, mode):
    check_dynamic(row, "f", "function", mode)
