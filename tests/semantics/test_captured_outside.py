"""Row 8: Variables, parameters and links that a call reads from outside of links."""

from __future__ import annotations

import contextvars
import copy
import functools
import types
import warnings
import weakref

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness import comparison as harness
from tests.harness.comparison import copy_of
from tests.tolerances import RESULTS

RNG = np.random.RandomState(5)
XS = [RNG.randn(3, 4).astype("f") for _ in range(12)]


def variable(*shape, **kwargs):
    return chainer.Variable(RNG.randn(*shape).astype("f"), **kwargs)


def assert_near(got, want, where=""):
    harness.assert_near(got, want, RESULTS, where)


class Holder:
    in_class = None

    def __init__(self, thing=None):
        self.thing = thing


class Slots:
    __slots__ = ("thing",)


WEIGHT = None
LIST: list = []


def of_global(things):
    global WEIGHT
    WEIGHT = things[0]

    def put(thing):
        global WEIGHT
        WEIGHT = thing

    return (lambda x: F.tanh(x * WEIGHT)), put


def of_closure(things):
    weight = things[0]

    def put(thing):
        nonlocal weight
        weight = thing

    return (lambda x: F.tanh(x * weight)), put


def of_default(things):
    def function(x, weights=things):
        return F.tanh(x * weights[0])

    def put(thing):
        things[0] = thing

    return function, put


def of_class(things):
    Holder.in_class = things[0]
    return (lambda x: F.tanh(x * Holder.in_class)), (lambda t: setattr(Holder, "in_class", t))


def of_object(things):
    holder = Holder(things[0])
    return (lambda x: F.tanh(x * holder.thing)), (lambda t: setattr(holder, "thing", t))


def of_slots(things):
    holder = Slots()
    holder.thing = things[0]
    return (lambda x: F.tanh(x * holder.thing)), (lambda t: setattr(holder, "thing", t))


def of_module(things):
    module = types.ModuleType("of_the_user")
    module.weight = things[0]
    return (lambda x: F.tanh(x * module.weight)), (lambda t: setattr(module, "weight", t))


def of_long_list(things):
    LIST[:] = [variable(2) for _ in range(100)]
    LIST[80] = things[0]
    return (lambda x: F.tanh(x * LIST[80])), (lambda t: LIST.__setitem__(80, t))


def of_nested(things):
    tree = {"a": [None] * 3 + [Holder({"b": things[0]})]}
    read = lambda x: F.tanh(x * tree["a"][3].thing["b"])  # noqa: E731
    return read, (lambda t: tree["a"][3].thing.__setitem__("b", t))


def of_bound_method(things):
    class Layer:
        def __init__(self):
            self.weight = things[0]

        def apply(self, x):
            return F.tanh(x * self.weight)

    layer = Layer()
    apply = layer.apply
    return (lambda x: apply(x)), (lambda t: setattr(layer, "weight", t))


def of_namespace(things):
    """Of code that belongs to no module."""
    namespace = {"tanh": F.tanh, "weight": things[0]}
    exec("def inner(x): return tanh(x * weight)", namespace)
    inner = namespace["inner"]
    return (lambda x: inner(x)), (lambda t: namespace.__setitem__("weight", t))


def of_proxy(things):
    table = {"weight": things[0]}
    proxy = types.MappingProxyType(table)
    return (lambda x: F.tanh(x * proxy["weight"])), (lambda t: table.update(weight=t))


def of_context(things):
    weight = contextvars.ContextVar("weight")
    weight.set(things[0])
    return (lambda x: F.tanh(x * weight.get())), weight.set


def of_weak_reference(things):
    weights = weakref.WeakValueDictionary({0: things[0]})
    kept = things[:1]

    def put(thing):
        kept[0] = weights[0] = thing

    return (lambda x: F.tanh(x * weights[0])), put


def of_inner_default(things):
    def inner(x, *, weight=things[0]):
        return F.tanh(x * weight)

    return (lambda x: inner(x)), (lambda t: inner.__kwdefaults__.update(weight=t))


PLACES = {name[3:]: f for name, f in list(globals().items()) if name.startswith("of_")}
#: Where another Variable makes a call traced again.
COMPARED = ("weak_reference", "inner_default")
each = pytest.mark.parametrize("place", [place for place in PLACES if place not in COMPARED])


def statistics(function):
    return function.schedule_manager.statistics


