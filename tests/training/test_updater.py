"""The updater that is fed by arrays trains as Chainer's does."""

from __future__ import annotations

import sdbr
from sdbr.training import StandardUpdater

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L
from chainer import optimizers, training
from chainer.dataset import convert
from chainer.datasets import DictDataset, SubDataset, TransformDataset, TupleDataset
from chainer.iterators import SerialIterator
from chainer.serializers import npz
from chainer.training import updaters

X = np.random.RandomState(0).rand(23, 4).astype("f")
T = np.random.RandomState(1).randint(0, 3, 23).astype("i")
IMAGES = np.random.RandomState(2).rand(23, 3, 4, 1).astype("d")
ORDER = np.random.RandomState(3).permutation(23)


class Net(chainer.Chain):
    """Keeps what it was given."""

    def __init__(self, n=4):
        super().__init__()
        with self.init_scope():
            self.l = L.Linear(n, 3, initialW=np.arange(3 * n, dtype="f").reshape(3, n) / 20)

    def forward(self, *args, **kwargs):
        self.seen.append((args, kwargs))
        x = kwargs.get("x", args[0] if args else None)
        t = kwargs.get("t", args[1] if len(args) > 1 else None)
        h = self.l(F.reshape(F.cast(x, "f"), (len(x), -1)))
        return F.sum(h) / 100 if t is None else F.softmax_cross_entropy(h, t)


DATASETS = {
    "tuple": lambda: TupleDataset(X, T),
    "one column": lambda: TupleDataset(X),
    "dict": lambda: DictDataset(x=X, t=T),
    "array": lambda: X,
    "images": lambda: TupleDataset(np.ascontiguousarray(IMAGES[:, :1, :, :]), T),
    "columns of one": lambda: TupleDataset(np.repeat(X[:, :1], 4, 1), T),
    "numbers": lambda: TupleDataset(X.astype("i8"), T.astype("i1")),
    "sub": lambda: SubDataset(TupleDataset(X, T), 3, 20),
    "sub with an order": lambda: SubDataset(TupleDataset(X, T), 3, 20, ORDER),
    "sub with a list": lambda: SubDataset(TupleDataset(X, T), 3, 20, ORDER.tolist()),
    "sub of sub": lambda: SubDataset(SubDataset(DictDataset(x=X, t=T), 1, 22, ORDER), 2, 19),
    "sub with negatives": lambda: SubDataset(TupleDataset(X, T), 0, 23, (ORDER - 23).tolist()),
}
OTHERS = {
    "list": lambda: [(x, t) for x, t in zip(X, T, strict=True)],
    "column of a list": lambda: TupleDataset(X, T.tolist()),
    "transformed": lambda: TransformDataset(TupleDataset(X, T), lambda pair: pair),
    "subclass": lambda: TupleDataset(X.view(np.memmap), T),
    "other bytes": lambda: TupleDataset(X.astype(">f4"), T),
    "other order": lambda: TupleDataset(np.asfortranarray(X), T),
    "order of floats": lambda: SubDataset(_ByFloat(TupleDataset(X, T)), 0, 23, [0.0] * 23),
}


class _ByFloat(chainer.dataset.DatasetMixin):
    def __init__(self, base):
        self.base = base

    def __len__(self):
        return len(self.base)

    def get_example(self, i):
        return self.base[int(i)]


def trained(cls, dataset, iterator=SerialIterator, steps=13, **options):
    np.random.seed(0)
    model = Net()
    model.seen = []
    optimizer = optimizers.Adam().setup(model)
    how = {k: options.pop(k) for k in ("repeat", "shuffle", "order_sampler") if k in options}
    updater = cls(iterator(dataset, 5, **how), optimizer, **options)
    epochs = []
    for _ in range(steps):
        try:
            updater.update()
        except StopIteration:
            epochs.append("end")
            break
        epochs.append((updater.epoch, updater.epoch_detail, updater.is_new_epoch, optimizer.epoch))
    return updater, model, epochs


