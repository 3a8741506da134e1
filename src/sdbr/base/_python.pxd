"""C API of Python and NumPy on borrowed references, for the compiled call path."""

cimport numpy as cnp
from cpython.object cimport PyObject

cdef extern from "Python.h":
    PyObject *PyDict_GetItemWithError(PyObject *, PyObject *)
    int PyDict_Next(PyObject *, Py_ssize_t *, PyObject **, PyObject **)
    Py_ssize_t sdbr_dict_size "PyDict_GET_SIZE"(PyObject *)
    PyObject *sdbr_list_item "PyList_GET_ITEM"(PyObject *, Py_ssize_t)
    PyObject *sdbr_tuple_item "PyTuple_GET_ITEM"(PyObject *, Py_ssize_t)
    Py_ssize_t sdbr_refcount "Py_REFCNT"(PyObject *)
    int PyDict_SetItem(PyObject *, PyObject *, PyObject *) except -1
    # Of plain instances, past the look-up of `__dict__` in the classes.
    object sdbr_attributes "PyObject_GenericGetDict"(object, void *)

cdef extern from *:
    """
    #define SDBR_A(x) ((PyArrayObject *)(x))
    static inline int sdbr_is_array(PyObject *x) { return PyArray_CheckExact(x); }
    static inline PyObject *sdbr_descr(PyObject *x) { return (PyObject *)PyArray_DESCR(SDBR_A(x)); }
    static inline int sdbr_ndim(PyObject *x) { return PyArray_NDIM(SDBR_A(x)); }
    static inline npy_intp *sdbr_dims(PyObject *x) { return PyArray_DIMS(SDBR_A(x)); }
    static inline int sdbr_is_plain(PyObject *x) { return PyArray_ISCARRAY_RO(SDBR_A(x)); }
    static inline char *sdbr_data(PyObject *x) { return PyArray_BYTES(SDBR_A(x)); }
    static inline PyObject *sdbr_bare(PyObject *cls) {
        PyObject *none = PyTuple_New(0);
        PyObject *made = none ? ((PyTypeObject *)cls)->tp_new((PyTypeObject *)cls, none, NULL) : 0;
        Py_XDECREF(none);
        return made;
    }
    static inline int sdbr_set_attributes(PyObject *x, PyObject *attributes) {
    #if PY_VERSION_HEX >= 0x030D0000
        /* The values that an instance holds itself would stay valid: 3.13.0 then finds those. */
        static PyObject *name = NULL;
        if (name == NULL && (name = PyUnicode_InternFromString("__dict__")) == NULL)
            return -1;
        return PyObject_SetAttr(x, name, attributes);
    #else
        return PyObject_GenericSetDict(x, attributes, NULL);
    #endif
    }
    """
    bint sdbr_is_array(PyObject *)
    PyObject *sdbr_descr(PyObject *)
    int sdbr_ndim(PyObject *)
    cnp.npy_intp *sdbr_dims(PyObject *)
    bint sdbr_is_plain(PyObject *)
    char *sdbr_data(PyObject *)
    object sdbr_bare(object)  # an instance of a class, without ``__init__``
    # Of plain instances; before 3.13 past the look-up of `__dict__` in the classes.
    int sdbr_set_attributes(object, object) except -1

cdef extern from *:
    """
    /* A new array on memory that `owner` keeps alive. */
    static inline PyObject *sdbr_view(PyArray_Descr *dtype, int ndim, npy_intp *shape,
                                      npy_intp *strides, char *data, PyObject *owner)
    {
        int flags = PyArray_ISWRITEABLE((PyArrayObject *)owner) ? NPY_ARRAY_WRITEABLE : 0;
        Py_INCREF(dtype);
        PyObject *view = PyArray_NewFromDescr(&PyArray_Type, dtype, ndim, shape, strides, data,
                                              flags, NULL);
        if (view != NULL) {
            Py_INCREF(owner);
            if (PyArray_SetBaseObject((PyArrayObject *)view, owner) < 0)
                Py_CLEAR(view);
        }
        return view;
    }
    """
    object sdbr_view(cnp.dtype dtype, int ndim, cnp.npy_intp *shape, cnp.npy_intp *strides,
                     char *data, object owner)

cdef extern from *:
    """
    /* An uninitialised array in C order. */
    static inline PyObject *sdbr_empty(PyArray_Descr *dtype, int ndim, npy_intp *shape)
    {
        Py_INCREF(dtype);
        return PyArray_Empty(ndim, shape, dtype, 0);
    }
    """
    object sdbr_empty(cnp.dtype dtype, int ndim, cnp.npy_intp *shape)
