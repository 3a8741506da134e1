"""``cupy.ReductionKernel``."""

from __future__ import annotations

import ctypes

import numpy as np

from .. import convert, ndarrays
from . import compiler, parameters, sources
from .elementwise import as_scalar, host_of, places_of_scalars


class ReductionKernel:
    """CUDA C that maps elements, combines what it maps them to, and maps the result."""

    def __init__(
        self,
        in_params,
        out_params,
        map_expr,
        reduce_expr,
        post_map_expr,
        identity,
        name="reduce_kernel",
        reduce_type=None,
        reduce_dims=True,
        preamble="",
        options=(),
    ):
        self.in_params = parameters.parse(in_params)
        self.out_params = parameters.parse(out_params)
        if len(self.out_params) != 1:
            raise ValueError("A reduction has one output")
        self.params = self.in_params + self.out_params
        self.nin, self.nout = len(self.in_params), 1
        self.nargs = self.nin + 1
        self.map_expr, self.reduce_expr, self.post_map_expr = map_expr, reduce_expr, post_map_expr
        self.identity = "" if identity is None else str(identity)
        self.name, self.__name__, self.preamble = name, name, preamble
        self.reduce_type = reduce_type

    def __call__(self, *args, out=None, axis=None, keepdims=False, stream=None):
        if len(args) not in (self.nin, self.nargs) or (out is not None and len(args) > self.nin):
            raise TypeError(f"Wrong number of arguments for {self.name!r}: {len(args)}")
        out = args[self.nin] if len(args) > self.nin else out
        args = [x if isinstance(x, ndarrays.ndarray) else as_scalar(x) for x in args[: self.nin]]
        convert.check_devices(convert.arrays_in([*args, out]))
        in_dtypes, out_dtypes, letters = parameters.decide(
            self.in_params,
            self.out_params,
            [x.dtype if isinstance(x, ndarrays.ndarray) else None for x in args],
            [] if out is None else [out.dtype],
        )
        hosts = [host_of(x, dtype) for x, dtype in zip(args, in_dtypes, strict=True)]
        shape = np.broadcast_shapes(
            *(x.shape for x, p in zip(hosts, self.in_params, strict=True) if not p.raw)
        )
        reduced, kept = _axes(axis, len(shape))
        out_shape = tuple(shape[k] for k in kept)
        whole = tuple(1 if k in reduced else n for k, n in enumerate(shape))
        if out is None:
            out = ndarrays.ndarray(whole if keepdims else out_shape, out_dtypes[0])
        elif out.shape != (whole if keepdims else out_shape):
            raise ValueError("Out shape is mismatched")
        each = int(np.prod([shape[k] for k in reduced], dtype=np.int64))
        if not each and not self.identity:
            raise ValueError(
                f"zero-size array to reduction operation {self.name} which has no identity"
            )
        hosts = [
            host if p.raw or not host.ndim else _in_order(host, shape, (*reduced, *kept))
            for host, p in zip(hosts, self.in_params, strict=True)
        ]
        source = sources.reduction(self, in_dtypes + out_dtypes, letters, places_of_scalars(args))
        compiler.run_of(source)(
            ctypes.c_ssize_t(out.size),
            ctypes.c_ssize_t(each),
            compiler.arguments([*hosts, out._host]),
        )
        return out


def _axes(axis, ndim):
    axes = range(ndim) if axis is None else (axis,) if np.isscalar(axis) else axis
    reduced = tuple(sorted(int(k) % ndim for k in axes))
    return reduced, tuple(k for k in range(ndim) if k not in reduced)


def _in_order(host, shape, order):
    return np.broadcast_to(host, shape).transpose(order)
