"""What is asked of dictionaries and arrays at every step, on borrowed references."""

cimport numpy as cnp
from cpython.object cimport PyObject

from sdbr.base._python cimport PyDict_GetItemWithError, sdbr_is_array, sdbr_is_plain
from sdbr.devices._arrays cimport is_contiguous, on_device

cdef extern from "Python.h":
    Py_ssize_t PySet_GET_SIZE(PyObject *)
    Py_ssize_t sdbr_list_size "PyList_GET_SIZE"(PyObject *)

cdef extern from *:
    """
    /* NumPy's macros want their own pointer type. */
    static inline int sdbr_carray(PyObject *x) { return PyArray_ISCARRAY((PyArrayObject *)x); }
    static inline void sdbr_fetch(const void *x) { __builtin_prefetch(x); }
    static inline void sdbr_fetch_values(PyObject *d)
    {
        const char *values = (const char *)((PyDictObject *)d)->ma_values;
        if (values != NULL) {
            __builtin_prefetch(values);
            __builtin_prefetch(values + 64);
        }
    }

    /* An item of a dictionary that likely is where it was in another one: objects of a class get
       their attributes in one order. A step from there is one comparison; else it is looked up. */
    static inline PyObject *sdbr_lookup_near(PyObject *d, PyObject *key, Py_ssize_t *place)
    {
        Py_ssize_t at = *place, next;
        PyObject *k, *found;
        if (PyDict_Next(d, &at, &k, &found) && k == key)
            return found;
        if ((found = PyDict_GetItemWithError(d, key)) == NULL)
            return NULL;
        for (at = next = 0; PyDict_Next(d, &next, &k, NULL); at = next)
            if (k == key) {
                *place = at;
                break;
            }
        return found;
    }
    static inline int sdbr_type(PyObject *x) { return PyArray_TYPE((PyArrayObject *)x); }
    static inline int sdbr_same_shape(PyObject *x, PyObject *y)
    {
        const npy_intp *of_x = PyArray_DIMS((PyArrayObject *)x);
        const npy_intp *of_y = PyArray_DIMS((PyArrayObject *)y);
        int n = PyArray_NDIM((PyArrayObject *)x);
        if (n != PyArray_NDIM((PyArrayObject *)y))
            return 0;
        while (n-- > 0)
            if (of_x[n] != of_y[n])
                return 0;
        return 1;
    }
    """
    int sdbr_carray(PyObject *)
    void sdbr_fetch(const void *) noexcept
    void sdbr_fetch_values(PyObject *) noexcept  # of a dictionary of an instance
    PyObject *sdbr_lookup_near(PyObject *, PyObject *, Py_ssize_t *) noexcept
    int sdbr_same_shape(PyObject *, PyObject *)
    int sdbr_type(PyObject *)


cdef inline PyObject *lookup(PyObject *d, PyObject *key) noexcept:
    return PyDict_GetItemWithError(d, key)


cdef inline bint is_native(PyObject *array) except -1:
    # What kernels take: a writeable, C-contiguous float array of NumPy's own, or of CuPy's.
    if on_device(array):
        return is_contiguous(<object> array) and is_float(type_of(array))
    return sdbr_is_array(array) and sdbr_carray(array) and is_float(sdbr_type(array))


cdef inline bint is_float(int number) noexcept:
    return number == cnp.NPY_FLOAT32 or number == cnp.NPY_FLOAT64


cdef inline bint is_half(PyObject *array) noexcept:
    # An array of the host in float16.
    return sdbr_is_array(array) and sdbr_type(array) == cnp.NPY_FLOAT16


cdef inline int type_of(PyObject *array) except -1:
    # The number of the dtype.
    if on_device(array):
        return (<object> array).dtype.num
    return sdbr_type(array)


cdef inline bint same_shape(PyObject *one, PyObject *other) except -1:
    if on_device(one) or on_device(other):
        return (<object> one).shape == (<object> other).shape
    return sdbr_same_shape(one, other)


cdef inline bint is_bindable(PyObject *array, bint written) except -1:
    # A gradient: whether it can be bound as it is.
    if on_device(array):
        return is_contiguous(<object> array)
    return sdbr_is_array(array) and (sdbr_carray(array) if written else sdbr_is_plain(array))
