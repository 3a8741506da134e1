"""NumPy calls of user code that have ops of their own.

The rest of them are Python ops; both are right, these are quicker.
"""

from __future__ import annotations

from sdbr.functions.indexing import lower_getitem
from sdbr.functions.registry import FLOATS
from sdbr.lowering.numpy_logic import lower_logic
from sdbr.lowering.numpy_views import lower_view
from sdbr.lowering.numpy_writes import lower_write
from sdbr.program.buffers import Row
from sdbr.program.builder import Builder
from sdbr.trace.arrays.rewriting import Rewriting
from sdbr.trace.values import Hole

import numpy as np

_BINARY = {
    np.add: ("add", "add_constant", "add_constant"),
    np.subtract: ("subtract", None, "rsub_constant"),
    np.multiply: ("multiply", "mul_constant", "mul_constant"),
    np.divide: ("divide", "div_constant", "rdiv_constant"),
    np.maximum: ("maximum", None, None),
    np.minimum: ("minimum", None, None),
}
# Where a copy has to be one, it is copied apart from this.
_CONVERSIONS = (
    "array", "asanyarray", "asarray", "ascontiguousarray", "asfortranarray", "astype",
    "as_float", "copy",
)  # fmt: skip
UNARY = {
    np.negative: "negative",
    np.absolute: "absolute",
    np.exp: "exp",
    np.log: "log",
    np.sqrt: "sqrt",
    np.square: "square",
    np.tanh: "tanh",
    np.fix: "trunc",
    **{
        getattr(np, name): name
        for name in (
            "arccos", "arcsin", "arctan", "arctanh", "ceil", "cos", "cosh", "expm1", "floor",
            "log10", "log1p", "log2", "sign", "sin", "sinh", "tan", "trunc",
        )
    },
}  # fmt: skip


def lower_call(b: Builder, traced, xs: list[Row]) -> list[Row] | None:
    """Emit a recorded NumPy call natively, or None when it has to stay a Python op.

    Parameters
    ----------
    b : Builder
    traced : TracedNode
        Of a NumPy call.
    xs : list of Row
        The known arrays, in the order of their holes.
    """
    call, args, kwargs = traced.call
    call = getattr(call, "as_numpy", None) or call
    if len(traced.outputs) != 1:
        return None
    want = traced.outputs[0]
    if getattr(call, "__name__", "") in _CONVERSIONS:
        return _conversion(b, args, kwargs, xs, want)
    if type(call) is Rewriting:
        y = lower_write(b, call, args, kwargs, xs, traced.lasting)
        return None if y is None else [y]
    view = lower_view(b, call, args, kwargs, xs, want)
    if view is not None:
        return [view]
    y = None if kwargs else _plain(b, call, args, xs, want)
    if y is None:
        y = lower_logic(b, call, args, kwargs, xs, want)
    return [y] if y is not None and (y.shape, y.dtype) == (want.shape, want.dtype) else None


def _plain(b: Builder, call, args, xs, want) -> Row | None:
    """Indexing, and arithmetic of floats of one dtype."""
    if getattr(call, "__name__", "") == "_getitem" and len(args) == 2:
        return lower_getitem(b, args, xs)
    if want.dtype not in FLOATS or any(x.dtype != want.dtype for x in xs):
        return None
    return _ufunc(b, call, args, xs)


def _conversion(b: Builder, args, kwargs, xs, want) -> list[Row] | None:
    if len(xs) != 1 or len(args) not in (1, 2) or type(args[0]) is not Hole:
        return None
    if not kwargs.keys() <= {"dtype", "copy", "order"}:
        return None
    x = xs[0]
    if x.shape != want.shape:  # ascontiguousarray gives a number an axis
        return None
    if x.dtype == want.dtype:
        return [x]
    if x.dtype.kind in "fiub" and want.dtype.kind in "fiub":
        return [b.cast(x, want.dtype)]
    return None


def _ufunc(b: Builder, call, args, xs) -> Row | None:
    try:
        unary, binary = UNARY.get(call), _BINARY.get(call)
    except TypeError:  # not hashable
        return None
    if unary is not None and len(args) == 1 and type(args[0]) is Hole:
        return b.elementwise(unary, xs[0])
    if binary is None or len(args) != 2:
        return None
    holes = [type(a) is Hole for a in args]
    if all(holes):
        return b.elementwise(binary[0], xs[args[0].index], xs[args[1].index])
    number, name = (args[1], binary[1]) if holes[0] else (args[0], binary[2])
    if type(number) not in (int, float):
        return None
    number = float(number)
    if call is np.subtract and holes[0]:
        name, number = "add_constant", -number
    return None if name is None else b.elementwise(name, xs[0], floats=(number,))
