"""Which gradients are sent together, and when: by the parameters alone, so alike on all ranks."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from sdbr.base.settings import entry

import numpy as np

#: Gradients from here on are reduced where they lie, in bytes: copying them would take longer than
#: a collective of their own.
LARGE = 1 << 18
#: Gradients of fewer bytes, all together, are sent after the backward, if nobody says otherwise.
LEAST = 1 << 25
#: Collectives that go on while the backward runs: bytes of each at least, and how many, about.
PIECE, MOST = 1 << 20, 24
#: MPI counts elements with an int.
_MOST_ELEMENTS = 2**31 - 1


class Pieces(NamedTuple):
    """The collectives of one update.

    Attributes
    ----------
    groups : list of (dtype, list of Parameter)
        In what dtype the gradients are added up, and those that go together.
    overlaps : bool
        Whether each begins as soon as it can, and goes on while other ops run.
    """

    groups: list[tuple[np.dtype, list]]
    overlaps: bool

    def describe(self) -> str:
        """How gradients are sent, for ranks to compare."""
        sizes = [sum(param.size for param in params) for _, params in self.groups]
        return f"{'while the backward runs' if self.overlaps else 'after it'}, {sizes}"


def pieces(communicator: Any, named: Sequence[tuple[str, Any]]) -> Pieces | None:
    """How the gradients of parameters are sent; None where the communicator has a way of its own.

    Parameters
    ----------
    communicator : chainermn.CommunicatorBase
    named : list of (str, Parameter)
        In the order of the links.

    Raises
    ------
    SettingError
        If ``chainer.config.sdbr_overlap`` is none of the values that it may be.
    """
    if not is_flat(communicator, [param for _, param in named]):
        return None
    if _overlaps(communicator, sum(param.array.nbytes for _, param in named)):
        # Links that come last have their gradients first.
        return Pieces(_as_they_come([param for _, param in reversed(named)]), True)
    return Pieces(_together([param for _, param in sorted(named)]), False)


def is_flat(communicator: Any, params: Sequence[Any]) -> bool:
    """Whether gradients go through flat buffers; other communicators have ways of their own."""
    module = sys.modules.get("chainermn.communicators.naive_communicator")
    naive = module is not None and type(communicator) is module.NaiveCommunicator
    return naive and all(
        type(param.array) is np.ndarray and param.dtype.kind == "f" and param.size <= _MOST_ELEMENTS
        for param in params
    )


def _overlaps(communicator: Any, nbytes: int) -> bool:
    wanted = entry("sdbr_overlap")
    if wanted == "auto":
        # Within a node, the cores that compute do the sending as well.
        return communicator.inter_size > 1 and nbytes >= LEAST
    return wanted


def _together(params: Sequence[Any]) -> list[tuple[np.dtype, list]]:
    """Large gradients one by one, and all others of a dtype in one."""
    groups: list[tuple[np.dtype, list]] = []
    for dtype in sorted({_sent(param.dtype) for param in params}, key=str):
        of_one = [param for param in params if _sent(param.dtype) == dtype]
        large = [p for p in of_one if p.size * dtype.itemsize >= LARGE]
        groups += [(dtype, [p]) for p in large]
        small = [p for p in of_one if p.size * dtype.itemsize < LARGE]
        if small:
            groups.append((dtype, small))
    return groups


def _as_they_come(params: Sequence[Any]) -> list[tuple[np.dtype, list]]:
    """Pieces of at least `PIECE` bytes, in the order of the parameters; large gradients alone."""
    least = max(PIECE, sum(param.array.nbytes for param in params) // MOST)
    groups: list[tuple[np.dtype, list]] = []
    waiting: dict[np.dtype, list] = {}
    for param in params:
        dtype = _sent(param.dtype)
        if param.size * dtype.itemsize >= least:
            groups.append((dtype, [param]))
            continue
        small = waiting.setdefault(dtype, [])
        small.append(param)
        if sum(p.size for p in small) * dtype.itemsize >= least:
            groups.append((dtype, waiting.pop(dtype)))
    return groups + list(waiting.items())


def _sent(dtype: np.dtype) -> np.dtype:
    """What gradients of a dtype are added up in: MPI has no halves."""
    return np.dtype("float32") if dtype == np.float16 else np.dtype(dtype)
