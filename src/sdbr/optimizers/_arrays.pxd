"""What is asked of dictionaries and arrays at every step, on borrowed references."""

cimport numpy as cnp
from cpython.object cimport PyObject

from sdbr.base._python cimport PyDict_GetItemWithError, sdbr_is_array

cdef extern from "Python.h":
    Py_ssize_t PySet_GET_SIZE(PyObject *)
    Py_ssize_t sdbr_list_size "PyList_GET_SIZE"(PyObject *)

cdef extern from *:
    """
    /* NumPy's macros want their own pointer type. */
    static inline int sdbr_carray(PyObject *x) { return PyArray_ISCARRAY((PyArrayObject *)x); }
    static inline int sdbr_type(PyObject *x) { return PyArray_TYPE((PyArrayObject *)x); }
    static inline int sdbr_same_shape(PyObject *x, PyObject *y)
    {
        return PyArray_SAMESHAPE((PyArrayObject *)x, (PyArrayObject *)y);
    }
    """
    int sdbr_carray(PyObject *)
    int sdbr_same_shape(PyObject *, PyObject *)
    int sdbr_type(PyObject *)


cdef inline PyObject *lookup(PyObject *d, PyObject *key) noexcept:
    return PyDict_GetItemWithError(d, key)


cdef inline bint is_native(PyObject *array) noexcept:
    # What kernels take: a writeable, C-contiguous float array of NumPy's own.
    if not sdbr_is_array(array) or not sdbr_carray(array):
        return False
    return sdbr_type(array) == cnp.NPY_FLOAT32 or sdbr_type(array) == cnp.NPY_FLOAT64
