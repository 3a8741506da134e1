"""Fixes for arrays of any layout, which ChainerMN copies for MPI and then forgets."""

from __future__ import annotations

from types import ModuleType

from sdbr.compat.fix import FunctionFix, wrap
from sdbr.compat.stack import Stack

_MODULE = "chainermn.communicators.mpi_communicator_base"


def has_chainermn(stack: Stack) -> bool:
    """Whether ChainerMN can be imported: it needs mpi4py."""
    return stack.has_mpi4py


def _contiguous(array):
    """The array itself, where its elements lie in C's order; else a copy."""
    # Not by `ascontiguousarray`, which gives an array without dimensions one.
    return array if array.flags.c_contiguous else array.copy(order="C")


def _fix_mean(module: ModuleType) -> None:
    from chainer import backend

    def make(mean):
        def of_any_layout(self, sendbuf, recvbuf):
            if backend.get_array_module(recvbuf).__name__ not in ("numpy", "cupy"):
                return mean(self, sendbuf, recvbuf)
            given = _contiguous(recvbuf)
            mean(self, sendbuf, given)
            if given is not recvbuf:
                recvbuf[...] = given

        return of_any_layout

    wrap(module.MpiCommunicatorBase, "_multi_node_mean", make)


MEAN = FunctionFix(
    name="ranks-mean-layout",
    module=_MODULE,
    reason="a gradient that is not C-contiguous comes back as it was, unreduced",
    stacks="any with mpi4py",
    needed=has_chainermn,
    apply=_fix_mean,
)


def _fix_bcast(module: ModuleType) -> None:
    def make(bcast):
        def of_any_layout(self, model):
            swapped = []
            try:
                for _, param in sorted(model.namedparams()):
                    array = param.array
                    # One that two names lead to is replaced once.
                    if array is None or not hasattr(array, "flags") or array.flags.c_contiguous:
                        continue
                    swapped.append((param, array))
                    param.array = _contiguous(array)
                bcast(self, model)
                for param, array in swapped:
                    array[...] = param.array
            finally:
                for param, array in swapped:
                    param.array = array

        return of_any_layout

    wrap(module.MpiCommunicatorBase, "bcast_data", make)


BCAST = FunctionFix(
    name="ranks-broadcast-layout",
    module=_MODULE,
    reason="a parameter that is not C-contiguous (Fortran's order) keeps each rank's own values",
    stacks="any with mpi4py",
    needed=has_chainermn,
    apply=_fix_bcast,
)

FIXES = (MEAN, BCAST)
