"""Arrays of the host that a call sends to the GPU: when they are read, and who may write them."""

import sdbr
from sdbr.base.errors import BackendError
from sdbr.devices.staging import staging

import chainer
import chainer.functions as F
import chainer.links as L
import cupy
import numpy as np
import pytest
from chainer import optimizers
from chainer.backends import cuda

from tests.conftest import ON
from tests.harness import device

from .programs import Way, assert_alike, late_runs, seen, state, two_devices
from .users import D, K, host

no_gpu = pytest.mark.skipif(ON == "gpu", reason="looks into the driver without a device")


def loss(self, x, t):
    x, t = self.device.send((x, t))
    return F.softmax_cross_entropy(self.layer(x), t)


def made(way, forward=loss):
    return way.model(forward, layer=lambda: L.Linear(D, K))


def statistics_of(model):
    return model.schedule_manager.statistics


@pytest.fixture
def audits_off():
    """An audit allocates; and where it finds that a replay does not fit, define-by-run counts."""
    with chainer.using_config("sdbr_audit", "off"):
        yield


# --- when they are read -----------------------------------------------------------------------
def trained(way, late):
    model = made(way)
    optimizer = way.optimizer(optimizers.Adam(), model)
    x, t = host(0)
    for _ in range(3):
        optimizer.update(model, x, t)

    def steps():
        for k in range(12):  # more than there are pieces of memory
            x[...], t[...] = host(k)
            optimizer.update(model, x, t)
            x[...], t[...] = 9, 0

    if late:
        with late_runs():
            steps()
    else:
        steps()
    return model


def test_the_caller_may_write_as_soon_as_a_step_is_back():
    want = trained(Way(False), late=False)
    model = trained(Way(True), late=True)
    assert_alike(state(model), state(want))
    assert statistics_of(model).steps == 14


def test_calls_whose_results_wait():
    way = Way(True)
    call = way(lambda x: F.relu(cupy.asarray(x)) * 2)
    x = np.zeros((5, 4), "f")
    for _ in range(3):
        call(x)
    kept = []
    with late_runs():
        for k in range(10):
            x[...] = k
            kept.append(call(x))
        x[...] = -1
    for k, y in enumerate(kept):
        assert y.array.get().tolist() == [[2.0 * k] * 4] * 5


def test_the_backward_is_that_of_what_was_sent():
    found = []
    for way in (Way(False), Way(True)):
        model = made(way)
        for k in range(6):
            x, t = host(k)
            y = model(x, t)
            x[...], t[...] = 5, 0
            model.cleargrads()
            y.backward()
            found.append(state(model))
    assert_alike(found[6:], found[:6])
    assert statistics_of(model).replays == 5


def test_two_calls_before_their_backwards():
    found = []
    for way in (Way(False), Way(True)):
        model = made(way)
        for k in range(5):
            first, second = model(*host(k)), model(*host(k + 20))
            model.cleargrads()
            first.backward()
            (2 * second).backward()
            found.append((seen([first, second]), state(model)))
    assert_alike(found[5:], found[:5])
    assert statistics_of(model).replays == 9


@no_gpu
def test_nothing_is_allocated_in_a_step(audits_off):
    way = Way(True)
    model = made(way)
    optimizer = way.optimizer(optimizers.Adam(), model)
    pool = cupy.get_default_memory_pool()

    def run(n):
        for k in range(n):
            optimizer.update(model, *host(k))

    run(12)
    before = pool.used_bytes(), device.balance()
    run(50)
    assert (pool.used_bytes(), device.balance()) == before
    assert statistics_of(model).steps == 61


def test_larger_and_smaller_batches_in_turn():
    found = []
    for way in (Way(False), Way(True)):
        call = way(lambda x: F.sum(cupy.asarray(x) ** 2))
        for k in range(18):
            n = (3, 700, 5000)[k % 3]
            found.append(seen(call(np.random.RandomState(k).randn(n, 4).astype("f"))))
    assert_alike(found[18:], found[:18])
    assert statistics_of(call).replays == 14  # the first call tells that it runs on a GPU


def test_other_streams():
    way = Way(True)
    model = made(way)
    for k in range(3):
        model(*host(k))
    found = []
    streams = cupy.cuda.Stream(), cupy.cuda.Stream()
    with late_runs():
        for k in range(6):
            with streams[k % 2]:
                found.append(model(*host(k)))
    want = [made(Way(False))(*host(k)) for k in range(6)]
    assert_alike(seen(found), seen(want))
    assert statistics_of(model).define_by_run_calls == 0


