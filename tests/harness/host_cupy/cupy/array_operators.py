"""Operators of ``cupy.ndarray``, its indexing, and how NumPy's functions find CuPy's."""

from __future__ import annotations

import functools

import numpy as np

_BINARY = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "matmul": "matmul",
    "truediv": "true_divide",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "divmod": "divmod",
    "pow": "power",
    "lshift": "left_shift",
    "rshift": "right_shift",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
}
_COMPARISONS = {
    "lt": "less",
    "le": "less_equal",
    "eq": "equal",
    "ne": "not_equal",
    "gt": "greater",
    "ge": "greater_equal",
}
_SCALARS = (int, float, bool, complex, np.generic)


def _gives_way(self, other) -> bool:
    """Whether the other operand's method goes first, as NEP 13 has it."""
    missing = object()
    theirs = getattr(other, "__array_ufunc__", missing)
    if theirs is not missing:
        return theirs is None
    return self.__array_priority__ < getattr(other, "__array_priority__", 0)


def _unknown(other) -> bool:
    """Neither an array nor a scalar: Python tries the other's method."""
    return not hasattr(other, "__array_ufunc__") and not isinstance(other, _SCALARS)


def _operator(name, reflected=False):
    def operator(self, other):
        import cupy

        if _gives_way(self, other) or _unknown(other):
            return NotImplemented
        operands = (other, self) if reflected else (self, other)
        return getattr(cupy, name)(*operands)

    return operator


def _in_place(name):
    def operator(self, other):
        import cupy

        return getattr(cupy, name)(self, other, self)

    return operator


def _comparison(name):
    def operator(self, other):
        import cupy

        if isinstance(other, np.ndarray) and other.ndim == 0:
            other = other.item()
        if name in ("equal", "not_equal") and (
            other is None or type(other).__eq__ is object.__eq__
        ):
            return cupy.full(self.shape, name == "not_equal", bool)
        if _gives_way(self, other) or _unknown(other):
            return NotImplemented
        return getattr(cupy, name)(self, other)

    return operator


def _is_basic(index) -> bool:
    """Without arrays: then it is a view, and CuPy copies nothing from the host into it."""
    parts = index if isinstance(index, tuple) else (index,)
    return all(x is None or x is ... or isinstance(x, (int, slice, np.integer)) for x in parts)


class Operators:
    """Arithmetic, conversion to Python's numbers, indexing, NumPy's protocols."""

    __slots__ = ()
    __hash__ = None

    def __neg__(self):
        import cupy

        return cupy.negative(self)

    def __pos__(self):
        import cupy

        return cupy.positive(self)

    def __abs__(self):
        import cupy

        return cupy.absolute(self)

    def __invert__(self):
        import cupy

        return cupy.invert(self)

    # --- Python's numbers ---

    def __bool__(self):
        if self.size > 1:
            raise ValueError(
                "The truth value of an array with more than one element is ambiguous. "
                "Use a.any() or a.all()"
            )
        return bool(self.size and self.get())

    def __int__(self):
        return int(self.get())

    def __float__(self):
        return float(self.get())

    def __complex__(self):
        return complex(self.get())

    def __repr__(self):
        return repr(self.get())

    def __str__(self):
        return str(self.get())

    def __format__(self, format_spec):
        return format(self.get(), format_spec)

    # --- containers ---

    def __len__(self):
        if not self.ndim:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __iter__(self):
        if not self.ndim:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(self.shape[0]))

    def __getitem__(self, index):
        from . import convert

        plain = convert.unwrap(index)
        host = self._host[plain]
        if not _is_basic(index) and isinstance(host, np.ndarray):
            host = host.copy()  # of an array without dimensions NumPy would make a number
        if not isinstance(host, np.ndarray):
            # One element is an array of no axes over the same memory.
            plain = plain if isinstance(plain, tuple) else (plain,)
            host = self._host[(*plain, ...)]
        return convert.wrap(host, [self])

    def __setitem__(self, index, value):
        from . import convert

        convert.check_devices([self, *convert.arrays_in([index, value])])
        if isinstance(value, np.ndarray) and value.ndim and _is_basic(index):
            raise ValueError("non-scalar numpy.ndarray cannot be used for fill")
        with np.errstate(all="ignore"):
            self._host[convert.unwrap(index)] = convert.unwrap(value)

    # --- NumPy's protocols ---

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        import cupyx.scipy.special

        import cupy

        name = ufunc.__name__
        function = getattr(cupy, name, None) or getattr(cupyx.scipy.special, name, None)
        if method != "__call__":
            function = getattr(function, method, None)
        if function is None:
            return NotImplemented
        if "out" in kwargs:
            (kwargs["out"],) = kwargs["out"]
        for x in (*inputs, kwargs.get("out")):
            if not isinstance(x, (*_SCALARS, cupy.ndarray, np.ndarray, type(None))):
                return NotImplemented
        return function(*inputs, **kwargs)

    def __array_function__(self, func, types, args, kwargs):
        import cupy

        try:
            module = functools.reduce(getattr, func.__module__.split(".")[1:], cupy)
            ours = getattr(module, func.__name__)
        except AttributeError:
            return NotImplemented
        if ours is func or not all(issubclass(t, (cupy.ndarray, np.ndarray)) for t in types):
            return NotImplemented
        return ours(*args, **kwargs)


for _name, _function in _BINARY.items():
    setattr(Operators, f"__{_name}__", _operator(_function))
    if _name not in ("divmod", "matmul"):
        setattr(Operators, f"__i{_name}__", _in_place(_function))
    setattr(Operators, f"__r{_name}__", _operator(_function, reflected=True))
for _name, _function in _COMPARISONS.items():
    setattr(Operators, f"__{_name}__", _comparison(_function))