def gradient(function, x, weight):
    weight.cleargrad()
    y = function(x)
    F.sum(y * y).backward()
    return [copy_of(y.array), copy_of(weight.grad)]


def assert_calls(place, steps, kind=chainer.Variable):
    """`steps` change a weight before each call: static as plain; returns the statistics."""
    found = []
    for static in (False, True):
        weight = kind(np.arange(1, 5).astype("f"))
        function, put = PLACES[place]([weight])
        function = sdbr.static_graph(function, on_dynamic="raise") if static else function
        results = []
        for x, step in zip(XS, steps, strict=False):
            weight = step(weight, put)
            results.append(gradient(function, x, weight))
        found.append(results)
    for i, (want, got) in enumerate(zip(*found, strict=True)):
        for a, b in zip(want, got, strict=True):
            assert_near(b, a, where=f"call {i}")
    return statistics(function)


def stays(weight, put):
    return weight


def gets_an_array(weight, put):
    weight.array = weight.array * 0.5
    return weight


def is_written(weight, put):
    weight.array[...] += 1
    return weight


def is_another(weight, put):
    weight = type(weight)(np.cos(weight.array))
    put(weight)
    return weight


def is_larger(weight, put):
    weight = type(weight)(np.ones((3, 4), "f"))
    put(weight)
    return weight


@each
def test_gradients_and_new_arrays(place):
    steps = [stays, stays, gets_an_array, is_written, gets_an_array, is_written]
    made = assert_calls(place, steps)
    assert (made.traces, made.replays, made.python_ops) == (1, 5, 0)


@pytest.mark.parametrize("place", COMPARED)
def test_gradients_and_new_variables(place):
    made = assert_calls(place, [stays, stays, gets_an_array, is_written, is_another, stays])
    assert (made.traces, made.replays, made.python_ops) == (2, 4, 0)


@each
def test_another_variable_of_the_same_shape(place):
    made = assert_calls(place, [stays, is_another, stays, is_another, gets_an_array])
    assert (made.traces, made.replays) == (1, 4)


@each
def test_another_shape(place):
    made = assert_calls(place, [stays, stays, is_larger, stays, is_written])
    assert (made.traces, made.replays) == (2, 3)


@each
def test_another_shape_of_the_same_variable(place):
    def grows(weight, put):
        weight.array = np.ones((3, 4), "f")
        return weight

    made = assert_calls(place, [stays, stays, grows, stays])
    assert (made.traces, made.replays) == (2, 2)


@each
def test_parameters(place):
    steps = [stays, gets_an_array, is_written, is_another, stays, is_written]
    made = assert_calls(place, steps, chainer.Parameter)
    assert (made.traces, made.replays) == (2, 4)


@each
def test_links(place):
    found = []
    for static in (False, True):
        np.random.seed(0)
        scales = [L.Scale(axis=1, W_shape=(4,)) for _ in range(2)]
        for i, link in enumerate(scales):
            link.W.array += i
        things = PLACES[place]([Callable(scales[0])])
        function = sdbr.static_graph(things[0], on_dynamic="raise") if static else things[0]
        results = []
        for i, x in enumerate(XS[:6]):
            if i == 3:
                things[1](Callable(scales[1]))
            link = scales[i >= 3]
            link.cleargrads()
            y = function(x)
            F.sum(y * y).backward()
            results.append([copy_of(y.array), copy_of(link.W.grad)])
        found.append(results)
    for want, got in zip(*found, strict=True):
        for a, b in zip(want, got, strict=True):
            assert_near(b, a)
    made = statistics(function)
    assert (made.traces, made.replays) == (2, 4)


class Callable(chainer.Chain):
    """A link by which an array can be multiplied."""

    __array_ufunc__ = None

    def __init__(self, link):
        super().__init__()
        with self.init_scope():
            self.link = link

    def __rmul__(self, x):
        return self.link(x)


@each
def test_an_array_read_from_it(place):
    """``weight.array`` inside of the call: what it holds now, without history."""
    found = []
    for static in (False, True):
        weight = chainer.Variable(np.arange(1, 5).astype("f"))
        read, _ = PLACES[place]([Shown(weight)])
        function = sdbr.static_graph(read, on_dynamic="raise") if static else read
        results = []
        for x in XS[:5]:
            results.append(copy_of(function(x).array))
            weight.array[...] += 1
        found.append(results)
    for want, got in zip(*found, strict=True):
        assert_near(got, want)
    assert statistics(function).replays == 4