def test_steps_on_other_streams():
    """A copy does not come before the run that still reads what was sent there."""
    found = []
    for way in (Way(False), Way(True)):
        model = made(way)
        optimizer = way.optimizer(optimizers.Adam(), model)
        for k in range(3):
            optimizer.update(model, *host(k))
        streams = cupy.cuda.Stream(), cupy.cuda.Stream()
        with late_runs():
            for k in range(6):
                with streams[k % 2] if way.is_static else cuda.Stream.null:
                    optimizer.update(model, *host(k))
        found.append(state(model))
    assert_alike(*found)
    assert statistics_of(model).steps == 8


# --- where they lie ---------------------------------------------------------------------------
def test_each_place_has_a_schedule():
    found = []
    for way in (Way(False), Way(True)):
        model = made(way)
        for k in range(12):
            x, t = host(k)
            args = [x, t]
            if k % 4 in (1, 3):
                args[0] = cupy.asarray(x)
            if k % 4 in (2, 3):
                args[1] = cupy.asarray(t)
            found.append(seen(model(*args)))
    assert_alike(found[12:], found[:12])
    statistics = statistics_of(model)
    assert (statistics.traces, statistics.replays) == (4, 8)
    assert {key.on_host for key in model.schedule_manager.schedules} == {(0, 1), (1,), (0,), ()}


def test_variables_of_each_place_have_a_schedule():
    @sdbr.static_graph
    def call(x):
        return F.tanh(chainer.Variable(cupy.asarray(x.array)))

    for k in range(8):
        array = host(k)[0]
        x = chainer.Variable(cupy.asarray(array) if k % 2 else array, requires_grad=False)
        assert_alike(seen(call(x)), seen(F.tanh(cupy.asarray(array))))
    assert (statistics_of(call).traces, statistics_of(call).replays) == (3, 5)


def test_a_function_that_was_given_nothing_of_a_gpu():
    """What it reaches lies there: the first call tells."""
    found = []
    for way in (Way(False), Way(True)):
        layer = made(Way(False)).layer

        def forward(x, t, layer=layer):
            return F.softmax_cross_entropy(layer(cuda.to_gpu(x)), cuda.to_gpu(t))

        call = way(forward)
        for k in range(7):
            y = call(*host(k))
            layer.cleargrads()
            y.backward()
            found.append((seen(y), state(layer)))
    assert_alike(found[7:], found[:7])
    statistics = statistics_of(call)
    assert (statistics.traces, statistics.replays) == (2, 5)
    assert statistics.define_by_run_calls == 0


def test_a_function_that_stays_on_the_host_in_the_end(audits_off):
    layer = made(Way(False)).layer

    @sdbr.static_graph
    def call(x):
        return layer(layer.device.send(x))

    for where in ("@cupy:0", "@numpy") * 2:
        layer.to_device(where)
        for k in range(4):
            y = call(host(k)[0])
            assert isinstance(y.array, np.ndarray) == (where == "@numpy")
            assert_alike(seen(y.array.copy()), seen(layer(layer.device.send(host(k)[0])).array))
    assert statistics_of(call).define_by_run_calls == 0
    assert statistics_of(call).replays >= 8


def test_a_model_that_moves():
    found = []
    for way in (Way(False), Way(True)):
        model = made(way)
        for where in ("@cupy:0", "@numpy", "@cupy:0"):
            model.to_device(where)
            for k in range(3):
                y = model(*host(k))
                assert y.xp is model.xp
                found.append(seen(cuda.to_cpu(y.array)))
    assert_alike(found[9:], found[:9])
    statistics = statistics_of(model)
    assert (statistics.traces, statistics.replays) == (2, 7)


@two_devices
def test_a_model_on_another_gpu():
    found = []
    for way in (Way(False), Way(True)):
        model = made(way)
        model.to_device("@cupy:1")
        for k in range(5):
            y = model(*host(k))
            assert y.array.device.id == 1
            model.cleargrads()
            y.backward()
            found.append((seen(y), state(model)))
    assert_alike(found[5:], found[:5])
    assert statistics_of(model).replays == 4


