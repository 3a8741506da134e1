"""The gradient arrays of parameters that a whole step writes."""

import numpy as np

from cpython.object cimport PyObject

from sdbr.base._python cimport (
    PyDict_GetItemWithError,
    PyDict_SetItem,
    sdbr_list_item,
    sdbr_refcount,
)
from sdbr.program._memory cimport Memory

cdef str _GRAD = "_grad"
cdef str _GRAD_VAR = "_grad_var"
cdef str _GRAD_VALID = "_grad_valid"
cdef PyObject *K_GRAD = <PyObject *> _GRAD
cdef PyObject *K_GRAD_VAR = <PyObject *> _GRAD_VAR
cdef PyObject *K_GRAD_VALID = <PyObject *> _GRAD_VALID
cdef PyObject *NONE = <PyObject *> None
cdef object _TRUE = True   # a literal True would become the C number 1
cdef PyObject *TRUE = <PyObject *> _TRUE


cdef object spare_gradient(PyObject *d, shape, dtype):
    """The gradient that a parameter has, if it is of that kind, nobody else holds it and it
    can be written; or None.

    Those of the call that was traced would lie beside ours until the first step is over.
    """
    cdef PyObject *found = PyDict_GetItemWithError(d, K_GRAD)
    cdef PyObject *variable = PyDict_GetItemWithError(d, K_GRAD_VAR)
    cdef Py_ssize_t held = 2  # by the parameter and by us
    if found == NULL or found == NONE or type(<object> found) is not np.ndarray:
        return None
    array = <object> found
    if variable != NULL and variable != NONE:
        # Chainer's backward leaves a Variable, which goes when the gradient is published.
        if sdbr_refcount(variable) != 1:
            return None
        holder = <object> variable
        if holder.__dict__["_data"][0] is not array:
            return None
        held += 1
    if sdbr_refcount(found) != held or array.dtype != dtype or array.shape != shape:
        return None
    base = array if array.base is None else array.base
    if type(base) is not np.ndarray:
        return None
    if base is not array and sdbr_refcount(<PyObject *> base) != 2:  # by the array and by us
        return None
    flags = array.flags
    if not (base.flags.owndata and flags.c_contiguous and flags.writeable):
        return None
    return array


cdef class Gradients:
    """The gradient arrays of parameters: ours, and used again only when nobody else holds them."""

    def __init__(self, Memory memory, places):
        self.memory = memory
        self.dicts = [p.__dict__ for p, _, _, _ in places]
        self.slots = [s for _, s, _, _ in places]
        self.shapes = [shape for _, _, shape, _ in places]
        self.dtypes = [dtype for _, _, _, dtype in places]
        self.arrays = [None] * len(places)
        self.fresh = []

    cdef int bind(self) except -1:
        """Choose and bind the array of every gradient; notes which have to be published."""
        cdef Py_ssize_t i
        cdef PyObject *d
        cdef PyObject *mine
        cdef PyObject *found
        if self.fresh:
            self.fresh.clear()
        for i in range(len(self.arrays)):
            mine = sdbr_list_item(<PyObject *> self.arrays, i)
            if mine != NONE:
                d = sdbr_list_item(<PyObject *> self.dicts, i)
                found = PyDict_GetItemWithError(d, K_GRAD)
                # References: ours, the memory's, the parameter's. One that the user dropped
                # from the parameter but kept has another number, too.
                if found == mine and sdbr_refcount(mine) == 3:
                    # A gradient variable would hold the array, too; the flag stays as we set it.
                    continue
                if found != mine and sdbr_refcount(mine) == 2:
                    self.fresh.append(i)
                    continue
            self.fresh.append(i)
            new = spare_gradient(
                sdbr_list_item(<PyObject *> self.dicts, i), self.shapes[i], self.dtypes[i])
            if new is None:
                new = np.empty(self.shapes[i], self.dtypes[i])
            self.arrays[i] = new
            self.memory.bind_fast(<int> self.slots[i], <PyObject *> new)
        return 0

    cdef int publish(self) except -1:
        """Make the arrays the gradients of their parameters; those in place stay untouched."""
        cdef Py_ssize_t i
        cdef PyObject *d
        for i in self.fresh:
            d = sdbr_list_item(<PyObject *> self.dicts, i)
            PyDict_SetItem(d, K_GRAD, sdbr_list_item(<PyObject *> self.arrays, i))
            PyDict_SetItem(d, K_GRAD_VAR, NONE)
            PyDict_SetItem(d, K_GRAD_VALID, TRUE)
        return 0
