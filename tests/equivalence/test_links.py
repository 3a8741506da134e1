"""Every link of chainer.links: static equals define-by-run, call by call."""

from __future__ import annotations

import inspect

import chainer
import chainer.functions as F
import numpy as np
import pytest

from tests.equivalence.link_cases import BIG
from tests.harness.comparison import copy_of, state_of, variables_of
from tests.tolerances import SECOND

from .harness import SUBJECTS, TEST, TRAINING, Mode, as_inputs, assert_near, check, configured
from .link_cases import CASES
from .link_cases.make import own_call

PUBLIC = {
    name
    for name, thing in vars(chainer.links).items()
    if inspect.isclass(thing) and issubclass(thing, chainer.Link)
}
HOOKS = {"SpectralNormalization", "WeightStandardization"}


def each(cases):
    return pytest.mark.parametrize("case", cases, ids=[case.id for case in cases])


def test_every_public_name_has_a_row():
    assert len(PUBLIC) == 62
    assert {case.name for case in CASES} == (PUBLIC - BIG) | HOOKS


# Second derivatives are tried in float64, the first ones with them.
BY_DTYPE = [(case, d) for case in CASES for d in case.dtypes if d == "f" or not case.second]


@pytest.mark.parametrize(("case", "dtype"), BY_DTYPE, ids=[f"{c.id}-{d}" for c, d in BY_DTYPE])
def test_inside_a_chain(case, dtype):
    check(case, dtype, "link")


@each([case for case in CASES if case.call is own_call])
def test_wrapped_itself(case):
    check(case, "f", "instance", Mode(inputs="first"))


@each(CASES)
def test_test_mode(case):
    check(case, "f", "link", TEST)


@each([case for case in CASES if case.second])
def test_second_derivatives(case):
    """A penalty on the gradients of inputs and parameters."""
    found = {}
    options = {"on_dynamic": "raise", "enable_double_backprop": True}
    dtype = case.dtypes[-1]
    with configured(case, dtype, TRAINING):
        for static in (False, True):
            subject = SUBJECTS["link"](case, dtype, options if static else None)
            found[static] = [
                penalized(subject, case, dtype, step) for step in range(case.traces + 3)
            ]
    for i, (got, want) in enumerate(zip(found[True], found[False], strict=True)):
        assert list(got) == list(want)
        for part in want:
            assert_near(got[part], want[part], SECOND[dtype], f"call {i}: {part}")
    statistics = subject.statistics
    assert (statistics.traces, statistics.replays) == (case.traces, 3)
    assert statistics.define_by_run_calls == 0


def penalized(subject, case, dtype, step) -> dict:
    """Gradients of a loss that has gradients in it; everything the call leaves behind."""
    xs = as_inputs(case.data(step, dtype), "variables")
    rng = np.random.default_rng([13, step])
    model = subject.model
    model.cleargrads()
    np.random.seed(step + 1)
    ys = [y for y in variables_of(subject.target(*xs)) if isinstance(y, chainer.Variable)]
    ys = [y for y in ys if y.requires_grad and y.dtype.kind == "f"]
    params = [p for _, p in sorted(model.namedparams()) if p.array is not None]
    floats = [x for x in xs if isinstance(x, chainer.Variable)]
    if case.name != "WeightStandardization":
        floats += params  # many a second derivative of Chainer's wants every first one
    seeds = [chainer.Variable(np.asarray(rng.standard_normal(y.shape), y.dtype)) for y in ys]
    first = chainer.grad(ys, floats, seeds, enable_double_backprop=True)
    loss = sum(F.sum(g**2) for g in first if g is not None) + sum(F.sum(y) for y in ys)
    loss.backward()
    found = {f"first {i}": copy_of(getattr(g, "array", g)) for i, g in enumerate(first)}
    found.update({f"second {i}": copy_of(x.grad) for i, x in enumerate(floats)})
    found.update({n: copy_of(p.grad) for n, p in sorted(model.namedparams())})
    return {**found, **state_of(model)}


@each([case for case in CASES if case.name not in ("EmbedID", "Parameter")])
def test_training_without_backprop(case):
    check(case, "f", "link", Mode(backprop=False, inputs="arrays"))
