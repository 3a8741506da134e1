"""What compiled code asks of arrays of CuPy: where they lie, and what they are.

Their attributes are read, never their memory. All of an array but its shape stays as it is.
"""

from chainer.backends import cuda

from cpython.object cimport PyObject, PyTypeObject
from libc.stdint cimport int64_t

from sdbr.base._python cimport sdbr_refcount

Array = cuda.ndarray
_kind = <PyTypeObject *> <PyObject *> Array


cdef char *address_of(array) except? NULL:
    """Where the elements begin; NULL where there is none."""
    return <char *> <size_t> array.data.ptr


cdef int64_t nbytes_of(array) except -1:
    return array.nbytes


cdef bint is_contiguous(array) except -1:
    return array._c_contiguous  # without an object for the flags


cdef bint is_alike(array, PyObject *dtype, shape, int device) except -1:
    """Whether an array has this dtype and shape, and lies on this device."""
    if <PyObject *> array.dtype != dtype or array.shape != shape:
        return False
    return array.data.device_id == device


cdef bint memory_is_held(array) except -1:
    """Whether anything else holds the memory of an array.

    A view that is made of a pointer holds that, and not the array: no reference to it tells.
    """
    data = array.data
    memory = data.mem
    # By the array and by us; by the pointer and by us.
    return sdbr_refcount(<PyObject *> data) != 2 or sdbr_refcount(<PyObject *> memory) != 2
