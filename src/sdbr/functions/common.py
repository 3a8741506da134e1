"""What the function rows of several families share: reasons and axes."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence

from sdbr.base.dtypes import DTYPE_CODES
from sdbr.functions.registry import FLOATS, HALF, Node, float_reason
from sdbr.program.buffers import Row
from sdbr.program.builder import Builder, ControlSlot

import numpy as np


def data_reason(node: Node, mixed: bool = False, half: bool = False) -> str | None:
    """For function rows that move elements: float32, float64, integers, bool; one unless `mixed`.

    Also float16 where they say that it may be `half`: neither they nor their gradients add, but by
    ``Builder.sum_to``.
    """
    for d in node.in_dtypes:
        if not is_moved(d) and not (half and d == HALF):
            return f"dtype {d.name} has no native kernels"
    if not mixed and len(set(node.in_dtypes)) > 1:
        return "inputs of mixed dtypes: " + ", ".join(d.name for d in node.in_dtypes)
    return None


def is_moved(dtype: np.dtype) -> bool:
    """Whether native ops may move elements of this dtype."""
    return dtype in FLOATS or (dtype in DTYPE_CODES and dtype.kind in "biu")


def number_reason(node: Node, *attributes: str) -> str | None:
    """Why inputs are not native floats of one dtype, or an attribute is not a real number."""
    reason = float_reason(node)
    if reason is not None:
        return reason
    for name in attributes:
        value = getattr(node.function, name)
        if not is_number(value):
            return f"{name} is of type {type(value).__name__}, not a real number"
    return None


def is_number(value) -> bool:
    """Whether `value` is a Python or NumPy real number."""
    if type(value) in (float, int):  # nearly always; abstract classes take long to answer
        return True
    return isinstance(value, (numbers.Real, np.bool_)) and not isinstance(value, np.ndarray)


def wider_reason(node: Node, *attributes: str) -> str | None:
    """Why a NumPy scalar as a bound would make NumPy compare in a wider dtype than the input's."""
    dtype = node.in_dtypes[0]
    for name in attributes:
        value = getattr(node.function, name)
        if isinstance(value, np.generic) and dtype.type(value) != value:
            return f"{name} is a {value.dtype.name} that {dtype.name} cannot hold"
    return None


def label_reason(node: Node) -> str | None:
    """First input float32 or float64, second any integer dtype."""
    reason = float_reason(node, [0])
    if reason is None and node.in_dtypes[1].kind not in "iu":
        reason = f"labels of dtype {node.in_dtypes[1].name} have no native kernels"
    return reason


def label_layout(x: Row, t: Row) -> tuple[tuple[int, int, int], tuple[int, int]]:
    """Canonical shapes ``x[outer, class, inner]`` and ``t[outer, inner]``."""
    outer, classes = x.shape[:2]
    inner = math.prod(x.shape[2:])
    return (outer, classes, inner), (outer, inner)


def along(shape: Sequence[int], axis: int) -> tuple[int, int, int]:
    """``(outer, n, inner)`` of an array of this shape, with `axis` in the middle."""
    axis %= len(shape)
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])


def reduced_axes(axis, ndim: int) -> list[int]:
    """Axes of a reduction as Chainer keeps them: None means all."""
    return list(range(ndim)) if axis is None else [a % ndim for a in axis]


def kept_shape(shape: Sequence[int], axes: Sequence[int]) -> tuple[int, ...]:
    """`shape` with length 1 along `axes`."""
    return tuple(1 if i in axes else n for i, n in enumerate(shape))


def certain(value: float | ControlSlot) -> bool:
    """Whether a number cannot change between calls."""
    return not isinstance(value, ControlSlot)


def expanded(b: Builder, gy: Row, shape: Sequence[int], axes: Sequence[int]) -> Row:
    """The gradient of a reduction of `shape` over `axes`, repeated along them: a view, in Chainer
    as well.
    """
    y = b.broadcast(b.reshape(gy, kept_shape(shape, axes)), shape)
    b.repeated.add(y.index)
    return y


__all__ = [
    "along",
    "certain",
    "data_reason",
    "expanded",
    "is_moved",
    "is_number",
    "kept_shape",
    "label_layout",
    "label_reason",
    "number_reason",
    "reduced_axes",
    "wider_reason",
]
