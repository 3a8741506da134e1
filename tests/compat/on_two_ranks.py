"""What ChainerMN does on two processes once it is mended; started by ``mpiexec``.

Each function raises where a rank has got something else than it should.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from types import SimpleNamespace

import sdbr  # noqa: F401

import chainer
import chainermn
import numpy as np
from chainer import links as L
from chainer import training
from chainer.training import extensions


def gradients(communicator) -> None:
    link = L.Linear(3, 2)
    link.W.grad = np.asfortranarray(np.full((2, 3), communicator.rank + 1, "f"))
    link.b.grad = np.full(4, communicator.rank + 1, "f")[::2]
    communicator.multi_node_mean_grad(link, True)
    np.testing.assert_array_equal(link.W.grad, 1.5)
    np.testing.assert_array_equal(link.b.grad, 1.5)


def parameters(communicator) -> None:
    link = L.Linear(3, 2)
    for dtype in ("float16", "float32", "float64"):
        array = np.asfortranarray(np.arange(6).reshape(2, 3).astype(dtype) + communicator.rank)
        link.W.array = array
        communicator.bcast_data(link)
        assert link.W.array is array and array.flags.f_contiguous
        np.testing.assert_array_equal(array, np.arange(6).reshape(2, 3))


def batches(communicator) -> None:
    def make(data):
        first = communicator.rank == 0
        iterator = chainer.iterators.SerialIterator(data, 2, repeat=False, shuffle=False)
        create = chainermn.iterators.create_multi_node_iterator
        return create(iterator if first else None, communicator)

    pairs = [(np.float32(i), np.float32(2 * i)) for i in range(4)]
    found = list(make(pairs))
    np.testing.assert_array_equal(found, np.array(pairs).reshape(2, 2, 2))
    rows = np.arange(8, dtype="f").reshape(4, 2)
    np.testing.assert_array_equal(list(make(rows)), rows.reshape(2, 2, 2))


def observations(communicator) -> None:
    aggregate = chainermn.extensions.ObservationAggregator(communicator, "loss")
    value = np.float32(communicator.rank)
    for i, given in enumerate((chainer.Variable(np.array(value)), np.array(value), value)):
        trainer = SimpleNamespace(
            observation={"loss": given}, updater=SimpleNamespace(iteration=i + 1)
        )
        aggregate(trainer)
        assert trainer.observation == {"loss": 0.5}


def resumed(communicator) -> None:
    folder = communicator.bcast_obj(tempfile.mkdtemp() if communicator.rank == 0 else None)

    def run(steps: int, out: str, autoload: bool):
        model = L.Classifier(L.Linear(4, 3, initialW=np.ones((3, 4), "f")))
        optimizer = chainer.optimizers.Adam()
        optimizer = chainermn.create_multi_node_optimizer(optimizer, communicator).setup(model)
        rng = np.random.RandomState(communicator.rank)
        data = chainer.datasets.TupleDataset(
            rng.randn(16, 4).astype("f"), rng.randint(0, 3, 16).astype("i")
        )
        iterator = chainer.iterators.SerialIterator(data, 4, shuffle=False)
        updater = training.StandardUpdater(iterator, optimizer)
        trainer = training.Trainer(updater, (steps, "iteration"), folder + out)
        snapshot = extensions.snapshot(autoload=autoload)
        trainer.extend(
            chainermn.extensions.multi_node_snapshot(communicator, snapshot, [0]),
            trigger=(2, "iteration"),
        )
        trainer.run()
        return optimizer.t, [p.array for _, p in sorted(model.namedparams())]

    t, params = run(6, "/whole", False)
    run(4, "/parts", False)
    again, others = run(6, "/parts", True)
    assert t == again == 5, (t, again)  # the first of all sends the parameters
    for p, q in zip(params, others, strict=True):
        np.testing.assert_array_equal(p, q)


def main() -> None:
    warnings.simplefilter("ignore", FutureWarning)  # ChainerMN calls much of itself experimental
    communicator = chainermn.create_communicator("naive")
    assert communicator.size == 2
    globals()[sys.argv[1]](communicator)


if __name__ == "__main__":
    main()
