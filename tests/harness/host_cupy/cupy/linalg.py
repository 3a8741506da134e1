"""``cupy.linalg``: NumPy's."""

import numpy as np
from numpy.linalg import LinAlgError

from . import convert

NAMES = [
    "cholesky",
    "cond",
    "det",
    "eigh",
    "eigvalsh",
    "inv",
    "lstsq",
    "matrix_power",
    "matrix_rank",
    "norm",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "tensorinv",
    "tensorsolve",
]


def _make(name):
    function = getattr(np.linalg, name)

    def call(*args, **kwargs):
        convert.check_host((*args, *kwargs.values()))
        return convert.call(function, *args, **kwargs)

    call.__name__ = name
    return call


globals().update((name, _make(name)) for name in NAMES)

__all__ = ["LinAlgError", *NAMES]
