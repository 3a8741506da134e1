"""``cupy.ufunc``: NumPy's universal functions, with CuPy's rules for what they take and give."""

from __future__ import annotations

import numpy as np

from cupy import plain

from . import convert, ndarrays


class ufunc:
    """A universal function by the name and the engine of NumPy's (or SciPy's)."""

    def __init__(self, name, function):
        self.name = self.__name__ = f"cupy_{name}"
        self._function = function
        self.nin, self.nout, self.nargs = function.nin, function.nout, function.nargs
        self.__doc__ = f"``{name}``, as NumPy has it."

    def __repr__(self):
        return f"<ufunc '{self.name}'>"

    @property
    def types(self):
        return self._function.types

    def __call__(self, *args, **kwargs):
        for x in args:
            if hasattr(x, "__cupy_override_elementwise_kernel__"):
                return x.__cupy_override_elementwise_kernel__(self, *args, **kwargs)
        return self._called(*args, **kwargs)

    def _called(self, *args, out=None, dtype=None, casting="same_kind", **kwargs):
        if not self.nin <= len(args) <= self.nargs:
            raise TypeError(
                f"Wrong number of arguments for {self.name!r}. It must be either {self.nin} or "
                f"{self.nargs} (with outputs), but given {len(args)}."
            )
        inputs, outs = args[: self.nin], args[self.nin :]
        if out is not None:
            if outs:
                raise ValueError("Cannot specify 'out' as both a positional and keyword argument")
            outs = out if isinstance(out, tuple) else (out,)
        convert.check_host((*inputs, *outs))
        for x in outs:
            if not isinstance(x, (ndarrays.ndarray, type(None))):
                raise TypeError("Output arguments type must be cupy.ndarray")
        convert.check_devices(convert.arrays_in((inputs, outs)))
        results = self._results(inputs, outs, dtype, casting, kwargs)
        return results[0] if self.nout == 1 else tuple(results)

    def _results(self, inputs, outs, dtype, casting, kwargs):
        where = kwargs.pop("_where", None)
        if where is not None:
            kwargs["where"] = convert.unwrap(where)
        if dtype is not None:
            kwargs["dtype"] = ndarrays.get_dtype(dtype)
        if any(x is not None for x in outs):
            kwargs["out"] = tuple(convert.unwrap(list(outs)))
            shape = np.broadcast_shapes(*(np.shape(convert.unwrap(x)) for x in inputs))
            if any(x is not None and x.shape != shape for x in outs):
                raise ValueError("Out shape is mismatched")
        with np.errstate(all="ignore"):
            made = self._function(*convert.unwrap(list(inputs)), casting=casting, **kwargs)
        made = made if isinstance(made, tuple) else (made,)
        template = convert.subclassed(inputs)
        outs = (*outs, *[None] * (self.nout - len(outs)))
        return [
            convert.new(plain.asarray(x), template) if given is None else given
            for x, given in zip(made, outs, strict=True)
        ]

    # --- the methods of universal functions ---

    def reduce(self, array, axis=0, dtype=None, out=None, keepdims=False):
        return convert.call(self._function.reduce, array, axis, dtype, out, keepdims)

    def accumulate(self, array, axis=0, dtype=None, out=None):
        return convert.call(self._function.accumulate, array, axis, dtype, out)

    def reduceat(self, array, indices, axis=0, dtype=None, out=None):
        return convert.call(self._function.reduceat, array, indices, axis, dtype, out)

    def outer(self, a, b, **kwargs):
        return convert.call(self._function.outer, a, b, **kwargs)

    def at(self, a, indices, b=None):
        rest = () if b is None else (b,)
        convert.check_devices(convert.arrays_in((a, indices, rest)))
        with np.errstate(all="ignore"):
            self._function.at(*convert.unwrap([a, indices, *rest]))


#: Products are no universal functions in CuPy; nothing has dates or text.
NOT_HERE = {"matmul", "vecdot", "matvec", "vecmat", "isnat", "str_len"}


def all_of_numpy() -> dict[str, ufunc]:
    """Those in NumPy's namespace, other names of the same function included."""
    made: dict[np.ufunc, ufunc] = {}
    found = {}
    for name in dir(np):
        function = getattr(np, name)
        if isinstance(function, np.ufunc) and function.__name__ not in NOT_HERE:
            if function not in made:
                made[function] = ufunc(function.__name__, function)
            found[name] = made[function]
    return found
