"""What arrays hold, compared where it lies; of arrays on a GPU in one transfer for many of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from sdbr.devices.arrays import Array, contiguous, device_of

import numpy as np
from chainer.backends import cuda

#: Words of four bytes that a checksum takes at a time: their products take twice that memory.
_CHUNK = 1 << 22
_ODD = 0x9E3779B97F4A7C15


class Extent(NamedTuple):
    """How far two arrays of one shape and dtype are apart.

    Attributes
    ----------
    wrong : int
        How many elements differ; of floats those that are not finite alone: another infinity, a
        NaN in one of them.
    largest, scale : float
        The largest ``|got - want|`` and ``|want|`` of what is finite in both; 0 but for floats.
    """

    wrong: int
    largest: float
    scale: float


def checksums(arrays: Sequence[Any]) -> list[int]:
    """A number for each array of a GPU, which is another one, most likely, for other contents."""
    return [int(x) for (x,) in _found([[x] for x in arrays], lambda x: [_sum(x)], np.uint64)]


def checksum(array: Any) -> int:
    """The same of one array."""
    return checksums([array])[0]


def same_bytes(pairs: Sequence[tuple[Any, Any]]) -> list[bool]:
    """Of each pair of arrays of one GPU: whether shape, dtype and bytes are the same."""
    alike = [(a.shape, a.dtype) == (b.shape, b.dtype) for a, b in pairs]
    compared = [pair for pair, is_alike in zip(pairs, alike, strict=True) if is_alike]
    found = iter(_found(compared, lambda a, b: [(_words(a) != _words(b)).any()], np.uint64))
    return [is_alike and not next(found)[0] for is_alike in alike]


def extents(pairs: Sequence[tuple[Any, Any]]) -> list[Extent]:
    """How far the arrays of each pair, got and wanted, are apart; both lie on one GPU.

    Parameters
    ----------
    pairs : list of (cupy.ndarray, cupy.ndarray)
        Each of one shape and dtype.
    """
    found = _found(pairs, _extent, np.float64)
    return [Extent(int(wrong), float(largest), float(scale)) for wrong, largest, scale in found]


def _found(pairs: Sequence[Sequence[Any]], look: Callable, dtype) -> list[Sequence[Any]]:
    """What `look` gives for each of `pairs`, some numbers on the GPU, brought to the host."""
    result: list[Any] = [None] * len(pairs)
    for device in {device_of(pair[0]) for pair in pairs}:
        with cuda.Device(device):
            places = [i for i, pair in enumerate(pairs) if device_of(pair[0]) == device]
            numbers = [x for i in places for x in look(*pairs[i])]
            table = cuda.cupy.stack([x.astype(dtype).reshape(()) for x in numbers]).get()
        for i, row in zip(places, table.reshape(len(places), -1), strict=True):
            result[i] = row
    return result


def _words(array: Array) -> Array:
    flat = contiguous(array).reshape(-1)
    return flat.view(np.uint8 if array.nbytes % 4 else np.uint32)


def _sum(array: Array) -> Array:
    """Of words times their places; chunk by chunk, the sum so far times an odd number."""
    cupy = cuda.cupy
    words, total = _words(array), cupy.zeros((), np.uint64)
    places = cupy.arange(1, min(words.size, _CHUNK) + 1, dtype=np.uint64)
    for begin in range(0, words.size, _CHUNK):
        part = words[begin : begin + _CHUNK].astype(np.uint64)
        part *= places[: part.size]
        total = total * np.uint64(_ODD) + part.sum()
    return total


def _extent(got: Array, want: Array) -> Iterable[Array]:
    cupy = cuda.cupy
    zero = cupy.zeros(())
    if want.dtype.kind not in "fc":
        return (got != want).sum() if want.size else zero, zero, zero
    if not want.size:
        return zero, zero, zero
    finite = cupy.isfinite(got) & cupy.isfinite(want)
    alike = (got == want) | (cupy.isnan(got) & cupy.isnan(want))
    nothing = cupy.zeros((), want.dtype)
    error = abs(cupy.where(finite, got - want, nothing))
    size = abs(cupy.where(finite, want, nothing))
    return (~(finite | alike)).sum(), error.max(), size.max()
