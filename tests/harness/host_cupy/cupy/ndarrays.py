"""``cupy.ndarray``: memory of a device, and NumPy's array over it that nobody else sees.

What CuPy 14 does with subclasses, and this class with it:

* ``__array_finalize__`` is called for subclasses only: with None from the constructor, otherwise
  with the array that the new one was made from.
* A view has the class of its array: slices, ``view``, ``reshape``, ``ravel`` and ``transpose``
  that copy nothing, ``squeeze``, ``broadcast_to`` and so on. ``view(type=...)`` asks for another.
* A universal function gives the class of the first input of a proper subclass of ``ndarray``,
  made from that input; an output that is given is returned as it is.
* Everything else gives a plain ``ndarray``: ``copy``, ``astype``, reductions, products, indexing
  with arrays, kernels, and what creates arrays (``zeros_like``, ``asarray`` and so on, but
  ``asarray`` of an array is the array itself).
* ``real`` and ``conj`` of real numbers are the array itself.
* Instances of ``ndarray`` have no ``__dict__``, those of subclasses do; weak references to them
  are possible.
"""

from __future__ import annotations

import ctypes

import numpy as np

from cupy import plain

from .array_methods import Methods
from .array_operators import Operators
from .cuda import memory

_type = type  # `view` has an argument of that name
SUPPORTED_KINDS = "biufc"


def get_dtype(dtype) -> np.dtype:
    dtype = np.dtype(dtype)
    if dtype.kind not in SUPPORTED_KINDS or dtype.itemsize > 8 * (1 + (dtype.kind == "c")):
        raise ValueError(f"Unsupported dtype {dtype}")
    return dtype


class Flags:
    """What CuPy tells about the layout."""

    def __init__(self, c_contiguous, f_contiguous, owndata):
        self.c_contiguous, self.f_contiguous = c_contiguous, f_contiguous
        self.owndata = owndata

    @property
    def fnc(self):
        return self.f_contiguous and not self.c_contiguous

    @property
    def forc(self):
        return self.f_contiguous or self.c_contiguous

    def __getitem__(self, name):
        if name not in ("C_CONTIGUOUS", "F_CONTIGUOUS", "OWNDATA"):
            raise KeyError(f"{name} is not defined for cupy.ndarray.flags")
        return getattr(self, name.lower())


def _host_over(pointer, shape, dtype, strides, order) -> np.ndarray:
    """NumPy's array over memory of a device."""
    size = int(np.prod(shape, dtype=np.int64))
    if not size or not pointer.ptr:
        return plain.empty(shape, dtype, order)
    if strides is None:
        buffer = (ctypes.c_char * (size * dtype.itemsize)).from_address(pointer.ptr)
        return np.ndarray(shape, dtype, buffer, order=order)
    one = (ctypes.c_char * dtype.itemsize).from_address(pointer.ptr)
    return np.lib.stride_tricks.as_strided(np.ndarray((), dtype, one), shape, strides)


class _ndarray_base(Methods, Operators):
    """What is an extension type in CuPy: it holds everything, and cannot be made by itself."""

    __slots__ = ("__weakref__", "_host", "base", "data")
    __array_priority__ = 100

    def _init(self, shape, dtype=float, memptr=None, strides=None, order="C"):
        shape = tuple(map(int, shape)) if np.iterable(shape) else (int(shape),)
        if any(n < 0 for n in shape):
            raise ValueError("Negative dimensions are not allowed")
        if order not in (None, "C", "F", "c", "f"):
            raise ValueError(f"order not understood. order={order}")
        dtype = get_dtype(dtype)
        if memptr is None:
            memptr = memory.alloc(int(np.prod(shape, dtype=np.int64)) * dtype.itemsize)
        self.base, self.data = None, memptr
        self._host = _host_over(memptr, shape, dtype, strides, order or "C")

    @property
    def shape(self):
        return self._host.shape

    @shape.setter
    def shape(self, shape):
        self._host = _reshaped_in_place(self._host, shape)

    @property
    def _shape(self):
        return list(self._host.shape)

    @property
    def _strides(self):
        return list(self._host.strides)

    @property
    def _c_contiguous(self):
        return self._host.flags.c_contiguous

    @property
    def _f_contiguous(self):
        return self._host.flags.f_contiguous

    @property
    def flags(self):
        return Flags(self._c_contiguous, self._f_contiguous, self.base is None)

    @property
    def device(self):
        return self.data.device

    @property
    def flat(self):
        return flatiter(self)

    @property
    def __cuda_array_interface__(self):
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "descr": self.dtype.descr,
            "stream": 1,
            "version": 3,
            "strides": None if self._c_contiguous else self.strides,
            "data": (self.data.ptr if self.size else 0, False),
        }


