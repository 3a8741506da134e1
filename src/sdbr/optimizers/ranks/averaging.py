"""Gradients averaged over ranks: small ones in flat buffers, large ones in place.

Which gradients go together (`sdbr.optimizers.ranks.pieces`) depends on the parameters alone, so a
rank that traces, one that replays a whole step, where the average is ops of its program, and one in
define-by-run issue the same collectives.
"""

from __future__ import annotations

from typing import Any

from sdbr.devices.arrays import is_writeable
from sdbr.optimizers.ranks.pieces import Pieces
from sdbr.optimizers.ranks.pointers import allreduce

import numpy as np

#: The attribute of an optimizer that holds its averaging over ranks.
AVERAGING = "_sdbr_averaging"


class Averaging:
    """Averages the gradients of one optimizer, between backward and update.

    Parameters
    ----------
    communicator : chainermn.CommunicatorBase
    zero_fill : bool
        As given to ChainerMN.

    Attributes
    ----------
    active : bool
        Whether an update of the optimizer is to average: only one by the multi-node optimizer.
    overlaps : bool
        Whether collectives go on while other ops run.
    """

    def __init__(self, communicator: Any, zero_fill: bool) -> None:
        self.communicator = communicator
        self.zero_fill = zero_fill
        self.active = False
        self.overlaps = False
        self._comm: Any = None
        self._buffers: list[_Buffer] | None = None

    def take(self, pieces: Pieces | None, mpi_comm: Any) -> None:
        """Say which gradients go together, and through which communicator.

        Parameters
        ----------
        pieces : Pieces or None
            None where the communicator averages in a way of its own.
        mpi_comm : mpi4py.MPI.Comm
            For collectives that others may overtake, so nobody else's.
        """
        self._buffers = None
        if pieces is not None:
            self.overlaps = pieces.overlaps
            self._comm = mpi_comm if pieces.overlaps else self.communicator.mpi_comm
            self._buffers = [_Buffer(*group) for group in pieces.groups]

    def average(self, target: Any) -> None:
        """Average the gradients of `target` over all ranks, in place; those that are None are 0."""
        if self._buffers is None:
            self.communicator.multi_node_mean_grad(target, self.zero_fill)
            return
        from mpi4py import MPI

        if not self.overlaps:
            for buffer in self._buffers:
                self._comm.Allreduce(MPI.IN_PLACE, buffer.gather())
                buffer.scatter(self._comm.size)
            return
        requests: list[Any] = []
        try:
            for buffer in self._buffers:
                requests.append(self._comm.Iallreduce(MPI.IN_PLACE, buffer.gather()))
        finally:
            MPI.Request.Waitall(requests)
        for buffer in self._buffers:
            buffer.scatter(self._comm.size)

    @property
    def ops(self) -> list[tuple[list, tuple[int, ...]]] | None:
        """Parameters and integers of each op; None where it cannot be ops.

        They are those of ``allreduce``, or ``allreduce_begin`` if it `overlaps`.
        """
        if self._buffers is None:
            return None
        found = [(b.params, allreduce(self._comm, b.dtype, self.overlaps)) for b in self._buffers]
        exact = all(p.dtype == b.dtype for b in self._buffers for p in b.params)
        if not exact or any(integers is None for _, integers in found):
            return None
        return found


def averaging_of(optimizer: Any) -> Averaging | None:
    """What an update of the optimizer averages by; None where it does not, at the moment."""
    averaging = optimizer.__dict__.get(AVERAGING)
    return averaging if averaging is not None and averaging.active else None


class _Buffer:
    """The gradients that are sent by one collective, in between `gather` and `scatter`.

    Parameters
    ----------
    dtype : dtype
        In which they are added up.
    params : list of Parameter
    """

    def __init__(self, dtype: np.dtype, params: list) -> None:
        self.dtype, self.params = dtype, params
        self._flat: np.ndarray | None = None
        self._in_place: np.ndarray | None = None
        self._parts: list[np.ndarray] = []

    def gather(self) -> np.ndarray:
        """What is to be added up: the gradient itself where that can be, else the flat buffer."""
        if len(self.params) == 1:
            grad = self.params[0].grad
            if type(grad) is np.ndarray and grad.dtype == self.dtype and grad.flags.carray:
                self._in_place = grad
                return grad
        self._in_place = None
        if self._flat is None:
            self._make()
        for param, part in zip(self.params, self._parts, strict=True):
            grad = param.grad
            if grad is None:
                part.fill(0)
            else:
                part[...] = grad
        return self._flat

    def scatter(self, size: int) -> None:
        """Divide the sums by so many ranks, into the gradients."""
        share = 1.0 / size
        if self._in_place is not None:
            self._in_place *= share
            self._in_place = None
            return
        for param, part in zip(self.params, self._parts, strict=True):
            grad = param.grad
            if grad is None or not is_writeable(grad):
                grad = np.empty(param.shape, param.dtype)
                param.grad = grad
            if grad.dtype == self.dtype:
                np.multiply(part, share, out=grad)
            else:
                grad[...] = part
                grad *= share  # after rounding, as ChainerMN does with halves

    def _make(self) -> None:
        ends = np.cumsum([param.size for param in self.params])
        self._flat = flat = np.empty(ends[-1], self.dtype)
        self._parts = [
            flat[end - param.size : end].reshape(param.shape)
            for param, end in zip(self.params, ends, strict=True)
        ]
