"""Variables and their gradients, past the properties of Chainer's classes.

A *gradient* is a Variable, an array that has none yet (Chainer's ``grad_var`` makes it when asked),
or None.
"""

from weakref import ref as _ref

import chainer
import numpy as np
from chainer.backends import cuda

from cpython.object cimport PyObject

from sdbr.base._python cimport (
    PyDict_GetItemWithError,
    sdbr_attributes,
    sdbr_bare,
    sdbr_is_array,
    sdbr_list_item,
    sdbr_set_attributes,
)

cimport numpy as cnp

cnp.import_array()

cdef object _Variable = chainer.Variable
cdef object _Parameter = chainer.Parameter
cdef object _VariableNode = chainer.variable.VariableNode
cdef object _DeviceArray = cuda.ndarray

# Interned by the compiler, as attribute names are: a lookup compares pointers.
cdef str _DATA = "_data"
cdef str _GRAD = "_grad"
cdef str _GRAD_VAR = "_grad_var"
cdef str _NAME = "name"
cdef str _LAYOUT = "_layout"
cdef str _LOSS_SCALE = "_loss_scale"
cdef str _CHAINERX = "_has_chainerx_array"
cdef str _GRAD_VALID = "_grad_valid"
cdef PyObject *NONE = <PyObject *> None
cdef object _FALSE = False  # a literal would become a C number
cdef PyObject *FALSE = <PyObject *> _FALSE
cdef object _TRUE = True
cdef PyObject *TRUE = <PyObject *> _TRUE
cdef object _half = np.dtype(np.float16)

cdef dict _variable_template = {
    "_requires_grad": None,
    "_loss_scale": None,
    "_grad_var": None,
    "_device": None,
    "_grad_valid": True,
    "_layout": None,
    "_data": None,
    "_node": None,
    "_grad": None,
}
cdef dict _node_template = {
    "_variable": None,
    "name": None,
    "_requires_grad": None,
    "_layout": None,
    "dtype": None,
    "shape": None,
}


cdef object new_variable(object array, object requires_grad, object node_class, shape, dtype):
    """A `chainer.Variable` as ``_init_unchecked`` makes it."""
    cdef dict inside = _node_template.copy()
    cdef dict outside = _variable_template.copy()
    variable = sdbr_bare(_Variable)
    node = sdbr_bare(node_class)
    inside["_variable"] = _ref(variable)
    inside["_requires_grad"] = requires_grad
    inside["dtype"] = dtype
    inside["shape"] = shape
    sdbr_set_attributes(node, inside)
    outside["_requires_grad"] = requires_grad
    outside["_data"] = [array]
    outside["_node"] = node
    sdbr_set_attributes(variable, outside)
    return variable


cdef bint is_as_made(dict outside, dict inside) except -1:
    """Whether nobody has put anything on a Variable that `new_variable` made, or on its node.

    Parameters
    ----------
    outside, inside : dict
        Attributes of the Variable, and of its node.
    """
    if len(outside) != len(_variable_template) or len(inside) != len(_node_template):
        return False
    for name in (_GRAD, _GRAD_VAR):
        if PyDict_GetItemWithError(<PyObject *> outside, <PyObject *> name) != NONE:
            return False
    return PyDict_GetItemWithError(<PyObject *> inside, <PyObject *> _NAME) == NONE


cdef object without_history(value):
    """``copy.copy`` of a variable: the same array, a node of its own."""
    cdef dict inside = _node_template.copy()
    cdef dict outside = (<dict> value.__dict__).copy()
    array = (<list> outside["_data"])[0]
    variable = sdbr_bare(_Variable)
    node = sdbr_bare(_VariableNode)
    inside["_variable"] = _ref(variable)
    inside["name"] = value.name
    inside["_requires_grad"] = outside["_requires_grad"]
    inside["dtype"] = array.dtype
    inside["shape"] = array.shape
    sdbr_set_attributes(node, inside)
    outside["_node"] = node
    sdbr_set_attributes(variable, outside)
    return variable


def variables_of(list arrays):
    """A `chainer.Variable` of each array, None in the place of None."""
    return tuple([
        None if x is None else new_variable(x, True, _VariableNode, x.shape, x.dtype)
        for x in arrays
    ])


