"""chainer.functions.math."""

from __future__ import annotations

import chainer
import chainer.functions as F
import numpy as np

from tests.equivalence.arguments import SPD, D, I, M, N, P, Q, U, array_of
from tests.equivalence.harness import Case, native

MATH = [
    ("exp", F.exp, [N(3, 4)]),
    ("log", F.log, [P(3, 4)]),
    ("sqrt", F.sqrt, [P(3, 4)]),
    ("rsqrt", F.rsqrt, [P(3, 4)]),
    ("square", F.square, [N(3, 4)]),
    ("identity", F.identity, [N(3, 4)]),
    ("identity of two", lambda x, y: F.identity(x, y), [N(3, 4), N(2)]),
    ("clip", lambda x: F.clip(x, -0.5, 0.5), [Q(3, 4)]),
    ("clip below", lambda x: F.clip(x, -0.5, None), [Q(3, 4)]),
    ("clip above", lambda x: F.clip(x, None, 1), [Q(3, 4)]),
    *[
        (
            f"{name} {shape} axis {axis} keepdims {keep}",
            lambda x, f=f, axis=axis, keep=keep: f(x, axis=axis, keepdims=keep),
            [make(*shape)],
        )
        for name, f, make in [
            ("sum", F.sum, N),
            ("mean", F.mean, N),
            ("average", F.average, N),
            ("max", F.max, Q),
            ("min", F.min, Q),
        ]
        for shape, axis, keep in [
            ((2, 3, 4), None, False),
            ((2, 3, 4), None, True),
            ((2, 3, 4), 0, False),
            ((2, 3, 4), -1, True),
            ((2, 3, 4), 1, False),
            ((2, 3, 4), (0, 2), False),
            ((2, 3, 4), (2, 0), True),
            ((2, 3, 4), (-1, 1), False),
            ((2, 3, 4), (0, 1, 2), False),
            ((), None, False),
        ]
    ],
    ("sum axis ()", lambda x: F.sum(x, axis=()), [N(2, 3)]),
    ("sum empty", lambda x: F.sum(x, axis=0), [N(0, 3)]),
    ("sum of a transposed view", lambda x: F.sum(x.T, axis=1), [N(2, 3)]),
    ("sum of a broadcast view", lambda x: F.sum(F.broadcast_to(x, (5, 2, 3)) * 2), [N(2, 3)]),
    ("sum_to", lambda x: F.math.sum.sum_to(x, (1, 3)), [N(4, 2, 3)]),
    ("average weights", lambda x, w: F.average(x, 1, w), [N(3, 4), P(4)]),
    ("average weights no axis", lambda x, w: F.average(x, weights=w), [N(3, 4), P(3, 4)]),
    ("logsumexp", F.logsumexp, [N(2, 3, 4)]),
    ("logsumexp axis", lambda x: F.logsumexp(x, axis=1), [N(2, 3, 4)]),
    ("logsumexp axes", lambda x: F.logsumexp(x * 100, axis=(0, -1)), [N(2, 3, 4)]),
    ("linear_interpolate", F.linear_interpolate, [P(3, 4), N(3, 4), N(3, 4)]),
    ("bias", F.bias, [N(2, 3, 4), N(3)]),
    ("scale", lambda x, y: F.scale(x, y, axis=0), [N(2, 3, 4), N(2, 3)]),
]


def _coo(x):
    """The same pattern of nonzero elements in each call, with the values of `x`."""
    row, col = np.indices(x.shape).reshape(2, -1)[:, ::2].astype(np.int32)
    return chainer.utils.CooMatrix(array_of(x)[row, col], row, col, x.shape)


def _sparse_times_dense(a, b):
    return F.sparse_matmul(_coo(a), b)


def _dense_times_sparse(a, b):
    return F.sparse_matmul(b, _coo(a), transa=True, transb=True)


