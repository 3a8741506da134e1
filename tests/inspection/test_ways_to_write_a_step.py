"""explain names the way a step is written, and lines that make it whole."""

from __future__ import annotations

import gc
import sys
import weakref

import sdbr
from sdbr.compat import splitting
from sdbr.schedule import sightings

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np
import pytest
from chainer import optimizers

from tests.harness.comparison import assert_near
from tests.tolerances import RESULTS

from .networks import Net, batch

STEPS = 6


def classifier(rule=optimizers.Adam):
    model = sdbr.static_graph(L.Classifier(Net()))
    optimizer = sdbr.static_optimizer(rule())
    return model, optimizer.setup(model)


def seen(obj) -> dict | None:
    """What is said of the one static thing that trains."""
    report = sdbr.explain(obj)
    text = str(report)
    assert max(map(len, text.splitlines())) <= 120
    found = [m for m in report.to_dict()["managers"] if m["step"] is not None]
    if not found:
        assert "instead" not in text and "no whole step" not in text
        return None
    step = found[0]["step"]
    assert step["line"].partition(":")[0] == __file__
    assert ("no whole step" in text) == (not step["instead"])
    assert all(line in text for line in step["instead"])
    return step


def by_hand(model, optimizer, zeroes=False, **options):
    x, t = batch()
    for _ in range(STEPS):
        loss = model(x, t)
        if zeroes:
            model.zerograds()
        else:
            model.cleargrads()
        loss.backward(**options)
        optimizer.update()


# --- ways, and lines that make them whole ---------------------------------------------------------
WAYS: dict = {}


def way(text: str):
    def note(loop):
        WAYS[loop.__name__] = text, loop
        return loop

    return note


@way("update with a lambda")
def a_lambda(x, t):
    model, optimizer = classifier()
    for _ in range(STEPS):
        optimizer.update(lambda: model(x, t))
    return model, locals()


@way("update with a function that is not static")
def a_function(x, t):
    model, optimizer = classifier()

    def compute_loss(x, t):
        return model(x, t)

    for _ in range(STEPS):
        optimizer.update(compute_loss, x, t)
    return model, locals()


@way("by hand (cleargrads, backward, update)")
def four_lines(x, t):
    model, optimizer = classifier()
    by_hand(model, optimizer)
    return model, locals()


@way("by hand (zerograds, backward, update)")
def zeroed(x, t):
    model, optimizer = classifier()
    by_hand(model, optimizer, zeroes=True)
    return model, locals()


@way("by hand (cleargrads, backward, unchain_backward, update)")
def cleared_first_and_cut(x, t):
    model, optimizer = classifier()
    for _ in range(STEPS):
        model.cleargrads()
        loss = model(x, t)
        loss.backward()
        loss.unchain_backward()
        optimizer.update()
    del loss
    return model, locals()


@way("by hand (cleargrads, backward, update)")
def known_as_attributes(x, t):
    class Trainer:
        def __init__(self):
            self.net, self.adam = classifier()

        def train(self):
            for _ in range(STEPS):
                loss = self.net(x, t)
                self.net.cleargrads()
                loss.backward()
                self.adam.update()

    self = Trainer()
    self.train()
    return self.net, locals()


@way("by hand (cleargrads, backward, update)")
def known_as_a_target(x, t):
    _, optimizer = classifier()
    for _ in range(STEPS):
        loss = optimizer.target(x, t)
        optimizer.target.cleargrads()
        loss.backward()
        optimizer.update()
    return optimizer.target, locals()


@way("by hand (cleargrads, backward, update)")
def a_static_function(x, t):
    net = Net()
    optimizer = sdbr.static_optimizer(optimizers.Adam()).setup(net)

    @sdbr.static_graph
    def compute(x, t):
        return F.softmax_cross_entropy(net(x), t)

    for _ in range(STEPS):
        loss = compute(x, t)
        net.cleargrads()
        loss.backward()
        optimizer.update()
    return compute, locals()


@way("update with a link that is not static, the loss outside of the static call")
def a_link_around(x, t):
    net = sdbr.static_graph(Net())
    model = L.Classifier(net)
    optimizer = sdbr.static_optimizer(optimizers.Adam()).setup(model)
    for _ in range(STEPS):
        optimizer.update(model, x, t)
    return model, locals()


