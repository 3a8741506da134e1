"""``Link.cleargrads`` and ``zerograds``, compiled: past generators and properties of parameters.

They decline, before anything has happened, where any code but Chainer's takes part, or where
somebody would be warned.
"""

import sys
import warnings

import chainer
import numpy as np

from cpython.object cimport PyObject

from sdbr.base._python cimport (
    PyDict_GetItemWithError, sdbr_attributes, sdbr_is_array, sdbr_list_item,
)
from sdbr.compat.graph._graph cimport attribute, creator_of
from sdbr.compat.graph._variables cimport plain_attributes

cimport numpy as cnp

cnp.import_array()

cdef str _PARAMS = "params"
cdef str _OWN_PARAMS = "_params"
cdef str _CHILDREN = "_children"
cdef str _CLEARGRAD = "cleargrad"
cdef str _ZEROGRAD = "zerograd"
cdef str _NODE = "_node"
cdef str _DATA = "_data"
cdef str _GRAD = "_grad"
cdef str _GRAD_VAR = "_grad_var"
cdef str _GRAD_VALID = "_grad_valid"
cdef PyObject *NONE = <PyObject *> None
cdef object _TRUE = True  # a literal would become a C number

cdef object _Variable = chainer.Variable
cdef object _Parameter = chainer.Parameter
cdef object _of_parameter = chainer.Parameter.cleargrad
cdef object _of_variable = chainer.Variable.cleargrad
cdef object _zero_of_parameter = chainer.Parameter.zerograd
cdef object _zero_of_variable = chainer.Variable.zerograd
cdef object _of_link = chainer.Link.params
cdef object _of_chain = chainer.Chain.params
cdef object _of_list = chainer.ChainList.params


cdef bint collect(link, list found) except -1:
    """Add the parameters of a link and of those below it; False where its code is not Chainer's."""
    cdef dict d = sdbr_attributes(link, NULL)
    params = type(link).params
    if _PARAMS in d:
        return False
    for name in <set> d[_OWN_PARAMS]:
        found.append(d[name])
    if params is _of_chain:
        for name in <set> d[_CHILDREN]:
            if not collect(d[name], found):
                return False
    elif params is _of_list:
        for child in <list> d[_CHILDREN]:
            if not collect(child, found):
                return False
    return params is _of_link or params is _of_chain or params is _of_list


cdef bint is_plain(parameter, str method) except -1:
    """Whether clearing the gradient of a parameter is no more than three attributes.

    `method` is what does it.
    """
    cdef PyObject *attributes
    cdef PyObject *data
    if type(parameter) is not _Parameter:
        return False
    attributes = plain_attributes(parameter)
    if attributes == NULL or method in <dict> attributes:
        return False
    data = PyDict_GetItemWithError(attributes, <PyObject *> _DATA)
    return data != NULL and sdbr_list_item(data, 0) != NONE


def clear_gradients(link):
    """Do what ``link.cleargrads()`` does.

    Parameters
    ----------
    link : chainer.Link

    Returns
    -------
    bool
        False where Chainer's code has to do it; then nothing has happened.
    """
    cdef list params = []
    cdef dict d
    if _Parameter.cleargrad is not _of_parameter or _Variable.cleargrad is not _of_variable:
        return False  # a call is being traced
    if not collect(link, params):
        return False
    for parameter in params:
        if not is_plain(parameter, _CLEARGRAD):
            return False
    for parameter in params:
        d = sdbr_attributes(parameter, NULL)
        d[_GRAD_VAR] = None
        d[_GRAD] = None
        d[_GRAD_VALID] = _TRUE
    return True


cdef list _homes = ["chainer.link", "chainer.variable"]  # of the code that would warn


def warns_nobody():
    """Whether no ``DeprecationWarning`` of Chainer's links and Variables goes anywhere.

    Returns
    -------
    bool
    """
    if getattr(sys.flags, "context_aware_warnings", False):
        return False  # the filters that count are not those of the module
    for action, message, category, module, line in warnings.filters:
        if not issubclass(DeprecationWarning, category):
            continue
        if message is None and module is None and not line:
            return action == "ignore"
        if module is None or any([module.match(name) is not None for name in _homes]):
            return False
    return False


cdef bint can_be_zeroed(parameter) except -1:
    """Whether the gradient of a parameter is an array of the host that may be written to, or none.

    Without one it is made as the array of the parameter is.
    """
    cdef dict d = sdbr_attributes(parameter, NULL)
    cdef PyObject *array = PyDict_GetItemWithError(<PyObject *> d, <PyObject *> _GRAD)
    if not sdbr_is_array(sdbr_list_item(<PyObject *> d[_DATA], 0)):
        return False
    if array == NULL or array == NONE:
        return True
    return sdbr_is_array(array) and cnp.PyArray_ISWRITEABLE(<cnp.ndarray> array)


cdef int zero(dict d) except -1:
    """What ``parameter.zerograd()`` does to its attributes."""
    cdef PyObject *array = PyDict_GetItemWithError(<PyObject *> d, <PyObject *> _GRAD)
    cdef PyObject *gradient
    if array == NULL or array == NONE:
        d[_GRAD] = np.zeros_like((<list> d[_DATA])[0])
        d[_GRAD_VAR] = None
    else:
        gradient = PyDict_GetItemWithError(<PyObject *> d, <PyObject *> _GRAD_VAR)
        if gradient != NULL and gradient != NONE:
            unchain(<object> gradient)
        held = <cnp.ndarray> array
        if cnp.PyArray_ISCONTIGUOUS(held) and cnp.PyArray_ISFLOAT(held):
            cnp.PyArray_FILLWBYTE(held, 0)
        else:
            held.fill(0)
    d[_GRAD_VALID] = _TRUE
    return 0


cdef int unchain(gradient) except -1:
    cdef PyObject *node = attribute(gradient, _NODE)
    if node == NULL or creator_of(<object> node) is not None:
        gradient.unchain()
    return 0


def zero_gradients(link):
    """Do what ``link.zerograds()`` does.

    Parameters
    ----------
    link : chainer.Link

    Returns
    -------
    bool
        False where Chainer's code has to do it; then nothing has happened.
    """
    cdef list params = []
    if (
        _Parameter.zerograd is not _zero_of_parameter
        or _Variable.zerograd is not _zero_of_variable
    ):
        return False  # a call is being traced
    if not collect(link, params) or not warns_nobody():
        return False
    for parameter in params:
        if not is_plain(parameter, _ZEROGRAD) or not can_be_zeroed(parameter):
            return False
    for parameter in params:
        zero(sdbr_attributes(parameter, NULL))
    return True
