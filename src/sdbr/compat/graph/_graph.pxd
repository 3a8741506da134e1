"""What other compiled modules may use of Chainer's graph."""

from cpython.object cimport PyObject


cdef class Compiled:
    cdef readonly object device   # the GPU that it works on; None for the host
    cdef bint may_run(self, dict attributes, list starts) except -1
    cdef tuple outputs(self, dict attributes)
    cdef list gradients(self, function, dict attributes, tuple targets, list gys, bint retain)


cdef Compiled compiled_of(dict attributes)
cdef PyObject *attribute(object thing, str name) except? NULL
cdef object creator_of(node)
cdef PyObject *entry_of_config(str name) except? NULL
cdef bint is_chainers(function, dict attributes) except -1
cdef void walk_begins() noexcept
cdef void walk_ends() noexcept
cdef bint walks_here() noexcept
cdef bint is_walkable(list nodes) except -1
cdef bint nobody_looks() except -1
cdef bint keeps_history() except -1
