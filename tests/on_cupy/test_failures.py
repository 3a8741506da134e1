"""Whatever fails in a step or a call: what is said, what is left, and what comes after it."""

import re
import warnings

import sdbr
from sdbr.base.errors import BackendError, OutOfMemoryError

import chainer
import chainer.functions as F
import chainer.links as L
import cupy
import pytest
from chainer import optimizers

from tests.conftest import ON
from tests.harness import device

from . import failing
from .failing import (
    LEFT,
    STATUSES,
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
from .programs import Way, assert_alike, normal, seen, state, whole

pytestmark = pytest.mark.skipif(ON == "gpu", reason="a real driver does not fail when it is told")


@pytest.fixture(autouse=True)
def audits_off():
    """They have files of their own; here each call of the driver is the replay's."""
    with chainer.using_config("sdbr_audit", "off"):
        yield


CAPTURES = {
    "cuStreamBeginCapture_v2": 900,
    "cuStreamEndCapture": 900,
    "cuGraphInstantiateWithFlags": 2,
}
#: What gives back, and whose error nobody can mend.
GIVING_BACK = (
    "cuCtxPopCurrent_v2", "cuGraphDestroy", "cuGraphExecDestroy", "cuMemFree_v2",
    "cuMemFreeHost", "cuModuleUnload", "cuStreamDestroy_v2",
)  # fmt: skip
WHERE = r"in (a )?(step|forward|backward|program).*on GPU 0"


@pytest.fixture(scope="module")
def wanted():
    """What there is after each step of define-by-run."""
    model, optimizer = made(Way(False))
    return [step(model, optimizer, k) for k in range(STEPS)]


def with_failing(fails, at, wanted, executables, may_pass=False):
    """Steps, in the one numbered `at` of which something fails; what was said of it.

    That step is made again, and all after it; ``None`` once nothing has failed.
    """
    # Without a context nothing can be given back; here it is there again afterwards.
    with nothing_is_left(executables, LEFT if may_pass else ()):
        return _with_failing(fails, at, wanted, may_pass)


def _with_failing(fails, at, wanted, may_pass):
    way = Way(True)
    model, optimizer = made(way)
    for k in range(at):
        step(model, optimizer, k)
    before, t = everything(model), optimizer.t
    with fails() as has_failed:
        error = told(lambda: step(model, optimizer, at))
    if not has_failed():
        assert error is None, error
        assert_alike(everything(model), wanted[at])
        return None
    if error is None:
        assert may_pass
        assert_alike(everything(model), wanted[at])
        at += 1
    elif WRITTEN in error[1]:
        assert optimizer.t == t
        step(model, optimizer, at)  # nobody knows from where
        return error
    else:
        assert_alike(everything(model), before)
        assert optimizer.t == t
    for k in range(at, STEPS):
        assert_alike(step(model, optimizer, k), wanted[k])
    (statistics,) = way.statistics()
    assert statistics.python_ops == 0
    assert statistics.steps == STEPS - 1, statistics
    return error or ()


def each_time(make, at, wanted, executables, may_pass=False):
    """What was said when the first, the second, ... call failed, till there is none."""
    found = []
    while True:
        n = len(found) + 1
        said = with_failing(lambda: make(n), at, wanted, executables, may_pass)  # noqa: B023
        if said is None:
            return found
        found.append(said)


@pytest.mark.parametrize("at", [1, 2, 4])
@pytest.mark.parametrize("name", STATUSES)
def test_each_call_of_the_driver(name, at, wanted, executables):
    status, words = STATUSES[name]

    def make(n):
        return device.failing(name, n, status)

    if name == "cuLaunchKernel" and at < 4:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sdbr.SdbrWarning)  # of those that were recorded
            found = each_time(make, at, wanted, executables, may_pass=True)
    else:
        # Before something is given back as well.
        may_pass = name == "cuCtxPushCurrent_v2"
        found = each_time(make, at, wanted, executables, may_pass)
    errors = [error for error in found if error]
    for _, text, is_ours in errors:
        assert is_ours
        assert_says(text, words)
    if at == 1:
        assert errors
    if name == "cuGraphLaunch":
        assert errors and not any(WRITTEN in text for _, text, _ in errors)


