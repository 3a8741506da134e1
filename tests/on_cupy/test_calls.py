"""Calls with arrays of CuPy, as users write them: static as define-by-run, and replayed."""

import gc

import sdbr

import chainer
import chainer.functions as F
import chainer.links as L
import cupy
import pytest
from chainer.backends import cuda

from .programs import assert_alike, assert_replayed, normal, programs, seen, state, whole

CALLS = 5
program, PROGRAMS = programs()
THREE = cupy.ElementwiseKernel("T x", "T y", "y = x * 3", "three")


@program()
def state_over_calls(way):
    def forward(self, x):
        return F.mean(self.out(self.cell(x)) ** 2)

    model = way.model(forward, cell=lambda: L.LSTM(3, 4), out=lambda: L.Linear(4, 2))
    optimizer = chainer.optimizers.SGD(0.1).setup(model)
    found = []
    for k in range(CALLS):
        loss = sum([model(normal(5, 3, seed=10 * k + t)) for t in range(3)])
        model.cleargrads()
        loss.backward()
        loss.unchain_backward()
        optimizer.update()
        found.append((state(model), seen(model.cell.h)))
    return found


@program()
def other_arrays_of_parameters(way):
    model = way.model(lambda self, x: self.layer(x), layer=lambda: L.Linear(3, 4))
    found = []
    for k in range(6):
        if k == 3:
            model.layer.W.array = normal(4, 3, seed=99)
        if k == 4:
            model.layer.W.array[...] = 0.5
        if k == 5:
            model.layer.W.array *= 2
        found.append(seen(model(normal(2, 3, seed=k))))
    return found


@program()
def reports(way):
    def forward(self, x, t):
        y = self.layer(x)
        loss = F.softmax_cross_entropy(y, t)
        chainer.report({"loss": loss, "accuracy": F.accuracy(y, t)}, self)
        return loss

    model = way.model(forward, layer=lambda: L.Linear(3, 4))
    reporter = chainer.Reporter()
    reporter.add_observer("main", model)
    found = []
    for k in range(CALLS):
        with reporter:
            observation = {}
            with reporter.scope(observation):
                model(normal(5, 3, seed=k), whole(4, 5, seed=k))
        found.append(seen(observation))
    return found


@program()
def dropout(way):
    model = way.model(lambda self, x: F.dropout(self.layer(x), 0.7), layer=lambda: L.Linear(3, 4))
    cupy.random.seed(5)
    found = []
    for k in range(2 * CALLS):
        with chainer.using_config("train", k % 3 > 0):
            found.append(seen(model(normal(5, 3, seed=k))))
    return [*found, seen(cupy.random.rand(3))]


@program(1)
def functions_of_users(way):
    class Square(chainer.FunctionNode):
        def forward_gpu(self, inputs):
            self.retain_inputs((0,))
            return (cuda.elementwise("T x", "T y", "y = x * x + 1", "square")(inputs[0]),)

        def backward(self, indexes, grads):
            return (2 * self.get_retained_inputs()[0] * grads[0],)

    @way
    def call(x):
        return F.relu(Square().apply((F.tanh(x),))[0] - 1.2)

    found = []
    for k in range(CALLS):
        x = chainer.Variable(normal(2, 3, seed=k))
        y = call(x)
        F.sum(y).backward()
        found.append((seen(y), seen(x.grad)))
    return found


@program(1)
def averages_in_place(way):
    model = way.model(
        lambda self, x: F.mean((self.norm(self.layer(x)) + 0.5) ** 3),
        layer=lambda: L.Linear(3, 4, nobias=True),
        norm=lambda: L.BatchNormalization(4),
    )
    found = []
    for k in range(CALLS):
        loss = model(normal(5, 3, seed=k))
        model.cleargrads()
        loss.backward()
        found.append((state(model), model.norm.N))
    return found


@program()
def gradients_inside(way):
    @way
    def call(x):
        y = F.sum(F.tanh(x) ** 3)
        (g,) = chainer.grad([y], [x])
        return y + F.sum(g)

    return [seen(call(chainer.Variable(normal(2, 3, seed=k)))) for k in range(CALLS)]


@program()
def states_in_attributes(way):
    def forward(self, x):
        self.average = 0.9 * self.average + 0.1 * x.mean(axis=0)
        self.hidden = [h := F.tanh(self.layer(x - self.average)), F.relu(h)]
        return {"y": self.hidden[1], "all": self.hidden}

    model = way.model(forward, layer=lambda: L.Linear(3, 3))
    model.average = cupy.zeros(3, "f")
    found = []
    for k in range(CALLS):
        found.append(seen(model(normal(2, 3, seed=k))))
        found.append((seen(model.average), seen(model.hidden)))
    return found


