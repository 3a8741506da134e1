"""Row 13: lists, tuples and dicts of arguments, through the compiled path and in whole steps."""

from __future__ import annotations

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.comparison import check
from tests.harness.models import Net
from tests.tolerances import RESULTS, ROUNDINGS

BACKENDS = ["cython", "numpy"]


def several(self, xs, more, scales=(1, 2.0)):
    """Hidden layers of a list of arrays, with what a dict says."""
    hs = [self.l(x) for x in xs]
    y = sum(hs) * scales[0] + more["inner"]["c"] * scales[1]
    return {"sum": y, "parts": [hs[0], (hs[1], None)]}


def make():
    return Net(several, l=L.Linear(4, 3))


def data(rng):
    def variable(*shape):
        return chainer.Variable(rng.randn(*shape).astype("f"))

    xs = [variable(2, 4), rng.randn(2, 4).astype("f")]
    return [(xs, {"none": None, "inner": {"c": variable(2, 3)}}), {"scales": (1, 2.0)}]


@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("backend", BACKENDS)
def test_replays_are_those_of_the_compiled_path(backend, train):
    model = check(make, data, backend=backend, train=train, python_ops=False)
    runners = model.schedule_manager.runners
    assert len(runners) == 1
    args, kwargs = data(np.random.RandomState(0))
    with chainer.using_config("train", train), chainer.using_config("enable_backprop", train):
        assert runners.run(tuple(args), kwargs) is not NotImplemented


def other_calls():
    (xs, more), kwargs = data(np.random.RandomState(0))
    third = chainer.Variable(np.ones((2, 4), "f"))
    return {
        "one more in a list": (([*xs, third], more), kwargs),
        "a tuple for a list": ((tuple(xs), more), kwargs),
        "another order of keys": ((xs, dict(reversed(more.items()))), kwargs),
        "a number for None": ((xs, {**more, "none": 1}), kwargs),
        "the same array twice": (([xs[0], xs[0]], more), kwargs),
        "a Variable for an array": (([xs[0], third], more), kwargs),
        "a list for an array": (([xs[0], third], {**more, "none": []}), kwargs),
        "another number": ((xs, more), {"scales": (2, 2.0)}),
        "positional": ((xs, more, (1, 2.0)), {}),
    }


@pytest.mark.parametrize("what", other_calls())
def test_another_structure_is_traced_anew(what):
    model = sdbr.static_graph(make())
    args, kwargs = data(np.random.RandomState(1))
    for _ in range(3):
        model(*args, **kwargs)
    args, kwargs = other_calls()[what]
    plain = several(model, *args, **kwargs)
    for traces in (2, 2, 2):
        got = model(*args, **kwargs)
        np.testing.assert_allclose(
            got["sum"].array, plain["sum"].array, rtol=RESULTS, atol=ROUNDINGS
        )
        assert model.schedule_manager.statistics.traces == traces


def sequence_loss(self, xs, ts):
    loss = sum(F.softmax_cross_entropy(self.l(x), t) for x, t in zip(xs, ts, strict=True))
    chainer.report({"loss": loss}, self)
    return loss


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_step_on_ragged_lists_is_one_native_call(backend):
    def run(static):
        np.random.seed(0)
        model = Net(sequence_loss, l=L.Linear(4, 3))
        optimizer = chainer.optimizers.Adam()
        if static:
            sdbr.static_graph(model, backend=backend, on_dynamic="raise")
            optimizer = sdbr.static_optimizer(optimizer)
        optimizer.setup(model)
        rng = np.random.RandomState(0)
        for i in range(8):
            lengths = [3, 2, 1] if i % 2 else [4, 4]
            xs = [rng.randn(n, 4).astype("f") for n in lengths]
            optimizer.update(model, xs, [rng.randint(0, 3, n).astype("i") for n in lengths])
        return model

    plain, static = run(False), run(True)
    for p, q in zip(plain.params(), static.params(), strict=True):
        np.testing.assert_allclose(q.array, p.array, rtol=RESULTS, atol=ROUNDINGS)
    statistics = static.schedule_manager.statistics
    assert (statistics.traces, statistics.steps, statistics.python_ops) == (2, 6, 0)


SEQUENCES = np.random.RandomState(0).randn(6, 4, 3)


class Changing(chainer.Chain):
    """Changes the list and the dict that it gets."""

    def forward(self, xs, more=None, ws=None):
        if more is not None:
            xs.append(more.pop("x"))
            more.setdefault("n", 3)
        if ws is not None:
            ws[0] = F.tanh(ws[0])
        xs.append(xs[0] * 2)
        xs.reverse()
        return F.sum(xs[0] * xs[-1])


@pytest.mark.parametrize("alias", [False, True])
@pytest.mark.parametrize("variables", [False, True])
def test_arguments_that_the_call_changes(variables, alias):
    def run(model):
        for x in SEQUENCES:
            first = chainer.Variable(x) if variables else x
            xs, more = [first], {"x": x, "z": x}
            y = model(xs, more, xs if alias else None)
            yield y.array, [xs[0].array if alias or variables else xs[0]], len(xs), list(more)
            yield (xs[-1] is first) != alias, [type(x) for x in xs]

    with pytest.warns(sdbr.SdbrWarning, match="list or dict among the arguments was changed"):
        found = list(run(sdbr.static_graph(Changing())))
    for ours, theirs in zip(found, run(Changing()), strict=True):
        assert repr(ours) == repr(theirs)


def test_a_list_that_the_call_only_reads_stays_static():
    net = sdbr.static_graph(lambda xs: sum(list(reversed(xs))))
    for x in SEQUENCES:
        net([x, x * 2])
    assert net.schedule_manager.statistics.replays == len(SEQUENCES) - 1
