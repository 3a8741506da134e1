"""Which results lie on the memory of an argument or of each other: as in define-by-run."""

from __future__ import annotations

import dataclasses

import sdbr
from sdbr.devices.arrays import is_writeable

import chainer
import numpy as np

from tests.harness.comparison import variables_of

from .harness import REPLAYS, SUBJECTS, TRAINING, as_inputs, configured
from .tables import ONE, SOME, dtype_of, each

#: A view only because the argument does not lie in C order; a replay copies.
COPIED = {"reshape of a transposed view"}


def array_of(x):
    return getattr(x, "array", x)


def on_one_memory(a, b) -> bool:
    return bool(a.size and b.size and np.shares_memory(a, b))


def shared(subject, case, dtype: str, step: int, order: str) -> tuple:
    """Results with arguments, results with each other, and which can be written."""
    xs = as_inputs(subject.load(case.data(step, dtype), step), "variables")
    for x in xs:
        if isinstance(x, chainer.Variable) and x.array.ndim > 1:
            x.array = np.asarray(x.array, order=order)
    np.random.seed(1)
    ys = list(map(array_of, variables_of(subject.target(*xs))))
    zs = list(map(array_of, xs))
    zs += [] if subject.model is None else [p.array for p in subject.model.params()]
    return (
        [[on_one_memory(y, z) for z in zs] for y in ys],
        [[on_one_memory(a, b) for b in ys] for a in ys],
        [is_writeable(y) for y in ys],
    )


def check(case, how: str, order: str = "C") -> None:
    dtype = dtype_of(case)
    calls = case.traces + REPLAYS - 1
    with configured(case, dtype, TRAINING), np.errstate(all="ignore"):
        found = []
        for options in (None, {"on_dynamic": "raise"}):
            subject = SUBJECTS[how](case, dtype, options)
            found.append([shared(subject, case, dtype, i, order) for i in range(calls)])
    assert found[1] == found[0]
    assert subject.statistics.replays == REPLAYS - 1


@each(SOME)
def test_with_arguments(case):
    check(case, "function")


@each(case for case in ONE if case.id not in COPIED)
def test_with_arguments_in_the_order_of_fortran(case):
    check(case, "function", "F")


@each(case for case in ONE if case.parameters)
def test_with_parameters(case):
    check(case, "chain")


def beside(call):
    """`call` on what the static call computes itself, which it hands out as well."""

    def function(*xs):
        hs = [x * 1 if isinstance(x, chainer.Variable) and x.dtype.kind == "f" else x for x in xs]
        ys = call(*hs)
        return [y for y in ys if y is not None] if isinstance(ys, tuple) else ys, hs

    return function


@each(ONE)
def test_with_each_other(case):
    check(dataclasses.replace(case, call=beside(case.call)), "function")


def gradients_shared(subject, case, dtype: str, step: int, order: str) -> tuple:
    """Pairs of gradients on one memory, by place; which can be written; those of parameters."""
    xs = as_inputs(subject.load(case.data(step, dtype), step), "variables")
    np.random.seed(1)
    ys = [y for y in variables_of(subject.target(*xs)) if isinstance(y, chainer.Variable)]
    ys = [y for y in ys if y.creator_node is not None and y.dtype.kind == "f"]
    rng = np.random.default_rng(step)
    given = [np.asarray(rng.standard_normal(y.shape).astype(y.dtype), order=order) for y in ys]
    for y, g in zip(ys, given, strict=True):
        y.grad = g
    if subject.model is not None:
        subject.model.cleargrads()
    if ys:
        chainer.backward(ys)
    parameters = [] if subject.model is None else list(subject.model.params())
    leaves = [x for x in xs if isinstance(x, chainer.Variable)] + parameters
    grads = [(i, x.grad) for i, x in enumerate(leaves) if x.grad is not None]
    everything = [*grads, *enumerate(given, len(leaves))]
    pairs = {(i, k) for i, a in grads for k, b in everything if k > i and on_one_memory(a, b)}
    first = len(leaves) - len(parameters)
    return pairs, {i for i, g in grads if is_writeable(g)}, set(range(first, len(leaves)))


def check_gradients(case, how: str, order: str = "C") -> None:
    """On one memory where define-by-run's are, or not at all; those of parameters never are."""
    dtype = dtype_of(case)
    with configured(case, dtype, TRAINING), np.errstate(all="ignore"):
        plain, static = (SUBJECTS[how](case, dtype, o) for o in (None, {"on_dynamic": "raise"}))
        for i in range(case.traces + REPLAYS - 1):
            want, writeable, _ = gradients_shared(plain, case, dtype, i, order)
            got, written, parameters = gradients_shared(static, case, dtype, i, order)
            assert got <= want
            assert written >= writeable
            if i >= case.traces:
                assert not any(set(pair) & parameters for pair in got)
    assert static.statistics.replays == REPLAYS - 1


@each(case for case in SOME if case.loss)
def test_gradients(case):
    check_gradients(case, "function")


@each(case for case in ONE if case.loss)
def test_gradients_from_those_in_the_order_of_fortran(case):
    check_gradients(case, "function", "F")


@each(case for case in ONE if case.loss and case.parameters)
def test_gradients_of_parameters(case):
    check_gradients(case, "chain")


def test_calls_do_not_share():
    """Each call has memory of its own, as long as somebody holds a part of it."""
    static = sdbr.static_graph(lambda x: (x * 2)[1:])
    kept = [static(chainer.Variable(np.full((3, 2), i, "f"))) for i in range(8)]
    for i, y in enumerate(kept):
        assert (y.array == 2 * i).all()
    statistics = static.schedule_manager.statistics
    assert statistics.replays == 7
    assert not statistics.python_ops


def test_memory_is_used_again():
    """What nobody holds any more serves the next call."""
    static = sdbr.static_graph(lambda x: (x * 2)[1:])
    x = chainer.Variable(np.ones((3, 2), "f"))
    with chainer.using_config("sdbr_audit", "off"):
        for _ in range(4):
            static(x)
        places = {static(x).array.ctypes.data for _ in range(6)}
    assert len(places) == 1


def test_whole_steps():
    """Attributes that are views of an argument, and of each other."""

    class Stores(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.w = chainer.Parameter(np.ones((4, 3), "f"))

        def forward(self, x):
            h = chainer.functions.tanh(chainer.functions.matmul(x, self.w))
            self.first, self.h, self.flat = x[0], h, chainer.functions.flatten(h)
            self.turned = self.w.T
            return chainer.functions.sum(h)

    model = sdbr.static_graph(Stores(), on_dynamic="raise")
    optimizer = sdbr.static_optimizer(chainer.optimizers.SGD()).setup(model)
    for i in range(6):
        x = np.full((2, 4), i, "f")
        optimizer.update(model, x)
        assert on_one_memory(model.first, x)
        assert on_one_memory(model.h.array, model.flat.array)
        assert (model.turned.array == model.w.array.T).all()
    assert model.schedule_manager.statistics.steps >= 3
