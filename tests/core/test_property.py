"""Random networks, calls and mode switches: static equals define-by-run."""

from __future__ import annotations

import warnings

import sdbr

import chainer
import numpy as np
from chainer import functions as F
from chainer import links as L
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .harness import copy_of

WIDTH = 4
UNARY = [
    F.relu, F.tanh, F.sigmoid, F.softplus, F.elu, F.softmax, F.log_softmax, F.square, abs,
    lambda h: h * 2, lambda h: 1 - h, lambda h: h[:, ::-1], lambda h: F.transpose(F.transpose(h)),
    lambda h: F.concat(F.split_axis(h, 2, axis=1)[::-1], axis=1), lambda h: h + h,
    lambda h: F.broadcast_to(F.mean(h, axis=1, keepdims=True), h.shape),
    lambda h: F.dropout(h, 0.3),
    lambda h: h * h.array, lambda h: F.gaussian(h, h * 0.01), lambda h: F.leaky_relu(h, 0.3),
    lambda h: F.layer_normalization(h, np.ones(WIDTH, "f"), np.zeros(WIDTH, "f")),
    lambda h: F.clip(h, -0.5, 0.5), lambda h: F.reshape(F.reshape(h, (-1,)), h.shape),
]  # fmt: skip
BINARY = [
    lambda a, b: a + b, lambda a, b: a * b, lambda a, b: a - 0.5 * b, F.maximum,
    lambda a, b: F.stack([a, b])[1], lambda a, b: F.where(a.array > 0, a, b),
    lambda a, b: F.matmul(a, F.matmul(b, a, transa=True)),
]  # fmt: skip

operations = st.lists(
    st.one_of(
        st.tuples(st.just("unary"), st.integers(0, len(UNARY) - 1), st.integers(0, 99)),
        st.tuples(st.just("binary"), st.integers(0, len(BINARY) - 1), st.integers(0, 99)),
        st.tuples(st.just("linear"), st.integers(0, 2), st.integers(0, 99)),
        st.tuples(st.just("kept"), st.just(0), st.integers(0, 99)),
    ),
    min_size=1,
    max_size=9,
)
calls = st.lists(
    st.tuples(
        st.integers(2, 4),  # batch size
        st.booleans(),  # train
        st.booleans(),  # backprop
        st.booleans(),  # Variable or array
        st.integers(1, 2),  # calls before one backward
        st.booleans(),  # cleargrads or accumulate
    ),
    min_size=3,
    max_size=8,
)


class RandomNet(chainer.Chain):
    """A network built from a list of operations on the results so far."""

    def __init__(self, program):
        super().__init__()
        self.program = program
        self.previous = None
        rng = np.random.RandomState(0)
        with self.init_scope():
            for i in range(3):
                W = rng.randn(WIDTH, WIDTH).astype("f") * 0.5
                setattr(self, f"l{i}", L.Linear(WIDTH, WIDTH, initialW=W))

    def forward(self, x):
        results = [self.l0(x)]
        for kind, which, seed in self.program:
            a = results[-1]
            b = results[seed % len(results)]
            if kind == "unary":
                results.append(UNARY[which](a))
            elif kind == "binary":
                results.append(BINARY[which](a, b))
            elif kind == "linear":
                results.append(self[f"l{which}"](a))
            else:
                self.previous = a
                chainer.report({"mean": F.mean(b)}, self)
        return results[-1], F.sum(results[len(results) // 2], axis=1)


def run(model, plan):
    """What a sequence of calls leaves, as a flat list of arrays."""
    found = []
    rng = np.random.RandomState(1)
    reporter = chainer.Reporter()
    reporter.add_observer("main", model)
    for k, (n, train, backprop, as_variable, n_calls, clear) in enumerate(plan):
        np.random.seed(k)
        if clear:
            model.cleargrads()
        losses = []
        with (
            chainer.using_config("train", train),
            chainer.using_config("enable_backprop", backprop),
            reporter.scope({}),
        ):
            for _ in range(n_calls):
                x = rng.randn(n, WIDTH).astype("f")
                x = chainer.Variable(x) if as_variable else x
                y, s = model(x)
                losses.append(F.mean(F.tanh(y)) + F.mean(F.tanh(s)))
                found += [copy_of(y.array), copy_of(s.array)]
                if model.previous is not None:
                    found.append(copy_of(model.previous.array))
            found += [copy_of(v.array) for v in reporter.observation.values()]
            if backprop:
                sum(losses).backward()
                found += [copy_of(p.grad) for p in model.params()]
                if as_variable:
                    found.append(copy_of(x.grad))
    return found


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(operations, calls, st.sampled_from(["cython", "numpy"]))
def test_random_networks(program, plan, backend):
    plan = plan * 2  # every kind of call comes at least twice
    plain = RandomNet(program)
    static = sdbr.static_graph(RandomNet(program), backend=backend, on_dynamic="raise")
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        want, got = run(plain, plan), run(static, plan)
    assert len(got) == len(want)
    for i, (g, w) in enumerate(zip(got, want, strict=True)):
        assert (g is None) == (w is None)
        if w is not None and np.isfinite(w).all():
            # What is zero but for rounding (the mean of a normalized row) has no digits to compare.
            scale = max(np.abs(w).max(initial=0), 1e-2)
            assert g.shape == w.shape and g.dtype == w.dtype
            assert np.abs(g - w).max(initial=0) <= 2e-4 * scale, f"array {i}"
    statistics = static.schedule_manager.statistics
    assert statistics.replays + statistics.traces == statistics.calls
    assert statistics.replays >= statistics.calls // 2 - 1
