"""Batch normalization in programs: running averages in place, relu in the same op."""

import sdbr
from sdbr.ops.table import OPS

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np
import pytest

from tests.tolerances import ANOTHER_ORDER, ELEMENTS, LONG, RESULTS, ROUNDINGS, SUMS


class Images(chainer.Chain):
    """Two normalizations, one of images and one of vectors, each with a relu."""

    def __init__(self):
        super().__init__()
        np.random.seed(5)
        with self.init_scope():
            self.inner = L.Linear(6, 3 * 36, nobias=True)
            self.planes = L.BatchNormalization(3, decay=0.7)
            self.outer = L.Linear(108, 4, nobias=True)
            self.vectors = L.BatchNormalization(4)

    def forward(self, x):
        h = F.reshape(self.inner(x), (-1, 3, 6, 6))
        h = F.relu(self.planes(h))
        return F.sum(F.relu(self.vectors(self.outer(h))) ** 2)


class Static(Images):
    forward = sdbr.static_graph(Images.forward)


def batch(i):
    return np.random.default_rng(i).standard_normal((5, 6)).astype("f")


def names(program):
    return [OPS[code].name for code in program.opcodes]


def assert_same(a, b):
    for name, thing in a.__dict__.items():
        if isinstance(thing, np.ndarray):
            np.testing.assert_allclose(
                thing, b.__dict__[name], rtol=ANOTHER_ORDER, atol=ROUNDINGS, err_msg=name
            )
    for (name, p), (_, q) in zip(a.namedparams(), b.namedparams(), strict=True):
        np.testing.assert_allclose(
            p.array, q.array, rtol=ELEMENTS, atol=ANOTHER_ORDER, err_msg=name
        )


def links_of(model):
    return [model.planes, model.vectors]


def test_running_averages_move_in_whole_steps():
    models = [Images(), Static()]
    for model in models:
        optimizer = chainer.optimizers.SGD(0.01).setup(model)
        if isinstance(model, Static):
            optimizer = sdbr.static_optimizer(optimizer)
        for i in range(5):
            optimizer.update(model, batch(i))
    for a, b in zip(*map(links_of, models), strict=True):
        assert_same(a, b)
    statistics = models[1].schedule_manager.statistics
    assert statistics.steps >= 3 and statistics.python_ops == 0


@pytest.mark.parametrize("train", [True, False])
def test_running_averages_move_without_backprop_in_training_only(train):
    models = [Images(), Static()]
    with chainer.no_backprop_mode(), chainer.using_config("train", train):
        for i in range(4):
            y, z = (model(batch(i)).array for model in models)
            np.testing.assert_allclose(y, z, rtol=ANOTHER_ORDER)
    for a, b in zip(*map(links_of, models), strict=True):
        assert_same(a, b)
        assert (b.avg_mean != 0).any() == train
    assert models[1].schedule_manager.statistics.python_ops == 0
    assert models[1].schedule_manager.statistics.replays == 3


def test_running_averages_replaced_between_calls_are_seen():
    models = [Images(), Static()]
    for i in range(4):
        for model in models:
            if i == 2:
                model.planes.avg_mean = np.full(3, 7, "f")
            model(batch(i))
    assert_same(models[0].planes, models[1].planes)
    assert models[1].schedule_manager.statistics.replays >= 2


def test_validation_leaves_running_averages_alone():
    def validated(model):
        return sdbr.static_graph(model, validate_every=1)

    models = [Images(), validated(Images())]
    for i in range(4):
        for model in models:
            model.cleargrads()
            model(batch(i)).backward()
    for a, b in zip(*map(links_of, models), strict=True):
        assert_same(a, b)


def test_an_average_that_the_call_makes_stays_python():
    def call(x, g, b):
        return F.batch_normalization(
            x, g, b, running_mean=np.zeros(6, "f"), running_var=np.ones(6, "f")
        )

    static = sdbr.static_graph(call)
    for i in range(3):
        x, g, b = batch(i), np.ones(6, "f"), np.zeros(6, "f")
        np.testing.assert_allclose(
            static(x, g, b).array, call(x, g, b).array, rtol=RESULTS, atol=ROUNDINGS
        )
    assert "running_mean is an array that the call made" in str(sdbr.explain(static))


@pytest.mark.parametrize("off", ["", "normalization"])
def test_relu_is_part_of_the_normalization(off):
    model = Static()
    with chainer.using_config("sdbr_disabled_passes", f"elementwise,{off}"):
        for i in range(2):
            model.cleargrads()
            model(batch(i)).backward()
    programs = model.static_schedule.programs
    (backward,) = programs["backward"]
    assert names(programs["forward"]).count("relu") == (2 if off else 0)
    assert names(backward).count("relu_grad") == (2 if off else 0)
    assert names(backward).count("batch_norm_grad") == 2


