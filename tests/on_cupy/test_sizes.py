"""Schedules for other sizes on a GPU: built of two traces where that is sound, else traced."""

from __future__ import annotations

from contextlib import nullcontext

import sdbr
from sdbr.schedule import sizes as rules

import chainer
import chainer.functions as F
import chainer.links as L
import cupy
import numpy as np
import pytest
from chainer import optimizers

from tests.harness import sized_calls as host
from tests.tolerances import GRADIENTS

from .harness import arrays_of
from .programs import Way, assert_alike, normal, seen, state, whole

pytestmark = pytest.mark.filterwarnings("ignore:::sdbr")


@pytest.fixture(autouse=True)
def audits_off():
    """But for the first call of one that was built."""
    with chainer.using_config("sdbr_audit", "off"):
        yield


def on_device(args):
    return [cupy.asarray(x) for x in (args if isinstance(args, tuple) else (args,))]


def run(net, args):
    """Result, parameters with gradients, or the error, of one call and its backward; next draws."""
    cupy.random.seed(5)
    net.cleargrads()
    try:
        y = net(*args)
    except Exception as error:
        return [type(error)]
    total = F.sum(y)
    if total.requires_grad:
        total.backward()
    every = [y.array, *arrays_of(net), cupy.random.rand(2)]
    return [None if x is None else cupy.asnumpy(x) for x in every]


def compare(got, want, note=""):
    """Also gradients that are zero but for rounding."""
    assert [type(x) for x in got] == [type(x) for x in want], note
    for a, b in zip(got, want, strict=True):
        if isinstance(a, np.ndarray):
            np.testing.assert_allclose(a, b, rtol=GRADIENTS, atol=GRADIENTS, err_msg=str(note))
        else:
            assert a is b, note


def sweep(make, batch=host.inputs, sizes=host.SIZES):
    """Calls of these sizes, each twice; the manager."""
    plain, static = host.twins(make)
    plain.to_device("@cupy:0")
    static.to_device("@cupy:0")
    for n in sizes:
        for seed in (0, 1000):
            args = on_device(batch(n, seed))
            compare(run(static, args), run(plain, args), (n, seed))
    assert static.schedule_manager.audits.failed == 0
    return static.schedule_manager


@pytest.mark.parametrize("name", host.BUILT)
def test_a_third_size_is_built_of_two_traces(name):
    """And the first call of one that was built is compared, though audits are off."""
    manager = sweep(*host.BUILT[name])
    statistics = manager.statistics
    assert (statistics.traces, statistics.builds) == (2, len(host.SIZES) - 2)
    assert statistics.define_by_run_calls == 0
    assert statistics.replays == 2 * len(host.SIZES) - 2
    assert manager.audits.passed == 1


#: What arrays of CuPy do not give.
OF_NUMPY = (
    "memoryview", "global array", "ones_like", "np.shape", "np.size", "utils", "arange", "draws",
    "import", "module", "np.size as attribute", "descriptor", "module of an object", "in a dict",
    "format", "index array", "spread",
)  # fmt: skip
ASKING = {name: (forward, {}) for name, forward in host.TRACED.items()} | host.HELD
ASKING = {name: entry for name, entry in ASKING.items() if name not in OF_NUMPY} | {
    "cupy's arange": (
        lambda self, x: self.l1(x) + cupy.arange(len(x), dtype="f")[:, None], {},
    ),
    "cupy.ones_like": (lambda self, x: self.l1(x) * cupy.ones_like(x), {}),
    "cupy.size": (lambda self, x: self.l1(x) * (2 if cupy.size(x) > 70 else 1), {}),
    "cupy's draws": (
        lambda self, x: self.l1(x) + cupy.random.rand(16, 1, dtype="f")[:1], {},
    ),
    "a kernel": (lambda self, x: self.l1(x) * ROWS(x), {}),
    "cupy in an attribute": (lambda self, x: self.l1(x) * self.f.size(x), {"f": cupy}),
}  # fmt: skip
ROWS = cupy.ReductionKernel("T x", "T y", "1", "a + b", "y = a", "0", "rows")


