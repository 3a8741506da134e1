"""``FunctionNode.apply``, compiled, for what is computed of the results of replayed calls.

A loss outside of the call, ``a + b``, ``loss / k``, and what their backwards apply: what
`FunctionNode.apply` of Chainer 7.8.1 does, in its order, for functions of Chainer's own on arrays
of the host. Everything else, and what has nothing to do with a replayed call, is Chainer's.
"""

from weakref import ref as _ref

import chainer

from cpython.object cimport PyObject

from sdbr.base._python cimport (
    PyDict_GetItemWithError, sdbr_attributes, sdbr_dict_size, sdbr_is_array,
)
from sdbr.compat.graph._graph cimport (
    Compiled, attribute, compiled_of, creator_of, entry_of_config, is_chainers, nobody_looks,
    walks_here,
)
from sdbr.compat.graph._sums cimport adds_plainly, new_sum
from sdbr.compat.graph._variables cimport new_variable, plain_attributes

cimport numpy as cnp

cnp.import_array()

cdef str _NEAR = "sdbr_near"
cdef str _COMPILED = "sdbr_compiled"
cdef str _DATA = "_data"
cdef str _NODE = "_node"
cdef str _RANK = "_rank"
cdef str _REQUIRES_GRAD = "_requires_grad"
cdef str _CREATOR_NODE = "_creator_node"
cdef str _TYPE_CHECK = "type_check"
cdef str _SCHEDULE = "schedule_func"
cdef str _ENABLE_BACKPROP = "enable_backprop"
cdef str _LAZY_GRAD_SUM = "lazy_grad_sum"
cdef str _HOOKS = "_local_function_hooks"
cdef PyObject *NONE = <PyObject *> None
cdef object _TRUE = True    # literals would become C numbers
cdef object _FALSE = False
cdef PyObject *TRUE = <PyObject *> _TRUE
cdef PyObject *FALSE = <PyObject *> _FALSE

cdef object _Variable = chainer.Variable
cdef object _VariableNode = chainer.variable.VariableNode
cdef object _check_layouts = chainer.FunctionNode.check_layout_forward


cdef dict _outside = {}  # class of functions -> what may serve those that are near


def set_outside(function_class, served):
    """Have functions of a class served in another way, where they take what replayed calls give.

    Parameters
    ----------
    function_class : type
    served : callable
        ``served(function, inputs, arrays)`` gives what ``function.apply(inputs)`` does, or None.
    """
    _outside[function_class] = served


cdef bint is_near(inputs) except -1:
    """Whether one of the inputs comes from a replayed call."""
    cdef dict d
    for x in inputs:
        if sdbr_is_array(<PyObject *> x) or not isinstance(x, _Variable):
            continue
        creator = creator_of(x._node)
        if creator is not None:
            d = sdbr_attributes(creator, NULL)
            if compiled_of(d) is not None or _NEAR in d:
                return True
    return False


cdef tuple arrays_of(inputs):
    """The arrays of the inputs, None where one is of no usual kind."""
    cdef list found = []
    cdef PyObject *attributes
    for x in inputs:
        if sdbr_is_array(<PyObject *> x):
            found.append(x)
            continue
        attributes = plain_attributes(x)
        if attributes == NULL:
            return None
        array = (<list> (<dict> attributes)[_DATA])[0]
        if not sdbr_is_array(<PyObject *> array):
            return None
        found.append(array)
    return tuple(found)


cdef bint is_on(str name) except -1:
    """Whether an entry of ``chainer.config`` is set."""
    cdef PyObject *found = entry_of_config(name)
    if found == TRUE or found == FALSE:
        return found == TRUE
    return found != NULL and bool(<object> found)


cdef bint has_hooks(dict d) except -1:
    cdef PyObject *found = PyDict_GetItemWithError(<PyObject *> d, <PyObject *> _HOOKS)
    return found != NULL and found != NONE and sdbr_dict_size(found) > 0


cdef variable_of(x):
    """``chainer.as_variable``."""
    if sdbr_is_array(<PyObject *> x):
        return new_variable(x, False, _VariableNode, x.shape, x.dtype)
    return x


