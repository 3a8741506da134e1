"""NumPy calls of user code on truth values, integers and several dtypes at once."""

from __future__ import annotations

from sdbr.functions.integers import (
    INTEGERS,
    compare,
    compared_dtype,
    counted,
    integer,
    where,
)
from sdbr.functions.registry import FLOATS
from sdbr.program.buffers import Row
from sdbr.program.builder import Builder
from sdbr.trace.values import Hole

import numpy as np

BOOL = np.dtype(bool)

COMPARISONS = {
    np.equal: "eq",
    np.not_equal: "ne",
    np.less: "lt",
    np.less_equal: "le",
    np.greater: "gt",
    np.greater_equal: "ge",
}
#: Of truth values; those of bits serve integers as well.
LOGICAL = {
    np.logical_and: "and",
    np.logical_or: "or",
    np.logical_xor: "xor",
    np.bitwise_and: "and",
    np.bitwise_or: "or",
    np.bitwise_xor: "xor",
}
_ARITHMETIC = {
    np.add: "add",
    np.subtract: "sub",
    np.multiply: "mul",
    np.maximum: "max",
    np.minimum: "min",
    np.bitwise_and: "and",
    np.bitwise_or: "or",
    np.bitwise_xor: "xor",
}
#: The same of floats; operands may be integers or truth values before they are cast.
_FLOATING = {
    np.add: "add",
    np.subtract: "subtract",
    np.multiply: "multiply",
    np.divide: "divide",
    np.maximum: "maximum",
    np.minimum: "minimum",
}
_REDUCTIONS = {
    "sum": "sum", "mean": "mean", "max": "max", "amax": "max", "min": "min", "amin": "min",
    "all": "all", "any": "any",
}  # fmt: skip


_TRUTHS = {"all": "min", "any": "max"}
_TESTS = frozenset({"isnan", "isinf", "isfinite", "logical_not", "invert"})


def lower_logic(b: Builder, call, args, kwargs, xs: list[Row], want) -> Row | None:
    """Emit a recorded NumPy call on any dtypes, or None when it has to stay a Python op."""
    name = getattr(call, "__name__", "")
    if name in _REDUCTIONS:
        return _reduction(b, _REDUCTIONS[name], args, kwargs, xs, want)
    if name == "clip":
        return _clip(b, args, kwargs, xs, want)
    if name in ("stack", "concatenate") and kwargs.keys() <= {"axis"}:
        return _joined(b, name, (*args, *kwargs.values()), xs, want)
    if kwargs:
        return None
    if name in _TESTS:
        return _test(b, name, args, xs, want)
    if name == "where" and len(args) == 3:
        return _where(b, args, xs, want)
    try:
        return _ufunc(b, call, args, xs, want)
    except TypeError:  # not hashable
        return None


def _ufunc(b: Builder, call, args, xs, want) -> Row | None:
    if call in (np.logical_not, np.invert) and xs[0].dtype == BOOL:
        return integer(b, "xor", xs[0], b.constant(np.array(True)))
    if len(args) != 2:
        return None
    if call in COMPARISONS and want.dtype == BOOL:
        dtype = _common(args, xs)
        dtype = None if dtype is None else compared_dtype(dtype)
        rows = None if dtype is None else _operands(b, args, xs, dtype)
        return None if rows is None else compare(b, COMPARISONS[call], *rows)
    if want.dtype == BOOL:
        if call not in LOGICAL or any(x.dtype != BOOL for x in xs):
            return None
        rows = _operands(b, args, xs, BOOL)
        return None if rows is None else integer(b, LOGICAL[call], *rows)
    if want.dtype in INTEGERS and call in _ARITHMETIC and all(x.dtype.kind in "bi" for x in xs):
        rows = _operands(b, args, xs, want.dtype)
        return None if rows is None else integer(b, _ARITHMETIC[call], *rows)
    if want.dtype in FLOATS and call in _FLOATING and _all_real(xs):
        rows = _operands(b, args, xs, want.dtype)
        return None if rows is None else b.elementwise(_FLOATING[call], *rows)
    return None


def _all_real(xs) -> bool:
    return all(x.dtype in FLOATS or x.dtype.kind in "biu" for x in xs)


def _common(args, xs) -> np.dtype | None:
    """The dtype in which NumPy compares the arguments."""
    kinds = [xs[a.index].dtype if type(a) is Hole else a for a in args]
    if not all(isinstance(k, (np.dtype, np.generic)) or type(k) in (int, float) for k in kinds):
        return None
    return np.result_type(*kinds)


def _operands(b: Builder, args, xs, dtype) -> list[Row] | None:
    """The arguments in one dtype; numbers become constants."""
    rows = []
    for a in args:
        if type(a) is Hole:
            rows.append(b.cast(xs[a.index], dtype))
            continue
        if type(a) not in (bool, int, float) and not isinstance(a, np.generic):
            return None
        value = np.asarray(a)
        if dtype.kind == "i" and (value.dtype.kind == "f" or not _fits(value, dtype)):
            return None
        rows.append(b.constant(value.astype(dtype)))
    return rows


