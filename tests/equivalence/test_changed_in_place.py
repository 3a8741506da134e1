"""Arrays written or replaced between a call and its backward: seen where Chainer's nodes see it."""

from __future__ import annotations

from unittest import mock

import sdbr
from sdbr.devices.arrays import is_writeable

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.comparison import copy_of, variables_of
from tests.tolerances import DOUBLE_LONG

from .harness import REPLAYS, SUBJECTS, TRAINING, as_inputs, assert_near, configured, seeded
from .link_cases import CASES as LINK_CASES
from .tables import ONE, STATIC, dtype_of, each

WHAT = ("inputs", "outputs", "replaced")


def gradients(subject, case, dtype: str, step: int, what: str) -> dict:
    """The gradients of call `step`, whose inputs and parameters or outputs change before them.

    `what` is "inputs" or "outputs", written in place, or "replaced": the outputs get other arrays.
    """
    xs = as_inputs(subject.load(case.data(step, dtype), step), "variables")
    if subject.model is not None:
        subject.model.cleargrads()
    np.random.seed(step + 1)
    ys = variables_of(subject.target(*xs))
    ends = seeded(ys, np.random.default_rng([11, step]))
    if not ends:
        return {}
    changed = {}
    if what == "replaced":
        for y in ys:
            if hasattr(y, "array") and y.dtype.kind == "f":
                y.array = np.asarray(y.array + y.dtype.type(0.5))
    elif what == "outputs":
        for y in ys:
            changed[id(getattr(y, "array", y))] = getattr(y, "array", y)
        for array in changed.values():
            if array.dtype.kind == "f" and is_writeable(array):
                array += array.dtype.type(0.5)
    else:
        others = subject.load_others(case.data(step + 100, dtype))
        for x, other in zip(xs, others, strict=True):
            array = getattr(x, "array", x)
            if array.shape == other.shape:
                array[...] = other
        for p in [] if subject.model is None else subject.model.params():
            if p.array is not None:
                changed[p.name] = p.array.copy()
                p.array += p.dtype.type(0.25) * np.cos(np.arange(p.size)).reshape(p.shape).astype(
                    p.dtype
                )
    chainer.backward(ends)
    found = {f"input {i}": copy_of(x.grad) for i, x in enumerate(xs) if hasattr(x, "grad")}
    if subject.model is not None:
        found.update({n: copy_of(p.grad) for n, p in sorted(subject.model.namedparams())})
    return found


def check_changed(case, how: str, what: str) -> None:
    dtype = dtype_of(case)
    calls = case.traces + REPLAYS - 1
    with configured(case, dtype, TRAINING), np.errstate(all="ignore"):
        found = []
        for options in (None, {"on_dynamic": "raise"}):
            subject = SUBJECTS[how](case, dtype, options)
            subject.load_others = lambda arrays, s=subject: [
                a for i, a in enumerate(arrays) if i not in s.parameters
            ]
            found.append([gradients(subject, case, dtype, i, what) for i in range(calls)])
    want, got = found
    tolerance = max(case.tolerance(dtype)[1], DOUBLE_LONG if dtype == "d" else 0)
    for i in range(calls):
        assert list(got[i]) == list(want[i])
        for name, array in want[i].items():
            assert_near(got[i][name], array, tolerance, f"call {i}: {name}")
    statistics = subject.statistics
    assert (statistics.traces, statistics.replays) == (case.traces, REPLAYS - 1), statistics
    case.assert_native(dtype, statistics)


# NumPy warns of a write to what broadcast_arrays has made, in one of two ways.
@pytest.mark.filterwarnings("default:future versions will not create:FutureWarning")
@pytest.mark.filterwarnings("default:Numpy has detected that you:DeprecationWarning")
# Which arrays a row reads again hangs on its arguments: here, variants are not alike.
@pytest.mark.parametrize("what", WHAT)
@each(case for case in STATIC if case.loss)
def test_functions(case, what):
    check_changed(case, "function", what)


@each(case for case in ONE if case.loss and case.parameters)
def test_parameters(case):
    check_changed(case, "chain", "inputs")


@each(LINK_CASES)
def test_links(case):
    check_changed(case, "link", "inputs")


def programs(make, *args) -> list[str]:
    """Forward, backward and step of a classifier, as text."""
    np.random.seed(0)
    model = sdbr.static_graph(make(), on_dynamic="raise")
    optimizer = sdbr.static_optimizer(chainer.optimizers.SGD()).setup(model)
    for _ in range(3):
        model.cleargrads()
        model(*args).backward()
    for _ in range(3):
        optimizer.update(model, *args)
    found = model.schedule_manager.static_schedule.programs
    every = [found["forward"], *found["backward"], found["step"]]
    return [program.disassemble() for program in every]


class OfActivations(chainer.Chain):
    """Losses and normalization of what the call computes."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l1 = L.Linear(4, 5)
            self.norm = L.LayerNormalization(5)
            self.l2 = L.Linear(5, 5)

    def forward(self, x, t):
        h = self.l2(F.elu(self.norm(self.l1(x))))
        return F.softmax_cross_entropy(h, t) + F.mean_absolute_error(h, F.relu6(h * 2))


class OfArguments(chainer.Chain):
    """The same of an argument and a parameter."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.w = chainer.Parameter(np.ones((3, 5), "f"))

    def forward(self, x, t):
        return F.softmax_cross_entropy(self.w, t) + F.mean_absolute_error(self.w, x)


T = np.array([0, 1, 2], "i")


def test_nothing_is_added_where_user_code_cannot_write():
    x = np.ones((3, 4), "f")
    ours = programs(OfActivations, x, T)
    with mock.patch("sdbr.lowering.gap.keeps", lambda: False):
        assert programs(OfActivations, x, T) == ours


def test_whole_steps_have_no_time_in_between():
    x = np.ones((3, 5), "f")
    ours = programs(OfArguments, x, T)
    with mock.patch("sdbr.lowering.gap.keeps", lambda: False):
        theirs = programs(OfArguments, x, T)
    assert ours[-1] == theirs[-1]
    assert ours[0] != theirs[0]  # three copies more


class Turned(chainer.FunctionNode):
    """A view of what it is given."""

    def forward(self, inputs):
        return (inputs[0].T,)

    def backward(self, indexes, gys):
        return (F.transpose(gys[0]),)


@pytest.mark.parametrize(
    "function", [lambda x: Turned().apply((x,))[0], F.softplus, lambda x: F.tile(x, (2, 1))]
)
def test_python_ops_never_write_to_an_argument(function):
    static = sdbr.static_graph(lambda x: function(x))
    for i in range(4):
        x = chainer.Variable(np.full((3, 4), i, np.float16))
        y = static(x)
        x.array[...] = 7
        y.grad = np.ones_like(y.array)
        y.backward()
        assert (x.array == 7).all()
    assert static.schedule_manager.statistics.python_ops
