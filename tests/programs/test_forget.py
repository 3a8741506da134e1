"""``F.forget`` is what its function is; its activations are made again where that is cheap."""

from __future__ import annotations

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.comparison import BACKENDS, assert_all_near, copy_of, gradients_of, state_of
from tests.harness.models import Net, floats
from tests.tolerances import GRADIENTS, SUMS

BATCHES = [floats(5, 4)(np.random.RandomState(i)) for i in range(12)]


def block(s, x):
    return F.tanh(s.b(F.relu(s.a(x)))) + x


def alone(s, x):
    return F.sum(F.forget(lambda a: block(s, a), x) ** 2)


def between(s, x):
    h = F.sigmoid(s.c(x))
    return F.mean_squared_error(s.d(F.forget(lambda a: block(s, a) * 2, h)), x)


def nested(s, x):
    def outer(a):
        return F.tanh(s.c(F.forget(lambda b: block(s, b), F.relu(a)))) * a

    return F.sum(s.d(F.forget(outer, x)) ** 2)


def two(s, x):
    h = F.forget(lambda a: F.tanh(s.a(a)), s.c(x))
    return F.sum(s.d(F.forget(lambda a: F.sigmoid(s.b(a)) * a, h)) ** 2)


def several(s, x):
    def both(a, b):
        h = F.sigmoid(s.a(a))
        return h * s.b(b), h

    u, w = F.forget(both, s.c(x), x)
    return F.sum(u * u) + F.mean(s.d(w))


def arrays_and_numbers(s, x):
    def inside(a):
        return F.scale(s.a(a), np.arange(4, dtype="f"), axis=1) + 0.5 * a[:, ::-1] - a.array.max()

    return F.mean(F.tanh(s.b(F.forget(inside, x))))


def half_of_it(s, x):
    """A part of what is inside has no history in either run."""

    def inside(a):
        with chainer.no_backprop_mode():
            gate = F.sigmoid(s.b(a))
        return F.tanh(s.a(a)) * gate

    return F.sum(F.forget(inside, s.c(x)) ** 2)


def cells(s, x):
    """Weights are put together inside, each time anew; casts that change nothing."""

    def inside(a):
        w = F.concat([s.a.W, s.b.W], axis=0)
        h = F.tanh(F.linear(F.cast(a, "float32"), w))
        return F.linear(h[:, :4] * h[:, 4:], F.concat([s.a.W, s.b.W], axis=0))

    return F.mean(F.forget(inside, s.c(x)) ** 2)


HEAP: list = [None]


def stored(s, x):
    def inside(a):
        HEAP[0] = s.a(a)
        return F.tanh(HEAP[0])

    return F.sum(F.forget(inside, x) ** 2)


NATIVE = [alone, between, nested, two, several, arrays_and_numbers, half_of_it, cells]


def shared(s, x):
    return F.sum(s.a(F.forget(lambda a: F.tanh(s.a(a)), s.b(x))) ** 2)


def shared_by_two(s, x):
    h = F.forget(lambda a: F.tanh(s.a(a)), s.b(x))
    return F.sum(F.forget(lambda a: F.tanh(s.a(a)), h) ** 2)


def shared_inside(s, x):
    def outer(a):
        return s.a(F.forget(lambda b: F.tanh(s.a(b)), a))

    return F.sum(F.forget(outer, x) ** 2)


def captured(s, x):
    h = s.b(x)
    return F.sum(F.forget(lambda a: F.tanh(s.a(a)) * h, s.c(x)) ** 2)


def given_and_captured(s, x):
    h = s.b(x)
    return F.sum(F.forget(lambda a: F.tanh(s.a(a)) * h, h) ** 2)


def drawing(s, x):
    return F.sum(F.forget(lambda a: F.dropout(s.a(a), 0.3), x) ** 2)


def normalized(s, x):
    return F.sum(s.b(F.forget(lambda a: F.relu(s.a(s.bn(a))), x)) ** 2)


def reported(s, x):
    def inside(a):
        h = s.a(a)
        chainer.report({"mean": F.mean(h)}, s)
        return F.tanh(h)

    return F.sum(F.forget(inside, x) ** 2)


def written(s, x):
    def inside(a):
        s.h = s.a(a)
        return F.tanh(s.h)

    return F.sum(F.forget(inside, x) ** 2)


def asking(s, x):
    def inside(a):
        return s.a(a) * 2 if chainer.config.enable_backprop else s.a(a)

    return F.sum(F.forget(inside, x) ** 2)


def passed_on(s, x):
    u, w = F.forget(lambda a: (a, F.tanh(s.a(a))), s.b(x))
    return F.sum(u * w)


def out_of_it(s, x):
    found = []

    def inside(a):
        found.append(s.a(a))
        return F.tanh(found[0])

    y = F.forget(inside, x)
    return F.sum(y * found[0])


