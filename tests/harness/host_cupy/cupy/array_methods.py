"""Methods of ``cupy.ndarray``."""

from __future__ import annotations

import ctypes

import numpy as np

from cupy import plain

from .cuda.device import Device

#: Methods that are NumPy's function of the same name with the array as first argument.
SAME_AS_FUNCTIONS = [
    "all",
    "any",
    "argmax",
    "argmin",
    "argpartition",
    "argsort",
    "clip",
    "cumprod",
    "cumsum",
    "diagonal",
    "max",
    "mean",
    "min",
    "nonzero",
    "prod",
    "ptp",
    "ravel",
    "repeat",
    "round",
    "searchsorted",
    "std",
    "sum",
    "swapaxes",
    "take",
    "trace",
    "var",
]


class Methods:
    """Conversion, copies, shapes and what is the same as a function."""

    __slots__ = ()

    # --- to the host and from it ---

    def get(self, stream=None, order="C", out=None, blocking=True):
        if out is None:
            order = order.upper()
            if order == "A":
                order = "F" if self._f_contiguous else "C"
            host = plain.array(self._host, order=order)
            # By the name in NumPy, as CuPy does it: whoever watches that sees it.
            got = np.empty(self.shape, self.dtype, "F" if order == "F" else "C")
            ctypes.memmove(got.ctypes.data, host.ctypes.data, host.nbytes)
            return got
        if not isinstance(out, np.ndarray):
            raise TypeError("Only numpy.ndarray can be obtained from cupy.ndarray")
        if self.dtype != out.dtype:
            raise TypeError(f"{out.dtype} array cannot be obtained from {self.dtype} array")
        if self.shape != out.shape:
            raise ValueError(f"Shape mismatch. Expected shape: {self.shape}, actual: {out.shape}")
        out[...] = self._host
        return out

    def set(self, arr, stream=None):
        if not isinstance(arr, np.ndarray):
            raise TypeError("Only numpy.ndarray can be set to cupy.ndarray")
        if self.dtype != arr.dtype:
            raise TypeError(f"{arr.dtype} array cannot be set to {self.dtype} array")
        if self.shape != arr.shape:
            raise ValueError(f"Shape mismatch. Old shape: {self.shape}, new shape: {arr.shape}")
        if not self.flags.forc:
            raise RuntimeError("Cannot set to non-contiguous array")
        self._host[...] = arr

    def item(self):
        if self.size != 1:
            raise ValueError("can only convert an array of size 1 to a Python scalar")
        return self.get().item()

    def tolist(self):
        return self.get().tolist()

    def tobytes(self, order="C"):
        return self.get().tobytes(order)

    def tofile(self, fid, sep="", format="%s"):
        self.get().tofile(fid, sep, format)

    def __array__(self, dtype=None, copy=None):
        from .convert import IMPLICIT

        raise TypeError(IMPLICIT)

    def __reduce__(self):
        from .creation import array

        return array, (self.get(order="A"),)

    # --- copies ---

    def astype(self, dtype, order="K", casting=None, subok=None, copy=True):
        from . import convert, ndarrays

        if casting is not None or subok is not None:
            raise TypeError("casting and subok are not supported yet")
        dtype = ndarrays.get_dtype(dtype)
        with np.errstate(all="ignore"):
            host = self._host.astype(dtype, order=order or "K", copy=copy)
        if host is self._host:
            return self
        convert.check_devices([self])
        return convert.new(host, strides=host.strides)

    def copy(self, order="C"):
        """Also from another device to the current one."""
        from . import convert

        host = self._host.copy(order)
        return convert.new(host, strides=host.strides)

    def __copy__(self):
        return self.copy()

    def __deepcopy__(self, memo):
        with Device(self.data.device_id):
            return self.copy()

    def fill(self, value):
        from . import ndarrays

        if isinstance(value, ndarrays.ndarray):
            if value.ndim:
                raise ValueError("non-scalar cupy.ndarray cannot be used for fill")
            value = value._host
        # By the name in NumPy, as CuPy does it: whoever watches that sees it.
        value = np.asarray(value)
        if value.ndim:
            raise ValueError("non-scalar numpy.ndarray cannot be used for fill")
        self._host.fill(value)

    # --- shapes ---

    def reshape(self, *shape, order="C", copy=None):
        from . import convert

        shape = shape[0] if len(shape) == 1 and np.iterable(shape[0]) else shape
        shape = tuple(map(int, shape))
        host = self._host.reshape(shape, order=order)
        made = convert.wrap(host, [self])
        return made.copy() if copy and made.base is not None else made

    def transpose(self, *axes):
        from . import convert

        return convert.wrap(self._host.transpose(*axes), [self])

    def squeeze(self, axis=None):
        from . import convert

        made = convert.wrap(self._host.squeeze(axis), [self])
        return self if made.ndim == self.ndim else made

    def flatten(self, order="C"):
        from . import convert

        return convert.new(self._host.flatten(order))

    def reduced_view(self, dtype=None):
        if self.ndim > 1 and self._c_contiguous:
            return self.reshape(self.size)
        return self

    @property
    def T(self):
        return self if self.ndim < 2 else self.transpose()

    @property
    def real(self):
        return self._part("real") if self.dtype.kind == "c" else self

    @real.setter
    def real(self, value):
        self._set_part("real", value)

    @property
    def imag(self):
        from . import convert

        if self.dtype.kind == "c":
            return self._part("imag")
        return convert.new(plain.zeros(self.shape, self.dtype))

    @imag.setter
    def imag(self, value):
        self._set_part("imag", value)

    def _part(self, name):
        from . import ndarrays

        return ndarrays._view_of(self, getattr(self._host, name))

    def _set_part(self, name, value):
        from . import convert

        convert.check_host([value])
        setattr(self._host, name, convert.unwrap(value))

    def conj(self):
        import cupy

        return cupy.conjugate(self) if self.dtype.kind == "c" else self

    conjugate = conj

    # --- calculation ---

    def dot(self, b, out=None):
        import cupy

        return cupy.dot(self, b, out)

    def sort(self, axis=-1, kind=None):
        self._can_be_sorted()
        self._host.sort(axis, kind)

    def partition(self, kth, axis=-1):
        self._can_be_sorted()
        self._host.partition(kth, axis)

    def _can_be_sorted(self):
        if not self._c_contiguous:
            raise NotImplementedError("Sorting non-contiguous array is not supported.")

    def compress(self, condition, axis=None, out=None):
        from . import convert

        return convert.call(np.compress, condition, self, axis, out)

    def choose(self, choices, out=None, mode="raise"):
        from . import convert

        return convert.call(np.choose, self, choices, out, mode)

    def put(self, indices, values, mode="wrap"):
        from . import convert

        convert.call(np.put, self, indices, values, mode)

    def scatter_add(self, slices, value):
        import cupyx

        cupyx.scatter_add(self, slices, value)


def _method(name):
    function = getattr(np, name)

    def method(self, *args, **kwargs):
        from . import convert

        return convert.call(function, self, *args, **kwargs)

    method.__name__ = name
    return method


for _name in SAME_AS_FUNCTIONS:
    setattr(Methods, _name, _method(_name))
