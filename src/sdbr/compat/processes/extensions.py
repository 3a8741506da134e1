"""Fixes for the iterator and the extensions that several processes share."""

from __future__ import annotations

from types import ModuleType

from sdbr.compat.fix import FunctionFix, wrap
from sdbr.compat.processes.arrays import has_chainermn


class _Scalars:
    """A communicator whose broadcasts give an array of one number without dimensions."""

    def __init__(self, communicator) -> None:
        self._communicator = communicator

    def __getattr__(self, name):
        return getattr(self._communicator, name)

    def bcast(self, x, root=0):
        found = self._communicator.bcast(x, root=root)
        self.bcast = self._communicator.bcast  # the size of the data set comes first
        return found.reshape(()) if found.shape == (1,) else found


def _fix_iterator(module: ModuleType) -> None:
    def make(init):
        def with_a_number(self, communicator, rank_master):
            init(self, _Scalars(communicator), rank_master)
            self.communicator = communicator

        return with_a_number

    wrap(module._MultiNodeIteratorSlave, "__init__", make)


ITERATOR = FunctionFix(
    name="ranks-iterator",
    module="chainermn.iterators.multi_node_iterator",
    reason="int() of an array with a dimension raises: create_multi_node_iterator fails on all "
    "ranks but one, and that one waits",
    stacks="NumPy >= 2.4, with mpi4py",
    needed=lambda stack: has_chainermn(stack) and stack.numpy >= (2, 4),
    apply=_fix_iterator,
)


def _fix_aggregator(module: ModuleType) -> None:
    import chainer
    from chainer.backends import cuda

    def make(compute):
        def on_the_host(self, trainer):
            value = trainer.observation.get(self.original_key)
            if isinstance(value, chainer.Variable) and value.xp.__name__ in ("numpy", "cupy"):
                trainer.observation[self.original_key] = cuda.to_cpu(value.array)
            return compute(self, trainer)

        return on_the_host

    wrap(module.ObservationAggregator, "compute_summary", make)


AGGREGATOR = FunctionFix(
    name="ranks-observations",
    module="chainermn.extensions.observation_aggregator",
    reason="a Variable is sent to ChainerX's device, which is not there: ObservationAggregator "
    "fails with a reported loss",
    stacks="any with mpi4py, without ChainerX",
    needed=lambda stack: has_chainermn(stack) and not stack.has_chainerx,
    apply=_fix_aggregator,
)

FIXES = (ITERATOR, AGGREGATOR)