PYTHON = [
    shared, shared_by_two, shared_inside, drawing, normalized, reported, asking, passed_on, written,
]  # fmt: skip
#: A Python op would go on with what the first call has computed.
DYNAMIC = [captured, given_and_captured, out_of_it]
KNOWN = {"ids": lambda place: place.__name__}


def make(place):
    np.random.seed(0)
    links = {name: L.Linear(4, 4) for name in "abcd"}
    return Net(place, bn=L.BatchNormalization(4), **links)


def check_calls(place, backend="auto", on_dynamic="raise"):
    models = [make(place), None]
    models[1] = sdbr.static_graph(make(place), on_dynamic=on_dynamic, backend=backend)

    def iteration(model, i):
        np.random.seed(i)
        x = chainer.Variable(BATCHES[i]) if i % 2 else BATCHES[i]
        loss = model(x)
        if i != 3:
            model.cleargrads()
        loss.backward(loss_scale=4.0 if i == 4 else None)
        record = gradients_of(model)
        record |= {
            f"scale {name}": np.array(p._loss_scale or 0.0) for name, p in model.namedparams()
        }
        record["loss"] = copy_of(loss.array)
        if i % 2:
            record["x"] = copy_of(x.grad)
            if place not in DYNAMIC:
                record["gx"] = copy_of(chainer.grad([loss], [x])[0].array)
                record |= {f"{k} then": g for k, g in gradients_of(model).items()}
        return record | state_of(model)

    for i in range(8):
        want = iteration(models[0], i)
        assert_all_near(iteration(models[1], i), want, SUMS, f"iteration {i}")
    return models[1].schedule_manager.statistics


def check_steps(place, on_dynamic="raise"):
    models = [make(place), sdbr.static_graph(make(place), on_dynamic=on_dynamic)]
    optimizers = [chainer.optimizers.MomentumSGD(0.01).setup(model) for model in models]
    sdbr.static_optimizer(optimizers[1])
    for i in range(6):
        for model, optimizer in zip(models, optimizers, strict=True):
            np.random.seed(i)
            optimizer.update(model, BATCHES[i])
        assert_all_near(
            gradients_of(models[1]), gradients_of(models[0]), GRADIENTS, f"gradients {i}"
        )
        assert_all_near(state_of(models[1]), state_of(models[0]), SUMS, f"state {i}")
    return models[1].schedule_manager.statistics


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("place", NATIVE, **KNOWN)
def test_calls(place, backend):
    statistics = check_calls(place, backend)
    assert statistics.replays == 6 and statistics.python_ops == 0


@pytest.mark.parametrize("place", NATIVE, **KNOWN)
def test_steps(place):
    statistics = check_steps(place)
    assert statistics.steps == 5 and statistics.python_ops == 0


@pytest.mark.parametrize("place", PYTHON, **KNOWN)
def test_calls_that_are_otherwise(place):
    statistics = check_calls(place)
    assert statistics.replays == 5 and statistics.python_ops > 0


@pytest.mark.parametrize("place", PYTHON, **KNOWN)
def test_steps_that_are_otherwise(place):
    statistics = check_steps(place)
    assert statistics.steps == 0 and statistics.replays == 4


def cut_off(s, x):
    """No gradient goes back to what is given, those of the parameters inside are written."""

    def inside(a):
        h = a.array.copy()
        h[0] = 0
        return F.tanh(s.a(h))

    return F.sum(F.forget(inside, x) ** 2)


def test_calls_of_what_is_cut_off_from_what_it_is_given():
    plain, static = make(cut_off), sdbr.static_graph(make(cut_off), on_dynamic="raise")
    for i in range(8):
        found = []
        for model in (plain, static):
            x = chainer.Variable(BATCHES[i])
            model.cleargrads()
            model(x).backward()
            assert x.grad is None
            found.append(gradients_of(model))
        assert_all_near(found[1], found[0], SUMS, f"iteration {i}")
        assert plain.a.W.grad is not None
    statistics = static.schedule_manager.statistics
    assert statistics.replays == 6 and statistics.python_ops > 0


def test_steps_of_what_is_cut_off_from_what_it_is_given():
    statistics = check_steps(cut_off)
    assert statistics.steps == 0 and statistics.replays == 4


@pytest.mark.filterwarnings("ignore::sdbr.SdbrWarning")
@pytest.mark.parametrize("place", DYNAMIC, **KNOWN)
def test_what_is_dynamic(place):
    assert check_calls(place, on_dynamic="fallback").replays == 0
    assert check_steps(place, on_dynamic="fallback").replays == 0


def test_it_says_that_something_is_captured():
    static = sdbr.static_graph(make(captured), on_dynamic="raise")
    with pytest.raises(sdbr.NotStaticError, match="one more argument"):
        static(BATCHES[0])


