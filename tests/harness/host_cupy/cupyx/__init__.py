"""What Chainer takes from ``cupyx``."""

import contextlib

import numpy as np
from cupy import ufuncs as _ufuncs

from . import scipy


class _ReciprocalRoot:
    """In the form of one of NumPy's universal functions."""

    nin, nout, nargs = 1, 1, 2
    types = ["e->e", "f->f", "d->d"]  # noqa: RUF012

    def __call__(self, x, **kwargs):
        out = kwargs.pop("out", None)
        return np.reciprocal(np.sqrt(x, **kwargs), out=out)


rsqrt = _ufuncs.ufunc("rsqrt", _ReciprocalRoot())


def _scatter(name):
    def scatter(a, slices, value):
        import cupy

        getattr(cupy, name).at(a, slices, value)

    return scatter


scatter_add = _scatter("add")
scatter_max = _scatter("maximum")
scatter_min = _scatter("minimum")


def get_runtime_info(**kwargs):
    return "CuPy's look-alike on the host"


@contextlib.contextmanager
def errstate(**kwargs):
    yield


@contextlib.contextmanager
def allow_synchronize(allow):
    yield


__all__ = [
    "allow_synchronize",
    "errstate",
    "get_runtime_info",
    "rsqrt",
    "scatter_add",
    "scatter_max",
    "scatter_min",
    "scipy",
]