@way("update with a function that is not static, the loss outside of the static call")
def loss_outside_in_a_function(x, t):
    net = sdbr.static_graph(Net())
    optimizer = sdbr.static_optimizer(optimizers.Adam()).setup(net)

    def compute_loss(x, t):
        return F.softmax_cross_entropy(net(x), t)

    for _ in range(STEPS):
        optimizer.update(compute_loss, x, t)
    return net, locals()


@way("by hand (cleargrads, backward, update), the loss outside of the static call")
def loss_outside(x, t):
    net = sdbr.static_graph(Net())
    optimizer = sdbr.static_optimizer(optimizers.Adam()).setup(net)
    for _ in range(STEPS):
        loss = F.softmax_cross_entropy(net(x), t)
        net.cleargrads()
        loss.backward()
        optimizer.update()
    return net, {"loss_of": lambda x, t: F.softmax_cross_entropy(net(x), t), **locals()}


@way("one backward, 2 optimizers")
def two_optimizers(x, t):
    model = sdbr.static_graph(L.Classifier(Net()))
    first = sdbr.static_optimizer(optimizers.Adam()).setup(model.predictor.l1)
    second = sdbr.static_optimizer(optimizers.Adam()).setup(model.predictor.l2)
    for _ in range(STEPS):
        loss = model(x, t)
        model.cleargrads()
        loss.backward()
        first.update()
        second.update()
    return model, locals()


@way("one backward, 2 optimizers, a loss of 2 static calls")
def two_nets(x, t):
    actor, critic = sdbr.static_graph(Net()), sdbr.static_graph(Net())
    first = sdbr.static_optimizer(optimizers.Adam()).setup(actor)
    second = sdbr.static_optimizer(optimizers.Adam()).setup(critic)

    def loss_of(x, t):
        return F.softmax_cross_entropy(actor(x), t) + F.mean(critic(x) ** 2)

    for _ in range(STEPS):
        loss = loss_of(x, t)
        actor.cleargrads()
        critic.cleargrads()
        loss.backward()
        first.update()
        second.update()
    return actor, locals()


@way("by hand (cleargrads, backward, update)")
def a_plain_optimizer(x, t):
    model = sdbr.static_graph(L.Classifier(Net()))
    optimizer = optimizers.Adam().setup(model)
    by_hand(model, optimizer)
    return model, locals()


@way("update of a plain optimizer")
def a_plain_optimizer_with_the_model(x, t):
    model = sdbr.static_graph(L.Classifier(Net()))
    optimizer = optimizers.Adam().setup(model)
    for _ in range(STEPS):
        optimizer.update(model, x, t)
    return model, locals()


@pytest.mark.parametrize("name", WAYS)
def test_ways_and_what_to_write_instead(name):
    text, loop = WAYS[name]
    x, t = batch()
    model, names = loop(x, t)
    step = seen(model)
    assert step["way"] == text
    assert step["why"] is None and step["saves"] is None
    assert step["times"] >= STEPS - 2
    # The lines are as good as they say.
    names.update(sdbr=sdbr, chainer=chainer, x=x, t=t)
    lines = step["instead"]
    if any(line.startswith("def") for line in lines):
        names["loss_of"] = sdbr.static_graph(names["loss_of"])
        lines = [line for line in lines if line[0] not in "@d"]
    *setup, update = lines
    if ".update(" not in update:
        setup, update = lines, "optimizer.update(model, x, t)"
        update = update if "model" in names else "optimizer.update(compute_loss, x, t)"
    exec("\n".join(setup), names)
    for _ in range(4):
        exec(update.replace("...", "x, t"), names)
    called = names.get("loss_of") or names.get("compute_loss") if "_of" in update else model
    if "compute_loss = " in "".join(setup):
        called = names["compute_loss"]
    (manager,) = sdbr.explain(called).to_dict()["managers"][:1]
    assert manager["statistics"]["steps"] >= 2
    assert seen(called) is None and seen(model) is None
    assert "whole step: native" in str(sdbr.explain(called))


@pytest.mark.parametrize("name", WAYS)
def test_the_same_is_said_when_the_optimizers_are_gone(name):
    """As after a function that trains: when the collector comes makes no difference."""
    model, names = WAYS[name][1](*batch())
    step = seen(model)
    kept = [weakref.ref(x) for x in names.values() if isinstance(x, chainer.Optimizer)]
    names.clear()
    gc.collect()
    assert seen(model) == step
    assert not any(optimizer() for optimizer in kept)