class Shown:
    __array_ufunc__ = None

    def __init__(self, variable):
        self.variable = variable

    def __rmul__(self, x):
        return x * self.variable.array


def test_none_and_a_variable_in_turn():
    bias = None

    @sdbr.static_graph(on_dynamic="raise")
    def add(x):
        return x * 2 if bias is None else x * 2 + bias

    for i, x in enumerate(XS):
        bias = None if i % 3 else variable(4)
        y = add(chainer.Variable(x))
        assert_near(y.array, x * 2 if bias is None else x * 2 + bias.array)
    assert (statistics(add).traces, statistics(add).replays) == (2, 10)


def test_what_requires_a_gradient_is_part_of_the_condition():
    w = variable(4)

    @sdbr.static_graph(on_dynamic="raise")
    def call(x):
        return x * w

    for i, x in enumerate(XS[:6]):
        w = variable(4, requires_grad=i < 3)
        y = call(x)
        assert y.requires_grad == (i < 3)
    assert (statistics(call).traces, statistics(call).replays) == (2, 4)


def test_history_behind_it():
    encoder = L.Linear(4, 4)
    code = None

    @sdbr.static_graph(on_dynamic="raise")
    def decode(x):
        return F.tanh(x * code)

    def plain(x):
        return F.tanh(x * code)

    for x in XS[:5]:
        grads = []
        for call in (decode, plain):
            encoder.cleargrads()
            code = encoder(x)
            F.sum(call(x)).backward()
            grads.append(copy_of(encoder.W.grad))
        assert_near(*grads)
    assert statistics(decode).replays == 4


def test_one_variable_in_two_places():
    a = variable(4)
    holder = Holder(a)

    @sdbr.static_graph(on_dynamic="raise")
    def call(x):
        return x * a + F.sin(holder.thing)

    def plain(x):
        return x * a + F.sin(holder.thing)

    for i, x in enumerate(XS[:9]):
        if i == 3:
            holder.thing = variable(4)
        if i == 6:
            a = holder.thing
        b = holder.thing
        found = []
        for f in (call, plain):
            a.cleargrad()
            b.cleargrad()
            F.sum(f(x) ** 2).backward()
            found.append((copy_of(a.grad), copy_of(b.grad)))
        for got, want in zip(*found, strict=True):
            assert_near(got, want)
    assert (statistics(call).traces, statistics(call).replays) == (2, 7)


def test_an_argument_that_lies_outside_as_well():
    v = variable(4)

    @sdbr.static_graph
    def call(x):
        return x * v

    with pytest.warns(sdbr.SdbrWarning, match="'v', which the call may read, holds a Variable"):
        call(v)
    other = variable(4)
    assert_near(call(other).array, other.array * v.array)


def test_a_variable_that_nobody_can_look_for():
    hidden = np.empty(1, object)
    hidden[0] = variable(4)

    @sdbr.static_graph
    def call(x):
        return x * hidden[0]

    with pytest.warns(sdbr.SdbrWarning, match="lies where no later call can look for it"):
        call(XS[0])
    call(XS[1])
    assert statistics(call).define_by_run_calls == 1


def test_a_variable_that_a_cache_gives():
    cached = functools.cache(lambda n: variable(n))

    @functools.partial(sdbr.static_graph, on_dynamic="raise")
    def call(x):
        return x * cached(4)

    cached(4)
    for x in XS[:6]:
        assert_near(call(x).array, x * cached(4).array)
        cached(4).array += 1
    cached.cache_clear()
    for x in XS[:6]:
        assert_near(call(x).array, x * cached(4).array)
    assert statistics(call).replays >= 9


def test_an_array_set_during_the_call():
    v = variable(4)

    @sdbr.static_graph
    def call(x):
        v.array = x[0]
        return x * v

    with pytest.warns(sdbr.SdbrWarning, match="the array of a Variable was replaced"):
        call(XS[0])


