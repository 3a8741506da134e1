"""The arguments of Chainer's decorator keep their meaning; code written for it runs as it is."""

import logging

import sdbr

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np
import pytest

from tests.harness.comparison import assert_near
from tests.tolerances import GRADIENTS, RESULTS, ROUNDINGS, SUMS


def chain_of(decorator, method="__call__"):
    """A chain class as one writes it for ``chainer.static_graph``."""

    def call(self, x):
        return F.tanh(self.l2(F.relu(self.l1(x))))

    class Net(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.l1 = L.Linear(None, 8)
                self.l2 = L.Linear(8, 2)

    call.__name__ = call.__qualname__ = method
    setattr(Net, method, decorator(call))
    return Net


def x_of(n=4, seed=0):
    return np.random.RandomState(seed).randn(n, 3).astype("f")


def step(net, x):
    net.cleargrads()
    loss = F.sum(net(x))
    loss.backward()
    return loss.array


DECORATORS = {
    "bare": lambda f: sdbr.static_graph(f),
    "parentheses": lambda f: sdbr.static_graph()(f),
    "all arguments": lambda f: sdbr.static_graph(
        force_test_define_by_run=False,
        minimize_cache_size=True,
        verbosity_level=0,
        enable_double_backprop=False,
    )(f),
}


@pytest.mark.parametrize("method", ["__call__", "forward"])
@pytest.mark.parametrize("form", list(DECORATORS))
def test_forms_of_the_decorator(form, method):
    net = chain_of(DECORATORS[form], method)()
    for i in range(4):
        step(net, x_of(seed=i))
    statistics = net.schedule_manager.statistics
    assert (statistics.calls, statistics.traces, statistics.replays) == (4, 1, 3)


def test_what_is_no_callable_and_arguments_nobody_knows():
    with pytest.raises(TypeError, match="target: expected"):
        sdbr.static_graph(3)
    with pytest.raises(TypeError, match="minimise_cache_size"):
        sdbr.static_graph(minimise_cache_size=True)


@pytest.mark.parametrize("force", [False, True])
def test_force_test_define_by_run(force):
    net = chain_of(sdbr.static_graph(force_test_define_by_run=force))()
    want = net(x_of()).array
    for _ in range(3):
        with chainer.using_config("train", False):
            assert_near(net(x_of()).array, want, ROUNDINGS, "values")
        net(x_of())
    statistics = net.schedule_manager.statistics
    assert statistics.traces == (1 if force else 2)
    assert statistics.define_by_run_calls == (3 if force else 0)
    assert statistics.replays == (3 if force else 5)


@pytest.mark.filterwarnings("ignore:.*five of the last eight calls:sdbr.SdbrWarning")
@pytest.mark.filterwarnings("ignore:.*max_schedules=3:sdbr.SdbrWarning")
@pytest.mark.parametrize("minimize", [False, True])
def test_minimize_cache_size(minimize):
    net = chain_of(sdbr.static_graph(minimize_cache_size=minimize, max_schedules=3))()
    for _ in range(2):
        for n in range(1, 6):
            net(x_of(n))
    manager = net.schedule_manager
    assert len(manager.schedules) == (3 if minimize else 5)
    # Sizes that come as often as those that are kept drive none of them out.
    statistics = manager.statistics
    assert statistics.traces + statistics.builds == (3 if minimize else 5)
    assert statistics.replays - statistics.builds == (3 if minimize else 5)


def test_a_mode_or_batch_size_that_changes_back_is_not_traced_again():
    net = chain_of(sdbr.static_graph(minimize_cache_size=True))()
    for _ in range(3):
        for train in (True, False):
            with chainer.using_config("train", train):
                for n in (4, 2):
                    net(x_of(n))
    assert net.schedule_manager.statistics.traces == 4
    assert net.schedule_manager.statistics.replays == 8


@pytest.fixture
def quiet_logger():
    """The logger of the package as in a new process."""
    logger = logging.getLogger("sdbr")
    handlers, level = logger.handlers[:], logger.level
    logger.handlers.clear()
    logger.setLevel(logging.NOTSET)
    yield logger
    logger.handlers[:] = handlers
    logger.setLevel(level)


@pytest.mark.parametrize("level", [0, 1, 2])
def test_verbosity_level(level, quiet_logger, capsys):
    """Each reason why calls run define-by-run is news once."""
    net = chain_of(sdbr.static_graph(verbosity_level=level))()
    for i in range(3):
        step(net, x_of(seed=i))
    with chainer.using_config("use_static_graph", False):
        for _ in range(3):
            net(x_of())
    out, err = capsys.readouterr()
    assert out == ""
    assert ("traced" in err) == (level > 0)
    assert err.count("traced") == (1 if level else 0)
    assert err.count("define-by-run") == (0, 1, 3)[level]


def test_verbosity_leaves_the_handlers_of_the_user_alone(quiet_logger, capsys):
    records = []

    class Handler(logging.Handler):
        def emit(self, record):
            records.append(record.getMessage())

    quiet_logger.addHandler(Handler())
    quiet_logger.setLevel(logging.INFO)
    net = chain_of(sdbr.static_graph(verbosity_level=1))()
    net(x_of())
    assert len(records) == 1 and "traced" in records[0]
    assert capsys.readouterr() == ("", "")


def test_enable_double_backprop():
    def penalty(net, x):
        x = chainer.Variable(x)
        y = F.sum(net(x))
        (gx,) = chainer.grad([y], [x], enable_double_backprop=True)
        loss = F.sum(gx * gx)
        net.cleargrads()
        loss.backward()
        return [p.grad.copy() for _, p in sorted(net.namedparams()) if p.grad is not None]

    plain = chain_of(lambda f: f)()
    static = chain_of(sdbr.static_graph(enable_double_backprop=True))()
    plain(x_of()), static(x_of())
    static.copyparams(plain)
    for i in range(4):
        want, got = penalty(plain, x_of(seed=i)), penalty(static, x_of(seed=i))
        assert len(want) == len(got)
        for g, w in zip(got, want, strict=True):
            np.testing.assert_allclose(g, w, rtol=SUMS, atol=RESULTS * np.abs(w).max())
    assert static.schedule_manager.statistics.replays == 3

    without = chain_of(sdbr.static_graph)()
    without(x_of())
    with pytest.raises(Exception, match="enable_double_backprop"):
        for i in range(2):
            penalty(without, x_of(seed=i))


@pytest.mark.parametrize("on", [True, False])
def test_attributes_are_there_when_static_graphs_are_used(on):
    net = chain_of(sdbr.static_graph)()
    with chainer.using_config("use_static_graph", on):
        for _ in range(3):
            net(x_of())
    assert hasattr(net, "schedule_manager") == on
    assert hasattr(net, "static_schedule") == on
    net(x_of())
    assert net.schedule_manager.statistics.calls == (4 if on else 1)


def test_end_forward_where_no_backward_follows():
    """The pattern that Chainer's documentation asks for."""
    net = chain_of(sdbr.static_graph)()
    for i in range(4):
        ys = [net(x_of(seed=i)), net(x_of(seed=i + 1))]
        assert ys[0].requires_grad
        net.schedule_manager.end_forward()
    ((schedule,),) = net.schedule_manager.schedules.values()
    assert len(schedule.instances) <= 2
    loss = F.sum(net(x_of()) + net(x_of()))
    loss.backward()
    assert net.l1.W.grad is not None
    assert net.schedule_manager.statistics.replays == 9


def test_lists_and_tuples_of_variables_as_in_the_language_model_of_chainer():
    class Unrolled(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.embed = L.EmbedID(7, 5)
                self.rnn = L.LSTM(5, 5)

        @sdbr.static_graph(verbosity_level=0)
        def __call__(self, words):
            return [self.rnn(self.embed(w)) for w in words]

    net = Unrolled()
    plain = net.copy(mode="copy")
    for i in range(5):
        words = list(np.random.RandomState(i).randint(0, 7, (3, 4)).astype("i"))
        ys = net(words)
        with chainer.using_config("use_static_graph", False):
            want = plain(words)
        assert type(ys) is list
        for y, w in zip(ys, want, strict=True):
            np.testing.assert_allclose(y.array, w.array, rtol=RESULTS, atol=ROUNDINGS)
        for model, outputs in ((net, ys), (plain, want)):
            loss = sum(F.sum(y) for y in outputs)
            model.cleargrads()
            loss.backward()
            loss.unchain_backward()
        for p, q in zip(net.params(), plain.params(), strict=True):
            np.testing.assert_allclose(p.grad, q.grad, rtol=GRADIENTS, atol=RESULTS)
    statistics = net.schedule_manager.statistics
    assert (statistics.traces, statistics.replays) == (2, 3)  # without and with a state before
