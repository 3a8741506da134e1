"""Decorated methods of classes that are no links: each object has schedules of its own."""

from __future__ import annotations

import copy
import dataclasses
import functools
import gc
import pickle
import weakref

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.comparison import assert_all_near, assert_near, gradients_of
from tests.tolerances import GRADIENTS, RESULTS

X = np.linspace(-1, 1, 6, dtype="f").reshape(2, 3)

decorator = sdbr.static_graph(on_dynamic="raise")


def passed_on(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


class Agent:
    def __init__(self, scale=2.0):
        self.net = L.Linear(3, 2)
        self.scale, self.calls, self.x = scale, 0, X

    def loss(self, x):
        self.calls += 1
        return F.sum(F.exp(self.net(x))) * self.scale

    static_loss = decorator(loss)

    @passed_on
    @decorator
    def wrapped(self, x):
        return self.loss(x)

    @property
    @decorator
    def of_its_own(self):
        return self.loss(self.x)

    @decorator
    def __call__(self, x):
        return self.loss(x)

    def __eq__(self, other):  # and so no hash
        return True


class Derived(Agent):
    @decorator
    def static_loss(self, x):
        return super().static_loss(x) + 1


@dataclasses.dataclass(frozen=True)
class Frozen:
    net: L.Linear
    scale: float = 2.0

    @decorator
    def static_loss(self, x):
        return F.sum(F.exp(self.net(x))) * self.scale


class WithSlots:
    __slots__ = ("net",)

    def __init__(self):
        self.net = L.Linear(3, 2)

    @sdbr.static_graph
    def static_loss(self, x):
        return F.sum(self.net(x))


class Rows(list):
    @decorator
    def total(self):
        return F.sum(chainer.Variable(self[0]))


def of(method):
    """The statistics of the one manager behind a bound method."""
    (manager,) = sdbr.inspection.targets.Target(method).managers()
    return manager.statistics


def computed(agent, x=X):
    exponents = x @ agent.net.W.array.T + agent.net.b.array
    return np.asarray(agent.scale * np.exp(exponents).sum(), "f")


@pytest.mark.parametrize(
    "call",
    [
        lambda agent, x: agent.static_loss(x),
        lambda agent, x: type(agent).static_loss(agent, x),
        lambda agent, x: agent.wrapped(x),
        lambda agent, x: agent(x),
    ],
    ids=["bound", "unbound", "wrapped", "called"],
)
def test_each_object_replays_with_what_is_its_own(call):
    agents = [Agent(), Agent(3.0)]
    for i in range(5):
        for agent in agents:
            loss = call(agent, X * i)
            agent.net.cleargrads()
            loss.backward()
            found = gradients_of(agent.net)
            assert_near(loss.array, computed(agent, X * i), RESULTS, "loss")
            agent.net.cleargrads()
            agent.loss(X * i).backward()
            assert_all_near(found, gradients_of(agent.net), GRADIENTS, "gradient")
    assert [agent.calls for agent in agents] == [10, 10]
    for agent in agents:
        (manager,) = agent._sdbr_managers.values()
        # What is written may be a number that moves, found by the second trace.
        assert manager.statistics.traces <= 2 and manager.statistics.replays >= 3


def test_what_is_changed_from_outside_is_seen():
    agent = Agent()
    for i in range(6):
        agent.scale, agent.net = 1.0 + i, L.Linear(3, 2) if i % 2 else agent.net
        assert_near(agent.static_loss(X).array, computed(agent), RESULTS, "loss")


def test_a_property():
    agent = Agent()
    for i in range(4):
        agent.x = X * i
        assert_near(agent.of_its_own.array, computed(agent, X * i), RESULTS, "loss")
    (manager,) = agent._sdbr_managers.values()
    assert manager.statistics.replays >= 2


def test_the_method_of_a_base_class_is_traced_into_the_call():
    agent = Derived()
    for _ in range(4):
        assert_near(
            agent.static_loss(X).array, np.asarray(computed(agent) + 1, "f"), RESULTS, "loss"
        )
    assert agent.calls == 4 and list(agent._sdbr_managers) == [Derived.static_loss._sdbr_function]
    assert of(agent.static_loss).replays >= 2


def test_a_frozen_dataclass():
    thing = Frozen(L.Linear(3, 2))
    for _ in range(3):
        assert_near(thing.static_loss(X).array, computed(thing), RESULTS, "loss")
    assert of(thing.static_loss).replays == 2 and thing == dataclasses.replace(thing)


@pytest.mark.parametrize(
    "copied",
    [copy.copy, copy.deepcopy, lambda agent: pickle.loads(pickle.dumps(agent))],
    ids=["copy", "deepcopy", "pickle"],
)
def test_a_copy_begins_with_none(copied):
    agent = Agent()
    for _ in range(3):
        agent.static_loss(X)
    other = copied(agent)
    other.scale = 5.0
    for one in (other, agent):
        for _ in range(3):
            assert_near(one.static_loss(X).array, computed(one), RESULTS, "loss")
    assert of(other.static_loss).calls == 3 and of(agent.static_loss).calls == 6


def test_objects_and_their_schedules_are_collected():
    agent = Agent()
    for _ in range(3):
        agent.static_loss(X)
    gone = weakref.ref(agent)
    del agent
    gc.collect()
    assert gone() is None


def test_whole_steps():
    agents, updated = [Agent(), Agent()], []
    agents[1].net.copyparams(agents[0].net)
    for agent in agents:
        optimizer = chainer.optimizers.Adam()
        if agent is agents[0]:
            optimizer = sdbr.static_optimizer(optimizer)
        optimizer.setup(agent.net)
        for i in range(6):
            optimizer.update(agent.static_loss if agent is agents[0] else agent.loss, X * i)
        updated.append({p.name: p.array for p in agent.net.params()})
    assert_all_near(*updated, GRADIENTS, "parameter")
    assert of(agents[0].static_loss).steps >= 3


def test_where_static_graphs_are_off_nothing_is_put_there():
    agent = Agent()
    with chainer.using_config("use_static_graph", False):
        assert_near(agent.static_loss(X).array, computed(agent), RESULTS, "loss")
    assert "_sdbr_managers" not in vars(agent)


def test_reports_find_the_schedules():
    first, second = Agent(), Agent()
    for _ in range(3):
        first.static_loss(X)
    second.static_loss(X)
    assert "Agent.loss" in str(sdbr.explain(first.static_loss))
    assert len(sdbr.inspection.targets.Target(Agent.static_loss).managers()) >= 2


def test_objects_without_a_place_run_define_by_run():
    """As before: their schedules would have to lie in a table that nothing can empty."""
    thing = WithSlots()
    with pytest.warns(sdbr.SdbrWarning, match="argument 0 is of type .*WithSlots"):
        for _ in range(3):
            thing.static_loss(X)
    assert WithSlots.static_loss.schedule_manager.statistics.define_by_run_calls == 3


def test_what_a_call_takes_as_an_argument_is_one_though_it_has_methods():
    for i in range(4):
        assert_near(Rows([X + i]).total().array, np.asarray((X + i).sum()), RESULTS, "sum")
    assert Rows.total.schedule_manager.statistics.replays == 3


class Table:
    """Not decorated; it calls static functions that are given objects."""

    def __init__(self):
        self.agent, self.by_name = Agent(), {"loss": Agent.static_loss}

    def by_keyword(self, x):
        return Agent.static_loss(self.agent, x=x)

    def by_star(self, x):
        return self.agent.static_loss(*(x,))

    def kept(self, x):
        loss = self.agent.static_loss
        return loss(x)

    def by_compiled_code(self, x):
        return next(map(self.agent.static_loss, [x]))

    def by_its_call(self, x):
        return self.agent.static_loss.__call__(x)

    def from_dict(self, x):
        return self.by_name["loss"](self.agent, x)


@pytest.mark.parametrize(
    "name", ["by_keyword", "by_star", "kept", "by_compiled_code", "by_its_call", "from_dict"]
)
def test_static_functions_inside_are_followed(name):
    """Their objects are read by their attributes, and not compared whole (`calls` changes)."""
    table = Table()
    static = decorator(getattr(table, name))
    for i in range(6):
        table.agent.scale = 1.0 + (i > 3)
        assert_near(static(X).array, computed(table.agent), RESULTS, "loss")
    assert table.agent.calls == 6 and "_sdbr_managers" not in vars(table.agent)
    assert of(static).replays >= 2 and of(static).define_by_run_calls == 0


@sdbr.static_graph
def doubled(x):
    return x * 2


@sdbr.static_graph
def tripled(x):
    return x * 3


class Chooses:
    """Calls a static function that it has somewhere."""

    of_class = staticmethod(doubled)

    def __init__(self):
        self.kept, self.by_name, self.listed = doubled, {"it": doubled}, [doubled]

    def choose(self, function):
        self.kept, self.by_name["it"], self.listed[0] = function, function, function
        Chooses.of_class = staticmethod(function)


CHOOSING = {
    "an attribute": lambda one, x: one.kept(x),
    "an item": lambda one, x: one.by_name["it"](*[x]),
    "an element": lambda one, x: sum([function(x) for function in one.listed]),
    "of the class": lambda one, x: one.of_class(x),
    "a branch": lambda one, x: x * 2 if F.sum(one.kept(x)).array > 0 else x * 3,
}


@pytest.mark.parametrize("name", CHOOSING)
def test_another_static_function_in_its_place_is_seen(name):
    one = Chooses()
    call = decorator(lambda x: CHOOSING[name](one, x))
    for i in range(9):
        one.choose(tripled if i % 3 == 2 else doubled)
        x = chainer.Variable(X + 2 if i % 2 else X - 2)
        want = (2 if i % 2 else 3) if name == "a branch" else 3 if i % 3 == 2 else 2
        assert_near(call(x).array, x.array * want, RESULTS, "result")
    assert call.schedule_manager.statistics.replays >= 5


class Counts:
    def __init__(self):
        self.calls = 0

    @decorator
    def scaled(self, x):
        self.calls += 1
        return x * self.calls


def test_another_dictionary_of_its_attributes():
    """Replays write to the one that was there; the other holds the same managers."""
    one = Counts()
    for i in range(8):
        if i == 4:
            one.__dict__ = dict(one.__dict__)
        assert_near(one.scaled(chainer.Variable(X)).array, X * (i + 1), RESULTS, "result")
        assert one.calls == i + 1
    assert of(one.scaled).calls == 4 and of(one.scaled).replays >= 2


class Remembers:
    def __init__(self):
        self.last = None

    @decorator
    def doubled(self, x):
        self.last = x
        return x * 2


def test_the_very_argument_that_lies_there_already():
    """Later calls are given others."""
    one = Remembers()
    for i in range(6):
        x = X + i
        one.last = x if i < 2 else X
        assert_near(one.doubled(x), x * 2, RESULTS, "result")
        assert one.last is x
    assert of(one.doubled).replays >= 4
