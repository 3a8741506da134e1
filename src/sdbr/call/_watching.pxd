"""What runners use of those who watch calls."""

from cpython.object cimport PyObject

from sdbr.base._python cimport PyDict_GetItemWithError


cdef double watched_since() except -1
cdef int tell(manager, double start) except -1
cdef double audit_share(manager, schedule) except? -1


cdef inline bint is_set(dict d, str name, PyObject *unset) noexcept:
    """Whether an instance has an attribute of its own that is not `unset`."""
    cdef PyObject *found = PyDict_GetItemWithError(<PyObject *> d, <PyObject *> name)
    return found != NULL and found != unset