def test_state_on_a_plain_object():
    """A call that reads what an earlier one has left there, and leaves another."""
    found = []
    for static in (False, True):
        np.random.seed(1)

        class Cell(chainer.Chain):
            def __init__(self):
                super().__init__()
                self.state = Holder(chainer.Variable(np.zeros((3, 4), "f")))
                with self.init_scope():
                    self.l = L.Linear(4, 4)

            def forward(self, x):
                self.state.thing = F.tanh(self.l(x) + self.state.thing)
                return F.sum(self.state.thing**2)

        cell = sdbr.static_graph(Cell(), on_dynamic="raise") if static else Cell()
        results = []
        for i, x in enumerate(XS):
            if i == 5:
                cell.state.thing = chainer.Variable(np.ones((3, 4), "f"))
            cell.cleargrads()
            y = cell(x)
            y.backward()
            results.append(
                [copy_of(y.array), copy_of(cell.l.W.grad), copy_of(cell.state.thing.array)]
            )
            if i % 3 == 2:
                cell.state.thing.unchain_backward()
        found.append(results)
    for want, got in zip(*found, strict=True):
        for a, b in zip(want, got, strict=True):
            assert_near(b, a)
    made = cell.schedule_manager.statistics
    assert (made.traces, made.replays) == (1, 11)


@pytest.mark.parametrize("requires_grad", [False, True])
def test_whole_steps(requires_grad):
    """Whole where no gradient goes outside, else in parts; right in both."""
    found = []
    for static in (False, True):
        np.random.seed(2)
        mask = chainer.Variable(np.ones(4, "f"), requires_grad=requires_grad)

        class Net(chainer.Chain):
            def __init__(self):
                super().__init__()
                with self.init_scope():
                    self.l = L.Linear(4, 3)

            def forward(self, x, t, mask_of=mask):
                return F.softmax_cross_entropy(self.l(x * mask_of), t)

        model = sdbr.static_graph(Net(), on_dynamic="raise") if static else Net()
        optimizer = chainer.optimizers.SGD(0.5)
        optimizer = sdbr.static_optimizer(optimizer) if static else optimizer
        optimizer.setup(model)
        results = []
        for i, x in enumerate(XS):
            mask.cleargrad()
            optimizer.update(model, x, np.array([0, 1, 2], "i"))
            results.append([copy_of(model.l.W.array), copy_of(mask.grad)])
            mask.array[i % 4] += 0.5
            if i == 6:
                mask.array = np.full(4, 2, "f")
        found.append(results)
    for want, got in zip(*found, strict=True):
        assert_near(got[0], want[0])
        assert (got[1] is None) == (want[1] is None)
        if want[1] is not None:
            assert_near(got[1], want[1])
    made = model.schedule_manager.statistics
    assert made.replays == 11
    assert made.steps == (0 if requires_grad else 11)


def test_a_link_in_a_class_of_the_chain():
    class Net(chainer.Chain):
        shared = L.Linear(4, 2)
        gain = variable(2)

        def forward(self, x):
            return self.shared(x) * self.gain

    model = sdbr.static_graph(Net(), on_dynamic="raise")
    for i, x in enumerate(XS[:9]):
        if i == 3:
            Net.shared = L.Linear(4, 2)
        if i == 6:
            Net.gain = variable(2)
        Net.gain.cleargrad()
        Net.shared.cleargrads()
        y = model(x)
        assert_near(y.array, (Net.shared(x) * Net.gain).array)
        F.sum(y).backward()
        assert Net.gain.grad is not None
        assert Net.shared.W.grad is not None
    made = model.schedule_manager.statistics
    assert (made.traces, made.replays) == (2, 7)


def test_a_class_bound_to_another():
    cfg = type("Cfg", (), {"gain": variable(4)})

    @sdbr.static_graph(on_dynamic="raise")
    def call(x):
        return x * cfg.gain

    for i, x in enumerate(XS[:5]):
        if i == 3:
            cfg = type("Cfg", (), {"gain": variable(4)})
        assert_near(call(x).array, x * cfg.gain.array)
    assert (statistics(call).traces, statistics(call).replays) == (2, 3)


def test_what_a_program_calls_it():
    tree = {"a": [variable(4)]}

    @sdbr.static_graph(on_dynamic="raise")
    def call(x):
        return x * tree["a"][0]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        call(XS[0])
    (schedule,) = next(iter(call.schedule_manager.schedules.values()))
    assert "tree['a'][0]" in schedule.forward.program.row_names


def test_a_copy_of_the_chain_is_no_change_of_its_class():
    """The first copy of an object writes a list into its class."""

    class Net(chainer.Chain):
        @sdbr.static_graph(on_dynamic="raise")
        def forward(self, x):
            return x * 2

    model = Net()
    for _ in range(2):
        model(XS[0])
    copy.copy(model)
    model(XS[0])
    assert model.schedule_manager.statistics.traces == 1