# --- steps that cannot be whole -------------------------------------------------------------------
def test_accumulation():
    model, optimizer = classifier()
    x, t = batch()
    for _ in range(STEPS):
        model.cleargrads()
        for _ in range(3):
            model(x, t).backward()
        optimizer.update()
    step = seen(model)
    assert step["way"] == "3 backwards to an update"
    assert step["instead"] == [] and "one backward" in step["why"]


def test_two_losses_of_one_call():
    net = sdbr.static_graph(Net())
    optimizer = sdbr.static_optimizer(optimizers.Adam()).setup(net)
    x, t = batch()
    for _ in range(STEPS):
        y = net(x)
        net.cleargrads()
        F.softmax_cross_entropy(y, t).backward()
        F.mean(y**2).backward()
        optimizer.update()
    step = seen(net)
    assert step["way"] == "2 backwards to an update" and step["instead"] == []


def test_optimizers_that_differ():
    model = sdbr.static_graph(L.Classifier(Net()))
    first = sdbr.static_optimizer(optimizers.Adam()).setup(model.predictor.l1)
    second = sdbr.static_optimizer(optimizers.SGD()).setup(model.predictor.l2)
    x, t = batch()
    for _ in range(STEPS):
        loss = model(x, t)
        model.cleargrads()
        loss.backward()
        first.update()
        second.update()
    step = seen(model)
    assert step["instead"] == [] and step["why"] == "a whole step has one optimizer"
    del first, second
    gc.collect()
    assert seen(model) == step


def test_gradients_that_are_changed_in_between():
    model, optimizer = classifier()
    x, t = batch()
    for _ in range(STEPS):
        loss = model(x, t)
        model.cleargrads()
        loss.backward()
        for p in model.params():
            p.grad *= 0.5
        optimizer.update()
    step = seen(model)
    assert step["instead"] == [] and "hook of the optimizer" in step["why"]


def test_gradients_in_between():
    model, optimizer = classifier()
    by_hand(model, optimizer, retain_grad=True)
    assert seen(model)["why"] == "gradients in between are retained"


def test_gradients_that_are_set():
    model, optimizer = classifier()
    x, t = batch()
    for _ in range(STEPS):
        loss = model(x, t)
        model.cleargrads()
        loss.grad = np.full_like(loss.array, 0.5)
        loss.backward()
        optimizer.update()
    step = seen(model)
    assert step["instead"] == [] and "is set before" in step["why"]


def test_losses_of_what_a_call_before_has_given():
    net = sdbr.static_graph(Net())
    optimizer = sdbr.static_optimizer(optimizers.Adam()).setup(net)
    x, t = batch()
    for _ in range(STEPS):
        optimizer.update(lambda y: F.softmax_cross_entropy(y, t), net(x))
    step = seen(net)
    assert step["instead"] == [] and "calls before it" in step["why"]


def test_a_call_that_makes_no_whole_step():
    model = sdbr.static_graph(L.Classifier(Net()), validate_every=1)
    optimizer = sdbr.static_optimizer(optimizers.Adam()).setup(model)
    for _ in range(3):
        optimizer.update(model, *batch())
    by_hand(model, optimizer)
    step = seen(model)
    assert step["instead"] == [] and "validate_every" in step["why"]


class Zeroes(L.Classifier):
    """It clears gradients in its own way, if by zeros."""

    def zerograds(self):
        super().zerograds()


@pytest.mark.parametrize("by_zeros", [True, False])
def test_a_target_that_clears_itself(by_zeros):
    """Said by what the optimizer did, which is gone by then."""
    model = sdbr.static_graph(Zeroes(Net()))
    optimizer = sdbr.static_optimizer(optimizers.Adam()).setup(model)
    optimizer.use_cleargrads(not by_zeros)
    by_hand(model, optimizer, zeroes=by_zeros)
    gone = weakref.ref(optimizer)
    del optimizer
    gc.collect()
    step = seen(model)
    assert gone() is None
    assert step["why"] == ("the target has its own zerograds" if by_zeros else None)
    assert (step["instead"] == []) == by_zeros


def test_graphs_that_are_kept():
    model, optimizer = classifier()
    x, t = batch()
    losses = []
    for _ in range(STEPS):
        losses.append(model(x, t))
        model.cleargrads()
        losses[-1].backward()
        optimizer.update()
    assert "float(loss.array)" in seen(model)["why"]