cdef int check_outputs(function, outputs) except -1:
    """Raise if a forward of Chainer's that somebody has replaced gave no arrays."""
    cdef bint are_arrays = True
    given = type(outputs).__name__
    if isinstance(outputs, tuple):
        for y in outputs:
            are_arrays = are_arrays and sdbr_is_array(<PyObject *> y)
        if are_arrays or chainer.is_arrays_compatible(outputs):
            return 0
        given = [type(y).__name__ for y in outputs]
    raise TypeError(f"{function.label}: forward has to give a tuple of arrays, it gave {given}")


cdef tuple results_of(function, tuple outputs, bint requires_grad):
    """The Variables that are handed out."""
    cdef list made = []
    if function._output_layouts is not None and not function.is_elementwise:
        for y, layout in zip(outputs, function.output_layouts):
            made.append(_Variable(y, requires_grad=requires_grad, layout=layout))
        return tuple(made)
    function._output_layouts = (None,) * len(outputs)
    for y in outputs:
        if sdbr_is_array(<PyObject *> y):
            flag = _TRUE if requires_grad else _FALSE
            made.append(new_variable(y, flag, _VariableNode, y.shape, y.dtype))
        else:
            made.append(_Variable(y, requires_grad=requires_grad))
    return tuple(made)


cdef int wire(function, dict d, list variables, tuple outputs, tuple results) except -1:
    """Put the function into the graph, and let nodes keep what its backward wants."""
    cdef int rank = 0
    cdef PyObject *found
    cdef list nodes = [x._node for x in variables]
    cdef dict inside
    for node in nodes:
        found = attribute(node, _RANK)
        if found != NULL and <int> <object> found > rank:
            rank = <int> <object> found
    d["rank"] = rank
    for y in results:
        inside = sdbr_attributes(y._node, NULL)
        inside[_CREATOR_NODE] = function
        inside[_RANK] = rank + 1
    d["inputs"] = tuple(nodes)
    d["outputs"] = tuple([_ref(y._node) for y in results])
    if d["_input_indexes_to_retain"] is not None:
        for index in d["_input_indexes_to_retain"]:
            variables[index].retain_data()
    if d["_output_indexes_to_retain"] is not None:
        kept = []
        for index in d["_output_indexes_to_retain"]:
            results[index].retain_data()
            kept.append(outputs[index])
        d["_retained_output_data"] = tuple(kept)
    d["lazy_grad_sum"] = <object> entry_of_config(_LAZY_GRAD_SUM)
    return 0


def applied(function, inputs):
    """Do what ``function.apply(inputs)`` does.

    Parameters
    ----------
    function : chainer.FunctionNode
    inputs : sequence of (Variable or array)

    Returns
    -------
    tuple of Variable or None
        None where Chainer's code has to do it; then nothing has happened.
    """
    cdef dict d
    cdef tuple arrays
    cdef list variables
    cdef bint requires_grad = False
    cdef bint near = not walks_here()
    cdef Compiled back
    if near and not is_near(inputs):
        return None
    d = sdbr_attributes(function, NULL)
    if not is_chainers(function, d) or has_hooks(d) or not nobody_looks():
        return None
    if type(function).check_layout_forward is not _check_layouts:
        return None
    if entry_of_config(_SCHEDULE) != NONE:
        return None
    arrays = arrays_of(inputs)
    if arrays is None:
        return None
    if near and type(function) in _outside:
        outputs = _outside[type(function)](function, inputs, arrays)
        if outputs is not None:
            return outputs
    variables = [variable_of(x) for x in inputs]
    back = adds_plainly(function, arrays)
    d["_input_layouts"] = (None,) * len(variables)
    d["_input_indexes_to_retain"] = None
    d["_output_indexes_to_retain"] = None
    if back is not None:
        outputs = (new_sum(arrays[0], arrays[1]),)
    else:
        if is_on(_TYPE_CHECK):
            function._check_data_type_forward(arrays)
        outputs = function.forward(arrays)
        check_outputs(function, outputs)
    d["_output_count"] = len(outputs)
    for x in variables:
        requires_grad = requires_grad or attribute(x, _REQUIRES_GRAD) == TRUE or x.requires_grad
    results = results_of(function, outputs, requires_grad)
    if is_on(_ENABLE_BACKPROP):
        wire(function, d, variables, outputs, results)
        if back is not None:
            d[_COMPILED] = back
        elif near:
            d[_NEAR] = True
    return results
