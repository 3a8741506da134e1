"""What other compiled modules may use of the comparison of calls."""

cimport numpy as cnp
from cpython.object cimport PyObject
from libc.stdint cimport uint64_t


cdef enum LeafKind:
    ARRAY
    VARIABLE
    PLAIN                     # compared by value
    FLOAT


ctypedef struct Leaf:
    LeafKind kind
    PyObject *descr
    int device                # the GPU it lies on, or -1: the host
    int ndim
    cnp.npy_intp dims[8]
    PyObject *requires_grad
    int flags                 # how it lies in memory, where that counts
    cnp.npy_intp strides[8]
    int same_as               # first argument that was the same object


cdef class Leaves:
    cdef int n
    cdef PyObject **arrays        # borrowed from `now` and `held`, until `release`; floats as well
    cdef tuple now                # the leaves of the call
    cdef list held                # per leaf that is a Variable: its array, which may be replaced
    cdef int make(self, int n) except -1
    cdef void release(self) noexcept


cdef class CallSpec(Leaves):
    cdef Leaf *leaves
    cdef tuple values             # per argument: the plain value, the dtype or None
    cdef list config_keys
    cdef list config_values
    cdef uint64_t global_version  # of the configuration's dictionaries when they last matched
    cdef uint64_t local_version
    cdef dict local_config
    cdef tuple names
    cdef list float_positions     # which arguments are numbers, where some may be others
    cdef bint laid_out            # whether it counts how arrays lie in memory
    cdef list layouts             # per leaf on a GPU: its shape and strides
    cdef object shape             # how containers nest (see `shape_of`), None without any
    cdef bint fits(self, int i, PyObject *array) except -1
    cdef bint fits_on_device(self, int i, array) except -1
    cdef tuple flat(self, tuple args)
    cdef list array_positions(self, tuple args, dict kwargs)
    cdef bint config_matches(self)
    cdef bint global_matches(self)
    cdef bint local_matches(self, dict local)
    cdef bint matches(self, tuple args, dict kwargs)


cdef Leaves leaves_of(list things)