EINSUM = [
    ("einsum", lambda a, b: F.einsum("ij,jk->ik", a, b), [N(3, 4), N(4, 2)]),
    ("einsum implicit", lambda a, b: F.einsum("ij,jk", a, b), [N(3, 4), N(4, 2)]),
    ("einsum three", lambda a, b, c: F.einsum("ij,jk,k->i", a, b, c), [N(3, 4), N(4, 2), N(2)]),
    ("einsum bilinear", lambda *a: F.einsum("ij,ik,jkl->il", *a), [N(3, 4), N(3, 5), N(4, 5, 2)]),
    ("einsum trace", lambda a: F.einsum("ii->", a), [N(3, 3)]),
    ("einsum diagonal", lambda a, b: F.einsum("iji,j->ji", a, b), [N(3, 4, 3), N(4)]),
    ("einsum ellipsis", lambda a, b: F.einsum("...ij,jk->...ik", a, b), [N(2, 3, 4), N(4, 2)]),
    ("einsum of batches", lambda a, b: F.einsum("abij,abkj->aibk", a, b), [N(2, 3, 4, 5)] * 2),
    ("einsum transposed", lambda a, b: F.einsum("ji,bjk->bik", a, b), [N(4, 3), N(2, 4, 5)]),
    ("einsum by elements", lambda a, b: F.einsum("ij,j->ji", a, b), [N(3, 4), N(4)]),
    ("einsum outer", lambda a, b: F.einsum("i,jk->kij", a, b), [N(3), N(4, 2)]),
    ("einsum sums first", lambda a, b: F.einsum("ijk,kl->i", a, b), [N(3, 4, 2), N(2, 5)]),
    ("einsum empty", lambda a, b: F.einsum("ij,jk->ik", a, b), [N(3, 0), N(0, 2)]),
    ("einsum numbers", lambda a, b: F.einsum(",i->i", a, b), [N(), N(3)]),
    ("einsum by lists", lambda a, b: F.einsum(a, [0, 1], b, [1, 2], [0, 2]), [N(3, 4), N(4, 2)]),
    ("tensordot", F.tensordot, [N(2, 3, 4), N(3, 4, 5)]),
    ("tensordot axes", lambda a, b: F.tensordot(a, b, axes=([1], [0])), [N(2, 3, 4), N(3, 5)]),
    (
        "tensordot more axes",
        lambda a, b: F.tensordot(a, b, axes=([0, 2], [1, 0])),
        [N(2, 3, 4), N(4, 2, 5)],
    ),
    ("tensordot outer", lambda a, b: F.tensordot(a, b, axes=0), [N(2, 3), N(4)]),
]

