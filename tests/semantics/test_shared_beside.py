"""Row 10: what a call has made itself and code has a part in that runs in every replay.

A replay runs that code with what the traced call has left, so that nobody else may read it.
"""

from __future__ import annotations

import types

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F

from tests.harness.comparison import assert_near
from tests.tolerances import RESULTS


class Node(chainer.FunctionNode):
    def __init__(self, tell):
        self.tell, self.state = tell, {}

    def forward(self, inputs):
        self.tell(inputs[0])
        return (inputs[0] * 2,)

    def backward(self, indexes, gradients):
        return (gradients[0] * 2,)


class OldNode(chainer.Function):
    def __init__(self, tell):
        self.tell = tell

    def forward(self, inputs):
        self.tell(inputs[0])
        return (inputs[0] * 2,)

    def backward(self, inputs, gradients):
        return (gradients[0] * 2,)


def by_code(x, tell):
    sdbr.static_code(tell)(x.array)
    return x * 2


def by_forget(x, tell):
    def inside(z):
        tell(z.array)
        return z * 2 + F.dropout(z, 0.5) * 0

    return F.forget(inside, x)


WRITERS = {
    "static_code": by_code,
    "F.forget": by_forget,
    "a node": lambda x, tell: Node(tell).apply((x,))[0],
    "an old node": lambda x, tell: OldNode(tell)(x),
}


def into_a_variable():
    n = None

    def tell(a):
        nonlocal n
        n = float(a.sum())

    return tell, lambda: n


def into(thing, tell, read):
    return lambda: (lambda made: (lambda a: tell(made, float(a.sum())), lambda: read(made)))(
        thing()
    )


def as_item(made, x):
    made["n"] = x


#: What the call makes, how the code writes there, and how the call reads it.
PLACES = {
    "variable": into_a_variable,
    "dict": into(dict, as_item, lambda d: d["n"]),
    "dict, all": into(dict, as_item, lambda d: sum(d.values())),
    "list": into(list, list.append, lambda k: k[0]),
    "list, whole": into(list, lambda k, x: k.append(x), sum),
    "object": into(types.SimpleNamespace, lambda o, x: setattr(o, "n", x), lambda o: o.n),
    "array": into(lambda: np.zeros(2, "f"), lambda b, x: b.fill(x), lambda b: float(b[0])),
}
#: What the call does with what it has read.
USES = {
    "factor": lambda y, n: y * np.float32(n),
    "float factor": lambda y, n: y * n,
    "branch": lambda y, n: y * 2 if n > 0 else y * 3,
    "result": lambda y, n: (y, n),
    "array": lambda y, n: y + np.array([n, 1], "f")[0],
}


def batch(i: int) -> chainer.Variable:
    return chainer.Variable(np.random.RandomState(i).randn(2, 3).astype("f"))


def check(function, n: int = 6):
    """The statistics of a static function whose results are those of define-by-run."""
    static = sdbr.static_graph(function, on_dynamic="fallback")
    for i in range(n):
        np.random.seed(i)
        want = flat(function(batch(i)))
        np.random.seed(i)
        assert_near(flat(static(batch(i))), want, RESULTS, f"call {i}")
    return static.schedule_manager.statistics


def flat(result) -> np.ndarray:
    """All numbers of a result in one array."""
    if isinstance(result, tuple):
        return np.concatenate(list(map(flat, result)))
    if isinstance(result, dict):
        return flat(tuple(result.values()))
    return np.ravel(getattr(result, "array", result)).astype("f")


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("writer", WRITERS)
def test_what_the_call_has_made_is_filled(writer, place, use):
    def function(x):
        tell, read = PLACES[place]()
        return USES[use](WRITERS[writer](x, tell), read())

    assert check(function).replays == 0


@pytest.mark.parametrize("writer", WRITERS)
def test_a_list_that_is_returned(writer):
    def function(x):
        seen = {}
        y = WRITERS[writer](x, lambda a: as_item(seen, float(a.sum())))
        return y, seen

    assert check(function).replays == 0


@pytest.mark.parametrize("writer", WRITERS)
def test_a_variable_that_goes_on(writer):
    """The code that a replay runs would meet what the variable was at the end."""

    def function(x):
        for k in (1.0, 2.0, 3.0):
            x = WRITERS[writer](x, lambda a: None if k < 2 else SEEN.append(k))  # noqa: B023
        return x * len(SEEN)

    SEEN.clear()
    static = sdbr.static_graph(function, on_dynamic="fallback")
    for i in range(1, 5):
        static(batch(i))
        assert [2.0, 3.0] * i == SEEN
    assert static.schedule_manager.statistics.replays == 0


SEEN: list = []


class Times(chainer.FunctionNode):
    def __init__(self, factor):
        self.factor = factor

    def forward(self, inputs):
        return (inputs[0] * np.float32(self.factor()),)


def test_a_variable_of_its_own_that_goes_on():
    def function(x):
        for k in (1.0, 2.0, 3.0):
            x = Times(lambda: k).apply((x,))[0]  # noqa: B023
        return x

    assert check(function).replays == 0


@pytest.mark.parametrize("writer", WRITERS)
def test_what_the_code_has_for_itself(writer):
    """What it makes is made in each replay, and so are containers on a node."""

    def function(x):
        def tell(a):
            own = {}
            own["n"] = float(a.sum())
            rows = [own["n"]]
            rows.append(1.0)

        return WRITERS[writer](x, tell)

    assert check(function).replays >= 4


def test_a_container_of_a_node():
    def function(x):
        node = Node(lambda a: as_item(node.state, float(a.sum())))
        return node.apply((x,))[0]

    assert check(function).replays == 5


def test_a_container_that_a_node_was_given():
    """A replay gives the node another one, which the call does not have."""

    class Told(Node):
        def __init__(self, state):
            super().__init__(lambda a: as_item(self.state, float(a.sum())))
            self.state = state

    def function(x):
        state = {}
        y = Told(state).apply((x,))[0]
        return y * np.float32(state["n"])

    assert check(function).replays == 0


MOVED = {
    "generator": lambda: np.random.default_rng(3),
    "old generator": lambda: np.random.RandomState(3),
    "iterator": lambda: iter(range(9)),
    "generator function": lambda: (k * 2.0 for k in range(1, 9)),
}


@pytest.mark.parametrize("name", MOVED)
@pytest.mark.parametrize("writer", WRITERS)
def test_what_goes_on_where_the_call_has_made_it(writer, name):
    """A replay would go on where the one before it has stopped."""
    seen: list = []

    def function(x):
        thing = MOVED[name]()

        def tell(a):
            seen.append(thing.uniform() if "old" in name or name == "generator" else next(thing))

        return WRITERS[writer](x, tell)

    static = sdbr.static_graph(function, on_dynamic="fallback")
    for i in range(5):
        static(batch(i))
    assert len(seen) == 5 and len(set(seen)) == 1