cdef PyObject *plain_attributes(variable) except? NULL:
    """The attributes of a Variable or parameter whose gradient is an array in them, else NULL."""
    cdef PyObject *found
    kind = type(variable)
    if kind is not _Parameter and kind is not _Variable:
        return NULL
    d = sdbr_attributes(variable, NULL)  # lives as long as the Variable
    found = PyDict_GetItemWithError(<PyObject *> d, <PyObject *> _CHAINERX)
    if found != NULL and found != FALSE:
        return NULL
    if PyDict_GetItemWithError(<PyObject *> d, <PyObject *> _LAYOUT) != NONE:
        return NULL
    return <PyObject *> d


cdef object array_of(variable):
    """``variable.raw_array``."""
    cdef PyObject *attributes = plain_attributes(variable)
    cdef PyObject *data
    if attributes != NULL:
        data = PyDict_GetItemWithError(attributes, <PyObject *> _DATA)
        if data != NULL:
            return <object> sdbr_list_item(data, 0)
    return variable.raw_array


cdef bint is_bare(gradient) noexcept:
    """Whether a gradient is an array."""
    return sdbr_is_array(<PyObject *> gradient) or type(gradient) is _DeviceArray


cdef object bare(gradient):
    """The array of a gradient that is not None."""
    return gradient if is_bare(gradient) else array_of(gradient)


cdef object as_variable(gradient):
    """A gradient as Chainer's code takes it: a Variable or None."""
    if not is_bare(gradient):
        return gradient
    return new_variable(gradient, True, _VariableNode, gradient.shape, gradient.dtype)


cdef object take_gradient(variable):
    """The gradient of a Variable; it has none afterwards."""
    cdef PyObject *attributes = plain_attributes(variable)
    cdef PyObject *found
    cdef dict d
    if attributes == NULL:
        gradient = variable.grad_var
        variable.grad_var = None
        return gradient
    d = <dict> attributes
    found = PyDict_GetItemWithError(attributes, <PyObject *> _GRAD_VAR)
    if found == NULL or found == NONE:
        found = PyDict_GetItemWithError(attributes, <PyObject *> _GRAD)
        if found == NULL or found == NONE:
            return None
        gradient = <object> found if is_bare(<object> found) else variable.grad_var
    else:
        gradient = <object> found
    d[_GRAD_VAR] = None
    d[_GRAD] = None
    return gradient


cdef int give_gradient(variable, gradient, loss_scale) except -1:
    """Set the gradient of a Variable, and what it is scaled by."""
    cdef PyObject *attributes = plain_attributes(variable)
    cdef PyObject *data
    cdef dict d
    if attributes != NULL and (gradient is None or is_bare(gradient)):
        d = <dict> attributes
        d[_GRAD_VAR] = None
        d[_GRAD] = gradient
        d[_LOSS_SCALE] = loss_scale
        return 0
    if attributes != NULL and type(gradient) is _Variable:
        given = sdbr_attributes(gradient, NULL)
        data = PyDict_GetItemWithError(<PyObject *> given, <PyObject *> _DATA)
        if data != NULL and sdbr_is_array(sdbr_list_item(data, 0)):
            d = <dict> attributes
            d[_GRAD_VAR] = gradient
            d[_GRAD] = <object> sdbr_list_item(data, 0)
            d[_LOSS_SCALE] = loss_scale
            return 0
    variable._set_grad_var_without_check(as_variable(gradient))
    variable._loss_scale = loss_scale
    return 0


cdef bint was_scaled(variable) except -1:
    """Whether the gradient of a parameter was divided by a loss scale where it lies."""
    cdef dict d = sdbr_attributes(variable, NULL)
    cdef PyObject *found = PyDict_GetItemWithError(<PyObject *> d, <PyObject *> _LOSS_SCALE)
    # Of one in float16 it was the gradient of the copy in float32.
    return found != NULL and found != NONE and array_of(variable).dtype != _half


def settle_scaled(list params):
    """Do ``param.grad = param.grad``, as Chainer's rules do it with what they divide.

    Parameters
    ----------
    params : list of chainer.Parameter
        Those without a loss scale, and those in float16, are left alone.
    """
    cdef PyObject *attributes
    cdef PyObject *gradient
    cdef dict d
    for param in params:
        if not was_scaled(param):
            continue
        attributes = plain_attributes(param)
        if (
            attributes == NULL
            or PyDict_GetItemWithError(attributes, <PyObject *> _GRAD_VALID) != TRUE
        ):
            param._set_grad_without_check(param.grad)
            continue
        d = <dict> attributes
        gradient = PyDict_GetItemWithError(attributes, <PyObject *> _GRAD_VAR)
        if gradient != NULL and gradient != NONE:
            d[_GRAD] = array_of(<object> gradient)
            d[_GRAD_VAR] = None
