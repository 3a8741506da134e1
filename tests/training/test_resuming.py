"""A training that is resumed goes on as if it had not ended."""

from __future__ import annotations

import random
import warnings

import sdbr
from sdbr.training import ResumeState

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L
from chainer import optimizer_hooks, optimizers, serializers, training
from chainer.serializers import npz
from chainer.training import extensions

from tests.harness.update_rules import RULES
from tests.tolerances import RESULTS


class Net(chainer.Chain):
    """Draws, counts and keeps statistics."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l1, self.bn, self.l2 = L.Linear(4, 8), L.BatchNormalization(8), L.Linear(8, 3)

    def forward(self, x, t):
        h = F.dropout(F.relu(self.bn(self.l1(x))), 0.3)
        self.loss = F.softmax_cross_entropy(self.l2(h), t)
        chainer.report({"loss": self.loss}, self)
        return self.loss


def made(rule, folder, epochs, seed=0):
    np.random.seed(seed)
    random.seed(seed)
    model = sdbr.static_graph(Net())
    optimizer = sdbr.static_optimizer(rule()).setup(model)
    optimizer.add_hook(optimizer_hooks.GradientNoise(0.01))
    data = np.random.RandomState(0).rand(24, 4).astype("f")
    labels = (np.arange(24) % 3).astype("i")
    dataset = chainer.datasets.TupleDataset(data, labels)
    updater = training.StandardUpdater(chainer.iterators.SerialIterator(dataset, 6), optimizer)
    trainer = training.Trainer(updater, (epochs, "epoch"), out=str(folder))
    trainer.extend(extensions.LogReport(trigger=(1, "iteration")), name="log")
    trainer.extend(ResumeState(optimizer))
    return trainer, model, optimizer


def everything(trainer) -> dict:
    parts = {"updater": trainer.updater, "more": trainer.get_extension("sdbr_resume_state")}
    return {
        f"{name}/{key}": np.array(value)
        for name, part in parts.items()
        for key, value in npz.serialize(part).items()
    }


@pytest.fixture(params=["off", "auto"])
def audit(request):
    with chainer.using_config("sdbr_audit", request.param):
        yield


@pytest.mark.parametrize("rule", ["sgd", "adam", "adabound", "msvag", "smorms3", "rmsprop_graves"])
def test_bit_by_bit(rule, tmp_path, audit):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "invalid value", RuntimeWarning)  # of MSVAG
        whole = made(RULES[rule], tmp_path, 6)
        whole[0].run()
        first = made(RULES[rule], tmp_path, 3)
        first[0].run()
        sdbr.save_snapshot(tmp_path / "file", first[0])
        second = made(RULES[rule], tmp_path, 6, seed=5)
        trainer, model, optimizer = second
        batch = np.zeros((6, 4), "f"), np.zeros(6, "i")
        sdbr.warm_up(optimizer, model, *batch)
        statistics = model.schedule_manager.statistics
        traces = statistics.traces
        sdbr.load_snapshot(tmp_path / "file", trainer)
        trainer.run()
    assert statistics.traces == traces
    want, got = everything(whole[0]), everything(trainer)
    assert want.keys() == got.keys()
    for key, value in want.items():
        np.testing.assert_array_equal(got[key], value, err_msg=key)


def test_warm_up_leaves_all_as_it_was(tmp_path):
    trainer, model, optimizer = made(optimizers.Adam, tmp_path, 2)
    reporter = chainer.Reporter()
    reporter.add_observer("main", model)
    x = np.random.rand(6, 4).astype("f")
    before = everything(trainer)
    attributes = {k: v for k, v in vars(model).items() if not k.startswith("_sdbr")}
    rules = [dict(vars(p.update_rule)) for p in model.params()]
    with reporter.scope({}) as _, reporter:
        seen = dict(reporter.observation)
        steps = sdbr.warm_up(optimizer, model, x, np.zeros(6, "i"))
        assert reporter.observation == seen
    assert 2 <= steps <= 3
    after = everything(trainer)
    for key, value in before.items():
        np.testing.assert_array_equal(after[key], value, err_msg=key)
    now = {k: v for k, v in vars(model).items() if k in attributes}
    assert "loss" not in vars(model) and now == attributes
    for rule, p in zip(rules, model.params(), strict=True):
        assert dict(vars(p.update_rule)) == rule
        assert p.update_rule.state is None
    assert all(p.grad is None or not np.isfinite(p.grad).all() for p in model.params())
    assert model.schedule_manager.statistics.traces == 1
    optimizer.update(model, x, np.zeros(6, "i"))
    assert model.schedule_manager.statistics.traces == 1


def test_warm_up_of_what_is_not_static(tmp_path):
    _, _, optimizer = made(optimizers.Adam, tmp_path, 1)
    batch = np.zeros((6, 4), "f"), np.zeros(6, "i")
    plain = Net()
    optimizer = optimizers.SGD().setup(plain)
    before = {k: v.copy() for k, v in npz.serialize(plain).items()}
    with pytest.raises(TypeError, match=r"lossfun: .*, got Net with nothing"):
        sdbr.warm_up(optimizer, plain, *batch)
    for key, value in npz.serialize(plain).items():
        np.testing.assert_array_equal(before[key], value, err_msg=key)


def test_warm_up_of_steps_with_something_static_in_them():
    batch = np.ones((6, 4), "f"), np.zeros(6, "i")
    net = sdbr.static_graph(L.Linear(4, 3))
    model = L.Classifier(net)
    function = sdbr.static_graph(lambda x, t: F.softmax_cross_entropy(net(x), t))
    for lossfun, args in ((model, batch), (lambda: model(*batch), ()), (function, batch)):
        optimizer = sdbr.static_optimizer(optimizers.Adam()).setup(model)
        before = net.W.array.copy()
        assert 2 <= sdbr.warm_up(optimizer, lossfun, *args) <= 3
        np.testing.assert_array_equal(net.W.array, before)
        assert optimizer.t == 0 and model.loss is None
        # Shapes and ways that are known are not traced again.
        replays = (net.schedule_manager or function.schedule_manager).statistics.traces
        assert sdbr.warm_up(optimizer, lossfun, *args) <= 3
        traces = (net.schedule_manager or function.schedule_manager).statistics.traces
        assert traces == replays


def test_warm_up_when_a_step_raises(tmp_path):
    trainer, model, optimizer = made(optimizers.Adam, tmp_path, 1)
    before = everything(trainer)
    with pytest.raises(IndexError):
        sdbr.warm_up(optimizer, model, np.zeros((6, 4), "f"), np.full(6, 7, "i"))
    for key, value in everything(trainer).items():
        np.testing.assert_array_equal(before[key], value, err_msg=key)


def test_parameters_without_arrays_stay_so():
    model = sdbr.static_graph(L.Classifier(chainer.Sequential(L.Linear(None, 3))))
    optimizer = sdbr.static_optimizer(optimizers.Adam()).setup(model)
    x, t = np.ones((2, 4), "f"), np.zeros(2, "i")
    np.random.seed(0)
    sdbr.warm_up(optimizer, model, x, t)
    assert model.predictor[0].W.array is None
    optimizer.update(model, x, t)
    np.random.seed(0)
    other = L.Classifier(chainer.Sequential(L.Linear(None, 3)))
    optimizers.Adam().setup(other).update(other, x, t)
    np.testing.assert_allclose(model.predictor[0].W.array, other.predictor[0].W.array, rtol=RESULTS)


def test_warm_up_leaves_other_links_of_the_loss_as_they_were():
    bn, batch = L.BatchNormalization(4), (np.random.rand(6, 4).astype("f"), np.zeros(6, "i"))
    model = sdbr.static_graph(L.Classifier(L.Linear(4, 3)))

    class Loss:
        def __init__(self):
            self.bn = L.BatchNormalization(4)

        def __call__(self, x, t):
            return model(self.bn(x), t)

    loss = Loss()
    for lossfun, link in (
        (lambda x, t: model(bn(x), t), bn),
        (loss, loss.bn),
        (loss.__call__, loss.bn),
    ):
        link.cleargrads()
        optimizer = optimizers.SGD().setup(model)
        sdbr.warm_up(optimizer, lossfun, *batch)
        assert not link.avg_mean.any() and link.gamma.grad is None


@pytest.mark.parametrize("kind", ["npz", "hdf5"])
def test_snapshots_of_a_trainer(tmp_path, kind):
    if kind == "hdf5":
        pytest.importorskip("h5py", reason="h5py is not installed")
    save = {"npz": serializers.save_npz, "hdf5": serializers.save_hdf5}[kind]
    load = {"npz": serializers.load_npz, "hdf5": serializers.load_hdf5}[kind]
    trainer, _, _ = made(optimizers.Adam, tmp_path, 1)
    extension = extensions.snapshot(savefun=save, filename="file")
    trainer.extend(extension, trigger=(1, "epoch"))
    trainer.run()
    other, _, _ = made(optimizers.Adam, tmp_path, 2, seed=3)
    load(str(tmp_path / "file"), other)
    one, two = everything(trainer), everything(other)
    for key, value in one.items():
        np.testing.assert_array_equal(two[key], value, err_msg=key)


@pytest.mark.parametrize("kind", ["npz", "hdf5"])
def test_files_without_it_and_for_chainer_alone(tmp_path, kind):
    if kind == "hdf5":
        pytest.importorskip("h5py", reason="h5py is not installed")
    save = {"npz": serializers.save_npz, "hdf5": serializers.save_hdf5}[kind]
    load = {"npz": serializers.load_npz, "hdf5": serializers.load_hdf5}[kind]
    with_it, _, _ = made(optimizers.MSVAG, tmp_path, 1)
    without, _, _ = made(optimizers.MSVAG, tmp_path, 1)
    without._extensions = {k: v for k, v in without._extensions.items() if k != "sdbr_resume_state"}
    for trainer in (with_it, without):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            trainer.run()
    save(str(tmp_path / "with"), with_it)
    save(str(tmp_path / "without"), without)
    load(str(tmp_path / "with"), without)
    with pytest.warns(sdbr.SdbrWarning, match="without sdbr.training.ResumeState"):
        load(str(tmp_path / "without"), with_it)
    np.random.seed(0)
    load(str(tmp_path / "with"), with_it)
    loaded = np.random.rand()
    np.random.seed(0)
    assert np.random.rand() != loaded


def test_loss_scale_and_masters(tmp_path):
    def make(seed):
        np.random.seed(seed)
        with chainer.using_config("dtype", np.float16):
            net = L.Classifier(L.Linear(4, 3))
        optimizer = optimizers.Adam(eps=1e-3)
        optimizer.use_fp32_update()
        optimizer.setup(net)
        optimizer.loss_scaling(interval=2)
        return optimizer

    one, other = make(0), make(1)
    x, t = np.ones((2, 4), np.float16), np.zeros(2, "i")
    for _ in range(4):
        one.update(one.target, x, t)
    target, state = npz.DictionarySerializer(), ResumeState(one)
    for key, part in (("m", one.target), ("o", one), ("r", state)):
        part.serialize(target[key])
    for key, part in (("m", other.target), ("o", other), ("r", ResumeState(other))):
        part.serialize(npz.NpzDeserializer(target.target)[key])
    assert other._loss_scale == one._loss_scale > 1
    for p, q in zip(one.target.params(), other.target.params(), strict=True):
        np.testing.assert_array_equal(
            q.update_rule._fp32_param.array, p.update_rule._fp32_param.array
        )
    for _ in range(3):
        for optimizer in (one, other):
            optimizer.update(optimizer.target, x, t)
    for p, q in zip(one.target.params(), other.target.params(), strict=True):
        np.testing.assert_array_equal(q.array, p.array)


def test_what_is_no_optimizer():
    with pytest.raises(TypeError, match=r"optimizers\[1\]: expected an instance of .*, got Linear"):
        ResumeState(optimizers.SGD(), L.Linear(1, 1))


@pytest.mark.parametrize(
    "name", ["ThreadWriter", "ThreadQueueWriter", "ProcessQueueWriter", "ProcessWriter"]
)
def test_writers_save_the_iteration_that_they_are_called_in(tmp_path, name):
    trainer, model, _ = made(optimizers.Adam, tmp_path, 3)
    writer = getattr(extensions.snapshot_writers, name)(savefun=sdbr.save_snapshot)
    trainer.extend(
        extensions.snapshot(writer=writer, filename="at_{.updater.iteration}"),
        trigger=(1, "iteration"),
    )
    seen = {}

    @training.make_extension(trigger=(1, "iteration"), priority=-200)
    def note(trainer):
        seen[trainer.updater.iteration] = model.l1.W.array.copy()

    trainer.extend(note)
    trainer.run()
    assert len(seen) == 12
    for i, weights in seen.items():
        sdbr.load_snapshot(tmp_path / f"at_{i}", model, path="updater/model:main/")
        np.testing.assert_array_equal(model.l1.W.array, weights)


@pytest.mark.parametrize("how", ["cut", "zeros"])
def test_autoload_passes_over_what_is_not_readable(tmp_path, how):
    trainer, model, _ = made(optimizers.Adam, tmp_path, 2)
    trainer.extend(extensions.snapshot(autoload=True), trigger=(4, "iteration"))
    trainer.run()
    good = tmp_path / "snapshot_iter_4"
    newest = tmp_path / "snapshot_iter_8"
    data = newest.read_bytes()
    newest.write_bytes(data[:500] if how == "cut" else data[:900] + bytes(200) + data[1100:])
    trainer, model, _ = made(optimizers.Adam, tmp_path, 1, seed=3)
    trainer.extend(extensions.snapshot(autoload=True), trigger=(100, "iteration"))
    with pytest.warns(sdbr.SdbrWarning, match="snapshot_iter_8 is not readable"):
        trainer.run()
    assert trainer.updater.iteration == 4
    other = sdbr.static_graph(Net())
    sdbr.load_snapshot(good, other, path="updater/model:main/")
    np.testing.assert_array_equal(model.l1.W.array, other.l1.W.array)
