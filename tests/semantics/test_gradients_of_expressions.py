"""Row 6: random expressions, differentiated once or twice, inside and outside of calls."""

from __future__ import annotations

import sdbr

import chainer
import hypothesis.strategies as st
import numpy as np
from chainer import functions as F
from hypothesis import HealthCheck, given, settings

from tests.harness.comparison import copy_of
from tests.tolerances import DOUBLE_TRAINING


def halves(h):
    a, b = F.split_axis(h, 2, 1)
    return F.concat([F.tanh(b), a])


def cut(h):
    k = F.sin(h)
    k.unchain()
    return h * k


def gated(h):
    with chainer.no_backprop_mode():
        gate = F.sigmoid(h)
    return h * gate


def masked(h):
    return h * (h.array > 0).astype(h.dtype) + h


OPS = {
    "tanh": F.tanh, "sigmoid": F.sigmoid, "softplus": F.softplus, "sin": F.sin, "relu": F.relu,
    "leaky": lambda h: F.leaky_relu(h, 0.3), "elu": F.elu, "exp": lambda h: F.exp(0.3 * F.tanh(h)),
    "log": lambda h: F.log(h * h + 1), "sqrt": lambda h: F.sqrt(F.absolute(h) + 1),
    "cube": lambda h: F.tanh(h) ** 3, "ratio": lambda h: h / (1 + h * h),
    "inverse": lambda h: 1 / (2 + F.cos(h)), "less": lambda h: 1.5 - h, "clip": lambda h: F.clip(
        h, -1.0, 1.0), "softmax": lambda h: F.softmax(h) * h, "log_softmax": F.log_softmax,
    "turn": lambda h: F.transpose(F.reshape(F.transpose(h), (4, -1)), (1, 0)),
    "halves": halves, "columns": lambda h: F.concat([h[:, 1:], h[:, :1]]), "cut": cut,
    "gated": gated, "masked": masked, "dropout": lambda h: F.dropout(h, 0.3),
    "norm": lambda h: h / F.broadcast_to(F.sqrt(F.sum(h * h, axis=1, keepdims=True) + 1), h.shape),
    "mean": lambda h: h - F.broadcast_to(F.mean(h, axis=0), h.shape),
    "max": lambda h: h + F.broadcast_to(F.max(h, axis=1, keepdims=True), h.shape),
    "logsumexp": lambda h: h * F.expand_dims(F.logsumexp(h, axis=1), 1),
    "normalize": lambda h: F.normalize(h * h + 1), "twice": lambda h: h * h + h,
}  # fmt: skip

# Without repetition: examples with many different ops are worth more.
PROGRAM = st.lists(st.sampled_from(["linear", "skip", *OPS]), min_size=3, max_size=7, unique=True)


class Expression(chainer.Chain):
    """A chain of ops on rows of four numbers."""

    def __init__(self, program):
        super().__init__()
        self.program = tuple(program)
        rng = np.random.RandomState(0)
        with self.init_scope():
            self.w = chainer.Parameter(rng.randn(4, 4))
            self.v = chainer.Parameter(rng.randn(1, 4))

    def body(self, x):
        h, first = F.linear(x, self.w), x
        for name in self.program:
            if name == "linear":
                h = F.linear(h, self.w)
            elif name == "skip":
                h, first = h + first * F.broadcast_to(self.v, h.shape), h
            else:
                h = OPS[name](h)
        return h

    def forward(self, x):
        return self.body(x)


class Penalised(Expression):
    """The same; the call itself takes the gradients."""

    double = True

    def forward(self, x):
        y = self.body(x)
        return (y, *chainer.grad([y], [x, self.v], seed_of(y), enable_double_backprop=self.double))


class Graded(Penalised):
    double = False


def seed_of(y):
    return [chainer.Variable(np.cos(np.arange(y.size)).reshape(y.shape))]


def run(model, sizes, outside) -> list[dict]:
    """One record per batch: outputs, gradients, parameters' gradients."""
    records = []
    np.random.seed(5)
    for i, n in enumerate(sizes):
        x = chainer.Variable(np.random.RandomState(i).randn(n, 4))
        model.cleargrads()
        if outside:
            y = model(x)
            more = {"enable_double_backprop": outside == 2}
            outs = [y, *chainer.grad([y], [x, model.v], seed_of(y), **more)]
        else:
            outs = list(model(x))
        ends = [y for y in outs if y is not None]
        loss = sum(F.sum(y * y * (k + 1)) for k, y in enumerate(ends) if y.requires_grad)
        loss.backward()
        record = {str(k): None if y is None else copy_of(y.array) for k, y in enumerate(outs)}
        record["x"] = copy_of(x.grad)
        record.update((name, copy_of(p.grad)) for name, p in sorted(model.namedparams()))
        records.append(record)
    return records


def assert_close(got, want, what: str) -> None:
    """Equal up to rounding of numbers around one: some of these gradients are exactly zero."""
    assert (got is None) == (want is None), what
    if want is not None:
        assert (got.shape, got.dtype) == (want.shape, want.dtype), what
        assert np.abs(got - want).max() <= DOUBLE_TRAINING * max(np.abs(want).max(), 1.0), what


KINDS = {"inside twice": (Penalised, 0), "inside": (Graded, 0), "outside": (Expression, 1),
         "outside twice": (Expression, 2)}  # fmt: skip


@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    program=PROGRAM,
    kind=st.sampled_from(sorted(KINDS)),
    sizes=st.lists(st.sampled_from([2, 3, 5]), min_size=3, max_size=6),
    backend=st.sampled_from(["cython", "numpy"]),
)
def test_random_expressions(program, kind, sizes, backend):
    cls, outside = KINDS[kind]
    static = sdbr.static_graph(
        cls(program), backend=backend, on_dynamic="raise", enable_double_backprop=outside == 2
    )
    got, want = run(static, sizes, outside), run(cls(program), sizes, outside)
    for i, (g, w) in enumerate(zip(got, want, strict=True)):
        assert list(g) == list(w)
        for name in w:
            assert_close(g[name], w[name], f"batch {i} of {sizes}: {name}")
    statistics = static.schedule_manager.statistics
    assert statistics.define_by_run_calls == 0
    assert statistics.replays == len(sizes) - statistics.traces
