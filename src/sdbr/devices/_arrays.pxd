"""What compiled code asks of arrays of CuPy."""

from cpython.object cimport PyObject, PyTypeObject, Py_TYPE
from libc.stdint cimport int64_t

#: The class of arrays on GPUs; a stand-in that nothing is of, where CuPy is missing.
cdef object Array
cdef PyTypeObject *_kind


cdef inline bint on_device(PyObject *x) noexcept:
    return Py_TYPE(<object> x) == _kind

cdef char *address_of(array) except? NULL
cdef int64_t nbytes_of(array) except -1
cdef bint is_alike(array, PyObject *dtype, shape, int device) except -1
cdef bint is_contiguous(array) except -1
cdef bint memory_is_held(array) except -1
