"""What code writes outside that runs in every replay: a call that has a part in it is dynamic."""

import warnings

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F

from tests.harness.comparison import assert_near
from tests.tolerances import RESULTS

X = np.ones((2, 3), "f")
COUNT = 0.0
TABLE: dict = {}


class Counter:
    n = 0.0
    rate = 2.0


class Mode:
    def __init__(self, scale):
        self.scale = scale


class Slots:
    __slots__ = ("n",)


COUNTER, SLOTS = Counter(), Slots()


@pytest.fixture(autouse=True)
def clean():
    reset()


def reset():
    global COUNT
    COUNT = Counter.n = COUNTER.n = SLOTS.n = TABLE["n"] = 0.0


def bump():
    global COUNT
    COUNT += 1
    COUNTER.n += 1
    SLOTS.n += 1
    Counter.n += 1
    Counter.mode = Mode(Counter.n)
    TABLE["n"] += 1


class Node(chainer.FunctionNode):
    def forward(self, inputs):
        bump()
        return (inputs[0] * 2,)

    def backward(self, indexes, gradients):
        return (gradients[0] * 2,)


class OldNode(chainer.Function):
    def forward(self, inputs):
        bump()
        return (inputs[0] * 2,)

    def backward(self, inputs, gradients):
        return (gradients[0] * 2,)


code = sdbr.static_code(bump)


def by_code(x):
    code()
    return x * 2


def inside(x):
    bump()
    return x * 2


