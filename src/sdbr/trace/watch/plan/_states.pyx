"""States that change in place, where no version tells of it: of arrays, of Variables, of NumPy."""

import warnings

import numpy as np

from cpython.object cimport PyObject
from libc.string cimport memcpy

cimport numpy as cnp

from sdbr.base._dicts cimport SDBR_DICT_VERSIONS, sdbr_dict_version
from sdbr.trace.watch.plan._unmoved cimport *

cnp.import_array()

try:
    from numpy._core.umath import _extobj_contextvar
except ImportError:  # before 2.0 there is a list in the dictionary of each thread
    _extobj_contextvar = None

cdef PyObject *NONE = <PyObject *>None
cdef PyObject *YES = <PyObject *><object>True
cdef PyObject *NO = <PyObject *><object>False
cdef PyObject *LIST_TYPE = <PyObject *>list
cdef PyObject *ARRAY_TYPE = <PyObject *>np.ndarray
cdef PyObject *DATA = <PyObject *>"_data"
cdef PyObject *REQUIRES = <PyObject *>"_requires_grad"
cdef PyObject *FILTERS = <PyObject *>"filters"
cdef PyObject *ERRORS = <PyObject *>"UFUNC_PYVALS"


cdef class Like:
    """Shape and dtype of an array, or of the array of a Variable."""

    def __init__(self, array, kind=None, bint requires_grad=False):
        self.ndim = -1
        self.requires_grad = requires_grad
        self.kind = <PyObject *>kind  # which is static, or never goes
        if array is not None:
            self.dtype = array.dtype
            self.ndim = array.ndim
            memcpy(self.dims, cnp.PyArray_DIMS(array), self.ndim * sizeof(cnp.npy_intp))


def environment(thing=None, key=None):
    """What libraries read on their own wherever they are called."""
    return tuple(sorted(np.geterr().items())), tuple(warnings.filters)


cdef class Usual:
    """Whether `environment` is, in this thread, what it was: the same objects as then.

    Parameters
    ----------
    want : tuple
        What it was.
    """

    def __init__(self, tuple want):
        self.want, self.filters = want, want[1]
        self.variable, self.fields = _extobj_contextvar, warnings.__dict__
        self.holds()

    cpdef bint holds(self) except -1:
        """Whether it is as it was, by asking for all of it; that is what is found from now on."""
        cdef PyObject *found
        self.is_known = False
        if self.variable is None:
            found = self.errors_here()
            errors = None if found == NULL else <object>found
        else:
            errors = self.variable.get()  # which holds what is called for errors
        if environment() != self.want:
            return False
        self.errors = errors
        self.is_known = self.variable is None or np.geterrcall() is None
        return True

    cdef PyObject *errors_here(self) noexcept:
        """Before NumPy 2.0: a number that says how errors are treated; NULL for as usual."""
        cdef PyObject *fields = thread_fields()
        cdef PyObject *found
        if fields == NULL or not sdbr_has_safe_keys(fields):
            return NONE
        found = dict_get(fields, ERRORS)
        if found == NULL:
            return NULL
        if type_of(found) != LIST_TYPE or list_size(found) != 3:
            return NONE
        return list_item(found, 1)

    cdef PyObject *filters_now(self) noexcept:
        """What the module of warnings has for its filters."""
        cdef PyObject *fields = <PyObject *>self.fields
        if not SDBR_DICT_VERSIONS or sdbr_dict_version(fields) != self.version:
            if not sdbr_has_safe_keys(fields):
                return NULL
            self.found = dict_get(fields, FILTERS)
            self.version = sdbr_dict_version(fields)
        return self.found

    cdef bint is_here(self) noexcept:
        """Whether it is what was found; False also where that is not known."""
        cdef PyObject *found
        cdef Py_ssize_t i
        if not self.is_known:
            return False
        if self.variable is not None:
            if not sdbr_has_value(
                    <PyObject *>self.variable, <PyObject *>self.errors):
                return False
        else:
            found = self.errors_here()
            if found == NONE or (found == NULL) != (self.errors is None):
                return False
            if found != NULL and not sdbr_same_atom(found, <PyObject *>self.errors):
                return False
        found = self.filters_now()
        if found == NULL or type_of(found) != LIST_TYPE or (
                list_size(found) != tuple_size(<PyObject *>self.filters)):
            return False
        for i in range(list_size(found)):
            if list_item(found, i) != tuple_item(<PyObject *>self.filters, i):
                return False
        return True


cdef bint is_like(PyObject *x, Like like) noexcept:
    """Whether it is an array of this shape and dtype; False also for some that are."""
    cdef int i
    if type_of(x) != ARRAY_TYPE or cnp.PyArray_NDIM(<cnp.ndarray>x) != like.ndim:
        return False
    if <PyObject *>cnp.PyArray_DESCR(<cnp.ndarray>x) != <PyObject *>like.dtype:
        return False
    for i in range(like.ndim):
        if cnp.PyArray_DIMS(<cnp.ndarray>x)[i] != like.dims[i]:
            return False
    return True


cdef bint is_variable_like(PyObject *x, Like like) noexcept:
    """Whether it is a Variable of such an array."""
    cdef PyObject *fields
    cdef PyObject *data
    if type_of(x) != like.kind:
        return False
    fields = sdbr_fields_of(x)
    if fields == NULL or not sdbr_has_safe_keys(fields):
        return False
    if dict_get(fields, REQUIRES) != (YES if like.requires_grad else NO):
        return False
    data = dict_get(fields, DATA)
    if data == NULL or type_of(data) != LIST_TYPE or list_size(data) < 1:
        return False
    data = list_item(data, 0)
    return data == NONE if like.ndim < 0 else is_like(data, like)