def test_code_that_runs_every_time():
    def ranked(x):
        return np.argsort(x, axis=1).astype("f")

    found = []
    for way in (Way(False), Way(True)):
        code = sdbr.static_code(ranked) if way.is_static else ranked

        @way
        def call(x, code=code):
            y = F.tanh(cupy.asarray(x))
            return y * cupy.asarray(code(x)) + cupy.asarray(code(y.array.get()))

        found.append([seen(call(host(k)[0])) for k in range(5)])
    assert_alike(found[1], found[0])
    assert statistics_of(call).replays == 3


# --- what is not static, and what is said -----------------------------------------------------
def into_the_argument(x):
    x[0] = 0
    return F.tanh(cupy.asarray(x))


def with_a_gradient(x):
    return F.tanh(F.copy(chainer.Variable(x), "@cupy:0"))


def back_with_a_gradient(x):
    return F.copy(F.tanh(chainer.Variable(cupy.asarray(x))), "@numpy")


def results_that_move(x):
    y = F.tanh(cupy.asarray(x))
    y.to_cpu()
    return y


def into_an_array_of_the_host(x):
    y = np.empty_like(x)
    F.tanh(cupy.asarray(x)).array.get(out=y)
    return F.relu(cupy.asarray(y))


DYNAMIC = {
    into_the_argument: "an array was written in place",
    with_a_gradient: "goes to the host or comes from there, with a gradient",
    back_with_a_gradient: "goes to the host or comes from there, with a gradient",
    results_that_move: "the array of a Variable was replaced",
    into_an_array_of_the_host: "an array of the host was written by get",
}


@pytest.mark.parametrize("function", DYNAMIC, ids=lambda function: function.__name__)
def test_what_is_not_static_says_so(function):
    static = sdbr.static_graph(lambda x: function(x))
    want = [seen(function(host(k)[0])) for k in range(4)]
    with pytest.warns(sdbr.SdbrWarning, match=DYNAMIC[function]):
        got = [seen(static(host(k)[0])) for k in range(4)]
    assert_alike(got, want)
    assert statistics_of(static).replays == 0


@no_gpu
@pytest.mark.parametrize(
    "name", ["cuMemcpyHtoDAsync_v2", "cuEventRecord", "cuEventSynchronize", "cuMemHostAlloc"]
)
def test_what_the_driver_refuses(name):
    """Nothing has happened then, and the step can be made again."""
    plain = made(Way(False))
    theirs = optimizers.Adam().setup(plain)
    staging.cache_clear()
    model = made(Way(True))
    optimizer = Way(True).optimizer(optimizers.Adam(), model)
    n_failed = 0
    for k in range(12):
        if k > 1:
            before = state(model)
            with device.failing(name, 1 + k % 2, 1) as has_failed:
                error = None
                try:
                    optimizer.update(model, *host(k))
                except BackendError as e:
                    error = str(e)
            if has_failed():
                n_failed += 1
                assert error is not None and name in error
                assert "bytes from the host to GPU 0" in error
                assert_alike(state(model), before)
                optimizer.update(model, *host(k))
        else:
            optimizer.update(model, *host(k))
        theirs.update(plain, *host(k))
        assert_alike(state(model), state(plain))
    assert n_failed
    assert statistics_of(model).steps == 11


def test_explain():
    model = made(Way(True))
    for k in range(3):
        model(*host(k))
    assert "forward: 2 native, 0 Python ops" in str(sdbr.explain(model))
    names = [slot.name for slot in model.schedule_manager.static_schedule.forward.program.slots]
    assert {"argument 0 of the host", "argument 1 of the host"} <= set(names)


def test_arrays_without_elements():
    call = sdbr.static_graph(lambda x: F.relu(cupy.asarray(x)) * 2)
    for _ in range(4):
        assert call(np.zeros((0, 3), "f")).shape == (0, 3)
    assert statistics_of(call).replays == 2


def test_results_are_safe_to_keep():
    call = sdbr.static_graph(lambda x: (cupy.asarray(x), cupy.array(x), F.exp(x).array.get() * 2))
    found, kept = [], []
    for k in range(12):
        x = cupy.asarray(host(k)[0])
        found.append(x)
        kept.append(call(x))
    for x, (same, copy, numbers) in zip(found, kept, strict=True):
        assert same is x
        assert copy.data.mem is not x.data.mem
        assert_alike(seen(copy), seen(x))
        assert_alike(numbers, np.exp(x.get()) * 2)
