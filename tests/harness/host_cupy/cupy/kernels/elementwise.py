"""``cupy.ElementwiseKernel``."""

from __future__ import annotations

import ctypes

import numpy as np

from cupy import plain

from .. import convert, ndarrays
from . import compiler, parameters, sources


def as_scalar(value):
    """A scalar of Python or NumPy, which is what arguments are besides arrays."""
    if not isinstance(value, (int, float, complex, bool, np.generic)):
        raise TypeError(f"Unsupported type {type(value)}")
    return value


def places_of_scalars(args) -> frozenset[int]:
    return frozenset(k for k, x in enumerate(args) if not isinstance(x, ndarrays.ndarray))


def host_of(value, dtype):
    """NumPy's array of an argument; of scalars, one of no axes."""
    if isinstance(value, ndarrays.ndarray):
        return value._host
    with np.errstate(all="ignore"):
        return plain.asarray(value).astype(dtype)


class ElementwiseKernel:
    """CUDA C on each element of arrays that are broadcast together."""

    def __init__(
        self,
        in_params,
        out_params,
        operation,
        name="kernel",
        reduce_dims=True,
        preamble="",
        no_return=False,
        return_tuple=False,
        doc="",
        loop_prep="",
        after_loop="",
        options=(),
    ):
        self.in_params = parameters.parse(in_params)
        self.out_params = parameters.parse(out_params)
        self.params = self.in_params + self.out_params
        self.nin, self.nout = len(self.in_params), len(self.out_params)
        self.nargs = self.nin + self.nout
        self.operation, self.name, self.__name__ = operation, name, name
        self.preamble, self.loop_prep, self.after_loop = preamble, loop_prep, after_loop
        self.no_return, self.return_tuple = no_return, return_tuple
        self.__doc__ = doc
        self._sources: dict = {}

    def __call__(self, *args, size=-1, stream=None, block_size=128):
        if len(args) not in (self.nin, self.nargs):
            raise TypeError(
                f"Wrong number of arguments for {self.name!r}. It must be either {self.nin} or "
                f"{self.nargs} (with outputs), but given {len(args)}."
            )
        for x in args:
            if hasattr(x, "__cupy_override_elementwise_kernel__"):
                options = {"size": size, "stream": stream, "block_size": block_size}
                return x.__cupy_override_elementwise_kernel__(self, *args, **options)
        args = [x if isinstance(x, ndarrays.ndarray) else as_scalar(x) for x in args]
        convert.check_devices(convert.arrays_in(args))
        shape = self._shape(args, size)
        outs = args[self.nin :]
        in_dtypes, out_dtypes, letters = parameters.decide(
            self.in_params,
            self.out_params,
            [getattr(x, "dtype", None) if _is_array(x) else None for x in args[: self.nin]],
            [_dtype_of_output(x) for x in outs],
        )
        if outs:
            self._check_outs(outs, shape)
        else:
            outs = self._allocate(shape, out_dtypes, size)
        if int(np.prod(shape, dtype=np.int64)):
            self._run([*args[: self.nin], *outs], in_dtypes + out_dtypes, letters, shape)
        if self.no_return:
            return None
        return outs[0] if self.nout == 1 and not self.return_tuple else tuple(outs)

    def _shape(self, args, size):
        plain = [
            x.shape for x, p in zip(args, self.params, strict=False) if _is_array(x) and not p.raw
        ]
        if size != -1:
            if plain:
                raise ValueError(
                    "Specified 'size' can be used only if all of the ndarray are 'raw'."
                )
            return (int(size),)
        if not plain:
            raise ValueError("Loop size is undecided.")
        return np.broadcast_shapes(*plain)

    def _check_outs(self, outs, shape):
        for x, parameter in zip(outs, self.out_params, strict=True):
            if not parameter.raw and x.shape != shape:
                raise ValueError("Out shape is mismatched")

    def _allocate(self, shape, dtypes, size):
        if size == -1 and any(p.raw for p in self.out_params):
            raise ValueError("Output array size is Undecided")
        return [ndarrays.ndarray(shape, dtype) for dtype in dtypes]

    def _run(self, args, dtypes, letters, shape):
        scalars = places_of_scalars(args)
        key = (*dtypes, scalars)
        if key not in self._sources:
            self._sources[key] = sources.elementwise(self, dtypes, letters, scalars)
        hosts = [host_of(x, dtype) for x, dtype in zip(args, dtypes, strict=True)]
        hosts = [
            host if parameter.raw or not host.ndim else np.broadcast_to(host, shape)
            for host, parameter in zip(hosts, self.params, strict=True)
        ]
        count = int(np.prod(shape, dtype=np.int64))
        compiler.run_of(self._sources[key])(ctypes.c_ssize_t(count), compiler.arguments(hosts))


def _is_array(x) -> bool:
    return isinstance(x, ndarrays.ndarray)


def _dtype_of_output(x):
    if not _is_array(x):
        raise TypeError("Output arguments type must be cupy.ndarray")
    return x.dtype