class Reader(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.lstm, self.out = L.LSTM(3, 5), L.Linear(5, 2)

    def forward(self, x, t):
        return F.softmax_cross_entropy(self.out(self.lstm(x)), t)


@pytest.mark.parametrize(("calls", "cut"), [(3, True), (1, False)])
def test_truncated_backpropagation(calls, cut):
    model = sdbr.static_graph(Reader())
    optimizer = sdbr.static_optimizer(optimizers.Adam()).setup(model)
    x, t = batch()
    for _ in range(STEPS):
        loss = sum(model(x, t) for _ in range(calls))
        model.cleargrads()
        loss.backward()
        if cut:
            loss.unchain_backward()
        else:
            model.lstm.h.unchain()
            model.lstm.c.unchain()
        optimizer.update()
    step = seen(model)
    assert step["instead"] == [] and "state" in step["why"]


class Cutter(Reader):
    def forward(self, x, t):
        if self.lstm.c is not None:
            self.lstm.c = chainer.Variable(self.lstm.c.array)
            self.lstm.h = chainer.Variable(self.lstm.h.array)
        return super().forward(x, t)


def test_a_history_that_can_be_cut_inside_the_call():
    """What is advised is whole, and trains to the same."""
    x, t = batch()
    losses = []
    for kind in (Reader, Cutter):
        np.random.seed(0)
        model = sdbr.static_graph(kind())
        optimizer = sdbr.static_optimizer(optimizers.Adam()).setup(model)
        for _ in range(STEPS):
            if kind is Cutter:
                optimizer.update(model, x, t)
                continue
            loss = model(x, t)
            model.cleargrads()
            loss.backward()
            loss.unchain_backward()
            optimizer.update()
        losses.append(model(x, t).array)
        if kind is Reader:
            step = seen(model)
            assert step["why"] is None
            assert step["way"] == "by hand (cleargrads, backward, unchain_backward, update)"
            assert step["instead"] == [
                "# first in Reader.forward, in place of unchain_backward():",
                "if self.lstm.c is not None:",
                "    self.lstm.c = chainer.Variable(self.lstm.c.array)",
                "    self.lstm.h = chainer.Variable(self.lstm.h.array)",
                "optimizer.update(model, ...)",
            ]
    assert model.schedule_manager.statistics.steps > 0 and seen(model) is None
    assert_near(losses[1], losses[0], RESULTS, "loss")


@pytest.mark.parametrize("written", ["functions", "lambdas", "by hand"])
def test_adversaries(written):
    """Both losses go back through one call."""
    gen, dis = sdbr.static_graph(Net()), sdbr.static_graph(Net())
    of_gen, of_dis = (
        sdbr.static_optimizer(optimizers.Adam()).setup(net) for net in (gen.l1, dis)
    )  # fmt: skip
    x, _ = batch()

    def loss_dis(fake, real):
        return F.mean(F.softplus(-real)) + F.mean(F.softplus(fake))

    def loss_gen(fake):
        return F.mean(F.softplus(-fake))

    gen.l2 = L.Linear(8, 3)
    for _ in range(STEPS):
        real, fake = dis(x), dis(gen(x))
        if written == "functions":
            of_dis.update(loss_dis, fake, real)
            of_gen.update(loss_gen, fake)
        elif written == "lambdas":
            of_dis.update(lambda fake=fake, real=real: loss_dis(fake, real))
            of_gen.update(lambda fake=fake: loss_gen(fake))
        else:
            for loss, optimizer in (loss_dis(fake, real), of_dis), (loss_gen(fake), of_gen):
                optimizer.target.cleargrads()
                loss.backward()
                optimizer.update()
    for net in gen, dis:
        step = seen(net)
        assert step["instead"] == []
        assert "calls before it" in step["why"] or "several losses" in step["why"]


# --- nothing is said ------------------------------------------------------------------------------
def test_whole_steps():
    model, optimizer = classifier()
    optimizer.update(model, *batch())
    assert seen(model) is None
    assert "the first call is traced" in str(sdbr.explain(model))
    for _ in range(STEPS):
        optimizer.update(model, *batch())
    assert seen(model) is None


def test_whole_steps_after_others():
    model, optimizer = classifier()
    by_hand(model, optimizer)
    assert seen(model)["instead"]
    for _ in range(2):
        optimizer.update(model, *batch())
    assert seen(model) is None
    by_hand(model, optimizer)
    assert seen(model)["instead"] == ["optimizer.update(model, ...)"]


def test_whole_steps_right_after_others():
    model, optimizer = classifier()
    by_hand(model, optimizer)
    for _ in range(2):
        optimizer.update(model, *batch())
    assert seen(model) is None


def test_no_training():
    net = sdbr.static_graph(Net())
    x, _ = batch()
    for _ in range(STEPS):
        y = F.sum(net(chainer.Variable(x)))
        y.backward()
    assert seen(net) is None
    assert "  whole step" not in str(sdbr.explain(net))


def test_gradients_that_nobody_updates_by():
    model, _ = classifier()
    x, t = batch()
    for _ in range(STEPS):
        loss = model(x, t)
        model.cleargrads()
        loss.backward()
    assert seen(model) is None


def test_updates_by_others():
    """ChainerMN's optimizer makes the step."""
    theirs: dict = {"__name__": "chainermn.optimizers"}
    exec("def update(optimizer):\n    optimizer.update()", theirs)
    model, optimizer = classifier()
    x, t = batch()
    for _ in range(STEPS):
        loss = model(x, t)
        model.cleargrads()
        loss.backward()
        theirs["update"](optimizer)
    assert seen(model) is None


def test_gradients_between_steps():
    """A backward for something else, such as what the network looks at."""
    model, optimizer = classifier()
    x, t = batch()
    for _ in range(STEPS):
        optimizer.update(model, x, t)
        F.sum(model.predictor(chainer.Variable(x))).backward()
    assert seen(model) is None


def test_what_runs_inside_of_something_static():
    model, optimizer = classifier()
    for _ in range(3):
        optimizer.update(model, *batch())
    assert "runs inside of Classifier.forward" in str(sdbr.explain(model.predictor))


# --- how it is seen -------------------------------------------------------------------------------
def test_nobody_looks_after_some_steps(monkeypatch):
    model, optimizer = classifier()
    by_hand(model, optimizer)
    assert splitting.onlookers
    for _ in range(sightings.MOST // STEPS + 1):
        by_hand(model, optimizer)
    assert not splitting.onlookers
    before = seen(model)["times"]  # looks again
    by_hand(model, optimizer)
    assert seen(model)["times"] > before
    while splitting.onlookers:
        by_hand(model, optimizer)
    monkeypatch.setattr(sys.modules["sdbr.static_optimizer"], "_LOOKED_AT", 1)
    by_hand(model, optimizer)
    assert splitting.onlookers


def test_nobody_looks_at_updates_alone():
    _, optimizer = classifier()
    sightings.look()
    for p in optimizer.target.params():
        if p.array is None:
            p.initialize((64, 64))
        p.grad = np.zeros_like(p.array)
    for _ in range(2 * sightings.MOST + 1):  # a step that was seen before may have begun
        optimizer.update()
    assert not splitting.onlookers
    assert len(sightings._here.step.optimizers) <= sightings.MOST


def test_nothing_is_kept_alive():
    model, optimizer = classifier()
    by_hand(model, optimizer)
    things = [weakref.ref(x) for x in (model, optimizer, model.schedule_manager)]
    del model, optimizer
    gc.collect()
    assert [thing() for thing in things] == [None] * 3


@pytest.mark.alone
def test_what_a_step_saves():
    model, optimizer = classifier()
    x, t = batch()

    def run():
        by_hand(model, optimizer)

    saves = seen_after(sdbr.explain(model, run))
    assert 0 < saves["seconds"] < saves["of"]
    report = sdbr.explain(model, run, lambda: optimizer.update(model, x, t))
    compared = report.to_dict()["compared"]
    assert compared["run"] > compared["instead"] > 0  # six steps against one
    assert "an iteration" in str(report) and "% less" in str(report)
    with pytest.raises(TypeError, match="instead"):
        sdbr.explain(model, instead=run)


def seen_after(report) -> dict:
    (manager,) = report.to_dict()["managers"]
    assert "it saves at most the" in str(report)
    return manager["step"]["saves"]


def test_what_was_measured_of_whole_steps_is_not_said_of_others():
    model, optimizer = classifier()
    x, t = batch()
    for _ in range(2):
        optimizer.update(model, x, t)
    sdbr.explain(model, lambda: optimizer.update(model, x, t))
    by_hand(model, optimizer)
    assert seen(model)["saves"] is None
    assert np.isfinite(model.loss.array)