def _fits(value, dtype) -> bool:
    bounds = np.iinfo(dtype)
    return bounds.min <= int(value) <= bounds.max


def _axes(args, kwargs, ndim: int):
    """Axes and ``keepdims`` of a reduction, or None where there is more to it."""
    given = dict(zip(("axis",), args[1:], strict=False))
    given.update(kwargs)
    given = {k: v for k, v in given.items() if v is not None or k not in ("dtype", "out")}
    if len(args) > 2 or not given.keys() <= {"axis", "keepdims"}:
        return None
    axis, keepdims = given.get("axis"), bool(given.get("keepdims", False))
    if axis is None:
        return list(range(ndim)), keepdims
    axes = axis if isinstance(axis, tuple) else (axis,)
    if not all(isinstance(a, (int, np.integer)) for a in axes):
        return None
    return [int(a) for a in axes], keepdims


def _test(b: Builder, name: str, args, xs, want) -> Row | None:
    """``isnan``, ``isinf`` and ``isfinite`` of floats, ``logical_not`` of truth values."""
    if len(args) != 1 or type(args[0]) is not Hole or len(xs) != 1 or want.dtype != BOOL:
        return None
    x = xs[0]
    if x.dtype == BOOL and name in ("logical_not", "invert"):
        return compare(b, "eq", b.cast(x, np.int32), b.fill(x.shape, np.int32, 0.0))
    if x.dtype not in FLOATS or name not in ("isnan", "isinf", "isfinite"):
        return None
    if name == "isnan":
        return compare(b, "ne", x, x)
    size = b.elementwise("absolute", x)
    return compare(b, "lt" if name == "isfinite" else "eq", size, b.fill(x.shape, x.dtype, np.inf))


def _reduction(b: Builder, name: str, args, kwargs, xs, want) -> Row | None:
    if len(xs) != 1 or not args or type(args[0]) is not Hole:
        return None
    x, found = xs[0], _axes(args, kwargs, len(xs[0].shape))
    if found is None:
        return None
    axes, keepdims = found
    if x.dtype in FLOATS and want.dtype == x.dtype:
        y = b.reduce(name, x, axes, keepdims)
    elif x.dtype == BOOL and name == "sum":
        y = counted(b, x, axes, want.dtype, keepdims)
    elif x.dtype == BOOL and name == "mean" and want.dtype in FLOATS:
        y = b.reduce(name, b.cast(x, want.dtype), axes, keepdims)
    elif name in _TRUTHS and want.dtype == BOOL and 0 not in x.shape:
        truths = b.cast(b.cast(x, BOOL), np.float32)
        y = b.cast(b.reduce(_TRUTHS[name], truths, axes, keepdims), BOOL)
    else:
        return None
    return y


def _clip(b: Builder, args, kwargs, xs, want) -> Row | None:
    names = {"a_min": "low", "min": "low", "a_max": "high", "max": "high"}
    given = dict(zip(("low", "high"), args[1:], strict=False))
    for name, value in kwargs.items():
        if name not in names:
            return None
        given[names[name]] = value
    if len(xs) != 1 or len(args) > 3 or type(args[0]) is not Hole or want.dtype != xs[0].dtype:
        return None
    bounds = [given.get("low"), given.get("high")]
    if not all(v is None or type(v) in (int, float) for v in bounds):
        return None
    y = xs[0]
    if y.dtype in FLOATS:
        low, high = bounds
        floats = (-np.inf if low is None else float(low), np.inf if high is None else float(high))
        return b.elementwise("clip", y, floats=floats)
    if y.dtype not in INTEGERS:
        return None
    for kind, bound in zip(("max", "min"), bounds, strict=True):
        if bound is not None:
            rows = _operands(b, (Hole(0), bound), [y], y.dtype)
            if rows is None:
                return None
            y = integer(b, kind, *rows)
    return y


def _where(b: Builder, args, xs, want) -> Row | None:
    if type(args[0]) is not Hole or xs[args[0].index].dtype != BOOL:
        return None
    if not _all_real(xs):
        return None
    if not (want.dtype in FLOATS or want.dtype.kind in "biu"):
        return None
    rows = _operands(b, args[1:], xs, want.dtype)
    return None if rows is None else where(b, xs[args[0].index], *rows)


def _joined(b: Builder, name: str, args, xs, want) -> Row | None:
    parts = args[0] if args else None
    if not isinstance(parts, (list, tuple)) or not all(type(p) is Hole for p in parts):
        return None
    axis = args[1] if len(args) == 2 else 0
    if len(args) > 2 or type(axis) is not int or any(x.dtype != want.dtype for x in xs):
        return None
    y = b.new(want.shape, want.dtype)
    axis %= len(want.shape)
    start = 0
    lead = (slice(None),) * axis
    for part in parts:
        x = xs[part.index]
        stop = start + (1 if name == "stack" else x.shape[axis])
        place = start if name == "stack" else slice(start, stop)
        b.copy_to(x, b.slice(y, (*lead, place)))
        start = stop
    return y
