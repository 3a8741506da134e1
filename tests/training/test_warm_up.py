"""``sdbr.warm_up`` of calls, and by shapes alone."""

import warnings

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L
from chainer import optimizers


def network():
    chain = chainer.Sequential(
        L.Linear(4, 5), L.BatchNormalization(5), F.relu, F.dropout, L.Linear(5, 3)
    )
    return sdbr.static_graph(chain)


def everything(link):
    return {name: np.copy(value) for name, value in chainer.serializers.npz.serialize(link).items()}


def test_calls_by_shapes():
    """Each shape is replayed from the first call on; nothing has changed."""
    model = network()
    before, state = everything(model), np.random.get_state()[1].tolist()
    assert sdbr.warm_up(model, shapes=[(3, 4), (8, 4), (8, 4)]) >= 5
    for name, value in everything(model).items():
        np.testing.assert_array_equal(value, before[name], err_msg=name)
    assert np.random.get_state()[1].tolist() == state
    statistics = model.schedule_manager.statistics
    made = statistics.traces + statistics.builds
    for n in (3, 8, 3):
        replays = statistics.replays
        model(np.ones((n, 4), "f"))
        assert statistics.replays == replays + 1
    assert statistics.traces + statistics.builds == made


def test_inference():
    model = network()
    with chainer.using_config("train", False), chainer.no_backprop_mode():
        sdbr.warm_up(model, shapes=[(2, 4)])
        traces = model.schedule_manager.statistics.traces
        model(np.ones((2, 4), "f"))
    assert model.schedule_manager.statistics.traces == traces == 1


def test_calls_with_arguments():
    function = sdbr.static_graph(lambda x, *, scale: F.tanh(x) * scale)
    assert 2 <= sdbr.warm_up(function, np.ones(3, "f"), scale=2.0) <= 3
    replays = function.schedule_manager.statistics.replays
    function(np.zeros(3, "f"), scale=0.5)
    assert function.schedule_manager.statistics.replays == replays + 1


def test_steps_by_shapes():
    model = sdbr.static_graph(L.Classifier(network()))
    optimizer = sdbr.static_optimizer(optimizers.Adam()).setup(model)
    before = everything(model)
    sdbr.warm_up(optimizer, model, shapes=[((6, 4), (6,)), ((2, 4), (2,))], dtype=("f", np.int32))
    for name, value in everything(model).items():
        np.testing.assert_array_equal(value, before[name], err_msg=name)
    statistics = model.schedule_manager.statistics
    steps = statistics.steps
    assert optimizer.t == 0
    for n in (6, 2, 6):
        optimizer.update(model, np.ones((n, 4), "f"), np.zeros(n, "i"))
    assert statistics.steps == steps + 3


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"shapes": []}, ValueError, "shapes: expected at least one"),
        ({"shapes": 8}, ValueError, "shapes: expected a sequence of shapes, one for each call"),
        ({"shapes": "ab"}, ValueError, "shapes: expected a sequence of shapes, one for each call"),
        ({"shapes": (8, 4)}, ValueError, r"such as \[\(8, 784\)\], got 8 in \(8, 4\)"),
        ({"shapes": [("a", 4)]}, ValueError, "shapes: expected shapes of arrays, got"),
        ({"shapes": [(-1, 4)]}, ValueError, "shapes: expected shapes of arrays, got"),
        ({"shapes": [((2, 4), (2,))], "dtype": ("f",)}, ValueError, "dtype: expected one or 2"),
        ({"shapes": [(2, 4)], "dtype": 3}, ValueError, "dtype: expected a dtype, or one for each"),
        ({"shapes": [(2, 4)], "scale": 2.0}, TypeError, "shapes: stand in the place of arguments"),
    ],
)
def test_wrong_arguments(arguments, error, text):
    model = network()
    with pytest.raises(error, match=text):
        sdbr.warm_up(model, **arguments)
    assert model.schedule_manager.statistics.calls == 0


def test_what_is_no_target():
    with pytest.raises(TypeError, match="target: expected an optimizer, a link or a function"):
        sdbr.warm_up(3)
    with pytest.raises(TypeError, match="lossfun: missing"):
        sdbr.warm_up(optimizers.SGD().setup(network()))
    with pytest.raises(TypeError, match="lossfun: expected a function or a link, got NoneType"):
        sdbr.warm_up(optimizers.SGD().setup(network()), None)
    with pytest.raises(ValueError, match=r"target: expected an optimizer that is set up"):
        sdbr.warm_up(optimizers.SGD(), network(), np.ones((2, 4), "f"))
    with pytest.raises(TypeError, match="target: expected something static to be called"):
        sdbr.warm_up(L.Linear(4, 3), shapes=[(2, 4)])


def test_many_kinds_of_calls():
    """Each has its schedule, although so many misses in a row would else not be traced."""
    model = sdbr.static_graph(L.Classifier(network()), max_schedules=40)
    optimizer = sdbr.static_optimizer(optimizers.Adam()).setup(model)
    kinds = [(np.ones((n, 4), "f"), np.zeros(n, t)) for n in range(2, 10) for t in "ilhb"]
    before = everything(model)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for x, t in kinds:
            sdbr.warm_up(optimizer, model, x, t)
    for name, value in everything(model).items():
        np.testing.assert_array_equal(value, before[name], err_msg=name)
    statistics = model.schedule_manager.statistics
    assert statistics.define_by_run_calls == 0
    steps, made = statistics.steps, statistics.traces + statistics.builds
    for x, t in kinds:
        optimizer.update(model, x, t)
    assert statistics.steps == steps + len(kinds)
    assert statistics.traces + statistics.builds == made


def test_more_kinds_than_schedules():
    """What is there stays, and a warning says what to do; few calls are made in vain."""
    model = sdbr.static_graph(network(), max_schedules=3)
    with pytest.warns(sdbr.SdbrWarning, match="there are max_schedules=3 schedules"):
        made = sdbr.warm_up(model, shapes=[(n, 4) for n in (2, 3, 6, 7, 9)])
    assert made <= 13
    statistics = model.schedule_manager.statistics
    replays = statistics.replays
    for n in (2, 3, 6):
        model(np.ones((n, 4), "f"))
    assert statistics.replays == replays + 3


def test_calls_of_a_warm_up_are_no_calls_that_come():
    """They neither pay for traces of those nor are counted among their misses."""
    model = sdbr.static_graph(network(), max_schedules=40)
    model(np.ones((30, 4), "f"))
    before = model.schedule_manager.back_off.to_dict()
    sdbr.warm_up(model, shapes=[(n, 4) for n in range(2, 24)])
    assert model.schedule_manager.back_off.to_dict() == before
