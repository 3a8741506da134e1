"""Functions that make arrays."""

from __future__ import annotations

import numpy as np

from cupy import plain

from . import convert, ndarrays


def array(obj, dtype=None, copy=True, order="K", subok=False, ndmin=0, *, blocking=False):
    """A new array on the current device, from anything; without `copy`, the array itself."""
    if subok:
        raise NotImplementedError
    if isinstance(obj, ndarrays.ndarray):
        return _from_array(obj, dtype, copy, order, ndmin)
    if hasattr(obj, "__cuda_array_interface__"):
        raise TypeError(f"Unsupported type {type(obj)}")
    host = plain.array(convert.unwrap(obj), dtype=dtype, order=order or "K", ndmin=ndmin)
    if host.dtype.kind not in ndarrays.SUPPORTED_KINDS:
        raise ValueError(f"Unsupported dtype {host.dtype}")
    return convert.new(host, strides=host.strides)


def _from_array(obj, dtype, copy, order, ndmin):
    from .cuda.device import get_device_id

    elsewhere = obj.size and obj.data.device_id != get_device_id()
    dtype = obj.dtype if dtype is None else ndarrays.get_dtype(dtype)
    if elsewhere:
        made = obj.copy("K").astype(dtype, order or "K", copy=False)
    else:
        made = obj.astype(dtype, order or "K", copy=bool(copy))
    if made.ndim < ndmin:
        made = made.reshape((1,) * (ndmin - made.ndim) + made.shape)
    return made


def asarray(a, dtype=None, order=None, *, copy=None, blocking=False):
    return array(a, dtype, bool(copy), order)


asanyarray = asarray


def _of_a_gpu(a, dtype):
    if not isinstance(a, ndarrays.ndarray):
        raise TypeError(f"Argument 'a' has incorrect type (expected ndarray, got {type(a)})")
    return asarray(a, dtype)


def ascontiguousarray(a, dtype=None):
    a = _of_a_gpu(a, dtype)
    return a if a._c_contiguous else a.copy("C")


def asfortranarray(a, dtype=None):
    a = _of_a_gpu(a, dtype)
    return a if a._f_contiguous else a.copy("F")


def copy(a, order="K"):
    return a.copy(order)


def asnumpy(a, stream=None, order="C", out=None, *, blocking=True):
    if isinstance(a, ndarrays.ndarray):
        return a.get(stream, order, out, blocking)
    if out is not None:
        np.copyto(out, a)
        return out
    return plain.asarray(a, order=order)


def empty(shape, dtype=float, order="C"):
    return ndarrays.ndarray(shape, dtype, order=order)


def full(shape, fill_value, dtype=None, order="C"):
    if dtype is None:
        dtype = getattr(fill_value, "dtype", None) or plain.array(fill_value).dtype
    made = ndarrays.ndarray(shape, dtype, order=order)
    made.fill(fill_value)
    return made


def zeros(shape, dtype=float, order="C"):
    return full(shape, 0, dtype, order)


def ones(shape, dtype=float, order="C"):
    return full(shape, 1, dtype, order)


def empty_like(prototype, dtype=None, order="K", subok=None, shape=None):
    if subok is not None:
        raise TypeError("subok is not supported yet")
    convert.check_host([prototype])
    like = np.empty_like(prototype._host, dtype, order or "K", shape=shape)
    return ndarrays._allocated(like.shape, like.dtype, strides=like.strides)


def full_like(a, fill_value, dtype=None, order="K", subok=None, shape=None):
    made = empty_like(a, dtype, order, subok, shape)
    made.fill(fill_value)
    return made


def zeros_like(a, dtype=None, order="K", subok=None, shape=None):
    return full_like(a, 0, dtype, order, subok, shape)


def ones_like(a, dtype=None, order="K", subok=None, shape=None):
    return full_like(a, 1, dtype, order, subok, shape)


def _made_on_the_host(name):
    function = getattr(np, name)

    def create(*args, **kwargs):
        return convert.call(function, *args, **kwargs)

    create.__name__ = name
    create.__doc__ = f"``{name}``, as NumPy has it."
    return create


#: These compute numbers that do not come from arrays.
ON_THE_HOST = ("arange", "eye", "identity", "linspace", "logspace", "tri", "frombuffer", "fromiter")
made_on_the_host = {name: _made_on_the_host(name) for name in ON_THE_HOST}
