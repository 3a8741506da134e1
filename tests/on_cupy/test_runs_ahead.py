"""Nobody waits for what runs on a GPU: order, streams, and what is wrong in it."""

import sdbr

import chainer
import chainer.functions as F
import chainer.links as L
import cupy
import pytest
from chainer import optimizers

from tests.conftest import ON
from tests.harness import device

from .programs import Way, assert_alike, late_runs, normal, seen, state, whole


@pytest.fixture(autouse=True)
def audits_off():
    """An audit waits."""
    with chainer.using_config("sdbr_audit", "off"):
        yield


def perceptron(self, x, t):
    return F.softmax_cross_entropy(self.out(F.tanh(self.layer(x))), t)


def made(way):
    return way.model(perceptron, layer=lambda: L.Linear(3, 4), out=lambda: L.Linear(4, 2))


def batches(n):
    return [(normal(5, 3, seed=k), whole(2, 5, seed=k)) for k in range(n)]


def wrong():
    return normal(5, 3), cupy.asarray([0, 7, 1, 1, 0], "i")


def ordered():
    return device.setting("orders").value


def faulty_steps():
    """A training whose fourth step has a wrong label; two that are right were launched after it."""
    way = Way(True)
    model = made(way)
    optimizer = way.optimizer(optimizers.Adam(), model)
    for batch in batches(3):
        optimizer.update(model, *batch)
    before = state(model), [seen(dict(p.update_rule.state)) for p in model.params()]
    data = [wrong(), *batches(2)]  # the look-alike gives memory to others at once
    with late_runs():
        for batch in data:
            optimizer.update(model, *batch)
    return model, optimizer, before


WRONG = "index 7 at position 1 is out of range for 2"


@pytest.mark.parametrize("asks", ["the next call", "synchronize", "a call of another model"])
def test_labels_out_of_range_leave_all_as_it_was(asks):
    model, optimizer, before = faulty_steps()
    other = made(Way(True))
    other(*batches(1)[0])
    with pytest.raises(IndexError, match=WRONG) as caught:
        if asks == "synchronize":
            sdbr.synchronize()
        elif asks == "the next call":
            optimizer.update(model, *batches(1)[0])
        else:
            other(*batches(1)[0])
            other(*batches(1)[0])
    assert "softmax_cross_entropy" in str(caught.value.__notes__)
    assert_alike(state(model), before[0])
    assert_alike([seen(dict(p.update_rule.state)) for p in model.params()], before[1])
    optimizer.update(model, *batches(1)[0])
    sdbr.synchronize()
    assert model.schedule_manager.statistics.steps == 6
    with pytest.raises(AssertionError):
        assert_alike(state(model), before[0])


def test_an_update_by_hand_is_none_after_a_wrong_label():
    """Forward, backward and update are three programs, which share what was noted."""
    way = Way(True)
    model = made(way)
    optimizer = way.optimizer(optimizers.Adam(), model)

    def step(x, t):
        model.cleargrads()
        loss = model(x, t)
        loss.backward()
        optimizer.update()
        return loss

    # Two results at once have programs of their own, and the driver waits while it makes one.
    for _ in range(4):
        kept = [step(*batch) for batch in batches(2)]
        kept.clear()
    before = [seen(p.array) for p in model.params()]
    data = [wrong(), *batches(1)]  # the look-alike gives memory to others at once
    with late_runs():
        kept = [step(*batch) for batch in data]
    assert len(kept) == 2
    with pytest.raises(IndexError, match=WRONG):
        step(*batches(1)[0])
    assert_alike([seen(p.array) for p in model.params()], before)
    assert all(cupy.isfinite(p.grad).all() for p in model.params() if p.grad is not None)
    step(*batches(1)[0])
    sdbr.synchronize()
    with pytest.raises(AssertionError):
        assert_alike([seen(p.array) for p in model.params()], before)
    assert way.statistics()[0].python_ops == 0


@pytest.mark.skipif(ON == "gpu", reason="needs the driver without a device, which counts")
def test_nobody_waits_for_a_step():
    ways = Way(True), Way(False)
    models = [made(way) for way in ways]
    both = [
        way.optimizer(optimizers.MomentumSGD(), model)
        for way, model in zip(ways, models, strict=True)
    ]
    data = batches(4)
    for optimizer, model in zip(both, models, strict=True):
        for batch in data:
            optimizer.update(model, *batch)
    with late_runs():
        waits, launches = device.setting("waits").value, device.setting("launches").value
        graphs = device.setting("graph_launches").value
        for batch in data:
            both[0].update(models[0], *batch)
        assert device.setting("waits").value == waits
        assert device.setting("launches").value == launches
        assert device.setting("graph_launches").value == graphs + 4
        sdbr.synchronize()
        assert device.setting("launches").value > launches
    for batch in data:
        both[1].update(models[1], *batch)
    assert_alike(state(models[0]), state(models[1]))
    assert models[0].schedule_manager.statistics.steps == 7


@pytest.mark.parametrize("is_let_go", [False, True])
def test_steps_on_several_streams_follow_each_other(is_let_go):
    """What waits last runs first on the driver without a device, unless it has to wait."""
    ways = Way(True), Way(False)
    models = [made(way) for way in ways]
    both = [
        way.optimizer(optimizers.MomentumSGD(), model)
        for way, model in zip(ways, models, strict=True)
    ]
    data = batches(4)
    streams = [cupy.cuda.Stream() for _ in range(3)]
    for optimizer, model in zip(both, models, strict=True):
        for batch in data:
            optimizer.update(model, *batch)
    with late_runs() as go_on:
        orders = ordered()
        for k, batch in enumerate([*data, *data]):
            with streams[k % 3] if not is_let_go else cupy.cuda.Stream():
                both[0].update(models[0], *batch)
        assert ON == "gpu" or ordered() >= orders + 7
        go_on()
        sdbr.synchronize()
    for batch in [*data, *data]:
        both[1].update(models[1], *batch)
    assert_alike(state(models[0]), state(models[1]))


@pytest.mark.skipif(ON == "gpu", reason="needs the driver without a device, which counts")
def test_forms_are_timed_and_nobody_waits():
    """Which one is the fastest is asked when the device is done, and the steps go on meanwhile."""
    data = batches(5)
    found = []
    for tuned in (False, True):
        way = Way(True)
        model = made(way)
        optimizer = way.optimizer(optimizers.Adam(), model)
        with chainer.using_config("sdbr_tune", tuned), late_runs():
            waits = device.setting("waits").value
            for k in range(60):
                optimizer.update(model, *data[k % 5])
                if k == 3:
                    waits = device.setting("waits").value
            assert device.setting("waits").value == waits
        with chainer.using_config("sdbr_tune", tuned):
            for k in range(2):
                optimizer.update(model, *data[k])
        found.append((state(model), sdbr.explain(model)))
    assert_alike(found[0][0], found[1][0])
    texts = [" ".join(str(report).split()) for _, report in found]
    assert "launched as graph" in texts[0] and "programmatic" not in texts[0]
    assert "launched as graph, of graph 0.0 us" in texts[1] and "programmatic 0.0 us" in texts[1]
