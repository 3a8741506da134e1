"""Arrays for the parity tests: value classes and memory layouts."""

from __future__ import annotations

import dataclasses

import numpy as np

#: What is sprinkled over ordinary numbers.
KINDS = ("ordinary", "nan", "infinity", "zero", "denormal", "largest")
SPECIAL_KINDS = KINDS[1:]


def sprinkles(kind: str, dtype: np.dtype) -> list[float]:
    """The special values of a class."""
    info = np.finfo(dtype)
    return {
        "ordinary": [],
        "nan": [np.nan],
        "infinity": [np.inf, -np.inf],
        "zero": [0.0, -0.0],
        "denormal": [info.smallest_subnormal, -info.tiny / 3, info.tiny / 7],
        "largest": [info.max, -info.max],
    }[kind]


def values(rng, shape, dtype, kind: str = "ordinary", positive: bool = False) -> np.ndarray:
    """Normal numbers, with special values of a class in about a quarter of the places."""
    dtype = np.dtype(dtype)
    x = np.asarray(2 * rng.standard_normal(shape)).astype(dtype)
    special = np.array(sprinkles(kind, dtype), dtype)
    if special.size and x.size:
        where = rng.random(shape) < 0.25
        np.reshape(where, -1)[rng.integers(x.size)] = True
        x = np.where(where, special[rng.integers(special.size, size=shape)], x).astype(dtype)
    return abs(x) if positive else x


def spread(rng, shape, axis: int, dtype, kind: str) -> np.ndarray:
    """Like `values`, but one largest number along `axis`: sums of two depend on the order."""
    if kind != "largest":
        return values(rng, shape, dtype, kind)
    x = values(rng, shape, dtype)
    if x.size:
        index = rng.integers(shape[axis], size=[1 if a == axis else n for a, n in enumerate(shape)])
        sign = np.where(rng.random(index.shape) < 0.5, -1, 1)
        np.put_along_axis(x, index, sign * np.finfo(dtype).max, axis)
    return x


@dataclasses.dataclass(eq=False)
class Operand:
    """A window `view` into the C-contiguous array `base`, which is what gets bound."""

    base: np.ndarray
    view: np.ndarray

    @property
    def offset(self) -> int:
        """Bytes from the start of the base."""
        return self.view.__array_interface__["data"][0] - self.base.__array_interface__["data"][0]

    def window(self, base: np.ndarray) -> np.ndarray:
        """The same window into another array of the base's shape."""
        return np.ndarray(self.view.shape, base.dtype, base, self.offset, self.view.strides)


def whole(array) -> Operand:
    """An operand that is a C-contiguous array."""
    array = np.array(array, order="C")
    return Operand(array, array)


def blank(shape, dtype) -> Operand:
    """An operand to be written: no element holds a plausible result."""
    dtype = np.dtype(dtype)
    return whole(np.full(shape, 1 if dtype.kind == "b" else 77, dtype))


def _offset(x):
    base = np.concatenate([np.full(1, 55, x.dtype), x.reshape(-1)])
    return base, base[1:].reshape(x.shape)


def _transposed(x):
    base = np.ascontiguousarray(x.T)
    return base, base.T


def _rows(x):  # every row has a gap behind it
    base = np.full((*x.shape[:-1], x.shape[-1] + 3), 55, x.dtype)
    base[..., 1:-2] = x
    return base, base[..., 1:-2]


def _every_second(x):
    base = np.full((*x.shape[:-1], 2 * x.shape[-1]), 55, x.dtype)
    base[..., ::2] = x
    return base, base[..., ::2]


def _reversed(x):
    base = np.ascontiguousarray(x[::-1])
    return base, base[::-1]


def _every_second_row(x):
    base = np.full((2 * x.shape[0], *x.shape[1:]), 55, x.dtype)
    base[1::2] = x
    return base, base[1::2]


#: Layouts of an array with at least one axis: strided, or not from the start of its memory.
LAYOUTS = {
    "offset": _offset,
    "transposed": _transposed,
    "rows": _rows,
    "every second": _every_second,
    "reversed": _reversed,
    "every second row": _every_second_row,
}


def laid_out(x: np.ndarray, layout: str) -> Operand:
    """`x` in a layout of `LAYOUTS`, or C-contiguous for any other name."""
    make = LAYOUTS.get(layout)
    if make is None or x.ndim == 0:
        return whole(x)
    base, view = make(x)
    return Operand(base, view)


def repeated(x: np.ndarray, shape) -> Operand:
    """`x` broadcast to `shape` with stride 0."""
    base = np.array(x, order="C")
    return Operand(base, np.broadcast_to(base, shape))