class flatiter:
    """The elements of an array in C order, which are written by their place."""

    def __init__(self, array):
        self.base = array

    def __getitem__(self, place):
        return self.base.ravel()[place].copy()

    def __setitem__(self, place, value):
        self.base._host.flat[place] = getattr(value, "_host", value)

    def __iter__(self):
        return (self[i] for i in range(self.base.size))


def _of_host(name):
    return property(lambda self: getattr(self._host, name))


for _name in ("strides", "dtype", "size", "ndim", "itemsize", "nbytes"):
    setattr(_ndarray_base, _name, _of_host(_name))


def _reshaped_in_place(host, shape):
    made = host.view()
    try:
        made.shape = shape
    except AttributeError as error:
        raise AttributeError("incompatible shape") from error
    return made


class ndarray(_ndarray_base):
    """An array of a device."""

    __module__ = "cupy"
    __slots__ = ()

    def __new__(cls, *args, _obj=None, _no_init=False, **kwargs):
        made = object.__new__(cls)
        if _no_init:
            return made
        made._init(*args, **kwargs)
        if cls is not ndarray:
            made.__array_finalize__(_obj)
        return made

    def __init__(self, *args, **kwargs):
        """Everything is done in ``__new__``."""

    def __array_finalize__(self, obj):
        pass

    def view(self, dtype=None, type=None):
        if dtype is not None and isinstance(dtype, _type) and issubclass(dtype, ndarray):
            if type is not None:
                raise ValueError("Cannot specify output type twice.")
            dtype, type = None, dtype
        if type is not None and not (isinstance(type, _type) and issubclass(type, ndarray)):
            raise ValueError("Type must be a sub-type of ndarray type")
        host = self._host.view() if dtype is None else self._host.view(np.dtype(dtype))
        return _view_of(self, host, type)


def _allocated(shape, dtype, template=None, strides=None):
    """A new array without numbers; of the class of `template`, which it is made from."""
    cls = ndarray if template is None else type(template)
    made = ndarray.__new__(cls, _no_init=True)
    made._init(shape, dtype)
    if strides is not None and made.size and strides != made.strides:
        # The axes lie in another order, as densely.
        made._host = _host_over(made.data, made.shape, made.dtype, strides, "C")
    if cls is not ndarray:
        made.__array_finalize__(template)
    return made


def _view_of(source, host, cls=None):
    """The view that NumPy made of an array's numbers, as one of that array."""
    made = ndarray.__new__(cls or type(source), _no_init=True)
    made._host = host
    made.base = source if source.base is None else source.base
    if host.size:
        made.data = source.data + (host.ctypes.data - source.data.ptr)
    else:
        made.data = source.data
    # NumPy protects some views, such as diagonals; CuPy does not. By its number, as the flag
    # NPY_ARRAY_WRITEABLE warns when it is read from what broadcast_arrays has made.
    if not host.flags.num & 0x400 and host.size:
        made._host = _host_over(made.data, host.shape, host.dtype, host.strides, "C")
    if type(made) is not ndarray:
        made.__array_finalize__(source)
    return made
