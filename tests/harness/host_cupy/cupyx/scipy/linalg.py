"""``cupyx.scipy.linalg``: what Chainer takes from it."""

import scipy.linalg
from cupy import convert


def solve_triangular(a, b, trans=0, lower=False, unit_diagonal=False, **kwargs):
    convert.check_host((a, b))
    return convert.call(scipy.linalg.solve_triangular, a, b, trans, lower, unit_diagonal)


def lu_factor(a, **kwargs):
    convert.check_host((a,))
    return convert.call(scipy.linalg.lu_factor, a)


def lu_solve(lu_and_piv, b, trans=0, **kwargs):
    return convert.call(scipy.linalg.lu_solve, lu_and_piv, b, trans)