WRITERS = {
    "static_code": by_code,
    "F.forget": lambda x: F.forget(inside, x),
    "a node": lambda x: Node().apply((x,))[0],
    "an old node": lambda x: OldNode()(x),
}
READERS = {
    "global": lambda: COUNT,
    "object": lambda: COUNTER.n,
    "slot": lambda: SLOTS.n,
    "class": lambda: Counter.n,
    "another object": lambda: Counter.mode.scale,
    "item": lambda: TABLE["n"],
    "hasattr": lambda: 2.0 if hasattr(COUNTER, "n") else 1.0,
    "all": lambda: sum(TABLE.values()),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("writer", WRITERS)
def test_what_is_read_afterwards(writer, reader):
    write, read = WRITERS[writer], READERS[reader]

    def function(x):
        return write(F.relu(x)) * read()

    wanted = [function(X).array for _ in range(5)]
    reset()
    static = sdbr.static_graph(function, on_dynamic="fallback")
    with pytest.warns(sdbr.SdbrWarning, match="which static_code or a function node"):
        for want in wanted:
            assert_near(static(X).array, want, RESULTS, reader)
    assert static.schedule_manager.statistics.replays == 0


@pytest.mark.parametrize("writer", WRITERS)
def test_what_the_call_writes_as_well(writer):
    def function(x):
        COUNTER.n = 10.0
        return WRITERS[writer](F.relu(x))

    static = sdbr.static_graph(function, on_dynamic="fallback")
    with pytest.warns(sdbr.SdbrWarning, match="writes .*which static_code or a function node"):
        for _ in range(4):
            static(X)
            assert COUNTER.n == 11.0
    assert static.schedule_manager.statistics.replays == 0


@pytest.mark.parametrize("writer", WRITERS)
def test_what_nobody_else_reads_or_writes(writer):
    def function(x):
        return WRITERS[writer](WRITERS[writer](F.relu(x)))

    static = sdbr.static_graph(function, on_dynamic="raise")
    for i in range(5):
        assert_near(static(X).array, X * 4, RESULTS, "result")
        assert (COUNT, COUNTER.n, SLOTS.n, TABLE["n"]) == (2.0 * i + 2,) * 4
    # F.forget is traced as a whole after it was traced as what is in it.
    assert static.schedule_manager.statistics.replays == 4 - (writer == "F.forget")


@pytest.mark.parametrize("writer", WRITERS)
def test_a_branch_after_it(writer):
    """A replay that goes another way has run the code already; the call is dynamic."""

    def function(x):
        y = WRITERS[writer](x)
        return y * 2 if x.array[0, 0] > 0 else y * 3

    static = sdbr.static_graph(function, on_dynamic="fallback")
    for i in range(8):
        x = chainer.Variable(X * (-1) ** (i // 2))
        k = 2 if x.array[0, 0] > 0 else 3
        assert_near(static(x).array, x.array * 2 * k, RESULTS, "result")
        assert i + 1 == COUNT


def test_what_a_node_writes_to_a_link():
    link = chainer.Link()
    link.n = 0.0

    class Counting(chainer.FunctionNode):
        def forward(self, inputs):
            link.n += 1
            return (inputs[0] * 2,)

    static = sdbr.static_graph(
        lambda x: Counting().apply((F.relu(x),))[0] * link.n, on_dynamic="fallback"
    )
    with pytest.warns(sdbr.SdbrWarning, match="which static_code or a function node"):
        for i in range(4):
            assert_near(static(X).array, X * 2 * (i + 1), RESULTS, "result")


LEFT = {
    "array": lambda a: a * 2,
    "Variable": lambda a: chainer.Variable(a * 2),
    "number": lambda a: float(a.sum()),
    "number of NumPy": lambda a: a.sum(),
}


class Leaving(chainer.FunctionNode):
    def __init__(self, leave):
        self.leave = leave

    def forward(self, inputs):
        self.leave(inputs[0])
        return (inputs[0] * 2,)


@pytest.mark.parametrize("inside", ["a node", "F.forget"])
@pytest.mark.parametrize("kind", LEFT)
def test_what_is_left_in_a_link(kind, inside):
    """Whoever writes it there does so in each replay; the call itself leaves nothing."""
    link = chainer.Link()

    def leave(array):
        link.left = LEFT[kind](array)

    def function(x):
        if inside == "a node":
            return Leaving(leave).apply((F.relu(x),))[0]
        return F.forget(lambda a: (leave(a.array), a * 2)[1], F.relu(x))

    static = sdbr.static_graph(function, on_dynamic="raise")
    for i in range(5):
        static(X * i)
        want = LEFT[kind](X * i)
        assert type(link.left) is type(want)
        got, want = (getattr(x, "array", x) for x in (link.left, want))
        np.testing.assert_array_equal(got, want)
    assert static.schedule_manager.statistics.replays == 4 - (inside == "F.forget")


@pytest.mark.parametrize("writer", WRITERS)
def test_another_number_of_what_it_writes_to(writer):
    """Each replay looks whether it has written there, too (`test_side_exits`)."""

    def function(x):
        return WRITERS[writer](F.relu(x)) * COUNTER.rate

    static = sdbr.static_graph(function, on_dynamic="raise")
    for _ in range(4):
        assert_near(static(X).array, X * 4, RESULTS, "result")
    assert static.schedule_manager.statistics.replays == 3 - (writer == "F.forget")


def looks(seen):
    seen.append((STAGE, COUNTER.n, TABLE["n"], CHAIN.stage))


class Looking(chainer.FunctionNode):
    def __init__(self, look):
        self.look = look

    def forward(self, inputs):
        self.look(SEEN)
        return (inputs[0] * 2,)


@sdbr.static_code
def looking():
    looks(SEEN)


LOOKERS = {
    "static_code": lambda x: looking() or x * 2,
    "a node": lambda x: Looking(looks).apply((x,))[0],
}
SEEN: list = []
STAGE = 0
CHAIN = chainer.Link()
CHAIN.stage = 0


def _global(n):
    global STAGE
    STAGE = n


def _globals(n):
    globals()["STAGE"] = n


def _object(n):
    COUNTER.n = n


def _item(n):
    TABLE["n"] = n


def _link(n):
    CHAIN.stage = n


@pytest.mark.parametrize("write", [_global, _globals, _object, _item, _link])
@pytest.mark.parametrize("looker", LOOKERS)
def test_what_the_call_has_written_by_then(looker, write):
    """Replays write it at their end, and would show what the one before has left."""

    def function(x):
        write(1)
        y = LOOKERS[looker](F.relu(x))
        write(2)
        return y

    seen = []
    for is_static in (False, True):
        reset()
        _global(0)
        _link(0)
        SEEN.clear()
        call = sdbr.static_graph(function, on_dynamic="fallback") if is_static else function
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(4):
                call(X)
        seen.append(list(SEEN))
    assert seen[0] == seen[1]
    assert call.schedule_manager.statistics.replays == 0


def test_an_array_that_a_node_puts_in_its_place():
    """What is read is an array, of which the numbers may change, and here is another one."""
    global MEAN
    MEAN = np.zeros(3, "f")

    class Averages(chainer.FunctionNode):
        def forward(self, inputs):
            global MEAN
            MEAN = 0.5 * MEAN + 0.5 * inputs[0].mean(0)
            return (inputs[0] * 2,)

    def function(x):
        return Averages().apply((F.relu(x) - MEAN,))[0]

    wanted = [function(X).array for _ in range(4)]
    MEAN = np.zeros(3, "f")
    static = sdbr.static_graph(function, on_dynamic="fallback")
    with pytest.warns(sdbr.SdbrWarning, match="has a part in MEAN|has a part in .*MEAN"):
        for want in wanted:
            assert_near(static(X).array, want, RESULTS, "result")
    assert static.schedule_manager.statistics.replays == 0


def test_an_object_of_the_call():
    """Nobody has it from outside: it is made anew each time."""

    def function(x):
        own = Counter()

        @sdbr.static_code
        def count():
            own.n = COUNT

        count()
        return F.relu(x) * 2

    static = sdbr.static_graph(function, on_dynamic="raise")
    for _ in range(3):
        assert_near(static(X).array, X * 2, RESULTS, "result")
    assert static.schedule_manager.statistics.replays == 2
