"""Functions that are NumPy's of the same name: arrays in, NumPy's function, arrays out."""

from __future__ import annotations

import contextlib
import inspect

import numpy as np

from . import convert, creation, ndarrays

#: Every argument of these that is an array is the device's.
OF_ARRAYS = [
    "all",
    "allclose",
    "amax",
    "amin",
    "any",
    "argmax",
    "argmin",
    "argpartition",
    "argsort",
    "argwhere",
    "array_equal",
    "average",
    "bincount",
    "broadcast_arrays",
    "broadcast_to",
    "clip",
    "column_stack",
    "compress",
    "concatenate",
    "count_nonzero",
    "cov",
    "cross",
    "cumprod",
    "cumsum",
    "diag",
    "diagflat",
    "diagonal",
    "diff",
    "digitize",
    "dot",
    "dstack",
    "einsum",
    "expand_dims",
    "extract",
    "fix",
    "flatnonzero",
    "flip",
    "fliplr",
    "flipud",
    "histogram",
    "hstack",
    "inner",
    "interp",
    "isclose",
    "kron",
    "lexsort",
    "matmul",
    "matrix_transpose",
    "max",
    "mean",
    "median",
    "meshgrid",
    "min",
    "moveaxis",
    "nanmax",
    "nanmean",
    "nanmin",
    "nanprod",
    "nanstd",
    "nansum",
    "nanvar",
    "nonzero",
    "outer",
    "pad",
    "percentile",
    "permute_dims",
    "prod",
    "ptp",
    "quantile",
    "ravel",
    "real_if_close",
    "roll",
    "rot90",
    "round",
    "searchsorted",
    "sort",
    "stack",
    "std",
    "sum",
    "swapaxes",
    "tensordot",
    "trace",
    "transpose",
    "trapezoid",
    "tril",
    "triu",
    "unique",
    "unwrap",
    "vander",
    "var",
    "vdot",
    "vstack",
    "where",
    "nan_to_num",
    "isrealobj",
    "iscomplexobj",
    "isneginf",
    "isposinf",
]
#: Of these only the first is; where to split or what to take may be NumPy's.
OF_ONE_ARRAY = [
    "array_split",
    "dsplit",
    "hsplit",
    "repeat",
    "reshape",
    "split",
    "take",
    "take_along_axis",
    "tile",
    "vsplit",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "delete",
    "insert",
    "append",
    "choose",
]
#: These never see an array's numbers.
OF_TYPES = [
    "broadcast_shapes",
    "can_cast",
    "common_type",
    "finfo",
    "iinfo",
    "issubdtype",
    "min_scalar_type",
    "promote_types",
    "isscalar",
    "ndim",
    "shape",
    "size",
    "indices",
    "ix_",
    "diag_indices",
    "tril_indices",
    "triu_indices",
    "unravel_index",
    "ravel_multi_index",
]
#: Written into their first argument.
IN_PLACE = ["fill_diagonal", "put", "place", "put_along_axis", "putmask"]


def _strict(name):
    function = getattr(np, name)

    def call(*args, **kwargs):
        for x in (*args, *kwargs.values()):
            convert.check_host(x if isinstance(x, (list, tuple)) else (x,))
        return convert.call(function, *args, **kwargs)

    return _named(call, name)


def _of_one(name):
    function = getattr(np, name)

    def call(a, *args, **kwargs):
        convert.check_host(a if isinstance(a, (list, tuple)) else (a,))
        return convert.call(function, a, *args, **kwargs)

    return _named(call, name)


def _in_place(name):
    function = getattr(np, name)

    def call(a, *args, **kwargs):
        convert.check_host((a,))
        convert.check_devices(convert.arrays_in((a, args)))
        function(*map(convert.unwrap, (a, *args)), **convert.unwrap(kwargs))

    return _named(call, name)


def _named(function, name):
    function.__name__ = function.__qualname__ = name
    with contextlib.suppress(ValueError):
        function.__signature__ = inspect.signature(getattr(np, name))
    function.__doc__ = f"``{name}``, as NumPy has it."
    return function


def copyto(dst, src, casting="same_kind", where=None):
    """Also between devices."""
    if not isinstance(dst, ndarrays.ndarray):
        raise TypeError("dst must be cupy.ndarray")
    convert.check_host((src,))
    options = {} if where is None else {"where": convert.unwrap(where)}
    with np.errstate(all="ignore"):
        np.copyto(dst._host, convert.unwrap(src), casting, **options)


def result_type(*arrays_and_dtypes):
    return np.result_type(*map(convert.unwrap, arrays_and_dtypes))


def may_share_memory(a, b, max_work=None):
    return np.may_share_memory(a._host, b._host)


shares_memory = may_share_memory


def broadcast(*arrays):
    """The shape that arrays have together."""
    return np.broadcast(*map(convert.unwrap, arrays))


def squeeze(a, axis=None):
    convert.check_host((a,))
    return a.squeeze(axis)


def rollaxis(a, axis, start=0):
    convert.check_host((a,))
    made = convert.call(np.rollaxis, a, axis, start)
    return a if made.shape == a.shape and made.strides == a.strides else made


def iscomplex(x):
    return convert.call(np.iscomplex, x)


def isreal(x):
    return convert.call(np.isreal, x)


def real(a):
    return a.real


def imag(a):
    return a.imag


def get_array_module(*args):
    """This package if one of the arguments is an array of it, otherwise NumPy."""
    import cupy

    return cupy if any(isinstance(x, ndarrays.ndarray) for x in args) else np


def apply_along_axis(func1d, axis, arr, *args, **kwargs):
    """The function gets views of the array."""
    view = arr.swapaxes(axis, -1)
    made = [func1d(view[i], *args, **kwargs) for i in np.ndindex(view.shape[:-1])]
    made = [creation.asarray(x)._host for x in made]
    stacked = np.stack(made).reshape(view.shape[:-1] + made[0].shape)
    return convert.new(np.moveaxis(stacked, -1, axis) if made[0].ndim else stacked)


def by_name() -> dict:
    made = {name: _strict(name) for name in OF_ARRAYS}
    made.update((name, _of_one(name)) for name in OF_ONE_ARRAY)
    made.update((name, _in_place(name)) for name in IN_PLACE)
    made.update((name, _strict(name)) for name in OF_TYPES)
    return made