@pytest.mark.parametrize("name", ASKING)
def test_what_asks_for_a_size_is_never_built(name):
    forward, attributes = ASKING[name]
    manager = sweep(lambda: host.Net(forward, **attributes))
    assert manager.statistics.builds == 0


def test_whole_steps_and_a_last_smaller_batch():
    """Two epochs: of the sizes that come the first two are traced, the third is built."""
    found = []
    for way in (Way(False), Way(True)):
        model = way.model(
            lambda self, x, t: F.softmax_cross_entropy(self.b(F.dropout(F.relu(self.a(x)))), t),
            a=lambda: L.Linear(3, 4),
            b=lambda: L.Linear(4, 2),
        )
        optimizer = way.optimizer(optimizers.Adam(), model)
        of_way = []
        for k, n in enumerate([10, 10, 6, 10, 10, 7, 7, 7, 10, 9, 9]):
            optimizer.update(model, normal(n, 3, seed=k), whole(2, n, seed=k))
            of_way.append(state(model))
        found.append(of_way)
    assert_alike(found[1], found[0])
    statistics = model.schedule_manager.statistics
    assert (statistics.traces, statistics.builds, statistics.steps) == (2, 2, 9)
    assert (model.schedule_manager.audits.passed, model.schedule_manager.audits.failed) == (1, 0)


def test_constants_of_one_number_have_the_new_size():
    made = rules._Third.constant(None, cupy.full(4, 2, "f"), cupy.full(6, 2, "f"), (9,))
    assert (type(made), made.dtype, made.get().tolist()) == (cupy.ndarray, np.float32, [2] * 9)
    same = cupy.arange(4)
    assert rules._Third.constant(None, same, same.copy(), (4,)) is same
    for x, y in ((same, same + 1), (cupy.arange(4), cupy.arange(6))):
        with pytest.raises(rules.Differs):
            rules._Third.constant(None, x, y, (9,))


def test_each_gpu_has_sizes_of_its_own():
    if cupy.cuda.runtime.getDeviceCount() < 2:
        pytest.skip("there is one GPU here, and two are needed")
    way = Way(True)
    model = way.model(lambda self, x: F.relu(self.a(x)), a=lambda: L.Linear(3, 4))
    plain = Way(False).model(lambda self, x: F.relu(self.a(x)), a=lambda: L.Linear(3, 4))
    for device in (0, 1):
        with cupy.cuda.Device(device):
            for net in (model, plain):
                net.to_device(f"@cupy:{device}")
            for n in (10, 6, 7, 8, 9):
                x = normal(n, 3, seed=n)
                assert_alike(seen(model(x)), seen(plain(x)))
        assert model.schedule_manager.statistics.traces == 2 * (device + 1)
        assert model.schedule_manager.statistics.builds == 3 * (device + 1)


def test_one_that_is_wrong_is_never_used(monkeypatch):
    """What differs from define-by-run is said, and nothing more is built of these traces."""
    original = rules.sized_schedule

    def spoiled(*args):
        schedule = original(*args)
        for node in schedule.trace.nodes:
            if hasattr(node.function, "value"):
                node.function.value = node.template.value = 5.0
        return schedule

    monkeypatch.setattr("sdbr.schedule.families.sized_schedule", spoiled)
    plain, static = host.twins(lambda: host.Net(lambda self, x: self.l1(x) * 2))
    for net in (plain, static):
        net.to_device("@cupy:0")
    for n in (16, 20, 30, 30, 11, 14):
        args = on_device(host.inputs(n))
        want = run(plain, args)
        first = static.schedule_manager.statistics.builds == 0 and n == 30
        with pytest.warns(sdbr.SdbrWarning, match="differs") if first else nullcontext():
            compare(run(static, args), want)
    statistics = static.schedule_manager.statistics
    assert statistics.builds == 1 and static.schedule_manager.audits.failed == 1
    assert statistics.replays == 1  # the one that was compared
