"""The harness notices what differs."""

from __future__ import annotations

import dataclasses

import chainer.functions as F
import numpy as np
import pytest

from tests.tolerances import RESULTS

from .arguments import N
from .harness import (
    TRAINING,
    Case,
    Subject,
    assert_near,
    assert_same,
    check,
    check_dynamic,
    check_second,
    run_once,
    scattered,
)

ONE = np.ones(3)


@pytest.mark.parametrize(
    "other",
    [
        ONE + 1e-3,
        ONE * np.nan,
        ONE * np.inf,
        ONE.astype("f"),
        np.ones(4),
        np.ones((3, 1)),
        None,
    ],
    ids=["numbers", "nan", "infinity", "dtype", "size", "shape", "none"],
)
def test_arrays_that_differ(other):
    assert_near(ONE + 1e-7, ONE, RESULTS, "equal")
    with pytest.raises(AssertionError):
        assert_near(other, ONE, RESULTS, "other")
    with pytest.raises(AssertionError):
        assert_near(ONE, other, RESULTS, "other")


def test_exact_means_exact():
    with pytest.raises(AssertionError):
        assert_near(ONE + 1e-7, ONE, 0.0, "exact")


ADD = Case("add", lambda x: x + 1, [N(2)])


def record(case: Case = ADD, step: int = 0) -> dict:
    return run_once(Subject(case, "f", None), case, "f", TRAINING, step, 1)[0]


@pytest.mark.parametrize(
    ("other", "part"),
    [
        (lambda: record(step=1), "random"),
        (lambda: record(dataclasses.replace(ADD, call=lambda x: x + 2)), "outputs"),
        (lambda: record(dataclasses.replace(ADD, call=lambda x: (x + 1).array)), "types"),
        (lambda: record(dataclasses.replace(ADD, call=lambda x: x * 2 - x.array + 1)), "gradients"),
        (
            lambda: record(dataclasses.replace(ADD, call=lambda x: x + np.random.rand(2) * 0 + 1)),
            "random",
        ),
    ],
    ids=["another step", "outputs", "types", "gradients", "draws"],
)
def test_records_that_differ(other, part):
    assert_same(record(), record(), (0.0, 0.0), "equal")
    with pytest.raises(AssertionError, match=part):
        assert_same(other(), record(), (1e-5, 1e-4), "other")


def test_a_python_op_where_native_is_claimed_is_noticed():
    with pytest.raises(AssertionError, match="python_ops"):
        check(Case("inv", F.inv, [N(2, 2)], native=True))


def test_a_call_that_is_static_is_not_dynamic():
    with pytest.raises(AssertionError):
        check_dynamic(Case("relu", F.relu, [N(2)], dynamic="no reason"))


def test_a_second_derivative_that_was_denied_is_noticed():
    with pytest.raises(AssertionError, match="Chainer has a second derivative here"):
        check_second(Case("sin", F.sin, [N(2)], second=False))


def test_scattered_arrays():
    array = np.arange(12.0).reshape(3, 4)
    other = scattered(array)
    np.testing.assert_array_equal(other, array)
    assert not other.flags.c_contiguous
    assert not other.flags.f_contiguous