@program()
def no_array_among_the_arguments(way):
    model = way.model(lambda self: self.layer(self.x), layer=lambda: L.Linear(3, 3))
    found = []
    for k in range(CALLS):
        model.x = normal(2, 3, seed=k)
        found.append(seen(model()))
    return found


@program()
def arrays_with_gaps(way):
    model = way.model(lambda self, x: self.layer(x), layer=lambda: L.Linear(3, 3))
    found = []
    for k in range(CALLS):
        x = chainer.Variable(normal(3, 6, seed=k).T[::2] if k % 2 else normal(3, 3, seed=k))
        y = model(x)
        y.grad = normal(3, 3, seed=9).T
        model.cleargrads()
        y.backward()
        found.append((seen(y), seen(x.grad), state(model)))
    return found


@program()
def arrays_without_elements(way):
    @way
    def call(x):
        return F.relu(x) * 2, F.sum(x, axis=0)

    return [seen(call(normal(0, 3, seed=k))) for k in range(CALLS)]


@program(1)
def code_that_runs_every_time(way):
    def clip(x):
        return cupy.clip(x, -0.5, 0.5)

    clip = sdbr.static_code(clip) if way.is_static else clip

    @way
    def call(x):
        return F.exp(chainer.Variable(clip(F.tanh(x).array)))

    return [seen(call(normal(2, 3, seed=k))) for k in range(CALLS)]


@program()
def containers(way):
    @way
    def call(things, scale=1.0, both=True):
        y = F.relu(things["x"][0]) * scale
        return {"y": y, "list": [things["y"]]} if both else y

    found = []
    for k in range(2 * CALLS):
        things = {"x": (chainer.Variable(normal(2, 3, seed=k)),), "y": normal(2, seed=k)}
        found.append(seen(call(things, scale=2.0, both=k % 3 > 0)))
    return found


@pytest.mark.parametrize(("program", "python"), PROGRAMS)
def test_program(program, python):
    assert_replayed(program, python)


def into_an_argument(x):
    x[0] = 0
    return F.tanh(x) * 2


def shaped_by_values(x):
    return F.tanh(x) * len(cupy.unique(cupy.abs(x) > 1))


DYNAMIC = {
    into_an_argument: "an array was written in place",
    shaped_by_values: "the shape of the result of cupy.unique depends on values",
}


@pytest.mark.parametrize("function", DYNAMIC, ids=lambda function: function.__name__)
def test_what_is_not_static_says_so(function):
    static = sdbr.static_graph(lambda x: function(x))
    cupy.random.seed(1)
    want = [seen(function(normal(2, 3, seed=k))) for k in range(3)]
    cupy.random.seed(1)
    with pytest.warns(sdbr.SdbrWarning, match=DYNAMIC[function]):
        got = [seen(static(normal(2, 3, seed=k))) for k in range(3)]
    assert_alike(got, want)
    assert static.schedule_manager.statistics.replays == 0


def test_kernels_of_other_arrays_are_nobodys_concern():
    scale = normal(3)
    static = sdbr.static_graph(lambda x: F.relu(x) * THREE(scale))
    for k in range(4):
        want = seen(F.relu(normal(2, 3, seed=k)) * (scale * 3))
        assert_alike(seen(static(chainer.Variable(normal(2, 3, seed=k)))), want)


def test_second_derivatives():
    found = []
    for wrap in (lambda f: f, sdbr.static_graph(enable_double_backprop=True)):
        call = wrap(lambda x: F.sum(F.tanh(x) ** 2))
        of_way = []
        for k in range(CALLS):
            x = chainer.Variable(normal(2, 3, seed=k))
            (g,) = chainer.grad([call(x)], [x], enable_double_backprop=True)
            F.sum(g * g).backward()
            of_way.append(seen(x.grad))
        found.append(of_way)
    assert_alike(*found)
    assert call.schedule_manager.statistics.replays == CALLS - 1


def test_memory_is_that_of_cupy_and_flat():
    call = sdbr.static_graph(lambda x: F.sum(F.tanh(x) ** 2))
    pool = cupy.get_default_memory_pool()

    def run(k):
        x = chainer.Variable(normal(20, 30, seed=k))
        call(x).backward()

    for k in range(4):
        run(k)
    gc.collect()  # what others have left
    used = pool.used_bytes()
    for k in range(50):
        run(k)
    assert pool.used_bytes() == used
    assert call.schedule_manager.statistics.replays == 53


def test_results_are_safe_to_keep():
    call = sdbr.static_graph(lambda x: F.tanh(x))
    kept = [call(normal(4, 3, seed=k)) for k in range(20)]
    for k, y in enumerate(kept):
        assert_alike(seen(y), seen(F.tanh(normal(4, 3, seed=k))))
