"""Fixes for trainings on several processes that go on from a snapshot."""

from __future__ import annotations

import hashlib
from types import ModuleType

from sdbr.compat.fix import FunctionFix, wrap
from sdbr.compat.processes.arrays import has_chainermn


def _state_of(optimizer) -> tuple[int, str]:
    """The count of updates, and a digest of all parameters."""
    from chainer.backends import cuda

    digest = hashlib.blake2b(digest_size=16)
    for name, param in sorted(optimizer.target.namedparams()):
        array = param.array
        digest.update(repr((name, array is None)).encode())
        if array is not None:
            array = cuda.to_cpu(array)
            digest.update(repr((array.dtype.str, array.shape)).encode())
            digest.update(array.tobytes())
    return optimizer.t, digest.hexdigest()


def _goes_on(optimizer, communicator) -> bool:
    """Whether all ranks have made the same updates before, and hold the same; all are asked."""
    state = _state_of(optimizer)
    if communicator.size > 1:
        # Each rank gets here before its first update, so all are there to answer.
        states = communicator.gather_obj(state)
        same = None if states is None else len(set(states)) == 1  # others than rank 0 hear of it
        return bool(communicator.bcast_obj(same)) and state[0] > 0
    return state[0] > 0


def _fix_update(module: ModuleType) -> None:
    def make(update):
        def resumed(self, lossfun=None, *args, **kwds):
            join = getattr(self.actual_optimizer, "_sdbr_join", None)
            if join is not None and join(self):
                return self.update(lossfun, *args, **kwds)
            # Without anything to compare with, all parameters count as new: ChainerMN sends them
            # in the place of an update, which those of a snapshot do not need.
            if not self.target_params and _goes_on(self.actual_optimizer, self.communicator):
                self.is_changed(self.target)
            return update(self, lossfun, *args, **kwds)

        return resumed

    wrap(module._MultiNodeOptimizer, "update", make)


RESUMED = FunctionFix(
    name="ranks-resumed",
    module="chainermn.optimizers",
    reason="the first update after a snapshot was loaded (multi_node_snapshot) is not made",
    stacks="any with mpi4py",
    needed=has_chainermn,
    apply=_fix_update,
)

FIXES = (RESUMED,)