CASES = [
    *native(MATH),
    Case("arccos", F.arccos, [U(-0.9, 0.9, 3, 4)], native=True),
    Case("arcsin", F.arcsin, [U(-0.9, 0.9, 3, 4)], native=True),
    Case("arctan", F.arctan, [N(3, 4)], native=True),
    Case("arctan2", F.arctan2, [N(3, 4), N(3, 4)], native=True),
    Case("arctanh", F.arctanh, [U(-0.9, 0.9, 3, 4)], native=True),
    Case("batch_l2_norm_squared", F.batch_l2_norm_squared, [N(3, 2, 2)], native=True),
    Case("cos", F.cos, [N(3, 4)], native=True),
    Case("cosh", F.cosh, [N(3, 4)], native=True),
    Case("digamma", F.digamma, [P(3, 4)], native=True),
    Case("digamma below 0", lambda x: F.digamma(0.3 * F.tanh(x) - 3.5), [N(3, 4)], native=True),
    Case("erf", F.erf, [N(3, 4)], native=True),
    Case("erfc", F.erfc, [N(3, 4)], native=True),
    Case("erfcinv", F.erfcinv, [U(0.2, 1.8, 3, 4)], native=True),
    Case("erfcx", F.erfcx, [N(3, 4)], native=True),
    Case("erfinv", F.erfinv, [U(-0.9, 0.9, 3, 4)], native=True),
    Case("expm1", F.expm1, [N(3, 4)], native=True),
    Case("lgamma", F.lgamma, [P(3, 4)], native=True),
    Case("lgamma below 0", lambda x: F.lgamma(0.3 * F.tanh(x) - 3.5), [N(3, 4)], native=True),
    Case("log10", F.log10, [P(3, 4)], native=True),
    Case("log1p", F.log1p, [P(3, 4)], native=True),
    Case("log2", F.log2, [P(3, 4)], native=True),
    Case("log_ndtr", F.log_ndtr, [N(3, 4)], native=True),
    Case("log_ndtr far", lambda x: F.log_ndtr(x * 30), [U(-2, 1, 5, 4)], native=True),
    Case("ndtr", F.ndtr, [N(3, 4)], native=True),
    Case("ndtri", F.ndtri, [U(0.1, 0.9, 3, 4)]),
    Case("sin", F.sin, [N(3, 4)], native=True),
    Case("sinh", F.sinh, [N(3, 4)], native=True),
    Case("tan", F.tan, [U(-1, 1, 3, 4)], native=True),
    Case("ceil", F.ceil, [N(3, 4)], native=True),
    Case("floor", F.floor, [N(3, 4)], native=True),
    Case("fix", F.fix, [U(-3, 3, 3, 4)], native=True),
    Case("sign", F.sign, [Q(3, 4)], native=True),
    Case("fmod", F.fmod, [U(-5, 5, 3, 4), P(3, 4)], native=True),
    Case("fft", lambda a, b: F.fft((a, b)), [N(3, 4), N(3, 4)]),
    Case("ifft", lambda a, b: F.ifft((a, b)), [N(3, 4), N(3, 4)]),
    Case("argmax", F.argmax, [D(3, 4)], exact=True, loss=False, native=True),
    Case(
        "argmax axis", lambda x: F.argmax(x, axis=1), [D(3, 4)], exact=True, loss=False, native=True
    ),
    Case("argmin", F.argmin, [D(3, 4)], exact=True, loss=False, native=True),
    Case(
        "argmin axis",
        lambda x: F.argmin(x, axis=-1),
        [D(3, 4)],
        exact=True,
        loss=False,
        native=True,
    ),
    Case("batch_det", F.batch_det, [M(2, 3, 3)]),
    Case("det", F.det, [M(3, 3)]),
    Case("batch_inv", F.batch_inv, [M(2, 3, 3)]),
    Case("inv", F.inv, [M(3, 3)]),
    Case("cholesky", F.cholesky, [SPD(3)], parameters=False),
    Case("cumprod", F.cumprod, [P(3, 4)], native=True),
    Case("cumprod axis", lambda x: F.cumprod(x, axis=1), [P(3, 4)], native=True),
    Case("cumsum", F.cumsum, [N(3, 4)], native=True),
    Case("cumsum axis", lambda x: F.cumsum(x, axis=-2), [N(3, 4)], native=True),
    Case("cumsum of a view", lambda x: F.cumsum(x.T, axis=1), [N(3, 4)], native=True),
    Case("cumprod of one", lambda x: F.cumprod(x, axis=-1) * 2, [P(3, 1)], native=True),
    Case("prod with zeros", lambda x: F.prod(F.relu(x), axis=1), [N(5, 3)], native=True),
    Case("prod", F.prod, [P(3, 4)], native=True),
    Case("prod axis", lambda x: F.prod(x, axis=1), [P(2, 3, 4)], native=True),
    Case(
        "prod axes keepdims",
        lambda x: F.prod(x, axis=(0, -1), keepdims=True),
        [P(2, 3, 4)],
        native=True,
    ),
    Case("polygamma", lambda x: F.polygamma(np.array([1, 2, 3, 1]), x), [P(3, 4)]),
    Case("polygamma argument", lambda n, x: F.polygamma(n, x), [I(1, 4, 3, 4), P(3, 4)]),
    Case("zeta", lambda x, q: F.zeta(array_of(x), q), [U(2, 4, 3, 4), P(3, 4)]),
    *native(EINSUM),
    Case("sparse_matmul", _sparse_times_dense, [N(3, 4), N(4, 2)], parameters=False),
    Case(
        "sparse_matmul transposed",
        _dense_times_sparse,
        [N(3, 4), N(4, 2)],
        parameters=False,
    ),
]
