"""Each thread has a configuration of its own, and what replays know of it is of that thread."""

import sdbr

import chainer
import numpy as np
from chainer import functions as F

from tests.harness.threads import in_threads


class Scaled(chainer.Chain):
    """Another result in training than in a test."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.w = chainer.Parameter(np.array([1, 2, 3], np.float32))

    def forward(self, x):
        return F.relu(x + 1) * self.w if chainer.config.train else x * self.w


def results(model, x, n=4):
    """Of `n` calls, without a graph."""
    with chainer.no_backprop_mode():
        return [model(x).array.copy() for _ in range(n)]


def in_thread(action):
    """What `action` returns in a thread that has just begun."""
    return in_threads(1, lambda _: action())[0]


def test_a_thread_that_tests_and_one_that_trains():
    x = np.ones(3, np.float32)
    model = sdbr.static_graph(Scaled())
    with chainer.using_config("train", True):
        training = results(Scaled(), x, 1)[0]
    with chainer.using_config("train", False):
        testing = results(Scaled(), x, 1)[0]
    assert not np.array_equal(training, testing)

    def tested():
        with chainer.using_config("train", False):
            return results(model, x)

    with chainer.using_config("train", True):
        for _ in range(3):
            for y in results(model, x):
                np.testing.assert_array_equal(y, training)
            for y in in_thread(tested):
                np.testing.assert_array_equal(y, testing)
    statistics = model.schedule_manager.statistics
    assert (statistics.traces, statistics.replays, statistics.calls) == (2, 22, 24)


def test_a_setting_for_all_threads_changed_and_changed_back():
    x = np.ones(3, np.float32)
    model = sdbr.static_graph(Scaled())
    plain = Scaled()
    before = chainer.global_config.train
    try:
        for train in (True, True, False, False, True, False, True):
            chainer.global_config.train = train
            for y, wanted in zip(results(model, x), results(plain, x), strict=True):
                np.testing.assert_array_equal(y, wanted)
            for y in in_thread(lambda: results(model, x)):
                np.testing.assert_array_equal(y, wanted)
    finally:
        chainer.global_config.train = before
    statistics = model.schedule_manager.statistics
    assert (statistics.traces, statistics.replays, statistics.calls) == (2, 54, 56)


def test_a_hook_of_one_thread_is_no_hook_of_another():
    x = np.ones(3, np.float32)
    model = sdbr.static_graph(Scaled())
    results(model, x)
    hook = chainer.function_hooks.TimerHook()

    def hooked():
        with hook:
            results(model, x)
        return len(hook.call_history)

    assert in_thread(hooked) == 8
    before = model.schedule_manager.statistics.replays
    results(model, x)
    assert model.schedule_manager.statistics.replays == before + 4
    assert in_thread(hooked) == 16
    assert len(hook.call_history) == 16
