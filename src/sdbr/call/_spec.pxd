"""What other compiled modules may use of the comparison of calls."""

cimport numpy as cnp
from cpython.object cimport PyObject

from sdbr.program._memory cimport Memory
from sdbr.trace.guards._versions cimport Dicts


cdef enum LeafKind:
    ARRAY
    VARIABLE
    PLAIN                     # compared by value
    FLOAT


ctypedef struct Leaf:
    LeafKind kind
    PyObject *descr
    int ndim
    cnp.npy_intp dims[8]
    PyObject *requires_grad
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
    cdef dict local_config
    cdef tuple names
    cdef list float_positions     # which arguments are floats
    cdef object shape             # how containers nest (see `shape_of`), None without any
    cdef tuple flat(self, tuple args)
    cdef list array_positions(self, tuple args, dict kwargs)
    cdef bint config_matches(self)
    cdef bint matches(self, tuple args, dict kwargs)


cdef class WriteWatch:
    cdef object guards
    cdef object version
    cdef Dicts dicts              # None while `version` is
    cdef bint volatile
    cdef list definitions
    cdef bint hold(self)


cdef class Numbers:
    cdef readonly bint active     # whether there is anything to look at
    cdef list scalars
    cdef list holders             # per scalar: the dictionary of an attribute, else None
    cdef list names
    cdef object guards
    cdef object accepted          # floats among the arguments that the guards accepted last
    cdef int n
    cdef double *values
    cdef bint read(self, CallSpec spec) except -1
    cdef bint look(self, tuple floats) except -1
    cdef void write(self, Memory memory, int base)
    cdef dict show(self, dict things)


cdef Leaves leaves_of(list things)


cdef bint hooks_are_off()