@pytest.mark.parametrize("first", [True, False])
def test_a_sum_with_what_is_there_before_is_part_of_the_normalization(first):
    def call(x, g, b):
        if first:
            h = F.tanh(x)
            return F.relu(h + F.batch_normalization(F.exp(x), g, b))
        return F.relu(F.batch_normalization(F.exp(x), g, b) + F.tanh(x))

    static = sdbr.static_graph(call)
    with chainer.using_config("sdbr_disabled_passes", "elementwise"), chainer.no_backprop_mode():
        for i in range(2):
            args = batch(i), np.ones(6, "f"), np.zeros(6, "f")
            np.testing.assert_allclose(
                static(*args).array, call(*args).array, rtol=RESULTS, atol=ROUNDINGS
            )
    found = names(static.schedule_manager.static_schedule.programs["forward"])
    assert found == (
        ["tanh", "exp", "batch_norm"] if first else ["exp", "batch_norm", "tanh", "add", "relu"]
    )


def test_a_relu_whose_input_is_read_elsewhere_stays():
    def call(x, g, b):
        y = F.batch_normalization(x, g, b)
        return F.relu(y) + y

    static = sdbr.static_graph(call)
    for i in range(2):
        x, g, b = batch(i), np.ones(6, "f"), np.zeros(6, "f")
        np.testing.assert_allclose(
            static(x, g, b).array, call(x, g, b).array, rtol=RESULTS, atol=ROUNDINGS
        )
    program = static.schedule_manager.static_schedule.programs["forward"]
    assert names(program).count("batch_norm") == 1 and "activation=0" in program.disassemble()


@pytest.mark.parametrize("shape", [(8, 64, 32, 32), (64, 600, 4), (512, 300)])
def test_parts_of_channels_on_several_threads_give_the_same(shape):
    def call(x, g, b):
        return F.relu(F.batch_normalization(x, g, b))

    x = np.random.default_rng(1).standard_normal(shape).astype("f")
    results = []
    for threads in (1, 3):
        static = sdbr.static_graph(call)
        with chainer.using_config("sdbr_num_threads", threads):
            for _ in range(2):
                xs = [
                    chainer.Variable(v)
                    for v in (x, np.ones(shape[1], "f"), np.zeros(shape[1], "f"))
                ]
                y = static(*xs)
                y.grad = x
                y.backward()
        programs = static.schedule_manager.static_schedule.programs
        cut = programs["forward"].prepared.cut_ops + programs["backward"][0].prepared.cut_ops
        assert (cut > 1) == (threads > 1)
        results.append([y.array, *(v.grad for v in xs)])
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b)


def test_in_whole_steps_the_gradient_needs_no_output_of_relu():
    model = Static()
    optimizer = sdbr.static_optimizer(chainer.optimizers.SGD(0.01)).setup(model)
    with chainer.using_config("sdbr_disabled_passes", "elementwise"):
        for i in range(3):
            optimizer.update(model, batch(i))
    step = model.schedule_manager.static_schedule.programs["step"]
    assert names(step).count("batch_norm_relu_grad") == 2
    assert "batch_norm_grad" not in names(step) and "relu_grad" not in names(step)


def test_statistics_may_move_before_the_backward_of_a_call_in_test_mode():
    models = [Images(), Static()]
    for i in range(4):
        grads = []
        for model in models:
            model.cleargrads()
            with chainer.using_config("train", False):
                loss = model(batch(i))
            model(3 * batch(i + 1) + 1)
            loss.backward()
            grads.append([p.grad for _, p in sorted(model.namedparams())])
        for want, got in zip(*grads, strict=True):
            np.testing.assert_allclose(got, want, rtol=SUMS, atol=RESULTS * np.abs(want).max())
    assert models[1].schedule_manager.statistics.replays == 6


def test_what_is_added_behind_the_normalization_may_have_changed_since():
    class Sum(chainer.Chain):
        def __init__(self):
            super().__init__()
            np.random.seed(2)
            with self.init_scope():
                self.l = L.Linear(6, 6)
                self.bn = L.BatchNormalization(6)

        @sdbr.static_code
        def halve(self, inputs):
            inputs[0][...] *= 0.5

        def forward(self, x):
            more = F.tanh(self.l(x))
            y = self.bn(x)
            self.halve(inputs=[more.array])
            return F.sum(F.relu(y + more) ** 2)

    models = [Sum(), sdbr.static_graph(Sum(), on_dynamic="raise")]
    for i in range(3):
        losses = [model(batch(i)) for model in models]
        for model, loss in zip(models, losses, strict=True):
            model.cleargrads()
            loss.backward()
        np.testing.assert_allclose(losses[1].array, losses[0].array, rtol=RESULTS)
        np.testing.assert_allclose(models[1].l.W.grad, models[0].l.W.grad, rtol=LONG, atol=RESULTS)
    assert models[1].schedule_manager.statistics.replays == 2
