"""Shapes and dtypes of arrays, compared and made without Python's objects for them."""

from cpython.array cimport array as int_array
from cpython.object cimport PyObject

cimport numpy as cnp

from sdbr.base._python cimport (
    sdbr_descr,
    sdbr_dims,
    sdbr_empty,
    sdbr_is_array,
    sdbr_is_plain,
    sdbr_list_item,
    sdbr_ndim,
)

cnp.import_array()


cdef class Kinds:
    """Shapes and dtypes of arrays that kernels take as they are.

    Parameters
    ----------
    values : list of (tuple, dtype)
    """

    def __init__(self, values):
        self.dtypes = [dtype for _, dtype in values]
        self.ndims = int_array("i", [len(shape) for shape, _ in values])
        self.starts = int_array("i", [0])
        for shape, _ in values:
            self.starts.append(self.starts[len(self.starts) - 1] + len(shape))
        self.dims = int_array("q", [n for shape, _ in values for n in shape])

    cdef bint fits(self, Py_ssize_t k, PyObject *array) noexcept:
        """Whether an array is of the k-th kind, contiguous and aligned."""
        cdef int i, start
        if not sdbr_is_array(array) or not sdbr_is_plain(array):
            return False
        if sdbr_descr(array) != sdbr_list_item(<PyObject *> self.dtypes, k):
            return False
        if sdbr_ndim(array) != self.ndims.data.as_ints[k]:
            return False
        start = self.starts.data.as_ints[k]
        for i in range(sdbr_ndim(array)):
            if sdbr_dims(array)[i] != self.dims.data.as_longlongs[start + i]:
                return False
        return True

    cdef object new(self, Py_ssize_t k):
        """A new array of the k-th kind."""
        cdef cnp.npy_intp shape[64]
        cdef int i, start = self.starts.data.as_ints[k]
        for i in range(self.ndims.data.as_ints[k]):
            shape[i] = self.dims.data.as_longlongs[start + i]
        return sdbr_empty(<cnp.dtype> self.dtypes[k], self.ndims.data.as_ints[k], shape)