def assert_same(one, other):
    updater, model, epochs = one
    _, plain, wanted = other
    assert epochs == wanted and len(model.seen) == len(plain.seen) > 0
    for (args, kwargs), (others, more) in zip(model.seen, plain.seen, strict=True):
        assert len(args) == len(others) and list(kwargs) == list(more)
        for x, y in zip([*args, *kwargs.values()], [*others, *more.values()], strict=True):
            assert type(x) is type(y) and x.dtype == y.dtype and x.strides == y.strides
            assert x.flags.writeable == y.flags.writeable and x.base is None
            np.testing.assert_array_equal(x, y)
    for key, value in npz.serialize(updater).items():
        np.testing.assert_array_equal(value, npz.serialize(other[0])[key], err_msg=key)


@pytest.mark.parametrize("options", [{}, {"shuffle": False}, {"repeat": False}], ids=str)
@pytest.mark.parametrize("name", DATASETS)
def test_taken_by_index(name, options):
    one = trained(StandardUpdater, DATASETS[name](), **options)
    assert_same(one, trained(updaters.StandardUpdater, DATASETS[name](), **options))
    assert one[0].feed == "batches are taken from arrays by index"


@pytest.mark.parametrize("name", OTHERS)
def test_made_by_chainer(name):
    one = trained(StandardUpdater, OTHERS[name]())
    assert_same(one, trained(updaters.StandardUpdater, OTHERS[name]()))
    assert one[0].feed.startswith("batches are made by Chainer's iterator and converter: the ")


def test_other_iterators_and_converters():
    class Mine(SerialIterator):
        pass

    def mine(batch, device):
        return convert.concat_examples(batch)

    for options, why in (({"iterator": Mine}, "iterator is a Mine"), ({"converter": mine}, "mine")):
        one = trained(StandardUpdater, TupleDataset(X, T), **options)
        assert_same(one, trained(updaters.StandardUpdater, TupleDataset(X, T), **options))
        assert why in one[0].feed


def test_devices_and_orders():
    for options in (
        {"device": "@numpy"},
        {"input_device": "@numpy"},
        {"order_sampler": lambda order, position: np.roll(np.arange(23), position)},
    ):
        one = trained(StandardUpdater, TupleDataset(X, T), **options)
        assert_same(one, trained(updaters.StandardUpdater, TupleDataset(X, T), **options))
        assert "by index" in one[0].feed


def test_out_of_range_is_chainers_error():
    dataset = TupleDataset(X, T)
    dataset._length = 40
    said = []
    for cls in (StandardUpdater, updaters.StandardUpdater):
        with pytest.raises(IndexError) as caught:
            trained(cls, dataset, shuffle=False)
        said.append(str(caught.value))
    assert said[0] == said[1]


def test_datasets_that_change_are_read_anew():
    x = X.copy()
    dataset = TupleDataset(x, T)
    np.random.seed(0)
    model = Net()
    model.seen = []
    updater = StandardUpdater(
        SerialIterator(dataset, 23, shuffle=False), optimizers.SGD().setup(model)
    )
    for value in (1, 2):
        x[...] = value
        updater.update()
        assert (model.seen[-1][0][0] == value).all()


def test_a_trainer_is_whole_and_resumes(tmp_path):
    def make(epochs):
        np.random.seed(0)
        model = sdbr.static_graph(L.Classifier(L.Linear(4, 3)))
        optimizer = sdbr.static_optimizer(optimizers.Adam()).setup(model)
        updater = StandardUpdater(SerialIterator(TupleDataset(X[:20], T[:20]), 5), optimizer)
        return training.Trainer(updater, (epochs, "epoch"), str(tmp_path)), model, optimizer

    whole, model, optimizer = make(4)
    whole.run()
    assert model.schedule_manager.statistics.steps == 15
    assert "batches are taken from arrays by index" in str(sdbr.explain(optimizer))
    assert "batches are taken from arrays by index" in str(sdbr.explain(model))
    first, _, _ = make(2)
    first.run()
    sdbr.save_snapshot(tmp_path / "file", first)
    second, resumed, optimizer = make(4)
    sdbr.warm_up(optimizer, resumed, X[:5], T[:5])
    sdbr.load_snapshot(tmp_path / "file", second)
    np.random.seed(0)
    first._done = False
    second.run()
    assert second.updater.iteration == whole.updater.iteration