def test_no_second_derivative():
    for model in (make(alone), sdbr.static_graph(make(alone))):
        for i in range(3):
            loss = model(BATCHES[i])
            with pytest.raises(RuntimeError, match="double backpropagation"):
                loss.backward(enable_double_backprop=True)
    assert model.schedule_manager.statistics.replays == 2


def test_without_gradients():
    static = sdbr.static_graph(make(shared), on_dynamic="raise")
    with chainer.no_backprop_mode(), chainer.using_config("train", False):
        for i in range(3):
            assert_all_near(
                {"y": static(BATCHES[i]).array}, {"y": shared(static, BATCHES[i]).array}, SUMS, ""
            )
    statistics = static.schedule_manager.statistics
    assert statistics.replays == 2 and statistics.python_ops == 0


def test_changed_before_the_backward():
    """It runs again with what the parameters are then."""
    models = [make(between), sdbr.static_graph(make(between), on_dynamic="raise")]
    for i in range(5):
        records = []
        for model in models:
            loss = model(BATCHES[i])
            model.a.W.array[...] *= 1.5
            model.cleargrads()
            loss.backward()
            records.append(gradients_of(model))
            model.a.W.array[...] /= 1.5
        assert_all_near(records[1], records[0], SUMS, f"iteration {i}")
    assert models[1].schedule_manager.statistics.replays == 4


def test_activations_are_not_kept():
    """The forward keeps what goes from one function to the next, the step no more than one."""
    sizes = []
    for kind in (F.forget, lambda f, x: f(x)):

        def deep(self, x, kind=kind):
            for layer in self.children():
                x = kind(lambda h, layer=layer: F.tanh(layer(F.sin(F.exp(-F.tanh(h) * h)))), x)
            return F.sum(x)

        net = Net(deep, **{name: L.Linear(64, 64) for name in "abcdefgh"})
        static = sdbr.static_graph(net, on_dynamic="raise")
        optimizer = sdbr.static_optimizer(chainer.optimizers.SGD(0.0)).setup(static)
        x = np.ones((256, 64), "f")
        for _ in range(3):
            static(x).backward()
        for _ in range(3):
            optimizer.update(static, x)
        statistics = static.schedule_manager.statistics
        assert statistics.python_ops == 0 and statistics.steps == 3
        schedule = static.schedule_manager.static_schedule
        kept = sum(row.nbytes for row in schedule.forward.kept_rows)
        sizes.append((kept, schedule.programs["step"].arena_bytes))
    (kept, arena), (all_kept, whole_arena) = sizes
    assert kept == 7 * 256 * 64 * 4 and all_kept > 4 * kept
    assert arena < whole_arena / 1.5


def test_where_second_derivatives_may_be_asked_for():
    plain, static = make(between), sdbr.static_graph(make(between), enable_double_backprop=True)
    for i in range(4):
        for model in (plain, static):
            model.cleargrads()
            model(BATCHES[i]).backward()
        assert_all_near(gradients_of(static), gradients_of(plain), GRADIENTS, f"iteration {i}")
    statistics = static.schedule_manager.statistics
    assert statistics.replays == 3 and statistics.python_ops > 0


def results(s, x):
    h = F.tanh(s.c(x))
    y = F.forget(lambda a: F.tanh(s.a(a)) * a, h)
    return F.sum(y**2), F.sum(s.b(h)), y, h


def alike(s, x):
    """Functions that are the same ones on the same arrays inside of two, and outside."""
    x = F.exp(s.c(x))
    y = F.forget(lambda a: F.tanh(F.sin(a)), x)
    z = F.forget(lambda a: F.sigmoid(F.sin(a)), x)
    return F.sum(y * z), F.sum(F.sin(x) * y), y, x


@pytest.mark.parametrize("place", [results, alike], **KNOWN)
def test_between_results(place):
    """What ``chainer.grad`` leads through adds to the parameters inside, and nothing else."""
    plain, static = make(place), sdbr.static_graph(make(place), on_dynamic="raise")

    def iteration(model, i):
        loss, other, y, h = model(BATCHES[i])
        model.cleargrads()
        record = {}
        for n, (end, start) in enumerate([(loss, y), (other, h), (loss, h)]):
            (g,) = chainer.grad([end], [start])
            record[f"{n}"] = copy_of(g.array)
            record |= {f"{n} {k}": g for k, g in gradients_of(model).items()}
        (loss + other).backward(retain_grad=i % 2 == 1)
        return record | gradients_of(model) | ({"y": copy_of(y.grad)} if i % 2 else {})

    for i in range(5):
        want = iteration(plain, i)
        assert_all_near(iteration(static, i), want, SUMS, f"iteration {i}")
    statistics = static.schedule_manager.statistics
    assert statistics.replays == 4 and statistics.python_ops == 0