def assert_says(text, words):
    assert re.search(words, text, re.DOTALL), text
    assert re.search(WHERE, text), text


@pytest.mark.parametrize("name", CAPTURES)
def test_what_cannot_be_recorded_is_launched(name, wanted, executables):
    """One by one, with one warning; what was for memory is recorded later."""
    way = Way(True)
    model, optimizer = made(way)
    step(model, optimizer, 0)
    with (
        device.failing(name, 1, CAPTURES[name]) as has_failed,
        pytest.warns(sdbr.SdbrWarning, match="launched one by one.*in words") as warned,
    ):
        assert_alike(step(model, optimizer, 1), wanted[1])
    assert has_failed() and len(warned) == 1
    assert_says(str(warned[0].message), f"{name}.*in step, 17 ops: from 0 linear")
    assert warned[0].filename == failing.__file__
    last = executables[-1]
    assert last.recorded == 0
    text = f"launched one by one: ops 0 to {len(last.program) - 1}: {name}"
    assert text in str(sdbr.explain(model))
    for k in range(2, STEPS):
        assert_alike(step(model, optimizer, k), wanted[k])
    is_for_memory = CAPTURES[name] == 2
    assert bool(last.recorded) == is_for_memory
    assert (text in str(sdbr.explain(model))) != is_for_memory
    (statistics,) = way.statistics()
    assert (statistics.steps, statistics.python_ops) == (STEPS - 1, 0)


def test_launches_one_by_one_that_fail(wanted, executables):
    """Before what outlives the step all is as it was; after it the error says what may be."""
    found = []
    for n in range(1, 100):
        way = Way(True)
        model, optimizer = made(way)
        step(model, optimizer, 0)
        with device.failing("cuStreamBeginCapture_v2", 1, 900), pytest.warns(sdbr.SdbrWarning):
            step(model, optimizer, 1)
        before = everything(model)
        with device.failing("cuLaunchKernel", n, 701) as has_failed:
            error = told(lambda: step(model, optimizer, 2))  # noqa: B023
        if not has_failed():
            break
        found.append(error[1])
        assert_says(error[1], "LAUNCH_OUT_OF_RESOURCES")
        if WRITTEN not in error[1]:
            assert_alike(everything(model), before)
            assert_alike(step(model, optimizer, 2), wanted[2])
    written = [WRITTEN in text for text in found]
    assert written == sorted(written) and len(set(written)) == 2
    assert any("op 0 " in text for text in found[1:])  # the first writes words


@pytest.mark.parametrize("name", GIVING_BACK)
def test_what_gives_back_fails_in_silence(name, wanted, executables):
    for at in (1, 2):
        each_time(lambda n: device.failing(name, n, 1), at, wanted, executables, may_pass=True)


@pytest.mark.parametrize("status", [214, 700, 709, 719])
@pytest.mark.parametrize("name", ["cuGraphLaunch", "cuCtxPushCurrent_v2", "cuLaunchKernel"])
def test_a_lost_context(name, status, executables):
    with nothing_is_left(executables):
        model, optimizer = made(Way(True))
        for k in range(3):
            step(model, optimizer, k)
        with device.failing(name, 1, status):
            for _ in range(2):  # it stays lost
                with pytest.raises(BackendError, match=r"context is lost.*start it") as found:
                    step(model, optimizer, 3)
                assert re.search(WHERE, str(found.value), re.DOTALL)
        del model, optimizer, found


def test_a_context_that_is_lost_while_nobody_waits():
    model, optimizer = made(Way(True))
    for k in range(3):
        step(model, optimizer, k)
    with device.failing("cuCtxSynchronize", 1, 700):
        text = "cuCtxSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS.*context is lost.*on GPU 0"
        with pytest.raises(BackendError, match=text):
            sdbr.synchronize()


OF_MEMORY = r"out of memory on GPU 0, for .* of [\d,]+ bytes \([\d.,]+ MiB\).*smaller batches"


