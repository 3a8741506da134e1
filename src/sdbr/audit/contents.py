"""What arrays hold, of the host and of GPUs: as it is, as a checksum, compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sdbr.audit import _budget
from sdbr.devices import contents
from sdbr.devices.arrays import Array, device_of, is_writeable

import numpy as np
from chainer.backends import cuda


def checksums(arrays: Sequence[Any]) -> list[int]:
    """A number for each array that tells its contents apart from others."""
    return _by_place([(x,) for x in arrays], _budget.checksum, _of_first(contents.checksums))


def same_bytes(pairs: Sequence[tuple[Any, Any]]) -> list[bool]:
    """Of each pair of arrays: whether shape, dtype and bytes are the same."""
    return _by_place(pairs, _same_on_host, contents.same_bytes)


def _of_first(look: Callable) -> Callable:
    return lambda rows: look([row[0] for row in rows])


def _same_on_host(a, b) -> bool:
    return device_of(a) == device_of(b) and _budget.same_bytes(a, b)


def _by_place(rows: Sequence[tuple], on_host: Callable, on_gpu: Callable) -> list:
    """What is found for each row of arrays; those on one GPU are looked at together."""
    if not any(isinstance(x, Array) for row in rows for x in row):
        return [on_host(*row) for row in rows]
    there = [device_of(row[0]) is not None and len(set(map(device_of, row))) == 1 for row in rows]
    found = iter(on_gpu([row for row, is_there in zip(rows, there, strict=True) if is_there]))
    return [
        next(found) if is_there else on_host(*row)
        for row, is_there in zip(rows, there, strict=True)
    ]


def copy_of(array):
    """A copy where it lies, plain."""
    if not isinstance(array, Array):
        return np.array(array)
    with cuda.Device(device_of(array)):
        return array.copy()


def overwrite(array, contents) -> None:
    """Give an array of the shape and place of `contents` these."""
    if not isinstance(array, Array):
        array[...] = contents
        return
    with cuda.Device(device_of(array)):
        array[...] = contents


def rewrite(array, contents) -> bool:
    """Give `array` its former contents; False when it cannot be written or has another shape."""
    if (array.shape, array.dtype) != (contents.shape, contents.dtype):
        return False
    if not is_writeable(array):
        return _budget.same_bytes(array, contents)
    overwrite(array, contents)
    return True
