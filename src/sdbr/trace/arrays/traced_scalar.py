"""Arrays without dimensions, and NumPy scalars, that know where they come from.

Compiled code reads such a number wherever it may (``np.float32(x)``) without asking an ndarray
subclass. So this is no ndarray: everybody has to ask for the number, and what it says of its class
is what define-by-run has in its place.
"""

from __future__ import annotations

from typing import Any

from sdbr.base.reasons import Remedy
from sdbr.trace.arrays.provenance import OPERATORS, TracedArray, add_methods
from sdbr.trace.arrays.stripping import LEAVING, TRACED, shown
from sdbr.trace.arrays.telling import leave_by

import numpy as np


class TracedScalar:
    """Stands for an array without dimensions, or for a NumPy scalar.

    Parameters
    ----------
    plain : ndarray
        Without dimensions.
    origin : Value
    """

    __slots__ = ("__weakref__", "origin", "plain")

    #: The class of what it stands for.
    kind: type = np.ndarray
    __array_priority__ = 0.0

    def __new__(cls, *args, **kwargs):
        # Code that asks for `type(x)` may make another number of that class.
        return object.__new__(cls) if kwargs.pop("traced", False) else cls.kind(*args, **kwargs)

    def __init__(self, plain, origin, traced):
        self.plain = plain
        self.origin = origin

    @property
    def __class__(self):
        return type(self).kind

    __array_ufunc__ = TracedArray.__array_ufunc__
    __array_function__ = TracedArray.__array_function__
    __getitem__ = TracedArray.__getitem__
    __setitem__ = TracedArray.__setitem__
    __repr__ = TracedArray.__repr__
    __str__ = TracedArray.__str__
    __format__ = TracedArray.__format__
    __round__ = TracedArray.__round__
    __hash__ = TracedArray.__hash__
    __copy__ = TracedArray.__copy__
    __deepcopy__ = TracedArray.__deepcopy__
    __reduce_ex__ = TracedArray.__reduce_ex__
    _told = TracedArray._told
    repeat = TracedArray.repeat

    def __iter__(self):
        return iter(shown(self))  # raises NumPy's error

    def __len__(self):
        return len(shown(self))

    def __getattr__(self, name: str) -> Any:
        if name[:8] == "__array_" or name in ("__buffer__", "__dlpack__"):
            raise AttributeError(name)  # NumPy asks for `__array__` then
        thing = getattr(shown(self), name)
        if name not in _METADATA:
            leave_by(f"a value left NumPy through {name}", Remedy.STAY_ARRAYS, self)
        return thing


_METADATA = frozenset({"shape", "dtype", "ndim", "size", "itemsize", "nbytes"})
add_methods(TracedScalar)


def _gives_way(other) -> bool:
    """Whether NumPy leaves an operation with `other` to the class of `other`."""
    kind = type(other)
    if kind in TRACED or isinstance(other, (np.ndarray, np.generic)):
        return False
    method = getattr(kind, "__array_ufunc__", _gives_way)
    if method is not _gives_way:
        return method is None
    return getattr(other, "__array_priority__", -1.0) > 0


def _ufunc_of(name: str):
    return {
        "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.true_divide,
        "floordiv": np.floor_divide, "mod": np.remainder, "divmod": np.divmod, "pow": np.power,
        "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
        "lshift": np.left_shift, "rshift": np.right_shift, "matmul": np.matmul,
        "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
        "eq": np.equal, "ne": np.not_equal, "neg": np.negative, "pos": np.positive,
        "abs": np.absolute, "invert": np.invert,
    }[name]  # fmt: skip


_SEQUENCES = (list, tuple, str, bytes, bytearray)


def _binary(name: str, swapped: bool):
    ufunc = _ufunc_of(name)

    def method(self, other):
        if _gives_way(other):
            return NotImplemented
        if name == "mul" and isinstance(other, _SEQUENCES) and issubclass(self.kind, np.integer):
            return other * int(self)  # as NumPy's whole numbers do; arrays do not
        return ufunc(other, self) if swapped else ufunc(self, other)

    return method


def _in_place(name: str):
    ufunc = _ufunc_of(name)

    def method(self, other):
        # A NumPy scalar is not written: Python makes a new one.
        if type(self).kind is not np.ndarray or _gives_way(other):
            return NotImplemented
        return ufunc(self, other, out=(self,))

    return method


def _unary(name: str):
    ufunc = _ufunc_of(name)
    return lambda self: ufunc(self)


def _add_operators() -> None:
    for name in OPERATORS:
        if name in ("neg", "pos", "abs", "invert"):
            setattr(TracedScalar, f"__{name}__", _unary(name))
            continue
        setattr(TracedScalar, f"__{name}__", _binary(name, False))
        setattr(TracedScalar, f"__r{name}__", _binary(name, True))
        if name != "divmod":
            setattr(TracedScalar, f"__i{name}__", _in_place(name))
    for name in ("lt", "le", "gt", "ge", "eq", "ne"):
        setattr(TracedScalar, f"__{name}__", _binary(name, False))
    TracedScalar.__hash__ = TracedArray.__hash__


_add_operators()


def _kinds(cls: type) -> list[type]:
    return [cls, *[k for sub in cls.__subclasses__() for k in _kinds(sub)]]


#: NumPy's scalars do not pretend to be containers.
_NOT_OF_SCALARS = {"__iter__": None, "__contains__": None}
_CLASSES = {np.ndarray: TracedScalar} | {
    kind: type(kind.__name__, (TracedScalar,), {"kind": kind, "__slots__": (), **_NOT_OF_SCALARS})
    for kind in _kinds(np.generic)
}
TRACED.update(_CLASSES.values())
LEAVING.update((cls, shown) for cls in _CLASSES.values())


def scalar_of(plain: np.ndarray, origin) -> TracedScalar:
    """A traced view of an array without dimensions."""
    kind = plain.dtype.type if getattr(origin, "is_scalar", False) else np.ndarray
    return _CLASSES[kind](plain, origin, traced=True)
