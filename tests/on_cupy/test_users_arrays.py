"""What users hold of calls on a GPU: views, pointers, copies; and arrays that go elsewhere."""

import sdbr

import chainer
import chainer.functions as F
import chainer.links as L
import cupy
import numpy as np
import pytest

from .programs import Way, assert_alike, normal, programs, seen, state, two_devices, whole

CALLS = 6
program, PROGRAMS = programs()


def of_pointer(array):
    """A view that holds the memory, and not the array that it was made of."""
    return cupy.ndarray((2, 2), "f", array.data, (4, 4))


@program(1)
def views_of_what_python_ops_give(way):
    @way
    def call(x):
        return cupy.argsort(-x, axis=1)[:, :2]

    kept = [call(normal(4, 3, seed=k)) for k in range(CALLS)]
    return [seen(x) for x in kept]


@program()
def results_that_a_pointer_is_left_of(way):
    call = way(lambda x: F.tanh(x))
    kept = [of_pointer(call(normal(4, 3, seed=k)).array) for k in range(CALLS)]
    return [seen(x) for x in kept]


@program()
def pointers_of_results(way):
    call = way(lambda x: F.tanh(x))
    kept = [call(normal(4, 3, seed=k)).array.data for k in range(CALLS)]
    return [seen(cupy.ndarray((4, 3), "f", pointer)) for pointer in kept]


@program()
def attributes_that_a_pointer_is_left_of(way):
    def forward(self, x):
        self.hidden = F.tanh(self.layer(x))
        self.array = self.hidden.array * 2
        return F.sum(self.hidden)

    model = way.model(forward, layer=lambda: L.Linear(3, 4))
    kept = []
    for k in range(CALLS):
        model(normal(2, 3, seed=k))
        kept += [of_pointer(model.hidden.array), of_pointer(model.array)]
    return [seen(x) for x in kept]


@program()
def gradients_that_a_pointer_is_left_of(way):
    model = way.model(
        lambda self, x, t: F.softmax_cross_entropy(self.layer(x), t), layer=lambda: L.Linear(3, 4)
    )
    optimizer = way.optimizer(chainer.optimizers.SGD(0.1), model)
    kept = []
    for k in range(CALLS):
        optimizer.update(model, normal(5, 3, seed=k), whole(4, 5, seed=k))
        kept.append(of_pointer(model.layer.W.grad))
    return [seen(x) for x in kept]


ORDERED = {
    "ascontiguousarray": lambda x: cupy.ascontiguousarray(x),
    "asfortranarray": lambda x: cupy.asfortranarray(x),
    "asarray": lambda x: cupy.asarray(x, order="C"),
    "astype": lambda x: x.astype("f", order="F", copy=False),
    "of a transposed one": lambda x: cupy.ascontiguousarray(x.T),
}


@pytest.mark.parametrize("name", ORDERED)
@pytest.mark.parametrize("first", [False, True])
def test_what_lies_otherwise_is_copied(name, first):
    plain = ORDERED[name]
    call = sdbr.static_graph(lambda x: plain(x))
    for k in range(8):
        found = []
        for way in (plain, call):
            x = normal(3, 4, seed=k).T if (k % 2 > 0) is first else normal(4, 3, seed=k)
            y = way(x)
            x[...] = 7
            found.append(seen(y))
        assert_alike(*found)
    assert call.schedule_manager.statistics.replays == 6


@pytest.mark.parametrize("order", ["K", "A", "F"])
def test_elements_in_the_order_of_memory(order):
    call = sdbr.static_graph(lambda x: x.ravel(order) * 2)
    for k in range(8):
        x = normal(3, 4, seed=k).T if k % 2 else normal(4, 3, seed=k)
        assert_alike(seen(call(x)), seen(x.ravel(order) * 2))
    assert call.schedule_manager.statistics.replays >= 6


@pytest.mark.parametrize(("program", "python"), PROGRAMS)
def test_program(program, python):
    want = program(Way(False))
    way = Way(True)
    assert_alike(program(way), want)
    (statistics,) = way.statistics()
    assert statistics.replays == CALLS - 1
    assert (statistics.python_ops > 0) == (python > 0)


def masked(x):
    return x[x > 0].sum()


def masked_rows(x):
    return F.relu(x[x.array.sum(axis=1) > 0])


def counted(x):
    rows, columns = cupy.nonzero(x > 1)
    return F.tanh(x) * len(rows) + columns.sum()


def places_of(x):
    return cupy.where(x > 1)[0] * 2, cupy.flatnonzero(x > 1), cupy.argwhere(x > 1)


