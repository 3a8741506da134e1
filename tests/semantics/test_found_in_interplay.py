"""What was found by using features together; each test is a case that was wrong once."""

from __future__ import annotations

import warnings

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.models import Net

X = np.random.RandomState(0).randn(6, 4, 3)


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
        for x in X:
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
    for x in X:
        net([x, x * 2])
    assert net.schedule_manager.statistics.replays == len(X) - 1


class Counting(chainer.LinkHook):
    """Counts the links that it sees."""

    name = "Counting"

    def __init__(self):
        self.seen = 0

    def forward_postprocess(self, args):
        self.seen += 1


def test_a_link_hook_on_the_static_chain_itself_between_whole_steps():
    model = sdbr.static_graph(Net(lambda self, x: F.sum(self.l(x) ** 2), l=L.Linear(3, 2)))
    optimizer = sdbr.static_optimizer(chainer.optimizers.SGD()).setup(model)
    x = X[0].astype("f")
    for _ in range(4):
        optimizer.update(model, x)
    hook = Counting()
    model.add_hook(hook)
    for _ in range(3):
        optimizer.update(model, x)
    assert hook.seen == 3
    model.delete_hook("Counting")
    steps = model.schedule_manager.statistics.steps
    optimizer.update(model, x)
    assert hook.seen == 3
    assert model.schedule_manager.statistics.steps == steps + 1


@pytest.mark.parametrize("updated", [False, True])
def test_an_update_between_a_call_and_its_second_derivative_is_said_aloud(updated):
    model = sdbr.static_graph(
        Net(lambda self, x: F.sum(F.tanh(self.l(x))), l=L.Linear(3, 2)), enable_double_backprop=True
    )
    optimizer = chainer.optimizers.SGD().setup(model)
    said = []
    for array in X[:4].astype("f"):
        x = chainer.Variable(array)
        y = model(x)
        (g,) = chainer.grad([y], [x], enable_double_backprop=True)
        model.cleargrads()
        if updated:
            y.backward()
            optimizer.update()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            F.sum(g**2).backward()
        said += [w for w in caught if "between the call and its second" in str(w.message)]
        optimizer.update()
    assert len(said) == updated


@pytest.mark.parametrize("place", ["attributes", "list", "both"])
def test_one_variable_in_two_places_of_the_state_and_later_two(place):
    def total(self, x):
        a = self.hs[0] if place != "attributes" else self.a
        b = self.hs[1] if place == "list" else self.b
        return F.sum(self.l(x) + a * 2 + b * 3)

    models = [Net(total, l=L.Linear(3, 3)) for _ in range(2)]
    models[1].copyparams(models[0])
    sdbr.static_graph(models[1])
    v, w = (chainer.Variable(x.astype("f")) for x in X[:2])
    for a, b in ((v, v), (w, w), (v, w), (v, v), (w, v), (w, w)):
        found = []
        for model in models:
            model.a, model.b, model.hs = a, b, [a, b]
            v.cleargrad(), w.cleargrad()
            y = model(X[2].astype("f"))
            y.backward()
            found.append([y.array, a.grad.copy(), b.grad.copy()])
        for ours, theirs in zip(*found, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    assert models[1].schedule_manager.statistics.traces <= 2


def test_a_variable_that_is_state_and_argument_at_once():
    def total(self, x):
        return F.sum(self.l(x) + self.a * 2)

    models = [Net(total, l=L.Linear(3, 3)) for _ in range(2)]
    models[1].copyparams(models[0])
    sdbr.static_graph(models[1])
    v, w = (chainer.Variable(x.astype("f")) for x in X[:2])
    with pytest.warns(sdbr.SdbrWarning, match="'a' holds a Variable that is an argument as well"):
        for a, x in ((v, v), (v, v), (v, w), (w, v)):
            models[0].a = models[1].a = a
            ours, theirs = (model(x).array for model in models)
            np.testing.assert_allclose(ours, theirs, rtol=1e-5)
