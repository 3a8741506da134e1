"""What all ranks have to have alike: parameters before the first collective, then their values."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from sdbr.base.errors import SdbrError, ValidationError

from chainer.backends import cuda

Description = list[tuple[str, ...]]


def describe(named: Sequence[tuple[str, Any]], communicator: Any) -> Description:
    """Names, shapes and dtypes of parameters, in order; what they are averaged by comes first."""
    first = ("the communicator", type(communicator).__name__)
    return [first] + [
        (name, "no array")
        if param.array is None
        else (name, f"{param.dtype.name}{list(param.shape)}", type(param.array).__name__)
        for name, param in named
    ]


def agree(communicator: Any, mine: Description) -> None:
    """Raise on every rank where parameters differ; all ranks have to be there.

    Raises
    ------
    SdbrError
        Two ranks and the first parameter that differs between them.
    """
    digest = hashlib.blake2b(repr(mine).encode(), digest_size=16).hexdigest()
    digests = _everybodys(communicator, digest)
    if len(set(digests)) == 1:
        return
    rank, theirs = _other(digests)
    found = _everybodys(communicator, mine)
    text = _first_difference(found[rank], found[theirs], rank, theirs)
    raise SdbrError(f"ranks have different parameters, so nothing was sent: {text}")


def compare(communicator: Any, named: Sequence[tuple[str, Any]], t: int) -> None:
    """Raise on every rank where values of parameters differ between ranks, bit by bit.

    Raises
    ------
    ValidationError
        Two ranks and the first parameter that differs between them.
    """
    sums = [(name, _checksum(param.array)) for name, param in named]
    digest = hashlib.blake2b(repr((t, sums)).encode(), digest_size=16).hexdigest()
    digests = _everybodys(communicator, digest)
    if len(set(digests)) == 1:
        return
    rank, theirs = _other(digests)
    found = _everybodys(communicator, (t, sums))
    (one, ours), (other, others) = found[rank], found[theirs]
    if one != other:
        raise ValidationError(
            f"rank {rank} has made {one} updates, and rank {theirs} {other}: ranks have to make "
            "them together"
        )
    name = next(a for (a, p), (_, q) in zip(ours, others, strict=True) if p != q)
    raise ValidationError(
        f"ranks differ after update {t}: parameter {name} is not the same on ranks {rank} and "
        f"{theirs}"
    )


def _everybodys(communicator: Any, mine: Any) -> list:
    return communicator.bcast_obj(communicator.gather_obj(mine))


def _other(digests: list) -> tuple[int, int]:
    """Rank 0, and the first that has something else."""
    return 0, next(rank for rank, digest in enumerate(digests) if digest != digests[0])


def _first_difference(ours: Description, theirs: Description, rank: int, other: int) -> str:
    for a, b in zip(ours, theirs, strict=False):
        if a != b:
            return f"{_text(a)} on rank {rank}, {_text(b)} on rank {other}"
    common = min(len(ours), len(theirs))
    who, more = (rank, ours) if len(ours) > common else (other, theirs)
    return f"of ranks {rank} and {other}, only rank {who} has {_text(more[common])}"


def _text(entry: tuple[str, ...]) -> str:
    return f"{entry[0]} ({', '.join(entry[1:])})"


def _checksum(array: Any) -> str | None:
    if array is None:
        return None
    return hashlib.blake2b(cuda.to_cpu(array).tobytes(), digest_size=16).hexdigest()
