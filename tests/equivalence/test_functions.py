"""Every function of chainer.functions: static equals define-by-run, call by call."""

from __future__ import annotations

import dataclasses

import sdbr

import pytest

from tests.harness import device

from .cases import CASES
from .harness import TEST, TRAINING, Mode, check, check_batches, check_dynamic, check_second
from .tables import ONE, SOME, STATIC, dtype_of, each
from .variations import check_among_others, check_step, check_two_live_calls

DYNAMIC = [case for case in CASES if case.dynamic is not None]
BY_DTYPE = [(case, dtype) for case in STATIC for dtype in case.dtypes]


@pytest.mark.parametrize(("case", "dtype"), BY_DTYPE, ids=[f"{c.id}-{d}" for c, d in BY_DTYPE])
def test_plain_function(case, dtype):
    check(case, dtype, "function")


@each(case for case in SOME if case.native)
def test_numpy_backend(case):
    check(case, "f", "function", backend="numpy")


@each(case for case in SOME if case.native)
def test_device(case):
    with device.simulated() as made:
        check(case, "f", "function", backend=device.NAME)
    assert made and all(x.recorded for x in made if any(x.launches))


@each(case for case in SOME if case.parameters)
def test_method_of_a_chain_with_parameters(case):
    check(case, "f", "chain", Mode(inputs="first"))


@each(SOME)
def test_test_mode(case):
    check(case, "f", "function", TEST)


@each(ONE)
def test_arrays(case):
    check(case, "f", "function", Mode(inputs="arrays"))


# Name of the case -> the inputs whose first axis is the batch.
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
    (case,) = [case for case in STATIC if case.id == name]
    check_batches(dataclasses.replace(case, batch=BATCHES[name]))


# Their running averages are updated in place.
UPDATED = {"batch_normalization running", "batch_renormalization"}


@each(case for case in ONE if case.dtypes != "e" and case.id not in UPDATED)
def test_layouts(case):
    check(case, dtype_of(case), "function", Mode(inputs="layouts"))


@each(case for case in STATIC if case.id in UPDATED)
def test_running_averages_that_are_not_contiguous(case):
    reason = "an array that a function may update in place is not contiguous"
    case = dataclasses.replace(case, dynamic=reason)
    check_dynamic(case, "d", "function", Mode(inputs="scattered"))
    with pytest.raises(sdbr.NotStaticError, match=reason):  # contiguous while it is traced
        check(case, "d", "function", Mode(inputs="layouts"))


@each(SOME)
def test_among_other_functions(case):
    check_among_others(case, dtype_of(case))


@each(case for case in SOME if case.parameters and case.loss)
def test_whole_steps(case):
    check_step(case, dtype_of(case))


@each(case for case in ONE if case.partial)
def test_two_calls_before_their_backward(case):
    check_two_live_calls(case, dtype_of(case))


# The second derivative of x / x is rounding error and nothing else.
@each(case for case in SOME if case.id != "operator x / x")
def test_second_derivatives(case):
    check_second(case, dtype_of(case))


@each(DYNAMIC)
@pytest.mark.parametrize("mode", [TRAINING, TEST], ids=["training", "test"])
def test_dynamic_by_nature(case, mode):
    check_dynamic(case, "f", "function", mode)