@pytest.mark.parametrize("function", [masked, counted, places_of])
def test_as_many_as_a_mask_chooses(function):
    """Each number of elements is a way of its own."""
    call = sdbr.static_graph(lambda x: function(x))
    seeds = [0, 1, 2, 0, 1, 2, 2, 1, 0, 3]
    got = [seen(call(normal(4, 3, seed=k))) for k in seeds]
    assert_alike(got, [seen(function(normal(4, 3, seed=k))) for k in seeds])
    statistics = call.schedule_manager.statistics
    numbers = {int((normal(4, 3, seed=k) > (0 if function is masked else 1)).sum()) for k in seeds}
    assert statistics.traces == len(numbers)
    assert statistics.replays == len(seeds) - len(numbers)


def test_variables_by_a_mask_ask_how_many_as_on_the_host():
    call = sdbr.static_graph(lambda x: masked_rows(x), on_dynamic="raise")
    inputs = [chainer.Variable(normal(4, 3, seed=k)) for k in range(8)]
    got = [seen(call(x)) for x in inputs]
    assert_alike(got, [seen(masked_rows(x)) for x in inputs])
    statistics = call.schedule_manager.statistics
    assert statistics.replays == len(inputs) - statistics.traces >= 3


def test_membership_is_what_it_is_of_plain_arrays():
    call = sdbr.static_graph(lambda x: x * 2 if 1.0 in x else x)
    for row in ([0, 1, 2], [3, 4, 5], [1, 0, 0], [3, 3, 3]):
        x = cupy.asarray(row, dtype="f")
        assert_alike(seen(call(x)), seen(x * 2 if 1.0 in x else x))
    for _ in range(2):
        with pytest.raises(ValueError, match="ambiguous"):
            sdbr.static_graph(lambda x: x * 2 if 1.0 in x else x)(normal(2, 3))


def repeated(x):
    return x.repeat(2, axis=1)


def test_repeat_is_recorded():
    call = sdbr.static_graph(lambda x: repeated(x))
    for k in range(4):
        assert_alike(seen(call(normal(2, 3, seed=k))), seen(repeated(normal(2, 3, seed=k))))
    assert call.schedule_manager.statistics.replays == 3


@pytest.mark.parametrize("rule", ["Adam", "MomentumSGD"])
def test_moments_follow_their_parameters(rule):
    found = []
    for way in (Way(False), Way(True)):
        model = way.model(
            lambda self, x, t: F.softmax_cross_entropy(self.layer(x), t),
            layer=lambda: L.Linear(3, 4),
        )
        optimizer = way.optimizer(getattr(chainer.optimizers, rule)(), model)
        of_way = []
        for k in range(12):
            if k % 3 == 0:
                model.to_device("@cupy:0" if k % 6 else "@numpy")
            xp = model.xp
            batch = normal(5, 3, seed=k).get(), whole(4, 5, seed=k).get()
            optimizer.update(model, *map(xp.asarray, batch))
            of_way.append([x if isinstance(x, np.ndarray) else seen(x) for x in _all(model)])
        found.append(of_way)
    assert_alike(*found)
    assert model.schedule_manager.statistics.steps == 10


def _all(model):
    for param in model.params():
        assert all(type(x) is type(param.array) for x in param.update_rule.state.values())
        yield param.array
        yield from param.update_rule.state.values()


@two_devices
def test_a_call_on_two_devices():
    def forward(self, x):
        y = F.copy(self.layer(x), 1)
        with chainer.using_device("@cupy:1"):
            y = F.tanh(y)
        return F.copy(y, 0)

    found = []
    for way in (Way(False), Way(True)):
        model = way.model(forward, layer=lambda: L.Linear(3, 4))
        of_way = []
        for k in range(4):
            if way.is_static and not k:
                with pytest.warns(sdbr.SdbrWarning, match="an array lies on GPU 1, and the call"):
                    y = model(normal(5, 3, seed=k))
            else:
                y = model(normal(5, 3, seed=k))
            model.cleargrads()
            F.sum(y).backward()
            of_way.append((seen(y), state(model)))
        found.append(of_way)
    assert_alike(*found)


def test_streams():
    call = sdbr.static_graph(lambda x: F.tanh(x) * 2)
    for k in range(4):
        with cupy.cuda.Stream(non_blocking=True) as stream:
            y = call(normal(4, 3, seed=k))
            stream.synchronize()
        assert_alike(seen(y), seen(F.tanh(normal(4, 3, seed=k)) * 2))
    assert call.schedule_manager.statistics.replays == 3
