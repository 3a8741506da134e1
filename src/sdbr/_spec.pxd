"""What other compiled modules may use of the comparison of calls."""

cimport numpy as cnp
from cpython.object cimport PyObject


ctypedef struct Leaf:
    int kind                  # 0: array, 1: Variable, 2: anything else
    PyObject *descr
    int ndim
    cnp.npy_intp dims[8]
    PyObject *requires_grad
    int same_as               # first argument that was the same object


cdef class CallSpec:
    cdef Leaf *leaves
    cdef int n
    cdef tuple values             # per argument: the plain value, the dtype or None
    cdef list config_keys
    cdef list config_values
    cdef dict local_config
    cdef tuple names
    cdef PyObject **arrays        # borrowed, from `matches` until the call ends
    cdef bint config_matches(self)
    cdef bint matches(self, tuple args, dict kwargs)


cdef class LinkGuards:
    cdef object guards
    cdef object version
    cdef bint volatile
    cdef bint hold(self)


cdef bint hooks_are_off()
cdef list array_positions(tuple args, dict kwargs)
