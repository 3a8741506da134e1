"""Whatever fails in an audited step or call: what is left is right, and nothing is called wrong."""

import warnings

import sdbr

import chainer
import pytest

from tests.conftest import ON

from .failing import (
    LEFT,
    STEPS,
    WRITTEN,
    NoMemory,
    called,
    everything,
    made,
    nothing_is_left,
    of_calls,
    step,
    told,
    ways_to_fail,
)
from .programs import Way, assert_alike, state

pytestmark = pytest.mark.skipif(ON == "gpu", reason="a real driver does not fail when it is told")
EVERY = 1e9
#: An audit asks for memory hundreds of times.
SOME = 23


@pytest.fixture(autouse=True)
def audits_on():
    with chainer.using_config("sdbr_audit", EVERY), warnings.catch_warnings():
        warnings.simplefilter("ignore", sdbr.SdbrWarning)
        warnings.filterwarnings("error", "(?s).*differs from define-by-run", sdbr.SdbrWarning)
        yield


@pytest.fixture(scope="module")
def wanted():
    """What there is after each step of define-by-run."""
    model, optimizer = made(Way(False))
    return [step(model, optimizer, k) for k in range(STEPS)]


@pytest.mark.parametrize("at", [1, 3])
@pytest.mark.parametrize("fails", list(ways_to_fail()))
def test_steps(fails, at, wanted, executables):
    """A step that failed is made again; one whose audit failed was made."""

    def run(n):
        model, optimizer = made(Way(True))
        for k in range(at):
            step(model, optimizer, k)
        before, t = everything(model), optimizer.t
        with fails(n) as has_failed:
            error = told(lambda: step(model, optimizer, at))
        assert error is None or error[2] or fails is NoMemory, error
        begin = at
        if error is None:
            assert_alike(everything(model), wanted[at])
            begin += 1
        elif WRITTEN in error[1]:
            return has_failed()  # nobody knows from where to go on
        else:
            assert_alike(everything(model), before)
            assert optimizer.t == t
        for k in range(begin, STEPS):
            assert_alike(step(model, optimizer, k), wanted[k])
        audits, statistics = model.schedule_manager.audits, model.schedule_manager.statistics
        assert (audits.failed, statistics.steps) == (0, STEPS - 1)
        assert audits.inconclusive <= 1
        return has_failed()

    n = 1
    with nothing_is_left(executables, LEFT):
        while run(n):
            n += SOME if fails is NoMemory else 3
            executables.clear()
    assert n > 1 or at == 3


@pytest.mark.parametrize("at", [1, 3])
def test_calls_and_backwards(at, executables):
    model, xs = of_calls(Way(False))
    wanted = [called(model, x, k) for k, x in enumerate(xs)]
    del model

    def run(n):
        model, _ = of_calls(Way(True))
        for k in range(at):
            called(model, xs[k], k)
        before = state(model)[0][1]
        with NoMemory(n) as has_failed:
            error = told(lambda: called(model, xs[at], at))
        if error is None:
            assert_alike(state(model), wanted[at][1])
        assert_alike(state(model)[0][1], before)
        for k in range(at, STEPS):
            assert_alike(called(model, xs[k], k), wanted[k])
        assert model.schedule_manager.audits.failed == 0
        return has_failed()

    n = 1
    with nothing_is_left(executables, LEFT):
        while run(n):
            n += SOME
            executables.clear()
    assert n > 100
