"""Of cuBLAS what Chainer calls itself, for inverses and determinants: LAPACK on the host."""

from __future__ import annotations

import ctypes

import numpy as np
from scipy.linalg import lapack

CUBLAS_OP_N, CUBLAS_OP_T, CUBLAS_OP_C = 0, 1, 2


def _at(address, shape, dtype):
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return np.ndarray(shape, dtype, (ctypes.c_char * size).from_address(address))


def _matrices(pointers, count, n, leading, dtype):
    """Matrices in Fortran's order at addresses that are an array themselves."""
    for address in _at(pointers, (count,), np.uintp):
        yield _at(int(address), (n, leading), dtype).T[:n]


def _factorize(dtype, getrf):
    def getrf_batched(handle, n, a_array, lda, pivot_array, info_array, count):
        pivots = _at(pivot_array, (count, n), np.int32)
        infos = _at(info_array, (count,), np.int32)
        for i, a in enumerate(_matrices(a_array, count, n, lda, dtype)):
            a[...], pivots[i], infos[i] = getrf(a)
            pivots[i] += 1  # LAPACK itself counts from one

    return getrf_batched


def _invert(dtype, getri):
    def getri_batched(handle, n, a_array, lda, pivot_array, c_array, ldc, info_array, count):
        pivots = _at(pivot_array, (count, n), np.int32)
        infos = _at(info_array, (count,), np.int32)
        of_a = _matrices(a_array, count, n, lda, dtype)
        of_c = _matrices(c_array, count, n, ldc, dtype)
        for i, (a, c) in enumerate(zip(of_a, of_c, strict=True)):
            c[...], infos[i] = getri(a, pivots[i] - 1)

    return getri_batched


sgetrfBatched = _factorize(np.float32, lapack.sgetrf)
dgetrfBatched = _factorize(np.float64, lapack.dgetrf)
sgetriBatched = _invert(np.float32, lapack.sgetri)
dgetriBatched = _invert(np.float64, lapack.dgetri)
