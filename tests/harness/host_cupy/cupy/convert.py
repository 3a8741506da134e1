"""From arrays of the look-alike to NumPy's and back: what every function goes through."""

from __future__ import annotations

import numpy as np

from cupy import plain

from . import ndarrays
from .cuda.device import get_device_id

IMPLICIT = (
    "Implicit conversion to a NumPy array is not allowed. "
    "Please use `.get()` to construct a NumPy array explicitly."
)


LIKE_UFUNCS = ("clip", "fix", "nan_to_num", "round", "where")


def arrays_in(values, found=None) -> list:
    """The look-alike's arrays among arguments, also those in lists and tuples."""
    found = [] if found is None else found
    for value in values:
        if isinstance(value, ndarrays.ndarray):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            arrays_in(value, found)
        elif isinstance(value, dict):
            arrays_in(value.values(), found)
    return found


def unwrap(value):
    """The same with NumPy's arrays."""
    if isinstance(value, ndarrays.ndarray):
        return value._host
    if type(value) in (list, tuple):
        return type(value)([unwrap(x) for x in value])
    if type(value) is dict:
        return {name: unwrap(x) for name, x in value.items()}
    if type(value) is slice:
        return slice(*(unwrap_index(x) for x in (value.start, value.stop, value.step)))
    return value


def unwrap_index(value):
    return int(value) if isinstance(value, ndarrays.ndarray) else value


def check_devices(arrays) -> None:
    """As on devices that cannot reach each other's memory."""
    current = get_device_id()
    for array in arrays:
        if array.data.device_id != current and array.size:
            raise ValueError(
                f"The device where the array resides ({array.data.device_id}) is different from "
                f"the current device ({current}). Peer access is unavailable between these devices."
            )


def check_host(values) -> None:
    """NumPy's arrays are not taken for operands."""
    for value in values:
        if isinstance(value, np.ndarray):
            raise TypeError(f"Unsupported type {type(value)}")


def _source(result: np.ndarray, sources):
    """The array in whose memory a result of NumPy lies, if it is a view."""
    if result.base is None:
        return None
    for source in sources:
        memory = source.data.mem
        if result.size:
            if memory.ptr <= result.ctypes.data < memory.ptr + memory.size:
                return source
        elif result.base is source._host or result.base is source._host.base:
            return source
    return None


def new(host: np.ndarray, template=None, strides=None):
    """An array of its own with the numbers of one of NumPy's, of the class of `template`."""
    made = ndarrays._allocated(host.shape, host.dtype, template, strides)
    if host.size:
        made._host[...] = host
    return made


def subclassed(values):
    """The first array of a proper subclass: what universal functions make theirs from."""
    for x in values:
        if isinstance(x, ndarrays.ndarray) and type(x) is not ndarrays.ndarray:
            return x
    return None


def wrap(result, sources=(), template=None):
    """What NumPy gave: the argument itself, a view of it, or a new array, also of scalars."""
    if isinstance(result, (list, tuple)):
        made = [wrap(x, sources, template) for x in result]
        if type(result) in (list, tuple):
            return type(result)(made)
        return tuple(made)
    if not isinstance(result, (np.ndarray, np.generic)):
        return result
    if isinstance(result, np.ndarray):
        for source in sources:
            if result is source._host:
                return source
        source = _source(result, sources)
        if source is not None:
            return ndarrays._view_of(source, result)
    check_devices(sources)
    return new(plain.asarray(result), template)


def call(function, *args, **kwargs):
    """A function of NumPy on arrays of the look-alike."""
    sources = arrays_in((args, kwargs))
    with np.errstate(all="ignore"):
        result = function(*map(unwrap, args), **unwrap(kwargs))
    # These are universal functions in CuPy.
    like_ufunc = getattr(function, "__name__", "") in LIKE_UFUNCS
    return wrap(result, sources, subclassed(sources) if like_ufunc else None)
