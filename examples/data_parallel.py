"""Data parallel training on two processes, by MPI.

    mpiexec -n 2 python examples/data_parallel.py [--explain]
    python examples/data_parallel.py

``pip install '.[mpi]'`` brings MPI and ``mpiexec``. Each rank trains on examples of its own, and
ChainerMN averages the gradients. Look at ``--explain``: forward and backward are one native call,
the average goes through one flat buffer, and the update is another native call. One process alone
makes whole steps. `validate_every` lets ranks compare their parameters, bit by bit, now and then.
The first update only sends the parameters of rank 0, as ChainerMN has it, so the second loss is of
the same parameters. Numbers in the end are those of rank 0: two ranks get through twice as many
examples in a step. Whether that pays for the waiting is in docs/scaling.md.
"""

import sdbr  # first: makes Chainer importable

import chainer
import chainer.functions as F
import chainer.links as L
import common

try:
    import chainermn

    communicator = chainermn.create_communicator("naive")
except ImportError:
    communicator = None

RANK, SIZE = (communicator.rank, communicator.size) if communicator else (0, 1)


class MLP(chainer.Chain):
    """Three layers."""

    def __init__(self, n_units: int = 500):
        super().__init__()
        with self.init_scope():
            self.l1, self.l2 = L.Linear(64, n_units), L.Linear(n_units, n_units)
            self.l3 = L.Linear(n_units, 10)

    def forward(self, x):
        return self.l3(F.relu(self.l2(F.relu(self.l1(x)))))


def train(steps):
    """Train; return the model and the losses of each rank."""
    x_train, t_train, x_test, t_test = common.digits()
    x_train, x_test = x_train.reshape(-1, 64), x_test.reshape(-1, 64)
    mine = slice(RANK, None, SIZE)

    model = sdbr.static_graph(L.Classifier(MLP()))
    optimizer = chainer.optimizers.Adam()
    if communicator is None:
        optimizer = sdbr.static_optimizer(optimizer)
    else:
        import chainermn

        optimizer = chainermn.create_multi_node_optimizer(optimizer, communicator)
        optimizer = sdbr.static_optimizer(optimizer, validate_every=100)
    optimizer.setup(model)

    batches = common.random_batches(64, x_train[mine], t_train[mine])
    for _ in steps:
        optimizer.update(model, *next(batches))
        steps.log(model.loss)

    with chainer.using_config("train", False), chainer.no_backprop_mode():
        model(x_test, t_test)
    steps.say(f"{SIZE} ranks; test accuracy {float(model.accuracy.array):.4f}")
    return model, communicator.gather_obj(steps.losses) if communicator else [steps.losses]


def draw(axes, trained):
    """The losses of each rank, which sees its own examples."""
    for rank, losses in enumerate(trained[-1]):
        axes.semilogy(losses, label=f"rank {rank}", linewidth=1)
    axes.set(xlabel="step", ylabel="loss")
    axes.legend()


if __name__ == "__main__":
    if communicator is None:
        print("one process, without ChainerMN: mpi4py is missing (pip install '.[mpi]')")
    common.main(train, draw, steps=2000, plain=300, quick=12, silent=RANK > 0)
