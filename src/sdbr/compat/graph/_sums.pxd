"""What other compiled modules may use of sums."""

cimport numpy as cnp

from sdbr.compat.graph._graph cimport Compiled


cdef Compiled adds_plainly(function, tuple arrays)
cdef object new_sum(cnp.ndarray x, cnp.ndarray y)
cdef object sum_of(list gradients)
