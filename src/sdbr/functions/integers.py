"""Comparisons, and arithmetic of integers: what function rows and NumPy calls have in common."""

from __future__ import annotations

from sdbr.program.buffers import Row
from sdbr.program.builder import Builder

import numpy as np

#: Dtypes with arithmetic of their own; the others are widened to one of them for a comparison.
INTEGERS = (np.dtype("i4"), np.dtype("i8"))
COMPARED = (np.dtype("f4"), np.dtype("f8"), *INTEGERS)
_WIDER = {"b1": "i4", "i1": "i4", "i2": "i4", "u1": "i4", "u2": "i4", "u4": "i8"}

_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
_ARITHMETIC = ("add", "sub", "mul", "max", "min", "and", "or", "xor")


def compare(b: Builder, kind: str, x: Row, y: Row) -> Row:
    """Truth values of a comparison of two rows of one dtype out of `COMPARED`."""
    return _binary(b, "compare", _COMPARISONS.index(kind), x, y, np.dtype(bool))


def integer(b: Builder, kind: str, x: Row, y: Row) -> Row:
    """Sum, product, choice or bits of two rows of integers, or of truth values."""
    return _binary(b, "integer", _ARITHMETIC.index(kind), x, y, x.dtype)


def _binary(b: Builder, name: str, kind: int, x: Row, y: Row, dtype) -> Row:
    shape = np.broadcast_shapes(x.shape, y.shape)
    z = b.new(shape, dtype)
    b.emit(name, [b.broadcast(x, shape), b.broadcast(y, shape)], [z], (kind,))
    return z


def where(b: Builder, condition: Row, x: Row, y: Row) -> Row:
    """x where `condition` holds, else y."""
    shape = np.broadcast_shapes(condition.shape, x.shape, y.shape)
    z = b.new(shape, x.dtype)
    b.emit("where", [b.broadcast(r, shape) for r in (condition, x, y)], [z])
    return z


def compared_dtype(dtype: np.dtype) -> np.dtype | None:
    """The dtype in which `compare` looks at numbers of this one, or None when it cannot."""
    dtype = np.dtype(dtype)
    if dtype in COMPARED:
        return dtype
    wider = _WIDER.get(dtype.str[1:])
    return None if wider is None else np.dtype(wider)


def counted(b: Builder, condition: Row, axes, dtype, keepdims: bool = False) -> Row:
    """How often a condition holds along `axes`; exact, whatever the dtype."""
    if condition.is_contiguous and len(axes) == condition.ndim:
        total = b.new((1,) * condition.ndim if keepdims else (), np.float64)
        b.emit("count", [condition], [b.reshape(total, ())])
    else:
        total = b.reduce("sum", b.cast(condition, np.float64), axes, keepdims)
    return b.cast(total, dtype)


def with_integers(kind: str, number_first: bool = False):
    """Make a row of two numbers serve integers, too; there is no gradient for those.

    Parameters
    ----------
    kind : str
        What `integer` computes.
    number_first : bool
        Whether ``node.function.value`` comes before the input; it comes last where there is one.
    """

    def widen(row):
        reason, forward = row.reason, row.forward

        def integer_reason(node):
            return None if _all_integers(node) else reason(node)

        def integer_forward(b, node, xs):
            if not _all_integers(node):
                return forward(b, node, xs)
            terms = list(xs)
            if hasattr(node.function, "value"):
                value = node.slots.get("value")
                if isinstance(value, Row):  # a NumPy scalar that the call has computed
                    value = b.cast(value, xs[0].dtype)
                else:
                    value = b.constant(np.asarray(node.function.value, xs[0].dtype))
                terms.insert(0 if number_first else 1, value)
            y = terms[0]
            for term in terms[1:]:
                y = integer(b, kind, y, term)
            return [y]

        row.reason = staticmethod(integer_reason)
        row.forward = staticmethod(integer_forward)
        return row

    return widen


def _all_integers(node) -> bool:
    """Whether inputs and output are integers of one dtype that has arithmetic of its own."""
    dtype = node.out_dtypes[0]
    if dtype not in INTEGERS or any(d != dtype for d in node.in_dtypes):
        return False
    value = getattr(node.function, "value", 0)
    if not isinstance(value, (int, np.integer)):
        return False
    bounds = np.iinfo(dtype)
    return bounds.min <= value <= bounds.max