@pytest.mark.parametrize("at", [1, 2, 4])
def test_each_request_for_memory(at, wanted, executables):
    found = each_time(NoMemory, at, wanted, executables)
    assert len(found) >= (8 if at == 1 else 1)  # draws are arrays of CuPy's in each step
    for kind, text, _ in found:
        assert issubclass(kind, OutOfMemoryError) and issubclass(kind, BackendError)
        assert issubclass(kind, cupy.cuda.memory.OutOfMemoryError)
        assert "out of memory on GPU 0" in text
    if at == 1:
        assert any(re.search(OF_MEMORY, text) and "arena of a step" in text for _, text, _ in found)
        assert any("a gradient of" in text for _, text, _ in found)
        assert any("a result of" in text for _, text, _ in found)


def test_the_size_of_an_arena():
    """It is named to the byte."""
    model, optimizer = made(Way(True))
    step(model, optimizer, 0)
    pool = cupy.get_default_memory_pool()
    pool.free_all_blocks()
    pool.set_limit(pool.total_bytes() + 64)
    try:
        with pytest.raises(OutOfMemoryError, match=r"of a step of ([\d,]+) bytes") as found:
            step(model, optimizer, 1)
    finally:
        pool.set_limit(0)
    step(model, optimizer, 1)
    program = model.schedule_manager.static_schedule.programs["step"]
    size = int(re.search(r"step of ([\d,]+) bytes", str(found.value))[1].replace(",", ""))
    assert size == program.arena_bytes


@pytest.mark.parametrize("fails", list(ways_to_fail()))
@pytest.mark.parametrize("at", [1, 3])
@pytest.mark.filterwarnings("ignore:kernels are launched one by one")
def test_calls_and_backwards(fails, at, executables):
    """A call that failed is made again, and its backward."""
    model, xs = of_calls(Way(False))
    wanted = [called(model, x, k) for k, x in enumerate(xs)]
    del model

    def run(n):
        model, _ = of_calls(Way(True))
        for k in range(at):
            called(model, xs[k], k)
        before = state(model)[0][1]
        with fails(n) as has_failed:
            error = told(lambda: called(model, xs[at], at))
        assert error is None or error[2] or fails is NoMemory, error
        assert_alike(state(model)[0][1], before)
        for k in range(at, STEPS):
            assert_alike(called(model, xs[k], k), wanted[k])
        statistics = model.schedule_manager.statistics
        assert (statistics.traces, statistics.python_ops) == (1, 0)
        return has_failed()

    n = 1
    with nothing_is_left(executables, LEFT):
        while run(n):
            n += 1
            executables.clear()


def convolutional(self, x, t):
    return F.softmax_cross_entropy(self.out(F.relu(self.filters(x))), t)


@pytest.mark.parametrize("fails", list(ways_to_fail()))
@pytest.mark.filterwarnings("ignore:kernels are launched one by one")
def test_steps_of_several_parts(fails, executables):
    """Chainer's own code runs between graphs: parameters and moments are as before."""
    parts = {"filters": lambda: L.Convolution2D(1, 2, 3), "out": lambda: L.Linear(8, 4)}
    data = [(normal(2, 1, 4, 4, seed=k), whole(4, 2, seed=k)) for k in range(3)]

    def make(way):
        model = way.model(convolutional, **parts)
        return model, way.optimizer(optimizers.MomentumSGD(0.1), model)

    model, optimizer = make(Way(False))
    wanted = []
    for batch in data:
        optimizer.update(model, *batch)
        wanted.append(everything(model))
    model, optimizer = make(Way(True))
    optimizer.update(model, *data[0])
    n = 1
    while True:
        before = [seen(p.array) for p in model.params()], everything(model)[1]
        with fails(n) as has_failed:
            error = told(lambda: optimizer.update(model, *data[1]))  # noqa: B023
        if not has_failed():
            break
        assert error is None or error[2], error
        if error is None or WRITTEN in error[1]:
            model, optimizer = make(Way(True))
            optimizer.update(model, *data[0])
        else:
            assert_alike(([seen(p.array) for p in model.params()], everything(model)[1]), before)
        n += 1
    assert n > 1 or fails is not NoMemory
    assert_alike(everything(model), wanted[1])
    optimizer.update(model, *data[2])
    assert_alike(everything(model), wanted[2])
    assert len(executables[-1].parts) > 1
