"""Sums in Chainer's graph, compiled: of gradients of one variable, and ``x + y`` of one shape."""

import chainer
import numpy as np
from chainer.functions.math.basic_math import Add

from cpython.object cimport PyObject, PyTypeObject, Py_TYPE

cimport numpy as cnp

from sdbr.base._python cimport (
    sdbr_attributes, sdbr_descr, sdbr_dims, sdbr_empty, sdbr_is_array, sdbr_is_plain,
    sdbr_list_item, sdbr_ndim, sdbr_refcount,
)
from sdbr.compat.graph._graph cimport Compiled, attribute
from sdbr.compat.graph._variables cimport as_variable, bare

cnp.import_array()

cdef str _DATA = "_data"
cdef str _INPUTS = "inputs"
cdef str _OUTPUTS = "outputs"
cdef str _BACKWARD = "backward"
cdef str _ACCUMULATE = "backward_accumulate"

cdef object _Variable = chainer.Variable
cdef object _Add = Add
cdef object _forward = Add.forward
cdef object _backward = Add.backward
cdef object _accumulate = Add.backward_accumulate
cdef object _check = Add.check_type_forward
cdef object _add = np.add


cdef bint are_alike(PyObject *x, PyObject *y) noexcept:
    """Whether two arrays are plain ones of one floating dtype and one shape."""
    cdef int i
    if not (sdbr_is_array(x) and sdbr_is_array(y) and sdbr_descr(x) == sdbr_descr(y)):
        return False
    if not (sdbr_is_plain(x) and sdbr_is_plain(y)) or sdbr_ndim(x) != sdbr_ndim(y):
        return False
    for i in range(sdbr_ndim(x)):
        if sdbr_dims(x)[i] != sdbr_dims(y)[i]:
            return False
    return cnp.PyTypeNum_ISFLOAT(cnp.PyArray_TYPE(<cnp.ndarray> x))


cdef object sum_of(list gradients):
    """The sum of several gradients of one variable: ``chainer.functions.add``.

    The second of two is written to where nothing else holds it.
    """
    cdef PyObject *y = written_to(sdbr_list_item(<PyObject *> gradients, 1))
    if len(gradients) == 2 and y != NULL and gradients[0] is not None:
        x = bare(gradients[0])
        if are_alike(<PyObject *> x, y):
            _add(x, <object> y, <object> y)
            return gradients[1]
    return chainer.functions.add(*[as_variable(x) for x in gradients])


cdef PyObject *written_to(PyObject *gradient) except? NULL:
    """The array of a gradient in a list where nothing else holds the two, else NULL."""
    cdef PyObject *array = gradient
    cdef PyObject *data
    if sdbr_refcount(gradient) != 1:
        return NULL
    if Py_TYPE(<object> gradient) == <PyTypeObject *> _Variable:
        data = attribute(<object> gradient, _DATA)
        array = sdbr_list_item(data, 0)
        if sdbr_refcount(data) != 1 or sdbr_refcount(array) != 1:
            return NULL
    if not sdbr_is_array(array):
        return NULL
    owned = cnp.NPY_ARRAY_OWNDATA | cnp.NPY_ARRAY_WRITEABLE
    return array if cnp.PyArray_CHKFLAGS(<cnp.ndarray> array, owned) else NULL


cdef bint is_in_place() except -1:
    """Whether the code of sums is Chainer's."""
    return (
        _Add.forward is _forward and _Add.backward is _backward
        and _Add.check_type_forward is _check and _Add.backward_accumulate is _accumulate
    )


cdef class PassedOn(Compiled):
    """The way back through ``x + y`` of one shape: what has come goes on to both."""

    cdef bint may_run(self, dict attributes, list starts) except -1:
        return is_in_place() and _BACKWARD not in attributes and _ACCUMULATE not in attributes

    cdef tuple outputs(self, dict attributes):
        return attributes[_OUTPUTS]

    cdef list gradients(self, function, dict attributes, tuple targets, list gys, bint retain):
        gradient = as_variable(gys[0])
        if retain:
            y = attributes[_OUTPUTS][0]()
            if y is not None:
                y._set_grad_var_if_available(gradient)
        if gradient is None or gradient.shape != attributes[_INPUTS][0].shape:
            return list(function.backward(targets, (gradient,)))
        return [gradient] * len(targets)


cdef PassedOn _passed_on = PassedOn()


cdef Compiled adds_plainly(function, tuple arrays):
    """The way back through a function that adds arrays of one shape and dtype; None for others.

    To be asked before anything lies on the function: somebody may have put code there.
    """
    if type(function) is not _Add or len(arrays) != 2 or sdbr_attributes(function, NULL):
        return None
    if not are_alike(<PyObject *> arrays[0], <PyObject *> arrays[1]) or not is_in_place():
        return None
    return _passed_on


cdef object new_sum(cnp.ndarray x, cnp.ndarray y):
    """``x + y``, an array where NumPy gives a number."""
    total = sdbr_empty(x.descr, cnp.PyArray_NDIM(x), cnp.PyArray_DIMS(x))
    _add(x, y, total)
    return total
